"""What an engine is rid of whose cache thrashes: large requests that stand still there, of each once, and no others."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import Gauges
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.decisions.does_its_cache_thrash import (
    ENOUGH,
    LOOKS,
    Thrash,
    after_remedy,
    after_sample,
    over_its_cache,
)
from headrace.scheduler.decisions.how_many_requests_fit import LAG_MS
from headrace.scheduler.decisions.whom_to_take_back import (
    LARGE,
    MOST,
    STANDS_MS,
    Inside,
    whom_to_take_back,
)
from tests.benchmarks.held import WORKLOADS, best_fixed
from tests.support.engine_holders import Learning
from tests.support.scheduler.case import Case
from tests.support.scheduler.going_on import SAID, leave, runs_of, text_beside
from tests.support.scheduler.owned_slots import policy, preempted
from tests.support.scheduler.reports import held_of
from tests.support.simulated_engine import Busy

KV = 96_000
FLAGS = st.booleans()
INSIDE = st.builds(
    Inside, st.builds(AttemptId, st.just(1), st.integers(1, 9)), st.text(max_size=3), st.integers(0, KV),
    st.none() | st.integers(0, 2 * STANDS_MS), goes_on=FLAGS, stopped=FLAGS,
)  # fmt: skip


def seen(samples: list[bool], now: Thrash = Thrash()) -> Thrash:  # noqa: B008 frozen
    for second, preempted_some in enumerate(samples):
        now = after_sample(now, preempted=preempted_some, boot_ms=1_000 * second)
    return now


@given(st.lists(FLAGS, max_size=30), st.none() | st.integers(0, 20), st.integers(0, 2 * KV))
def test_a_cache_thrashes_only_where_preemptions_go_on_while_some_wait_and_it_holds_less_than_was_given(
    samples: list[bool], waiting: int | None, so_far: int
) -> None:
    over = over_its_cache(seen(samples), waiting=waiting, so_far=so_far, kv_tokens=KV)
    thrashes = sum(samples[-LOOKS:]) >= ENOUGH and bool(waiting) and so_far > KV
    assert over == (so_far - KV if thrashes else 0)
    assert not over_its_cache(seen(samples), waiting=waiting, so_far=so_far, kv_tokens=None)


def test_few_preemptions_and_what_gauges_show_shortly_after_a_remedy_prove_nothing() -> None:
    few = seen([False, *[True] * (ENOUGH - 1)])
    assert over_its_cache(few, waiting=1, so_far=2 * KV, kv_tokens=KV) == 0
    late = seen([True] * (LAG_MS // 1_000), after_remedy(0))
    assert over_its_cache(late, waiting=1, so_far=2 * KV, kv_tokens=KV) == 0
    proved = seen([True] * (LAG_MS // 1_000 + ENOUGH), after_remedy(0))
    assert over_its_cache(proved, waiting=1, so_far=2 * KV, kv_tokens=KV) == KV


@given(st.lists(INSIDE, max_size=12), st.integers(0, 2 * KV), FLAGS)
def test_few_large_ones_that_stand_still_are_taken_and_none_where_nothing_goes_on(
    inside: list[Inside], over: int, ends: bool
) -> None:
    chosen = whom_to_take_back(inside, over=over, kv_tokens=KV, ends=ends)
    assert all(
        each.stands and each.goes_on and not each.stopped and LARGE * each.tokens >= KV for each in chosen
    )
    assert len(chosen) <= MOST
    assert [each.tokens for each in chosen] == sorted((each.tokens for each in chosen), reverse=True)
    if chosen:
        assert sum(each.tokens for each in chosen[:-1]) < over, "no more than it takes"
        assert ends or any(each.moves for each in inside)
    left = [
        each for each in inside if each not in chosen and each.stands and each.goes_on and not each.stopped
    ]
    if chosen and left:
        assert max(each.tokens for each in left) <= chosen[0].tokens


class Thrashing:
    """An engine of 96,000 tokens whose worker holds two long requests that stand still, and short ones that get on."""

    def __init__(self, tier: str = "batch", *, long: dict[str, Any] | None = None) -> None:
        self.case = Case(policy())
        self.tokens, self.samples, self.preemptions, self.kv_tokens = 100, 0, 0, 2 * KV
        self.case.run()
        self.tell()
        self.case.run(100)
        self.short = [
            self.case.submit(into="standard", max_tokens=9_000, prompt_tokens=300) for _ in range(2)
        ]
        fields = {"prompt_tokens": 50_000, "max_tokens": 900, "plain_text": True, **(long or {})}
        self.long = [self.case.submit(into=tier, **fields) for _ in range(3)]
        self.case.run(300)

    @property
    def held(self) -> list[Run]:
        stopped = set(preempted(self.case))
        return [run for run in self.case.commands(Run) if run.attempt not in stopped]

    def tell(self, *, moves: bool = True, preempted_some: bool = True, epoch: int = 1) -> None:
        """A second later: the next report, with a sample of its own."""
        self.samples += 1
        self.preemptions += preempted_some
        self.tokens += moves
        shorts = {each.id for each in getattr(self, "short", ())}
        held = tuple(
            held_of(run, tokens=self.tokens if run.request.id in shorts else 70) for run in self.held
        )
        gauges = Gauges(
            sample=self.samples, running=2, waiting=2, kv_tokens=self.kv_tokens, kv_permille=900,
            preemptions=self.preemptions,
        )  # fmt: skip
        self.case.report(8, epoch, held=held, gauges=gauges)

    def passes(self, seconds: int, **more: Any) -> None:
        self.kv_tokens = KV
        for _ in range(seconds):
            self.tell(**more)
            self.case.run(1_000)

    @property
    def taken(self) -> list[RequestRecord]:
        stopped = set(preempted(self.case))
        return [run.request for run in self.case.commands(Run) if run.attempt in stopped]


def test_a_long_request_that_stands_still_in_a_thrashing_engine_is_taken_back_and_goes_on_from_its_text() -> (
    None
):
    engine = Thrashing()
    assert len(engine.held) == 5
    engine.passes(STANDS_MS // 1_000)
    assert not engine.taken, "not before it has stood still for so long"
    engine.passes(4)
    assert engine.taken == engine.long[1:], "what is over the cache, the last released first, and no more"
    run = runs_of(engine.case, engine.taken[0])[0]
    leave(engine.case, run)
    engine.case.run(1_000)
    assert runs_of(engine.case, run.request) == [run], "its cache has no room for it now"
    engine.kv_tokens = 4 * KV
    engine.tell()
    engine.case.run(1_000)
    again = runs_of(engine.case, run.request)[-1]
    assert (again.attempts, text_beside(engine.case, again)) == (run.attempts, SAID)
    engine.passes(40)
    assert again.request not in engine.taken[2:], "and once is enough"


def test_only_what_is_large_goes_on_and_shows_nobody_that_it_begins_anew_is_taken_back() -> None:
    cases: list[tuple[str, dict[str, Any], bool]] = [
        ("standard", {}, True),
        ("standard", {"stream": True}, False),
        ("batch", {"stream": True}, True),
        ("standard", {"plain_text": False}, False),
        ("standard", {"prompt_tokens": KV // LARGE - 1_000}, False),
    ]
    for tier, long, taken in cases:
        engine = Thrashing(tier, long=long)
        engine.passes(20)
        assert bool(engine.taken) == taken, f"{tier} {long}"
        if tier == "standard":
            told = runs_of(engine.case, engine.long[0])[0].stoppable
            assert told == (taken or "stream" in long), "the worker is told to keep what can be taken back"


def test_nothing_is_taken_back_from_an_engine_that_is_merely_full_or_that_hangs() -> None:
    for seen in ({"preempted_some": False}, {"moves": False}):
        engine = Thrashing()
        engine.passes(30, **seen)
        assert not engine.taken, str(seen)


def test_a_gauge_that_lies_has_few_stopped_and_each_once() -> None:
    engine = Thrashing()
    engine.case.report(8)
    for _ in range(60):
        engine.passes(1)
        for run in engine.case.commands(Run):
            if run.attempt in preempted(engine.case) and not engine.case.core.state.retrying.get(
                run.request.id
            ):
                leave(engine.case, run)
    ids = [each.id for each in engine.taken]
    assert len(ids) == len(set(ids)) <= len(engine.long)


def test_a_new_owner_takes_none_back_that_an_earlier_one_has_stopped() -> None:
    engine = Thrashing()
    engine.passes(STANDS_MS // 1_000 + 4)
    stopped = engine.taken
    for each in stopped:
        leave(engine.case, runs_of(engine.case, each)[0])
    engine.case.run(1_500)
    engine.case.owner.crash()
    engine.case.run(6_000)
    engine.kv_tokens = 4 * KV
    for _ in range(3):
        engine.tell(epoch=2)
        engine.case.run(1_500)
    again = [runs_of(engine.case, each) for each in stopped]
    assert [len(runs) for runs in again] == [2, 2], "they go on under the new owner"
    engine.passes(30, epoch=2)
    assert engine.taken == stopped


@pytest.mark.parametrize(("lag_ms", "seed"), [(0, 3), (0, 12), (5_000, 1), (5_000, 13)])
def test_an_engine_that_lost_half_of_its_cache_doesnt_go_on_computing_long_prompts_in_vain(
    lag_ms: int, seed: int
) -> None:
    """With nobody taken back they gave 0.07 to 0.12 of the best fixed limit's tokens a second, for a minute and more."""
    mixture = WORKLOADS["mixture"]
    best = best_fixed(replace(mixture, measured_s=40), mixture.fixed_of_half[:1], seed, half=True)
    busy = Busy(mixture.profile, mixture.kinds, Learning(), lag_ms=lag_ms, seed=seed)
    busy.run(mixture.warm_s + mixture.measured_s)
    busy.change(**mixture.half)
    busy.run(20)
    assert busy.run(40).tokens_per_s >= 0.9 * best
    assert 0 < busy.taken_back <= 2 * MOST
