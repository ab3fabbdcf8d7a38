"""What the owner of a pool makes of its engines' caches: what fits none waits, and what is shared counts once."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.reports import Gauges
from headrace.scheduler.decisions.how_many_tokens_fit import Forecast, Load
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.cache_loads import CacheLoads
from tests.support.scheduler.case import BOOT
from tests.support.scheduler.gauged_case import CALM, Case


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
