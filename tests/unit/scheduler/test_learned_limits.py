"""What the owner of a pool makes of gauges, refusals and ends: the gate closes by them, and opens again.

The rules themselves are in test_how_much_a_backend_may_hold; whole histories with faults in tests/simulation."""

import pytest

from headrace.bus.messages import message_of
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import boot_id
from headrace.contracts.reports import Gone
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.step import BackendFigures
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding, what_binds
from tests.support.scheduler.case import BOOT
from tests.support.scheduler.gauged_case import CALM, Case
from tests.support.scheduler.pure import WALL, place

NEXT_BOOT = boot_id(WALL + 1_000, bytes(10))


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
