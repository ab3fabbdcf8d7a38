"""Each order of release in the simulator keeps to its rule, and `headrace` in it is the product itself."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.scheduler.simulate.comparing import compare, contenders, run
from headrace.scheduler.simulate.figures import Figures
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.simulate.scenario import Scenario, draw
from headrace.scheduler.state import fair_queue
from tests.support.scheduler.simulated_jobs import MODEL, course, job, policy


def started(made: Any, jobs: list[Job]) -> list[int]:
    """The numbers of the jobs in the order in which they got the one slot."""
    run(course(Scenario(), models=[replace(MODEL, slots=1)]), made, jobs, seed=1)
    served = [(each.started_ms, each.number) for each in jobs if each.started_ms is not None]
    return [number for _, number in sorted(served)]


def made(name: str) -> Any:
    return contenders(policy(), "main")[name]


def test_fifo_keeps_the_order_of_arrival_and_serves_what_is_late() -> None:
    jobs = [job(n, at_ms=n, deadline_ms=n + 1) for n in range(3)]
    assert started(made("fifo"), jobs) == [0, 1, 2]
    assert {each.fate for each in jobs} == {Fate.FINISHED}


def test_fifo_drop_drops_what_is_late_already() -> None:
    jobs = [job(0), job(1, deadline_ms=50), job(2)]
    assert started(made("fifo-drop"), jobs) == [0, 2]
    assert jobs[1].fate is Fate.DROPPED


def test_strict_priority_serves_the_greater_weight_first() -> None:
    jobs = [job(0, tier="batch"), job(1, tier="batch"), job(2, 1), job(3, 1, tier="interactive")]
    assert started(made("strict"), jobs) == [0, 3, 2, 1]


def test_the_earliest_deadline_goes_first() -> None:
    jobs = [job(0), job(1, deadline_ms=9_000), job(2, 1, deadline_ms=5_000), job(3, 1)]
    assert started(made("edf"), jobs) == [1, 2, 0, 3]


def test_round_robin_takes_one_of_each_tenant_in_turn() -> None:
    jobs = [job(n, tenant="t0") for n in range(3)] + [job(3, tenant="t1"), job(4, tenant="t2")]
    assert started(made("round-robin"), jobs) == [0, 3, 4, 1, 2]


def figures(name: str, scenario: Scenario, **more: Any) -> Figures:
    at = course(scenario, **more)
    return compare(at, {name: contenders(at.policy, "main")[name]}, [1])[name][0]


@pytest.mark.parametrize("name", sorted(contenders(policy(), "main")))
def test_every_request_comes_to_one_end_under_every_contender(name: str) -> None:
    at = course(Scenario(load=2.0, slack_ms={"standard": (500, 3_000)}))
    jobs = draw(at.trace, at.scenario, at.policy, at.models, 1)
    told = run(at, contenders(at.policy, "main")[name], jobs, 1)
    assert Fate.UNDER_WAY not in {each.fate for each in jobs}
    assert all(each.ended_ms is not None for each in jobs)
    assert all((each.started_ms is None) == (each.fate is Fate.DROPPED) for each in jobs)
    assert told.busy > 0.95
    assert told.idle < 0.03
    assert told.inside_p95 == 0


def test_headrace_keeps_its_promise_where_fifo_has_none() -> None:
    flood = Scenario(load=3.0, largest=0.7)
    ours, fifo = (figures(name, flood, requests=400) for name in ("headrace", "fifo"))
    assert ours.promised_gap is not None
    assert ours.gap <= ours.promised_gap
    assert fifo.gap > 2 * ours.gap
    assert fifo.promised_gap is None


@pytest.mark.interpreted
def test_headrace_in_a_simulation_is_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Scenario(load=2.0, tiers={"interactive": 0.5, "batch": 0.5})
    before = figures("headrace", both).tiers["interactive"].p95_ms
    monkeypatch.setattr(fair_queue, "pick_tier", lambda tags: min(tags, default=None))
    after = figures("headrace", both).tiers["interactive"].p95_ms
    assert before is not None
    assert after is not None
    assert after > 2 * before


def test_two_runs_of_one_seed_are_the_same() -> None:
    scenario = Scenario(load=2.0, largest=0.5, slack_ms={"standard": (500, 3_000)})
    assert figures("headrace", scenario) == figures("headrace", scenario)


def test_headrace_cancels_what_runs_beyond_its_deadline() -> None:
    jobs = [job(0, tokens=500, deadline_ms=1_000), job(1, tokens=10)]
    assert started(made("headrace"), jobs) == [0, 1]
    assert (jobs[0].fate, jobs[1].fate) == (Fate.CANCELLED, Fate.FINISHED)
    assert jobs[1].started_ms is not None
    assert 1_000 <= jobs[1].started_ms <= 1_600


def test_what_gives_way_waits_again_and_goes_on_so_that_it_only_reads_its_prompt_and_text_again() -> None:
    long, urgent = job(0, tokens=200, tier="batch"), job(1, 1_000, tier="interactive")
    told = run(course(Scenario(), models=[replace(MODEL, slots=1)]), made("headrace"), [long, urgent], seed=1)
    assert (long.fate, urgent.fate) == (Fate.FINISHED, Fate.FINISHED)
    assert (long.started_ms, long.kept_ms) == (0, urgent.ended_ms)
    assert long.kept_ms is not None
    assert long.said > 0
    again_ms = MODEL.prefill_ms(long.input_tokens + long.said) + MODEL.decode_ms(
        long.output_tokens - long.said
    )
    assert long.ended_ms == long.kept_ms + again_ms
    assert told.lost < 0.15
    assert told.goodput > 0.85


def test_what_is_more_than_text_runs_from_its_beginning_again_and_what_it_had_is_lost() -> None:
    long, urgent = job(0, tokens=200, tier="batch"), job(1, 1_000, tier="interactive")
    long.plain = False
    at = course(Scenario(), models=[replace(MODEL, slots=1)])
    told = run(at, made("headrace"), [long, urgent], seed=1)
    assert urgent.started_ms is not None
    assert 1_250 <= urgent.started_ms <= 1_260
    assert (long.fate, urgent.fate) == (Fate.FINISHED, Fate.FINISHED)
    assert (long.started_ms, long.kept_ms) == (0, urgent.ended_ms)
    assert long.kept_ms is not None
    assert long.ended_ms == long.kept_ms + MODEL.service_ms(long)
    assert (told.lost, told.goodput) == (1.0, 0.0), "of the second before the urgent one came"


def test_what_was_stopped_too_often_to_be_stopped_again_comes_to_hold_no_slot_that_is_wanted() -> None:
    long = [job(n, tokens=5_000, tier="batch") for n in range(8)]
    for each in long:
        each.plain = False
    urgent = [job(9 + n, 1_000 + 1_500 * n, tier="interactive") for n in range(40)]
    run(course(Scenario()), made("headrace"), [*long, *urgent], seed=1)
    waits = [each.started_ms - each.at_ms for each in urgent if each.started_ms is not None]
    assert len(waits) == 40
    assert max(waits) <= 260
