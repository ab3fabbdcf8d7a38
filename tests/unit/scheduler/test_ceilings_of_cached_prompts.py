"""A prompt that is mostly cached costs little and counts whole below a ceiling, under the next owner as well."""

from random import Random
from typing import Any

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy
from headrace.contracts.reports import Held
from headrace.contracts.values import Usage
from headrace.scheduler.core.believing import tokens_expected
from headrace.scheduler.decisions.how_much_is_cached import NEEDED
from headrace.scheduler.state.held import HeldAttempt
from tests.support.scheduler.case import Case
from tests.support.scheduler.ceilings import PacedWorker, served, taken_over
from tests.support.scheduler.reports import held_of

PROMPT = 1_000
PER_MINUTE = CeilingPolicy(tokens=60_000, at_once=1)
"""A thousand tokens a second."""


def learnt() -> Case:
    """A pool whose engines have found most of each prompt of a tenant in their caches, whose debts are paid."""
    case = served(PER_MINUTE)
    for _ in range(2 * NEEDED):
        run = released(case)
        used = Usage(prompt_tokens=PROMPT, cached_tokens=PROMPT * 9 // 10)
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=used)
        lived(case, 1_500)
    return case


def released(case: Case, held: tuple[Held, ...] = (), **more: Any) -> Run:
    """One more request, in its worker's hands beside what it holds."""
    before = len(case.commands(Run))
    case.submit(**{"prompt_tokens": PROMPT, "max_tokens": 0, **more})
    while len(case.commands(Run)) == before:
        lived(case, 25, held)
    run: Run = case.commands(Run)[-1]
    return run


def lived(case: Case, ms: int, held: tuple[Held, ...] = ()) -> None:
    for _ in range(ms // 25):
        case.run(25)
        if case.world.now_ms % 500 < 25:
            core = case.owner.core
            case.report(limit=40, epoch=1 if core is None else core.state.epoch, held=held)


def owed_ms(case: Case) -> int:
    """For how long tenant a is over its ceiling."""
    assert case.owner.core is not None
    state = case.owner.core.state
    return state.ceilings.closed.get("a", state.now.boot_ms) - state.now.boot_ms


def adopted(case: Case, run: Run, **more: Any) -> None:
    """Another owner has just heard of the attempt, from its worker's first report to it."""
    owner = taken_over(case)
    for _ in range(1_000):
        lived(case, 25, (held_of(run, **more),))
        if owner.core is not None and owner.core.state.held.of(run.request.id):
            return
    raise AssertionError("nobody adopted it")


def test_what_is_mostly_cached_counts_whole_under_an_owner_that_doesnt_know_its_release() -> None:
    case = learnt()
    case.owner.commit = None
    run = released(case)
    assert run.charge < PROMPT * 1_000_000 // 4, "most of it is expected in a cache"
    adopted(case, run)
    assert 900 <= owed_ms(case) <= 1_000


def test_of_a_worker_that_doesnt_echo_what_was_expected_the_cheapest_tokens_are_counted() -> None:
    """Its charge is all that the next owner knows, until it has read the request."""
    case = learnt()
    run = released(case)
    unread = HeldAttempt(
        attempt=run.attempt, id="unread", tenant="a", tier="batch", origin=run.origin, attempts=1, charge=run.charge,
        boot=run.boot, lane=0,
    )  # fmt: skip
    assert tokens_expected(case.core.state, unread) >= PROMPT


def test_what_a_checkpoint_knows_is_counted_once_and_what_it_takes_beyond_by_whoever_owns_the_pool() -> None:
    """A thousand were expected; the next owner hears of 4,000, then of 9,000, and it takes 12,000 in the end."""
    case = learnt()
    run = released(case)
    lived(case, 2_000, (held_of(run),))
    adopted(case, run)
    assert owed_ms(case) == 0, "it has been paid back since"
    lived(case, 1_000, (held_of(run, tokens=4_000),))
    grown = owed_ms(case)
    assert 2_000 <= grown <= 4_000
    case.answer(
        run,
        Verdict.DONE,
        status=Status.SUCCEEDED,
        usage=Usage(prompt_tokens=PROMPT, completion_tokens=11_000),
    )
    lived(case, 25)
    assert 6_900 <= owed_ms(case) - grown <= 7_100


def test_what_an_answer_took_beyond_before_a_change_of_owner_is_counted_once() -> None:
    """A thousand were expected; both owners hear of 4,000 beside its prompt, the first one before its checkpoint."""
    case = learnt()
    run = released(case)
    lived(case, 2_000, (held_of(run, tokens=4_000),))
    free_at_ms = case.world.now_ms + owed_ms(case)
    assert owed_ms(case) > 2_000
    adopted(case, run, tokens=4_000)
    lived(case, 1_000, (held_of(run, tokens=4_000),))
    assert case.world.now_ms + owed_ms(case) <= max(free_at_ms, case.world.now_ms) + 100


def test_what_ended_while_nobody_owned_the_pool_counts_as_far_as_it_took_more() -> None:
    for took, counts_ms in ((9_000, 8_000), (1_000, 0), (10, 0)):
        case = learnt()
        run = released(case)
        lived(case, 2_000, (held_of(run),))
        owner = taken_over(case)
        prompt = min(PROMPT, took)
        used = Usage(prompt_tokens=prompt, completion_tokens=took - prompt)
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=used)
        before = case.world.now_ms
        while owner.core is None or run.attempt not in owner.core.state.settled:
            lived(case, 25)
            assert case.world.now_ms < before + 20_000
        assert counts_ms - 600 <= owed_ms(case) <= counts_ms


def test_no_workers_word_on_what_was_expected_lowers_a_debt() -> None:
    """That attempt was charged a thousand, after others of 30 s."""
    for expects in (0, 1, 10**8, 2**53):
        lowers_no_debt(expects)


def lowers_no_debt(expects: int) -> None:
    case = served(CeilingPolicy(tokens=60_000, at_once=40_000))
    held: tuple[Held, ...] = ()
    for _ in range(30):
        held = (*held, held_of(released(case, held)))
    run = released(case, held, max_tokens=10)
    held = (*held, held_of(run))
    lived(case, 2_000, held)
    owner = taken_over(case)
    while owner.core is None or not owner.core.state.held.of(run.request.id):
        lived(case, 25, (*held[:-1], held_of(run, expects=expects)))
    debt_ms = debt(case)
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=Usage(prompt_tokens=5))
    lived(case, 25, held[:-1])
    assert debt(case) >= debt_ms - 25


def debt(case: Case) -> int:
    assert case.owner.core is not None
    state = case.owner.core.state
    return max((owed.ms for owed in state.ceilings.debts("a", state.now.boot_ms).values()), default=0)


def test_whoever_dies_after_a_burst_no_more_tokens_are_given_than_the_ceiling_says() -> None:
    """A thousand tokens a second, ten thousand at once, in prompts of which nine tenths are cached; no checkpoint
    has the burst. A second and a half is left for what is between an owner's clock and a worker's.
    """
    for seed in range(4):
        dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
        case = served(CeilingPolicy(tokens=60_000, at_once=10_000))
        worker = PacedWorker(case, dice, Usage(prompt_tokens=300, cached_tokens=270), longest_ms=20_000)
        for _ in range(2):
            turns(case, worker, 250, requests=2 * NEEDED)
            case.owner._committed = lambda: False  # type: ignore[method-assign]
            turns(case, worker, dice.randint(3, 7), requests=80)
            taken_over(case)
            turns(case, worker, 300)
        at = worker.started_ms
        assert len(at) == 2 * (80 + 2 * NEEDED)
        for first, since_ms in enumerate(at):
            for last in range(first, len(at)):
                assert 300 * (last - first) <= at[last] - since_ms + 10_000 + 1_500, (seed, first, last)


def turns(case: Case, worker: PacedWorker, count: int, *, requests: int = 0) -> None:
    """So many tenths of a second, after so many requests have come."""
    for _ in range(requests):
        case.submit(prompt_tokens=300, max_tokens=0)
    for _ in range(count):
        case.run(100)
        worker.turn()
        if worker.dice.random() < 0.5:
            worker.report()
