"""What an engine's metrics page says of its load. Called by the service for each sample.

Knows vLLM's, SGLang's, llama.cpp's and TGI's names, old and new. Invariant: what isn't there or makes no sense is None, and a
page without any of it is no sample.
"""

from collections.abc import Iterable, Iterator
from math import isfinite

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from headrace.contracts.reports import Gauges

_RUNNING = (
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "llamacpp:requests_processing",
    "tgi_batch_current_size",
)
_BY_REASON = "vllm:num_requests_waiting_by_reason"
_WAITING = (
    "vllm:num_requests_waiting",
    "sglang:num_queue_reqs",
    "llamacpp:requests_deferred",
    "tgi_queue_size",
)
_USED = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
_CONFIG = "vllm:cache_config_info"
_SIZE = ("sglang:max_total_num_tokens",)
_PREEMPTIONS = ("vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_reqs")
_WANTED = frozenset((*_RUNNING, _BY_REASON, *_WAITING, *_USED, _CONFIG, *_SIZE, *_PREEMPTIONS))
_MOST = 2**53


def gauges_in(page: str) -> Gauges | None:
    """The gauges of a page in Prometheus' text format, number and age left 0; None: it tells nothing that is known.

    Several engines behind one page: all of their requests, the fullest one's cache.
    """
    try:
        samples = list(_samples(page))
    except (ValueError, KeyError, IndexError):
        return None
    by_capacity = [s.value for s in samples if s.name == _BY_REASON and s.labels.get("reason") == "capacity"]
    used = _first(samples, _USED)
    told = Gauges(
        sample=0,
        running=_count(_first(samples, _RUNNING)),
        waiting=_count(by_capacity or _first(samples, _WAITING)),
        kv_tokens=_count(_cache_sizes(samples) or _first(samples, _SIZE)),
        kv_permille=_count([max(used) * 1000]) if used else None,
        preemptions=_count(_first(samples, _PREEMPTIONS)),
    )
    return None if told == Gauges(sample=0) else told


def _samples(page: str) -> Iterator[Sample]:
    """Of the lines that are wanted alone: a page has thousands."""
    lines = [line for line in page.splitlines() if line.partition("{")[0].partition(" ")[0] in _WANTED]
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        yield from family.samples


def _first(samples: Iterable[Sample], names: Iterable[str]) -> list[float]:
    """The values of the first of these names that is there."""
    for name in names:
        if found := [sample.value for sample in samples if sample.name == name]:
            return found
    return []


def _cache_sizes(samples: Iterable[Sample]) -> list[float]:
    """Tokens of each engine's cache, as vLLM tells its configuration in labels."""
    return [
        float(sample.labels["num_gpu_blocks"]) * float(sample.labels["block_size"])
        for sample in samples
        if sample.name == _CONFIG and {"num_gpu_blocks", "block_size"} <= sample.labels.keys()
    ]


def _count(values: Iterable[float]) -> int | None:
    """Their sum as a record takes it; None for none, or for what can't be a count."""
    found = list(values)
    total = sum(found)
    return round(total) if found and isfinite(total) and 0 <= total <= _MOST else None
