"""How a simulated run went over time: what is recorded adds up, and recording changes nothing."""

from headrace.contracts.policy import policy_from
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import Course, compare, contenders
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.simulate.series import Series
from headrace.scheduler.simulate.trace import Asked
from headrace.scheduler.simulate.world import Sample

POLICY = policy_from({"pools": {"p": {"models": {"m": "m"}}}, "tenants": {"a": {"weight": 2}, "b": {}}})
TRACE = [
    Asked(n * 200, 100, 20 + n % 30, 0, "ab"[n % 2], ("standard", "batch")[n % 3 == 0]) for n in range(300)
]
COURSE = Course(TRACE, Scenario(load=1.5), POLICY, "p", [BackendModel(4)])


def recorded() -> dict[str, Series]:
    series: dict[str, Series] = {}
    known = contenders(POLICY, "p")
    entrants = {name: known[name] for name in ("fifo", "headrace")}
    with_it = compare(COURSE, entrants, [3, 4], series=series)
    assert with_it == compare(COURSE, entrants, [3, 4])
    return series


def test_recording_changes_nothing_and_adds_up() -> None:
    series = recorded()
    assert list(series) == ["fifo", "headrace"]
    for run in series.values():
        assert len(run.jobs) == len(TRACE)
        assert run.tiers == ["batch", "standard"]
        assert all(0 <= sample.busy <= run.slots for sample in run.samples)
        assert all(min(sample.waiting.values(), default=0) >= 0 for sample in run.samples)
        assert max(sum(sample.waiting.values()) for sample in run.samples) > 4
        assert [sample.at_ms for sample in run.samples[:3]] == [0, 1_000, 2_000]
        waits = [part for tier in run.tiers for part in run.waits_of(tier, 5_000)]
        assert all(part.p50_ms <= part.p95_ms for part in waits)
        assert all(0 <= share <= 1 for _, share in run.goodput(5_000))
    assert series["fifo"].bound is None
    bound = series["headrace"].bound
    assert bound is not None
    assert 0 < max(sample.gap for sample in series["headrace"].samples) <= bound


def test_goodput_is_counted_in_the_parts_in_which_slots_worked() -> None:
    job = Job(
        1, 9_000, "a", "standard", 10, 0, 10, fate=Fate.FINISHED, started_ms=500, kept_ms=500, ended_ms=3_500
    )
    late = Job(
        2, 0, "a", "standard", 10, 0, 10, 1, fate=Fate.FINISHED, started_ms=0, kept_ms=0, ended_ms=9_000
    )
    run = Series(slots=2, jobs=[job, late], rate=10, samples=[Sample(0, {}, 0, 0, 0)])
    assert run.goodput(1_000)[:5] == [(0, 0.25), (1_000, 0.5), (2_000, 0.5), (3_000, 0.25), (4_000, 0.0)]
    assert run.seconds_of(25) == 2.5
    gone_on = Job(
        1,
        5_000,
        "a",
        "t",
        9,
        0,
        9,
        fate=Fate.FINISHED,
        started_ms=0,
        kept_ms=2_000,
        ended_ms=3_000,
        gained_ms=1_000,
    )
    parts = Series(slots=1, jobs=[gone_on]).goodput(1_000)
    assert [share for _, share in parts] == [0.5, 0.5, 1.0, 0.0, 0.0]
    assert Series(slots=1).seconds_of(5) == 0


def test_to_whom_is_paced_nothing_is_promised() -> None:
    """Both always have requests waiting, and one may only do a few a minute: no other promise is broken by that."""
    tenants = {"a": {"ceilings": [{"requests": 6, "at_once": 1}]}, "b": {}}
    policy = policy_from({"pools": {"p": {"models": {"m": "m"}}}, "tenants": tenants})
    trace = [asked._replace(tier="standard") for asked in TRACE]
    course = Course(trace, Scenario(load=3), policy, "p", [BackendModel(4)])
    (figures,) = compare(course, {"headrace": contenders(policy, "p")["headrace"]}, [1])["headrace"]
    assert figures.promised_gap is not None
    assert figures.gap <= figures.promised_gap
    assert (figures.tenants["a"].p95_ms or 10**9) > (figures.tenants["b"].p95_ms or 10**9)
