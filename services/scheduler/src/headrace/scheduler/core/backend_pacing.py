"""Counts what backends are given of what they take in a minute. Called by core.pacing, which counts for tenants and the pool.

Invariant: as there, but that an attempt counts at the worker that it was given to.
"""

from headrace.contracts.checkpoints import BackendPaced
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.scheduler.core.believing import tokens_expected
from headrace.scheduler.core.debts import debts_of, left_of
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import is_told
from headrace.scheduler.decisions.what_has_a_backend_left import rests_of
from headrace.scheduler.state.held import HeldAttempt, Reserved
from headrace.scheduler.state.workers import Worker

_TOO_MANY_REQUESTS = 429


def released(state: PoolState, held: HeldAttempt, tokens: int, worker: str) -> None:
    """It goes to this worker now, and is expected to take so many tokens."""
    state.backend_ceilings.give(worker, tokens, state.now.boot_ms)
    if state.backend_ceilings.count(worker):
        held.spends = worker, Reserved(tokens)
        state.backend_ceilings.charge(worker, tokens, state.now.boot_ms)


def heard(state: PoolState, worker: Worker) -> None:
    """What its backend says in its last report that it has left, after that was compared with what it is believed to hold."""
    allowed = worker.report.allowed
    if allowed is None:
        if worker.name in state.backend_ceilings.rests:
            state.backend_ceilings.hear(worker.name, None, state.now.boot_ms)
        return
    while worker.given and worker.given[0][0] <= allowed.through:
        worker.given.popleft()
    held = {each.attempt: each.expects for each in state.held.of_boot(worker.boot)}
    sent = {attempt: tokens for attempt, tokens in held.items() if attempt > allowed.through}
    on_the_way = (sent | dict(worker.given)).values()
    rests = rests_of(allowed, (len(on_the_way), sum(on_the_way)), state.now.boot_ms)
    state.backend_ceilings.hear(worker.name, rests, state.now.boot_ms)


def found(state: PoolState, held: HeldAttempt, worker: str) -> None:
    """Another owner released it."""
    if not state.backend_ceilings.count(worker):
        return
    tokens = tokens_expected(state, held)
    if not state.backend_ceilings.knows(worker, held.attempt):
        released(state, held, tokens, worker)
    elif held.expects:
        held.spends = worker, Reserved(tokens, owed=True)


def grew(state: PoolState, held: HeldAttempt, tokens: int) -> None:
    """It has taken so many by now."""
    if held.spends is not None and tokens > held.spends[1].tokens:
        worker, before = held.spends
        state.backend_ceilings.settle(worker, before.tokens, tokens, state.now.boot_ms)
        held.spends = worker, before._replace(tokens=tokens)


def ended(state: PoolState, outcome: Outcome) -> None:
    """Its outcome is known."""
    ceilings, record, own = state.backend_ceilings, outcome.record, outcome.own
    worker, took = record.worker or "", record.usage.prompt_tokens + record.usage.completion_tokens
    if own is not None:
        _spare(state, outcome)
        if own.spends is not None and record.started:
            if is_told(record.usage):
                ceilings.settle(own.spends[0], own.spends[1].until(took), took, state.now.boot_ms)
            own.spends = None
    elif record.started and ceilings.count(worker):
        if not ceilings.knows(worker, record.attempt):
            ceilings.charge(worker, took, state.now.boot_ms)
        elif 0 < record.expects < took:
            ceilings.settle(worker, record.expects, took, state.now.boot_ms)


def _spare(state: PoolState, outcome: Outcome) -> None:
    """Where a backend refused it as one too many and said when to come back, it gets no other before that either."""
    failure, worker = outcome.record.failure, outcome.record.worker
    if failure is None or worker is None or not failure.retry_after_ms:
        return
    if failure.kind is FailureKind.BACKEND_OVERLOADED and failure.backend_status == _TOO_MANY_REQUESTS:
        state.backend_ceilings.spare(worker, failure.retry_after_ms, state.now.boot_ms)


def let_go(state: PoolState, held: HeldAttempt) -> None:
    """It is in nobody's hands any more. What isn't settled by now was never begun."""
    if held.spends is not None and not held.spends[1].owed:
        worker, reserved = held.spends
        state.backend_ceilings.take_back(worker, reserved.tokens, state.now.boot_ms)
    held.spends = None


def is_closed(state: PoolState, worker: Worker) -> bool:
    """Whether its backend has been given what it takes, or asked to be spared, so that more waits."""
    return bool(state.backend_ceilings) and state.backend_ceilings.is_closed(worker.name)


def closed_boots(state: PoolState) -> set[str]:
    """Boots whose backends have been given what they take."""
    return {worker.boot for worker in state.workers.live.values() if is_closed(state, worker)}


def key_of(worker: str) -> str:
    """Its key in `state`."""
    return f"backend_paced/{worker}"


def to_keep(state: PoolState) -> list[tuple[str, BackendPaced | None]]:
    """What the next owner has to know of each that has changed, by key; None: nothing more."""
    ceilings = state.backend_ceilings
    if not ceilings and not ceilings.changed:
        return []
    gone = list(ceilings.forget_gone(state.workers.live, state.now.boot_ms))
    found: list[tuple[str, BackendPaced | None]] = [(key_of(worker), None) for worker in gone]
    changed, ceilings.changed = sorted(each for each in ceilings.changed if each is not None), set()
    return found + [(key_of(worker), _kept(state, worker)) for worker in changed]


def owe(state: PoolState) -> None:
    """Begin with what the last owner left. `state.now` is the instant of the claim."""
    ceilings, now = state.backend_ceilings, state.now
    for worker, record in ceilings.last_said.items():
        ceilings.take(worker, record.per_minute, now.boot_ms)
        ceilings.owe(worker, left_of(record.debts, now.wall_ms), record.through, now.boot_ms)
    ceilings.last_said.clear()


def _kept(state: PoolState, worker: str) -> BackendPaced | None:
    ceilings = state.backend_ceilings
    per_minute = ceilings.told(worker)
    if per_minute is None:
        return None
    through = AttemptId(state.epoch, state.sequence) if state.open else ceilings.through_of(worker)
    debts = debts_of(ceilings, worker, state.now)
    return BackendPaced(worker=worker, per_minute=per_minute, through=through, debts=debts)
