"""Traces as they are read, and the requests that a scenario makes of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.scheduler.simulate.scenario import Scenario, draw
from headrace.scheduler.simulate.trace import Asked, TraceError, half_of, read_trace
from tests.support.scheduler.simulated_jobs import MODEL, course

TRACES = Path(__file__).resolve().parents[2] / "data/traces"
HEAD = "t_s,input_tokens,output_tokens"


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


def test_the_load_may_be_that_of_one_tier() -> None:
    at = course(Scenario(load=0.3, load_of="interactive", tiers={"interactive": 0.5, "batch": 0.5}))
    jobs = draw(at.trace, at.scenario, at.policy, at.models, 1)
    asked_ms = sum(MODEL.service_ms(each) for each in jobs if each.tier == "interactive")
    assert asked_ms / (MODEL.slots * jobs[-1].at_ms) == pytest.approx(0.3, rel=0.01)


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
