"""Tells each pool's owner how far its logs are committed here, in `control.{pool}`. Called by the service, once a turn.

Invariant: only what SQL has committed is told, at most once a second and only when it has changed; what wasn't confirmed is
told again. The owner deletes nothing beyond it.
"""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import Confirmation, LoopProducer, QueueFullError
from headrace.contracts.control import DeliveryPosition
from headrace.contracts.durations import ms
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.runtime.clock import Clock

PERIOD = timedelta(seconds=1)


class Publishing:
    """What each owner was told last."""

    def __init__(
        self, producer: LoopProducer, names: TopicNames, pool_of: Mapping[str, str], clock: Clock
    ) -> None:
        """`pool_of`: the topics that owners trim -> their pools."""
        self._producer, self._clock = producer, clock
        self._control = {
            topic: Place(names.of(TopicKind.CONTROL, pool=pool), 0) for topic, pool in pool_of.items()
        }
        self._told: dict[Place, int] = {}
        self._told_ms = -(10**12)

    def tell(self, stands: Mapping[Place, Stand]) -> None:
        """Sends what has changed, when it is time. Places that aren't ours any more are forgotten."""
        now_ms = self._clock.now().boot_ms
        if now_ms - self._told_ms < ms(PERIOD):
            return
        self._told_ms = now_ms
        self._told = {place: told for place, told in self._told.items() if place in stands}
        for place, stand in stands.items():
            control = self._control.get(place.topic)
            if control is None or self._told.get(place) == stand.next_offset:
                continue
            record = DeliveryPosition(
                topic=place.topic, partition=place.partition, next_offset=stand.next_offset
            )
            try:
                self._producer.send(message_of(control, record), record)
            except QueueFullError:
                return
            self._told[place] = stand.next_offset

    def confirmed(self, record: DeliveryPosition, confirmation: Confirmation) -> None:
        """What became of it."""
        place = Place(record.topic, record.partition)
        if confirmation.error is not None and self._told.get(place) == record.next_offset:
            del self._told[place]
