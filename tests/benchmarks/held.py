"""How near the learnt limits come to the best fixed ones, on an engine with continuous batching, KV blocks and preemption.

Part `held` of tests.benchmarks.scheduler: chat, reasoning with long outputs, contexts of 85k tokens, a mixture; gauges that
trail by 0 and by 5 s; then half of the engine is taken away. The best fixed limit is found by trying. Invariant: virtual
time, the machine's speed is in none of the figures.
"""

from collections.abc import Sequence as Values
from dataclasses import dataclass, replace

from headrace.devkit.engine import H100, Profile
from headrace.devkit.engine.profiles import BLOCK
from tests.support.engine_holders import Fixed, Learning
from tests.support.engine_load import Kind, Span
from tests.support.simulated_engine import Busy

LAGS_MS = (0, 5_000)
SETTLES_S = 60
ENGINE = replace(H100, prefix_caching=False)


@dataclass(frozen=True, slots=True)
class Workload:
    """`fixed`, `fixed_of_half`: limits among which the best is. `warm_s`: until answers have ended in numbers. `by_cache`:
    the cache is what is short, and not places in the batch. `drains_s`: how long what an engine holds has still to run.
    """

    profile: Profile
    kinds: Values[Kind]
    fixed: Values[int]
    fixed_of_half: Values[int]
    warm_s: int = 60
    measured_s: int = 150
    drains_s: int = 0
    by_cache: bool = False

    @property
    def half(self) -> dict[str, int]:
        """What is left of the engine."""
        blocks = max(self.profile.kv_blocks // 2, self.profile.max_model_len // BLOCK + 1)
        seqs = self.profile.max_num_seqs if self.by_cache else self.profile.max_num_seqs // 2
        return {"max_num_seqs": seqs, "kv_blocks": blocks}


CHAT = Kind(1, 400, 0.6, 150, 0.6, 4_000, 1_000)
WORKLOADS = {
    "chat": Workload(replace(ENGINE, max_num_seqs=64), [CHAT], (56, 64, 72), (28, 32, 36)),
    "reasoning": Workload(
        ENGINE, [Kind(1, 300, 0.4, 6_000, 0.5, 2_000, 24_000)], (48, 56, 64), (24, 28, 32), 400, 400, 240,
        by_cache=True,
    ),
    "85k contexts": Workload(
        replace(ENGINE, max_model_len=90_000), [Kind(1, 70_000, 0.12, 300, 0.5, 85_000, 1_000)], (3, 4, 5),
        (1, 2), 200, 600, 120, by_cache=True,
    ),
    "mixture": Workload(
        replace(ENGINE, max_num_seqs=64, kv_blocks=12_000),
        [
            replace(CHAT, share=0.75),
            Kind(0.2, 300, 0.4, 1_500, 0.6, 2_000, 8_000),
            Kind(0.05, 20_000, 0.2, 300, 0.5, 40_000, 1_000),
        ],
        (56, 64, 68), (20, 24, 28), 100, 200,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """What came of one run. `rate`: tokens a second over those of the best fixed limit; `queue`: 95th percentile of those who
    wait in the engine; `share`: the limit, or what of the cache is promised, over what there is; each also for its half.
    """

    rate: float
    queue: int
    share: float
    rate_of_half: float
    queue_of_half: int
    share_of_half: float


def best_fixed(workload: Workload, limits: Values[int], seed: int, *, half: bool = False) -> float:
    """Tokens a second of the best of these limits."""
    rates = []
    for limit in limits:
        busy = Busy(workload.profile, workload.kinds, Fixed(limit), seed=seed)
        if half:
            busy.change(**workload.half)
        busy.run(workload.warm_s)
        rates.append(busy.run(workload.measured_s).tokens_per_s)
    return max(rates)


def learnt(workload: Workload, lag_ms: int, seed: int, best: tuple[float, float]) -> Held:
    """One run of the product's own; `best`: of the whole engine, and of its half."""
    holder = Learning()
    busy = Busy(workload.profile, workload.kinds, holder, lag_ms=lag_ms, seed=seed)
    busy.run(workload.warm_s)
    whole, share = _measured(workload, busy, holder, workload.measured_s)
    busy.change(**workload.half)
    busy.run(SETTLES_S)
    settled, share_of_half = _measured(workload, busy, holder, SETTLES_S)
    busy.run(workload.drains_s)
    half = busy.run(workload.measured_s) if workload.drains_s else settled
    return Held(
        whole.tokens_per_s / best[0],
        Span.at(whole.queue, 0.95),
        share,
        half.tokens_per_s / best[1],
        Span.at(half.queue, 0.95),
        share_of_half,
    )


def _measured(workload: Workload, busy: Busy, holder: Learning, seconds: int) -> tuple[Span, float]:
    since_ms = busy.now_ms
    span = busy.run(seconds)
    looks = [look for look in holder.trace if look.at_ms > since_ms]
    if workload.by_cache:
        there = 100 * busy.stepper.pool.total * BLOCK
        shares = [look.theta * (look.kv_tokens or 0) / there for look in looks]
    else:
        shares = [look.limit / busy.stepper.profile.max_num_seqs for look in looks]
    return span, sum(shares) / len(shares)


def held_of(name: str, seed: int) -> dict[int, Held]:
    """By lag of the gauges."""
    workload = WORKLOADS[name]
    best = (
        best_fixed(workload, workload.fixed, seed),
        best_fixed(workload, workload.fixed_of_half, seed, half=True),
    )
    return {lag_ms: learnt(workload, lag_ms, seed, best) for lag_ms in LAGS_MS}
