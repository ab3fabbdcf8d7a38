"""The learnt limit on a simulated engine, small and quick; `make bench-scheduler` runs the large ones (part `held`)."""

from dataclasses import replace
from statistics import fmean

import pytest

from headrace.devkit.engine import H100
from headrace.devkit.engine.profiles import BLOCK
from tests.benchmarks.slots import MANY, slots_of
from tests.support.engine_holders import Fixed, Learning
from tests.support.engine_load import Kind, Span
from tests.support.simulated_engine import Busy

CHAT = [Kind(1, 300, 0.5, 150, 0.5, 2_000, 600)]
PLACES = replace(H100, prefix_caching=False, max_num_seqs=40)
WORDS = [Kind(1, 40, 0.2, 5, 0.3, 200, 40)]
MANY_PLACES = replace(H100, prefix_caching=False, max_num_seqs=256)
CACHE = replace(H100, prefix_caching=False, max_model_len=8_192, kv_blocks=600)


@pytest.mark.parametrize("lag_ms", [0, 5_000])
def test_it_finds_the_places_of_an_engine_and_follows_when_half_are_gone(lag_ms: int) -> None:
    holder = Learning()
    busy = Busy(PLACES, CHAT, holder, lag_ms=lag_ms)
    for places in (40, 20):
        busy.change(max_num_seqs=places)
        busy.run(45)
        since_ms, span = busy.now_ms, busy.run(20)
        looks = [look for look in holder.trace if look.at_ms > since_ms]
        assert fmean(look.limit for look in looks) >= 0.85 * places
        assert fmean(look.limit - look.ahead for look in looks) <= 1.15 * places
        assert Span.mean(span.running) >= 0.92 * places
        assert Span.mean(span.queue) <= 4  # the benchmark has spans that are long enough for percentiles


def test_it_fills_an_engine_of_many_short_answers_and_holds_a_quarter_of_a_second_of_work_besides() -> None:
    holder = Learning()
    busy = Busy(MANY_PLACES, WORDS, holder, wire_ms=3)
    busy.run(60)
    span = busy.run(20)
    assert Span.mean(span.running) >= 0.97 * 256
    assert Span.at(span.queue, 0.95) <= span.finished / 20 / 4


def test_it_fills_an_engine_that_ends_many_at_the_end_of_each_step_however_long_the_trip() -> None:
    for trip_ms in (2, 8, 62):
        for seed in (1, 2):
            busy, _ = slots_of(replace(MANY, trip_ms=trip_ms), seed)
            assert busy >= 0.99, f"{trip_ms} ms, seed {seed}"


def test_it_gives_a_cache_what_fits_and_not_more() -> None:
    best = Busy(CACHE, CHAT, Fixed(24))
    best.run(20)
    holder = Learning()
    busy = Busy(CACHE, CHAT, holder)
    busy.run(30)
    span = busy.run(20)
    assert Span.at(span.queue, 0.95) <= 4
    assert span.tokens_per_s >= 0.95 * best.run(20).tokens_per_s
    assert holder.limits.kv_tokens == 600 * BLOCK


def test_without_metrics_it_gives_what_the_operator_allows() -> None:
    holder = Learning(ceiling=32)
    busy = Busy(PLACES, CHAT, holder, gauges=False)
    busy.run(10)
    assert {look.limit for look in holder.trace} == {32}
