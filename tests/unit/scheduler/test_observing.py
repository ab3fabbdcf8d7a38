"""What a replica tells of a pool: what it is to it, and figures only while it owns it."""

import re

import pytest
from prometheus_client import CollectorRegistry

from headrace.contracts.observations import QueueState
from headrace.runtime.metrics import Metrics
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.step import BackendFigures, Fleet, Outputs
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding
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


def backend_figures(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """(name without its beginning, worker, bound) -> value."""
    samples = [each for family in registry.collect() for each in family.samples]
    return {
        (
            each.name.removeprefix("headrace_backend_"),
            *(v for k, v in sorted(each.labels.items()) if k != "pool"),
        ): (each.value)
        for each in samples
        if each.name.startswith("headrace_backend_")
    }


def test_each_live_backend_shows_its_limit_its_cache_and_what_binds() -> None:
    registry = CollectorRegistry()
    observing = Observing(Metrics("scheduler", registry))
    observing.stands("p", Standing.OWNER)
    known = BackendFigures("w1", 12, 16, Binding.CACHE, 95, 900, 1_000)
    blind = BackendFigures("w2", 4, 4, Binding.OPERATOR)
    for backends in ((known, blind), (known,)):
        observing.stepped("p", Outputs(backends=backends), [], Fleet(0, 0, 0))
        told = backend_figures(registry)
        cache = {("theta_ratio", "w1"): 0.95, ("forecast_tokens", "w1"): 900, ("cache_tokens", "w1"): 1_000}
        assert told.items() >= cache.items()
        assert told["limit_attempts", "w1"] == 16
        assert told["held_attempts", "w1"] == 12
        assert [told["bound_by", bound, "w1"] for bound in Binding] == [0, 0, 0, 1, 0]
        of_blind = {key[0] for key in told if "w2" in key}
        assert of_blind == ({"held_attempts", "limit_attempts", "bound_by"} if blind in backends else set())
    observing.stands("p", Standing.STANDING_BY)
    assert not backend_figures(registry)


@pytest.mark.parametrize("what", Counted)
def test_whatever_is_counted_is_told_by_one_metric(what: Counted) -> None:
    registry = CollectorRegistry()
    Observing(Metrics("scheduler", registry)).stepped("p", Outputs(counts={what: 3}), [], Fleet(0, 0, 0))
    samples = [each for family in registry.collect() for each in family.samples]
    told = [each.value for each in samples if re.fullmatch(r"headrace_\w+_total", each.name)]
    assert told == [3]
