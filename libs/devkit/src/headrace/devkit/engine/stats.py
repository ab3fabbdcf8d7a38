"""What the fake engine counts, and how it says so in vLLM's metric names. Kept by server and answering."""

import msgspec


class Stats(msgspec.Struct):
    """Counts since the start; `running` and `waiting` are of now.

    received = completed + failed + aborted + running + waiting. `failed`: an error or a fault was the answer.
    `wasted_tokens` were generated for callers who had left.
    """

    received: int = 0
    completed: int = 0
    failed: int = 0
    aborted: int = 0
    running: int = 0
    waiting: int = 0
    most_running: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    wasted_tokens: int = 0

    def metrics(self, model: str, slots: int) -> str:
        """The page /metrics: the names that a load balancer reads."""
        gauges = {
            "num_requests_running": self.running,
            "num_requests_waiting": self.waiting,
            "kv_cache_usage_perc": self.running / slots,
        }
        counters = {
            "prompt_tokens_total": self.prompt_tokens,
            "generation_tokens_total": self.generated_tokens,
            "request_success_total": self.completed,
        }
        labels = f'{{engine="0",model_name="{model}"}}'
        return "".join(
            f"# TYPE vllm:{name} {kind}\nvllm:{name}{labels} {value}\n"
            for kind, values in (("gauge", gauges), ("counter", counters))
            for name, value in values.items()
        )
