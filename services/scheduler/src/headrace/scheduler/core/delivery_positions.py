"""Hears how far result-delivery has committed each log, which bounds what is trimmed. Called by core.control_log.

Invariant: a position counts only where its log reaches so far. Result-delivery may be ahead of this owner, never of the log.
"""

from functools import partial

from headrace.bus.messages import Place, Received
from headrace.contracts.control import DeliveryPosition
from headrace.contracts.failures import FailureKind
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState


class DeliveryPositions:
    """Keeps `state.delivered`."""

    def __init__(self, state: PoolState, endings: Endings) -> None:
        self._state, self._endings = state, endings
        self._last_word: dict[Place, int] = {}
        """Where the newest word on each log stands in `control`."""

    def hear(self, received: Received, record: DeliveryPosition) -> None:
        """The last word counts, also a lower one: a database that was brought back from a copy needs more of the logs."""
        state, place = self._state, Place(record.topic, record.partition)
        if place not in state.checkpointed:
            return
        self._last_word[place] = received.offset
        if record.next_offset <= self._read_to(place):
            state.delivered[place] = record.next_offset
        else:
            state.ends.want(place, partial(self._compare, received, record))

    def _compare(self, received: Received, record: DeliveryPosition, end: int) -> None:
        """A barrier costs a record, which result-delivery reads and tells of in turn: only a seeming lie is worth that."""
        if record.next_offset > end:
            place = Place(record.topic, record.partition)
            self._state.barriers.want(place, partial(self._judge, received, record))
        else:
            self._judge(received, record, end)

    def _judge(self, received: Received, record: DeliveryPosition, end: int) -> None:
        place = Place(record.topic, record.partition)
        if record.next_offset > end:
            detail = f"It says {record.next_offset} of {place.topic}/{place.partition}, which ends at {end}."
            self._endings.bury(received, FailureKind.LYING_RECORD, detail)
        elif self._last_word[place] == received.offset:
            self._state.delivered[place] = record.next_offset

    def _read_to(self, place: Place) -> int:
        requests = self._state.partitions.by_place.get(place)
        if requests is not None:
            return requests.next_offset
        return self._state.attempts_read.get(place.partition, 0)
