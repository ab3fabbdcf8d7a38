"""The simulator: traces, scenarios, backends, baselines, figures, and that `headrace` in it is the product itself."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.policy import CostWeights, Policy, policy_from
from headrace.scheduler.simulate.backend import Backend, BackendModel
from headrace.scheduler.simulate.comparing import Course, compare, contenders, run
from headrace.scheduler.simulate.figures import Figures, figures_of
from headrace.scheduler.simulate.gap import GapWatch
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.simulate.scenario import Scenario, draw
from headrace.scheduler.simulate.trace import Asked, TraceError, half_of, read_trace
from headrace.scheduler.simulate.world import Window
from headrace.scheduler.state import fair_queue

TRACES = Path(__file__).resolve().parents[2] / "data/traces"
MODEL = BackendModel(slots=4, prefill_per_s=1_000, token_us=10_000)
HEAD = "t_s,input_tokens,output_tokens"


def policy(tenants: int = 4, **more: Any) -> Policy:
    named: dict[str, Any] = {f"t{number}": {} for number in range(tenants)}
    return policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": named, **more})


def job(number: int, at_ms: int = 0, tokens: int = 10, **more: Any) -> Job:
    shared: dict[str, Any] = {"tenant": "t0", "tier": "standard", "input_tokens": 100, "cached_tokens": 0}
    return Job(number=number, at_ms=at_ms, output_tokens=tokens, **{**shared, **more})


def course(jobs_of: Scenario, requests: int = 120, **more: Any) -> Course:
    trace = [Asked(100 * n, 50 + 7 * n % 90, 1 + 13 * n % 60) for n in range(requests)]
    shared: dict[str, Any] = {"policy": policy(), "pool": "main", "models": [MODEL], "warm_ms": 0}
    return Course(trace, jobs_of, **{**shared, **more})


def started(made: Any, jobs: list[Job]) -> list[int]:
    """The numbers of the jobs in the order in which they got the one slot."""
    run(course(Scenario(), models=[replace(MODEL, slots=1)]), made, jobs, seed=1)
    served = [(each.started_ms, each.number) for each in jobs if each.started_ms is not None]
    return [number for _, number in sorted(served)]


# --- traces ---


@pytest.mark.parametrize("name", ["azure2023_conv", "mooncake_conversation", "mooncake_synthetic"])
def test_the_committed_traces_are_read(name: str) -> None:
    trace = read_trace((TRACES / f"{name}.csv").read_text().splitlines(), name)
    assert len(trace) in (8_000, 10_000, 3_993)
    assert trace == sorted(trace, key=lambda asked: asked.at_ms)
    assert any(asked.cached_tokens for asked in trace) == name.startswith("mooncake")
    assert all(asked.cached_tokens <= asked.input_tokens for asked in trace)


def test_a_trace_may_name_tenant_tier_and_cached_tokens() -> None:
    lines = [f"{HEAD},tenant,tier,cached_tokens", "9.5,10,4,atlas,batch,3", "9,1,2,,,"]
    first, second = read_trace(lines, "x")
    assert first == Asked(0, 1, 2)
    assert second == Asked(500, 10, 4, 3, "atlas", "batch")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["t_s,input_tokens"], "x: the trace has no column output_tokens"),
        ([HEAD], "x: the trace has no requests"),
        ([HEAD, "0,1,1", "1,-5,1"], "x, line 3: input_tokens is -5, which isn't between 0 and 100000000"),
        ([HEAD, "0,1,many"], "x, line 2: output_tokens is 'many', which isn't a number"),
        ([HEAD, "0,1.5,1"], "x, line 2: input_tokens is 1.5, which isn't a whole number"),
        ([HEAD, "0,1"], "x, line 2: output_tokens is None, which isn't a number"),
        ([HEAD, "nan,1,1"], "x, line 2: t_s is nan, which isn't between 0 and 31622400"),
        ([HEAD, *["-1,1,1"] * 12], "x: and 2 more lines"),
    ],
)
def test_a_bad_trace_is_told_of_in_sentences(lines: list[str], sentence: str) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(lines, "x")
    assert sentence in error.value.sentences


def test_the_halves_of_a_trace_are_the_whole_and_begin_at_zero() -> None:
    trace = [Asked(at_ms, 1, number + 1) for number, at_ms in enumerate((0, 10, 60, 100))]
    first, second = half_of(trace, "first"), half_of(trace, "second")
    assert [asked.output_tokens for asked in first + second] == [1, 2, 3, 4]
    assert (first[0].at_ms, second[0].at_ms, second[1].at_ms) == (0, 0, 40)


# --- scenarios ---


def test_the_same_seed_gives_the_same_requests_and_another_gives_others() -> None:
    at = course(Scenario(load=2.0, requests=100, largest=0.8, slack_ms={"standard": (5_000, 30_000)}))
    one, again, other = (
        [replace(each) for each in draw(at.trace, at.scenario, at.policy, at.models, seed)] for seed in (1, 1, 2)
    )  # fmt: skip
    told = [[(j.at_ms, j.tenant, j.deadline_ms) for j in jobs] for jobs in (one, again, other)]
    assert told[0] == told[1] != told[2]


def test_time_is_stretched_to_the_load_that_is_wanted() -> None:
    at = course(Scenario(load=2.0))
    jobs = draw(at.trace, at.scenario, at.policy, at.models, 1)
    asked_ms = sum(MODEL.service_ms(each) for each in jobs)
    assert asked_ms / (MODEL.slots * jobs[-1].at_ms) == pytest.approx(2.0, rel=0.01)


def test_one_tenant_sends_its_share_and_tiers_theirs() -> None:
    at = course(Scenario(largest=0.8, tenants=20, tiers={"interactive": 0.3, "batch": 0.7}))
    jobs = draw(at.trace, at.scenario, at.policy, at.models, 1)
    assert sum(each.tenant == "t0" for each in jobs) / len(jobs) == pytest.approx(0.8, abs=0.06)
    assert len({each.tenant for each in jobs}) > 15
    assert sum(each.tier == "batch" for each in jobs) / len(jobs) == pytest.approx(0.7, abs=0.06)


def test_the_largest_tenants_answers_may_be_longer_and_nobody_elses_are() -> None:
    alike, longer = (
        draw(at.trace, at.scenario, at.policy, at.models, 1)
        for at in (course(Scenario(largest=0.5, longer_of_largest=of)) for of in (1, 4))
    )
    times = {
        (each.tenant == "t0", more.output_tokens // each.output_tokens)
        for each, more in zip(alike, longer, strict=True)
    }
    assert times == {(True, 4), (False, 1)}


def test_a_tier_that_the_policy_does_not_have_is_told_of() -> None:
    at = course(Scenario(tiers={"gold": 1.0}))
    with pytest.raises(TraceError, match="the policy has no tier gold; it has interactive, standard, batch"):
        draw(at.trace, at.scenario, at.policy, at.models, 1)


# --- backends ---


def test_a_backend_takes_the_time_that_prompt_and_tokens_take() -> None:
    backend = Backend(MODEL)
    one = job(0, tokens=10)
    backend.start(one, 0)
    assert backend.next_ms(0) == 100 + 100
    assert [backend.tokens_of(one, at_ms) for at_ms in (99, 150, 200)] == [0, 5, 10]
    assert [running.job for running in backend.turn(200)] == [one]


def test_what_is_beyond_the_slots_waits_inside() -> None:
    backend = Backend(replace(MODEL, slots=1))
    one, two = job(0), job(1)
    backend.start(one, 0)
    backend.start(two, 0)
    assert len(backend.waiting) == 1
    backend.turn(200)
    assert (two.started_ms, len(backend.waiting)) == (200, 0)


def test_a_backend_short_of_memory_puts_the_newest_back_and_finishes_all() -> None:
    backend = Backend(replace(MODEL, kv_tokens=230))
    one, two = job(0, tokens=50), job(1, tokens=50)
    backend.start(one, 0)
    backend.start(two, 0)
    now_ms, ended = 0, list[Job]()
    while len(ended) < 2:
        now_ms = backend.next_ms(now_ms) or 0
        ended += [running.job for running in backend.turn(now_ms)]
        held = sum(100 + backend.tokens_of(each, now_ms) for each in backend.running)
        assert held <= 230
    assert (ended, backend.preemptions) == ([one, two], 1)
    assert 600 + 115 + 340 <= now_ms <= 600 + 115 + 360


# --- baselines ---


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


# --- the product ---


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


# --- figures ---


def test_the_figures_of_a_known_run() -> None:
    jobs = [job(n, at_ms=1_000 * n, deadline_ms=10_000) for n in range(4)]
    done, dropped = Fate.FINISHED, Fate.DROPPED
    ends = [(0, 1_000, done), (1_500, 3_500, done), (None, 2_500, dropped), (3_000, 11_000, done)]
    for each, (start, end, fate) in zip(jobs, ends, strict=True):
        each.started_ms = each.kept_ms = start
        each.ended_ms, each.fate = end, fate
    window = Window(500, 4_500, busy_ms=2_000, idle_ms=400, inside=[0, 3])
    told = figures_of(jobs, window, slots=2, served=11_000_000, gap=2_000_000, promised_gap=None)
    assert (told.goodput, told.busy, told.idle, told.inside_p95) == (2_500 / 8_000, 0.25, 0.05, 3)
    assert (told.all.requests, told.all.p50_ms, told.all.p99_ms, told.all.on_time) == (3, 0, 500, 1 / 3)
    assert (told.rate, told.seconds_of(told.gap), told.dropped) == (1_000_000, 2.0, 1)


def test_a_gap_counts_only_while_both_have_requests_waiting() -> None:
    watch = GapWatch(CostWeights(prompt=0, cached=0, completion=1), {"t0": 2})
    mine, other = job(0, tenant="t0"), job(1, tenant="t1")
    watch.waits(mine)
    watch.sample({})
    watch.left(job(2, tenant="t0", tokens=100), 100)
    watch.waits(other)
    watch.sample({})
    assert watch.worst == 0
    watch.left(job(3, tenant="t0", tokens=100), 100)
    watch.left(job(4, tenant="t1", tokens=20), 20)
    watch.sample({})
    assert watch.worst == 30
    watch.waits_no_more(other)
    watch.waits(other)
    watch.left(job(5, tenant="t0", tokens=900), 900)
    watch.sample({})
    assert watch.worst == 30
