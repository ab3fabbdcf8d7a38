from datetime import timedelta

import pytest
from prometheus_client import REGISTRY, generate_latest

from headrace.runtime.metrics import WAIT_BUCKETS, LoopMetrics, Metrics


def rendered(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_a_service_tells_its_build_and_its_process_from_the_start() -> None:
    text = rendered(Metrics("ingest"))
    assert 'headrace_build_info{python="3.' in text
    assert 'service="ingest"' in text
    assert "process_cpu_seconds_total" in text
    assert "process_resident_memory_bytes" in text


def test_metrics_carry_the_prefix_and_stay_off_the_global_registry() -> None:
    metrics = Metrics("ingest")
    metrics.counter("attempts_total", "Attempts.", ("outcome",)).labels("succeeded").inc()
    metrics.histogram("queue_wait_seconds", "Wait.").observe(7000)
    metrics.gauge("in_flight", "Running.").set(2)
    text = rendered(metrics)
    assert 'headrace_attempts_total{outcome="succeeded"} 1.0' in text
    assert 'headrace_queue_wait_seconds_bucket{le="7200.0"} 1.0' in text
    assert "headrace_in_flight 2.0" in text
    assert b"headrace_" not in generate_latest(REGISTRY)
    assert (WAIT_BUCKETS[0], WAIT_BUCKETS[-1]) == (0.01, 7200.0)


def test_two_services_of_one_process_keep_apart() -> None:
    for service in ("ingest", "scheduler"):
        LoopMetrics(Metrics(service)).turned("main", timedelta())


def test_a_loops_turns_and_lag_are_counted() -> None:
    metrics = Metrics("scheduler")
    LoopMetrics(metrics).turned("main", timedelta(milliseconds=3))
    text = rendered(metrics)
    assert 'headrace_loop_turns_total{loop="main"} 1.0' in text
    assert 'headrace_event_loop_lag_seconds_bucket{le="0.005",loop="main"} 1.0' in text


@pytest.mark.parametrize(
    ("name", "labels", "sentence"),
    [
        ("Wait", (), "snake_case"),
        ("headrace_wait_seconds", (), "without the prefix"),
        ("wait_ms", (), "base unit"),
        ("wait_seconds", ("tenant",), "label tenant"),
    ],
)
def test_a_name_in_a_wrong_unit_or_an_unbounded_label_is_refused(
    name: str, labels: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Metrics("x").gauge(name, "about", labels)
    with pytest.raises(ValueError, match="_total"):
        Metrics("x").counter("attempts", "about")
