"""How full a simulated engine's slots are kept, at the time that an outcome and the next `run` really take.

Part `slots` of tests.benchmarks.scheduler. Each step of the engine takes the same time, answers differ in length, and there
is always more to do; its gauges are a second old. How long the trip takes is what tests/benchmarks/busy.py measured through
a real Kafka. Invariant: virtual time, so neither the cores of the machine nor what plays the engine there is in the figure.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.devkit.engine import H100, Profile
from tests.support.engine_holders import Learning
from tests.support.engine_load import Kind, Span
from tests.support.simulated_engine import Busy

WARM_S, MEASURED_S = 40, 20
SPREAD = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """`ends`: so many a second. `token`: how long a step takes; `answer`: tokens of the median answer. `trip_ms`: from an
    outcome to the next request in hand, the median that was measured. `busy`: the aim.
    """

    ends: int
    slots: int
    token: timedelta
    answer: int
    trip_ms: int
    busy: float

    @property
    def profile(self) -> Profile:
        """Its engine, of which nothing but slots is short."""
        return replace(H100, max_num_seqs=self.slots, prefix_caching=False).paced(self.token)


FEW = Load(15, 16, timedelta(milliseconds=20), 47, 4, 0.99)
MANY = Load(2_000, 256, timedelta(milliseconds=8), 14, 62, 0.97)
LOADS = (FEW, MANY)


def slots_of(load: Load, seed: int) -> tuple[float, float]:
    """The share of the slots' time in which there was work in them, and how many ends there were a second."""
    kind = Kind(1, 100, 0.5, load.answer, SPREAD)
    busy = Busy(load.profile, [kind], Learning(), lag_ms=1_000, seed=seed, wire_ms=load.trip_ms // 2)
    busy.run(WARM_S)
    span = busy.run(MEASURED_S)
    return Span.mean(span.running) / load.slots, span.finished / MEASURED_S
