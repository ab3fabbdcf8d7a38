"""What a replica tells of a pool: what it is to it, and figures only while it owns it."""

import re

import pytest
from prometheus_client import CollectorRegistry

from headrace.contracts.observations import QueueState
from headrace.runtime.metrics import Metrics
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.step import Fleet, Outputs
from headrace.scheduler.observing import Observing
from headrace.scheduler.ports import Standing

STATE = QueueState(
    pool="p", tier="batch", epoch=1, as_of_ms=1, depth=7, oldest_wait_ms=2_000, held=3, limit=8, rate_milli=0,
    paused_partitions=0,
)  # fmt: skip


def standings(registry: CollectorRegistry) -> dict[Standing, float | None]:
    name = "headrace_pool_standing"
    return {each: registry.get_sample_value(name, {"pool": "p", "standing": each}) for each in Standing}


def test_exactly_one_standing_is_true_at_a_time() -> None:
    registry = CollectorRegistry()
    observing = Observing(Metrics("scheduler", registry))
    for standing in (*Standing, Standing.STANDING_BY):
        observing.stands("p", standing)
        assert standings(registry) == {each: float(each is standing) for each in Standing}


def test_whoever_lost_the_pool_shows_no_figures_of_it_any_more() -> None:
    registry = CollectorRegistry()
    observing = Observing(Metrics("scheduler", registry))
    observing.stands("p", Standing.OWNER)
    observing.stepped("p", Outputs(checkpoint_ms=12), [STATE], Fleet(workers=2, slots=8, held=3))
    told = {"headrace_pool_workers": 2, "headrace_pool_slots": 8, "headrace_attempts_in_flight": 3}
    for name, value in told.items():
        assert registry.get_sample_value(name, {"pool": "p"}) == value
    of_tier = {"pool": "p", "tier": "batch"}
    assert registry.get_sample_value("headrace_queue_depth", of_tier) == 7
    observing.stands("p", Standing.STANDING_BY)
    assert registry.get_sample_value("headrace_queue_depth", of_tier) is None
    for name in told:
        assert registry.get_sample_value(name, {"pool": "p"}) is None


@pytest.mark.parametrize("what", Counted)
def test_whatever_is_counted_is_told_by_one_metric(what: Counted) -> None:
    registry = CollectorRegistry()
    Observing(Metrics("scheduler", registry)).stepped("p", Outputs(counts={what: 3}), [], Fleet(0, 0, 0))
    samples = [each for family in registry.collect() for each in family.samples]
    told = [each.value for each in samples if re.fullmatch(r"headrace_\w+_total", each.name)]
    assert told == [3]
