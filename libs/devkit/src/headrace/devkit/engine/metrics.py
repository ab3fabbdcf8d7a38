"""What the engine tells at /metrics, under vLLM 0.32's names. Fed by live at the end of each step, read by pages.

Seconds are the engine's own, so with a time scale they differ from the caller's. Counted by hand rather than by a library:
a step of a thousand sequences must not pay for a thousand locks.
"""

from bisect import bisect_left
from collections.abc import Iterator
from collections.abc import Sequence as Values
from itertools import accumulate

from headrace.devkit.engine.profiles import BLOCK
from headrace.devkit.engine.sequences import Sequence
from headrace.devkit.engine.stepper import Step, Stepper

SECOND_US = 1_000_000
FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
BETWEEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
WHOLE = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
IN_A_STEP = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
REASONS = ("stop", "length", "abort", "error")


class Histogram:
    """Counts by upper bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Values[float]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Counts `value`, `times` over."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    @property
    def total(self) -> int:
        """How many values were counted."""
        return sum(self._counts)

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """As Prometheus reads them."""
        yield f"# TYPE {name} histogram"
        bounds = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for bound, count in zip(bounds, accumulate(self._counts), strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {count}'
        yield f"{name}_count{{{labels}}} {self.total}"
        yield f"{name}_sum{{{labels}}} {self._sum}"


class EngineMetrics:
    """The counters and histograms of one engine; the gauges are read off its stepper when they are asked for."""

    def __init__(self) -> None:
        self.prompt_tokens = self.cached_tokens = self.generated_tokens = self.most_running = 0
        self.finished = dict.fromkeys(REASONS, 0)
        self.rejected = 0
        self._in_no_time = self._several_in_no_time = self._gaps_of_no_time = 0
        self._first_token, self._between, self._per_token = (
            Histogram(FIRST_TOKEN),
            Histogram(BETWEEN),
            Histogram(BETWEEN),
        )
        self._whole, self._queued, self._prefill = Histogram(WHOLE), Histogram(WHOLE), Histogram(WHOLE)
        self._decode, self._inference, self._prompt = Histogram(WHOLE), Histogram(WHOLE), Histogram(TOKENS)
        self._generation, self._steps, self._completions = (
            Histogram(TOKENS),
            Histogram(IN_A_STEP),
            Histogram((1, 2, 5)),
        )
        self._histograms = {
            "time_to_first_token_seconds": self._first_token,
            "inter_token_latency_seconds": self._between,
            "request_time_per_output_token_seconds": self._per_token,
            "e2e_request_latency_seconds": self._whole,
            "request_queue_time_seconds": self._queued,
            "request_prefill_time_seconds": self._prefill,
            "request_decode_time_seconds": self._decode,
            "request_inference_time_seconds": self._inference,
            "request_prompt_tokens": self._prompt,
            "request_generation_tokens": self._generation,
            "request_params_max_tokens": self._generation,
            "request_params_n": self._completions,
            "iteration_tokens_total": self._steps,
        }

    def observe(self, step: Step, end_us: int) -> None:
        """One step, at its end."""
        self._steps.observe(step.tokens)
        if not step.emitted:
            self._at_once(step, end_us)
            return
        self.generated_tokens += len(step.emitted)
        gaps: dict[int, int] = {}
        for sequence in step.emitted:
            last, sequence.last_us = sequence.last_us, end_us
            if sequence.generated > 1:
                gaps[last] = gaps.get(last, 0) + 1
            else:
                sequence.first_us = end_us
                self._first_token.observe((end_us - sequence.arrived_us) / SECOND_US)
        for last, times in gaps.items():
            self._between.observe((end_us - last) / SECOND_US, times)
        for sequence in step.finished:
            self._finished(sequence, end_us)

    def _at_once(self, step: Step, end_us: int) -> None:
        """A step that stands for all steps of a sequence; or one that only prefilled, or ended embeddings."""
        for sequence in step.finished:
            if tokens := sequence.generated:
                self.generated_tokens += tokens
                self._in_no_time += 1
                self._several_in_no_time += tokens > 1
                self._gaps_of_no_time += tokens - 1
                self._count(sequence)
            else:
                self._finished(sequence, end_us)

    def _fold(self) -> None:
        """Counts what took no time: it is all zeros, so it can wait until somebody looks."""
        for histogram in (
            self._first_token,
            self._whole,
            self._queued,
            self._prefill,
            self._decode,
            self._inference,
        ):
            histogram.observe(0, self._in_no_time)
        self._per_token.observe(0, self._several_in_no_time)
        self._between.observe(0, self._gaps_of_no_time)
        self._completions.observe(1, self._prompt.total - self._completions.total)
        self._in_no_time = self._several_in_no_time = self._gaps_of_no_time = 0

    def _finished(self, sequence: Sequence, end_us: int) -> None:
        generated, arrived, admitted = sequence.generated, sequence.arrived_us, sequence.admitted_us
        first = sequence.first_us if generated else end_us
        self._whole.observe((end_us - arrived) / SECOND_US)
        self._queued.observe(max(0, admitted - arrived) / SECOND_US)
        self._prefill.observe((first - admitted) / SECOND_US)
        self._decode.observe((end_us - first) / SECOND_US)
        self._inference.observe((end_us - admitted) / SECOND_US)
        if generated > 1:
            self._per_token.observe((end_us - first) / (generated - 1) / SECOND_US)
        self._count(sequence)

    def _count(self, sequence: Sequence) -> None:
        self.prompt_tokens += sequence.prompt_tokens
        self.cached_tokens += sequence.cached_tokens
        self._prompt.observe(sequence.prompt_tokens)
        self._generation.observe(sequence.generated)

    def page(self, stepper: Stepper, model: str) -> str:
        """The page."""
        self._fold()
        labels = f'engine="0",model_name="{model}"'
        lines = [*self._gauges(stepper, labels), *self._counters(stepper, labels)]
        for name, histogram in self._histograms.items():
            lines += histogram.lines(f"vllm:{name}", labels)
        return "\n".join(lines) + "\n"

    def _gauges(self, stepper: Stepper, labels: str) -> Iterator[str]:
        pool, profile = stepper.pool, stepper.profile
        config = f'block_size="{BLOCK}",enable_prefix_caching="{profile.prefix_caching}",num_gpu_blocks="{pool.total}"'
        gauges: dict[str, dict[str, float]] = {
            "num_requests_running": {"": stepper.running},
            "num_requests_waiting": {"": stepper.waiting},
            "num_requests_waiting_by_reason": {
                ',reason="capacity"': stepper.waiting,
                ',reason="deferred"': 0,
            },
            "kv_cache_usage_perc": {"": pool.used / pool.total},
            "engine_sleep_state": {',sleep_state="awake"': 1},
            "cache_config_info": {f",{config}": 1},
        }
        for name, values in gauges.items():
            yield f"# TYPE vllm:{name} gauge"
            yield from (f"vllm:{name}{{{labels}{more}}} {value}" for more, value in values.items())

    def _counters(self, stepper: Stepper, labels: str) -> Iterator[str]:
        counters = {
            "prompt_tokens": {"": self.prompt_tokens},
            "prompt_tokens_cached": {"": self.cached_tokens},
            "generation_tokens": {"": self.generated_tokens},
            "request_success": {f',finished_reason="{why}"': n for why, n in self.finished.items()},
            "num_preemptions": {"": stepper.preemptions},
            "prefix_cache_queries": {"": stepper.prefix_queries},
            "prefix_cache_hits": {"": stepper.prefix_hits},
            "admission_rejections": {',reason="max_num_queued_reqs"': self.rejected},
            "corrupted_requests": {"": 0},
        }
        for name, values in counters.items():
            yield f"# TYPE vllm:{name}_total counter"
            yield from (f"vllm:{name}_total{{{labels}{more}}} {value}" for more, value in values.items())
