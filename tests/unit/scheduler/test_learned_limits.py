"""What the owner of a pool makes of gauges, refusals and ends: the gate closes by them, and opens again.

The rules themselves are in test_how_much_a_backend_may_hold; whole histories with faults in tests/simulation.
"""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import message_of
from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Gauges, Gone, Held
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Times, Usage
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.step import BackendFigures
from headrace.scheduler.decisions.how_many_tokens_fit import Forecast, Load
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding, what_binds
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.cache_loads import CacheLoads
from tests.support.scheduler import case as by_hand
from tests.support.scheduler.case import BOOT
from tests.support.scheduler.pure import WALL, place

NEXT_BOOT = boot_id(WALL + 1_000, bytes(10))
told_again = msgspec.structs.replace
CALM = {"waiting": 0, "running": 1}


class Case(by_hand.Case):
    """One owner; a worker that tells what it holds, and its engine's gauges."""

    def __init__(self, limit: int = 64, **gauges: int) -> None:
        super().__init__()
        self.tokens = 0
        self.limit, self.gauges, self.samples, self.boot, self.epoch = limit, gauges, 0, BOOT, 1
        self.over: set[AttemptId] = set()
        self.owner.setting = replace(self.owner.setting, window=Window())
        self.run()
        self.tell()
        self.run(100)

    @property
    def holds(self) -> list[Run]:
        """What the worker has in its hands."""
        mine = [run for run in self.commands(Run) if run.boot == self.boot]
        return [run for run in mine if run.attempt not in self.over]

    def tell(self, *, fresh: bool = True, **gauges: int) -> None:
        """A report; with a new sample, if it has gauges."""
        self.samples += fresh
        self.gauges |= gauges
        sample = Gauges(sample=self.samples, **self.gauges) if self.gauges else None
        held = tuple(
            Held(
                attempt=run.attempt, id=run.request.id, tenant="a", tier="batch", origin=run.origin,
                attempts=run.attempts, charge=run.charge, running=True, tokens=self.tokens,
            )
            for run in self.holds
        )  # fmt: skip
        before = None if self.boot == BOOT else BOOT
        self.report(
            self.limit, self.epoch, boot=self.boot, held=held, gauges=sample, instead_of=before
        )  # fmt: skip

    def end(self, count: int = 1, kind: FailureKind | None = None, took_ms: int = 1_000) -> None:
        """So many of what it holds end: well, or in this way."""
        for run in self.holds[:count]:
            self.over.add(run.attempt)
            wall_ms = self.world.now.wall_ms
            times = Times(started_ms=wall_ms - took_ms, first_token_ms=wall_ms - 900, finished_ms=wall_ms)
            more: dict[str, Any] = {"boot": self.boot, "worker": "w", "times": times}
            if kind is None:
                more |= {"status": Status.SUCCEEDED, "usage": Usage(prompt_tokens=1, completion_tokens=1)}
            else:
                more["failure"] = Failure(kind=kind)
            self.answer(run, Verdict.DONE if kind is None else Verdict.RETRY_AT, **more)

    def wants(self, count: int, **more: Any) -> None:
        """So many requests, and time for their release."""
        for _ in range(count):
            self.submit(**more)
        self.passes(1_500)

    def passes(self, ms: int) -> None:
        """Time passes, and the worker tells nothing new."""
        for _ in range(ms // 500):
            self.run(500)
            self.tell(fresh=False)

    @property
    def core(self) -> PoolCore:
        """The owner's."""
        assert self.owner.core is not None
        return self.owner.core

    @property
    def learned(self) -> int:
        """What the owner takes the backend to hold well."""
        return self.core.state.limits[self.boot].limit


def test_without_metrics_the_operators_word_holds_until_something_is_too_much() -> None:
    case = Case(limit=40)
    case.wants(60)
    assert len(case.holds) == 40, "never less than before anything was learned"
    case.end(1, FailureKind.BACKEND_OVERLOADED)
    case.tell()
    case.run(100)
    assert case.learned == 32
    case.end(7)
    case.run(400)
    assert len(case.holds) == 32, "the gate is closed until what is held fits"
    case.end(1)
    case.run(400)
    assert len(case.holds) == 32, "and open again for each that ends"
    for _ in range(8):
        case.run(1_000)
        case.tell()
    case.run(400)
    assert 32 < len(case.holds) <= 40, "and further, while nothing is refused"


@pytest.mark.parametrize("gauges", [{}, {"waiting": 2, "running": 2}])
def test_a_small_backend_is_given_all_that_its_operator_allows(gauges: dict[str, int]) -> None:
    case = Case(limit=4, **gauges)
    case.wants(6)
    for _ in range(10):
        case.tell()
        case.run(500)
    assert len(case.holds) == 4


@pytest.mark.parametrize("kind", [FailureKind.BACKEND_ERROR, FailureKind.ENGINE_DIED])
def test_what_fails_for_another_reason_says_nothing_of_room(kind: FailureKind) -> None:
    case = Case(limit=8)
    case.wants(8)
    case.end(1, kind)
    case.tell()
    case.run(100)
    assert case.learned == 8


def test_with_gauges_it_begins_with_few_and_searches_by_doubling() -> None:
    case = Case(limit=100, **CALM)
    case.wants(120)
    assert len(case.holds) == 16
    for limit in (32, 64):
        case.tell(running=len(case.holds))
        case.passes(2_500)
        assert (case.learned, len(case.holds)) == (limit, limit)
        case.tell(running=limit // 2)
        case.run(100)
        assert case.learned == limit, "the gauges don't show yet what the last doubling let in"
    case.tell(running=58, waiting=6)
    case.run(100)
    assert case.learned == 32, "what was too much is taken back"


def test_the_first_gauges_end_the_trust_in_the_operators_word() -> None:
    case = Case(limit=64)
    case.tell(waiting=0, running=1)
    case.wants(64)
    assert len(case.holds) == 16


def test_a_sample_that_was_seen_before_lets_nothing_grow() -> None:
    case = Case(limit=64, **CALM)
    case.wants(64)
    for _ in range(6):
        case.tell(fresh=False, running=16)
        case.run(1_500)
    assert len(case.holds) == 16


def cut(case: Case) -> None:
    """The worker is known to hold less than its limit."""
    case.wants(30)
    case.end(1, FailureKind.BACKEND_OVERLOADED)
    case.tell()
    case.run(100)
    assert case.learned == 16


def test_a_new_boot_begins_anew() -> None:
    case = Case(limit=20)
    cut(case)
    before, case.boot = case.boot, NEXT_BOOT
    case.tell()
    case.run(200)
    assert (case.learned, before in case.core.state.limits) == (20, False)


def test_who_is_gone_or_has_lost_touch_is_forgotten() -> None:
    case = Case(limit=20)
    cut(case)
    case.end(1, FailureKind.WORKER_NOT_LEASED)
    case.run(100)
    assert not case.core.state.limits
    case.tell()
    case.run(200)
    assert case.learned == 20
    case.world.append(message_of(place(TopicKind.WORKERS), Gone(worker="w", boot=BOOT)))
    case.run(100)
    assert not case.core.state.limits


def test_a_new_owner_begins_with_what_is_held_and_never_beyond_the_workers_own_limit() -> None:
    case = Case(limit=30, **CALM)
    case.wants(40)
    case.tell(running=16)
    case.run(400)
    assert len(case.holds) == 30
    case.owner.crash()
    case.run(6_000)
    case.epoch = 2
    case.tell(running=30)
    case.run(1_000)
    assert case.core.state.epoch == 2
    assert case.learned == 30
    assert len(case.holds) == 30


def test_what_does_not_fit_the_cache_waits_until_something_gives_way() -> None:
    case = Case(limit=20, **CALM, kv_tokens=1_000)
    case.wants(8, prompt_tokens=290, max_tokens=20)
    assert len(case.holds) == 3
    case.end(1)
    case.run(400)
    assert len(case.holds) == 3
    for _ in range(6):
        case.end(1)
        case.run(400)
    assert not case.core.state.tracked or len(case.holds) <= 3


def test_who_fits_no_cache_runs_alone_and_the_engine_says_what_it_thinks_of_it() -> None:
    case = Case(limit=20, **CALM, kv_tokens=1_000)
    case.wants(1, prompt_tokens=100)
    case.wants(1, prompt_tokens=5_000)
    case.wants(1, prompt_tokens=100)
    assert [run.request.prompt_tokens for run in case.holds] == [100], "nobody passes it"
    case.end(1)
    case.run(400)
    assert [run.request.prompt_tokens for run in case.holds] == [5_000]
    case.end(1)
    case.run(400)
    assert [run.request.prompt_tokens for run in case.holds] == [100]


def test_prompts_that_share_their_beginnings_fit_a_cache_that_they_would_fill_twice() -> None:
    case = Case(limit=16, **CALM, kv_tokens=3_000, kv_permille=0)
    case.wants(16, prompt_tokens=290, max_tokens=1)
    assert len(case.holds) == 10
    for _ in range(20):
        case.tell(kv_permille=500)
        case.run(500)
    assert len(case.holds) == 10, "they may still be computed, and not all in the cache yet"
    case.tokens = 1
    for _ in range(40):
        case.tell(kv_permille=500)
        case.run(500)
    assert len(case.holds) == 16


def test_what_waits_inside_says_nothing_of_the_cache() -> None:
    limits = BackendLimits.of(100)
    for sample in range(40):
        limits.heard(
            Gauges(sample=sample, running=2, waiting=8, kv_tokens=1_000, kv_permille=900), 1_000 * sample
        )
        limits.look(
            ceiling=100, in_flight=10, own_waiting=0, peak=5_000, held_tokens=5_000, boot_ms=1_000 * sample
        )  # fmt: skip
    assert limits.kv_tokens == 1_000


def test_another_size_is_another_engine() -> None:
    limits = BackendLimits.of(100)
    for sample in range(60):
        limits.heard(Gauges(sample=sample, waiting=0, kv_tokens=1_000, kv_permille=300), 1_000 * sample)
        limits.look(
            ceiling=100, in_flight=10, own_waiting=0, peak=900, held_tokens=900, boot_ms=1_000 * sample
        )  # fmt: skip
    assert limits.kv_tokens == 3_000
    limits.heard(Gauges(sample=99, waiting=0, kv_tokens=2_000, kv_permille=300), 99_000)
    assert limits.kv_tokens == 2_000


def test_a_size_that_nobody_told_keeps_nothing_back_while_the_cache_is_far_from_full() -> None:
    case = Case(limit=16, **CALM, kv_permille=700)
    case.wants(8, prompt_tokens=0, max_tokens=1)
    for _ in range(2):
        case.tell(kv_permille=700)
        case.run(600)
    assert case.core.state.limits[BOOT].kv_tokens == 0
    case.wants(8, prompt_tokens=500, max_tokens=1)
    assert len(case.holds) == 16


def test_what_is_told_of_each_backend() -> None:
    case = Case(limit=20, **CALM, kv_tokens=1_000)
    case.wants(8, prompt_tokens=290, max_tokens=20)
    [figures] = case.core._holding.figures()
    assert figures == BackendFigures("w", 3, 16, Binding.CACHE, 100, 930, 1_000)
    blind = Case(limit=2)
    blind.wants(3)
    assert blind.core._holding.figures() == (BackendFigures("w", 2, 2, Binding.OPERATOR),)


def test_what_keeps_the_next_back_is_one_thing() -> None:
    assert what_binds(held=4, limit=4, learned=4, kept_back=True) is Binding.OPERATOR
    assert what_binds(held=4, limit=8, learned=4, kept_back=True) is Binding.REQUESTS
    assert what_binds(held=3, limit=8, learned=4, kept_back=True) is Binding.CACHE
    assert what_binds(held=3, limit=8) is Binding.NOTHING


LOADS = st.builds(Load, st.integers(0, 9_000), st.integers(0, 2_000))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | LOADS), max_size=40), LOADS)
def test_a_cache_that_is_kept_is_as_one_made_anew(events: list[tuple[str, Load | None]], more: Load) -> None:
    kept, held = CacheLoads(), dict[str, Load]()
    for name, load in events:
        if load is None:
            held.pop(name, None)
            kept.drop(name)
        else:
            held[name] = load
            kept.put(name, load)
        anew = Forecast(held.values())
        assert (kept.peak, kept.peak_with(more)) == (anew.peak, anew.peak_with(more))
        assert (len(kept), kept.so_far) == (len(held), sum(load.so_far for load in held.values()))
        assert kept.most_with(more) >= kept.peak_with(more)
