"""What the engine counts for tests, at /sim/stats. Kept by server and generating."""

import msgspec


class Stats(msgspec.Struct):
    """Counts since the start; `running` and `waiting` are of now, `kv_blocks_*` too.

    received = completed + failed + aborted + those inside. `failed`: an error or a fault was the answer. `wasted_tokens`
    were generated for callers who had left, `aborted_tokens` were spared by noticing that. `recomputed_tokens` were
    computed again after a preemption.
    """

    received: int = 0
    completed: int = 0
    failed: int = 0
    aborted: int = 0
    running: int = 0
    waiting: int = 0
    most_running: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    wasted_tokens: int = 0
    aborted_tokens: int = 0
    recomputed_tokens: int = 0
    preemptions: int = 0
    deaths: int = 0
    kv_blocks_total: int = 0
    kv_blocks_used: int = 0
    kv_blocks_cached: int = 0

    @property
    def inside(self) -> int:
        """Requests that have no answer yet."""
        return self.received - self.completed - self.failed - self.aborted
