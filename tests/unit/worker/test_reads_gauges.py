"""What engines' metrics pages say of their load, and what becomes of it in a report."""

from datetime import timedelta

import pytest

from headrace.contracts.codec import decode, encode
from headrace.contracts.reports import Gauges, Report
from headrace.contracts.topics import TopicKind
from headrace.devkit.engine import TINY, Sequence, Stepper
from headrace.devkit.engine.metrics import EngineMetrics
from headrace.inference_worker.decisions.read_gauges import gauges_in
from headrace.inference_worker.protocol.inputs import GaugesSeen
from tests.unit.worker.scripted_world import World

VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 9.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 2.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="m",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="deferred"} 6.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1.0
vllm:num_preemptions_total{engine="0",model_name="m"} 7.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.7e+09
"""


def test_vllms_engines_are_summed_but_for_the_fullest_cache() -> None:
    assert gauges_in(VLLM) == Gauges(
        sample=0, running=7, waiting=3, kv_tokens=1600, kv_permille=500, preemptions=7
    )


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (
            (
                "sglang:num_running_reqs 5\nsglang:num_queue_reqs 2\nsglang:token_usage 0.1\n"
                "sglang:max_total_num_tokens 4000\nsglang:num_retracted_reqs 1\n"
            ),
            Gauges(sample=0, running=5, waiting=2, kv_tokens=4000, kv_permille=100, preemptions=1),
        ),
        (
            "llamacpp:requests_processing 4\nllamacpp:requests_deferred 6\n",
            Gauges(sample=0, running=4, waiting=6),
        ),
        (
            "vllm:num_requests_waiting 3\nvllm:gpu_cache_usage_perc 0.9\n",
            Gauges(sample=0, waiting=3, kv_permille=900),
        ),
        ("tgi_batch_current_size 8\ntgi_queue_size 1\n", Gauges(sample=0, running=8, waiting=1)),
        ("vllm:num_requests_running NaN\nvllm:num_requests_waiting 1\n", Gauges(sample=0, waiting=1)),
        ("vllm:num_requests_running -4\nvllm:num_requests_waiting 1\n", Gauges(sample=0, waiting=1)),
        ("", None),
        ("process_cpu_seconds_total 5\n", None),
        ("<html>busy</html>", None),
        ("vllm:num_requests_running{engine= 3\n", None),
        ("vllm:num_requests_running three\n", None),
    ],
)
def test_other_engines_and_pages_that_make_no_sense(page: str, told: Gauges | None) -> None:
    assert gauges_in(page) == told


def test_the_development_engine_is_read_as_it_is() -> None:
    stepper = Stepper(TINY)
    for _ in range(12):
        stepper.add(Sequence(100, 50), 0)
    stepper.step(0)
    found = gauges_in(EngineMetrics().page(stepper, "fake"))
    assert found is not None
    assert (found.running, found.waiting, found.kv_tokens) == (stepper.running, stepper.waiting, 512 * 16)
    assert found.running
    assert found.waiting
    assert found.kv_permille == round(1000 * stepper.pool.used / 512)


def test_a_report_of_before_the_gauges_is_still_read() -> None:
    old = b'{"type":"report","worker":"w","boot":"b","epoch":1,"lane":0,"position":5,"limit":4}'
    report = decode(TopicKind.WORKERS, old)
    assert isinstance(report, Report)
    assert report.gauges is None
    assert decode(TopicKind.WORKERS, encode(report)) == report


def test_a_report_tells_the_last_sample_its_number_and_its_age() -> None:
    world = World().serve()
    for running in (1, 2):
        world.give(GaugesSeen(Gauges(sample=0, running=running)))
        world.turn()
    world.pass_time(timedelta(seconds=3))
    last = [record for record in world.wrote if isinstance(record, Report)][-1]
    assert last.gauges is not None
    assert (last.gauges.sample, last.gauges.running) == (2, 2)
    assert 2_400 <= last.gauges.age_ms <= 3_000
