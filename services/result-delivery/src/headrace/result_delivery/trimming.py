"""Deletes from `results` what SQL has long committed. Called by the service, once a turn.

Invariant: nothing at or beyond a committed SQL position is deleted, nor the `history` records before it; nothing here waits.
"""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import BusError, Trims, TrimsAsked
from headrace.contracts.durations import ms
from headrace.contracts.how_far_to_trim import Trimmed
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger

PERIOD = timedelta(seconds=10)


class Trimming:
    """The partitions of `results` that this member reads."""

    def __init__(
        self, trims: Trims, topic: str, history: int, clock: Clock, metrics: DeliveryMetrics
    ) -> None:
        self._trims, self._topic, self._clock, self._metrics = trims, topic, clock, metrics
        self._trimmed: Trimmed[Place] = Trimmed(history)
        self._asked: TrimsAsked | None = None
        self._asked_ms = clock.now().boot_ms
        self._failing = False

    def trim(self, stands: Mapping[Place, Stand]) -> None:
        """Asks for what may go, when it is time, and looks for the answer."""
        if self._asked is not None:
            self._hear(self._asked)
            return
        now_ms = self._clock.now().boot_ms
        if now_ms - self._asked_ms < ms(PERIOD):
            return
        self._asked_ms = now_ms
        before = self._trimmed.due(
            {place: stand.next_offset for place, stand in stands.items() if place.topic == self._topic}
        )
        if before:
            self._asked = self._trims.ask(before)

    def close(self) -> None:
        """Lets go of the client."""
        self._trims.close()

    def _hear(self, asked: TrimsAsked) -> None:
        try:
            begins = asked.answer()
        except BusError as error:
            self._asked = None
            if not self._failing:
                get_logger("trimming").warning("results can't be trimmed, trying again", reason=str(error))
            self._failing = True
            return
        if begins is not None:
            self._asked, self._failing = None, False
            self._metrics.trimmed.inc(self._trimmed.done(begins))
