"""Counts what tenants and the pool spend of their ceilings. Called wherever an attempt is released, found, reported or ends.

Invariant: an attempt is counted once, by what it was expected to take, then by what it took. What it was expected to is
echoed by its worker: by that the next owner counts it, if it isn't in what the last one said was owed; if it is, only what it
takes beyond that is counted, so that no worker's word lowers a debt.
"""

from collections.abc import Mapping

from headrace.contracts.checkpoints import Paced
from headrace.contracts.ids import AttemptId
from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.believing import tokens_expected
from headrace.scheduler.core.debts import debts_of, left_of
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import is_told
from headrace.scheduler.state.ceilings import Whose
from headrace.scheduler.state.held import HeldAttempt, Reserved


def released(state: PoolState, held: HeldAttempt, worker: str) -> None:
    """It goes to this worker now."""
    backend_pacing.released(state, held, held.expects, worker)
    _charge(state, held, held.expects)


def _charge(state: PoolState, held: HeldAttempt, tokens: int) -> None:
    if state.ceilings.count(held.tenant):
        held.reserved = Reserved(tokens)
        state.ceilings.charge(held.tenant, tokens, state.now.boot_ms)


def found(state: PoolState, held: HeldAttempt, worker: str) -> None:
    """Another owner released it to this worker."""
    backend_pacing.found(state, held, worker)
    if not state.ceilings.count(held.tenant):
        return
    tokens = tokens_expected(state, held)
    if not state.ceilings.knows(held.tenant, held.attempt):
        _charge(state, held, tokens)
    elif held.expects:
        held.reserved = Reserved(tokens, owed=True)


def grew(state: PoolState, held: HeldAttempt, tokens: int) -> None:
    """It has taken so many by now."""
    backend_pacing.grew(state, held, tokens)
    if held.reserved is not None and tokens > held.reserved.tokens:
        state.ceilings.settle(held.tenant, held.reserved.tokens, tokens, state.now.boot_ms)
        held.reserved = held.reserved._replace(tokens=tokens)


def ended(state: PoolState, outcome: Outcome) -> None:
    """Its outcome is known. Call while it is still held, and once for each attempt."""
    backend_pacing.ended(state, outcome)
    record, own = outcome.record, outcome.own
    if not state.ceilings.count(record.tenant):
        return
    usage = record.usage
    took = usage.prompt_tokens + usage.completion_tokens
    if own is not None:
        if own.reserved is not None and record.started:
            if is_told(usage):
                state.ceilings.settle(record.tenant, own.reserved.until(took), took, state.now.boot_ms)
            own.reserved = None
    elif record.started and not state.ceilings.knows(record.tenant, record.attempt):
        state.ceilings.charge(record.tenant, took, state.now.boot_ms)
    elif record.started and 0 < record.expects < took:
        state.ceilings.settle(record.tenant, record.expects, took, state.now.boot_ms)


def died(held: HeldAttempt) -> None:
    """It went down with its worker: it has taken what it was expected to, as far as anybody knows."""
    held.reserved = held.spends = None


def let_go(state: PoolState, held: HeldAttempt) -> None:
    """It is in nobody's hands any more. What isn't settled by now was never begun, or says so itself later."""
    backend_pacing.let_go(state, held)
    if held.reserved is not None and not held.reserved.owed:
        state.ceilings.take_back(held.tenant, held.reserved.tokens, state.now.boot_ms)
    held.reserved = None


def to_keep(state: PoolState, whose: Whose) -> Paced:
    """What the next owner has to know of one."""
    ceilings, now = state.ceilings, state.now
    through = AttemptId(state.epoch, state.sequence) if state.open else ceilings.through_of(whose)
    return Paced(tenant=whose, through=through, debts=debts_of(ceilings, whose, now))


def owe(state: PoolState, kept: Mapping[Whose, Paced]) -> None:
    """Begin with what the last owner left. `state.now` is the instant of the claim."""
    for whose, record in kept.items():
        left = left_of(record.debts, state.now.wall_ms)
        state.ceilings.owe(whose, left, record.through, state.now.boot_ms)


def longest_ms(state: PoolState, waits_ms: int | None, tenant: str, requests: int, tokens: int) -> int | None:
    """How long one waits, which waits so long for its turn (None: nobody knows), when ceilings are asked too; before it go so
    many of its tenant's, each of about as many tokens.
    """
    if waits_ms is None or not state.ceilings.count(tenant):
        return waits_ms
    return max(waits_ms, state.ceilings.wait_ms(tenant, requests, tokens, state.now.boot_ms))


def key_of(whose: Whose) -> str:
    """Its key in `state`."""
    return "paced" if whose is None else f"paced/{whose}"
