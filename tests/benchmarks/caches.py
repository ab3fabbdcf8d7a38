"""Where requests run by what backends' caches hold, on Mooncake's traces: prefix hits and tokens/s, beside round robin.

Called by tests/benchmarks/scheduler.py. Eight backends of 16 slots, each computing one prompt after the other at 20,000
tokens a second and an output token in 10 ms, with a cache of 4 million tokens (as with KV memory offloaded to the host's);
twice as much is asked for as they could compute without caches, by 20 tenants, a conversation always of one. Each seed takes
another stretch of three quarters of a trace; the second half of each run is measured. Invariant: the same requests for all.

The aim of 1.5 times round robin's tokens a second is that of the synthetic trace. Of the conversation trace's prompt tokens
37 % are ever repeated: the best cache, against a load balancer that never hits, brings 1 / (1 - 0.37) = 1.6. Round robin does
hit, and one cache for all that never forgets brings it 1.4 (8 backends) to 1.5 (64). What is asked for there is nine tenths
of that (docs/decisions/0014).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from headrace.contracts.policy import policy_from
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.baselines import IN_TURN
from headrace.scheduler.simulate.comparing import HEADRACE, Course, compare, contenders
from headrace.scheduler.simulate.figures import Figures
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.simulate.trace import Asked, read_trace

TRACES = Path(__file__).resolve().parents[1] / "data/traces"
NAMES = ("mooncake_conversation", "mooncake_synthetic")
WITHIN_REACH = {"mooncake_synthetic"}
"""Where half as much again as round robin's tokens a second is to be had at all."""
BACKENDS, TENANTS, LOAD, STRETCH = 8, 20, 2.0, 0.75
MODEL = BackendModel(
    slots=16, prefill_per_s=20_000, token_us=10_000, cache_blocks=8_192, prompts_in_turn=True
)
HALF_MS = 10**9
"""More than half of any run, so that half of it is left out."""


@dataclass(frozen=True, slots=True)
class Found:
    """One run of each: ours, round robin over the backends, and that with one cache for all that never forgets."""

    ours: Figures
    in_turn: Figures
    perfect: Figures

    @property
    def hits(self) -> float:
        """Over those of the cache that never forgets."""
        return self.ours.hits or 0.0

    @property
    def rate(self) -> float:
        """Tokens a second over round robin's."""
        return self.ours.tokens / self.in_turn.tokens

    @property
    def most(self) -> float:
        """What the cache that never forgets would bring round robin itself, whatever is routed where."""
        return self.perfect.tokens / self.in_turn.tokens


@cache
def trace_of(name: str) -> Sequence[Asked]:
    """All of one trace."""
    with (TRACES / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return read_trace(lines, name)


def course_of(name: str) -> Course:
    """What runs on one trace, and on what."""
    trace = trace_of(name)
    tenants: dict[str, object] = {f"tenant-{number:02}": {} for number in range(TENANTS)}
    tiers = {"standard": {"weight": 1, "queue_timeout": "24h"}}
    policy = policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": tenants, "tiers": tiers})
    scenario = Scenario(load=LOAD, requests=int(STRETCH * len(trace)))
    return Course(trace, scenario, policy, "main", [MODEL] * BACKENDS, warm_ms=HALF_MS)


def found_on(name: str, seed: int) -> Found:
    """The runs on one trace."""
    course = course_of(name)
    known = contenders(course.policy, "main")
    both = compare(course, {each: known[each] for each in (HEADRACE, IN_TURN)}, [seed])
    perfect = replace(course, models=[replace(MODEL, cache_blocks=None)] * BACKENDS)
    best = compare(perfect, {IN_TURN: known[IN_TURN]}, [seed])[IN_TURN]
    return Found(both[HEADRACE][0], both[IN_TURN][0], best[0])
