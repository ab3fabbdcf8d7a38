"""Dead-letters what of the three logs can't be stored and is ours to bury. Called by the service before it commits a batch.

Invariant: a position passes a refused record only after `dlq` has confirmed it; what is confirmed isn't sent again while
this process lives.
"""

from datetime import timedelta

from headrace.bus.dead_letters import dead_letter
from headrace.bus.messages import Place, Received
from headrace.bus.ports import Confirmation, LoopProducer, QueueFullError
from headrace.result_delivery.decisions.why_refused import Refused
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger


class DeadLetters:
    """The refused records of what is held, by where they stand."""

    def __init__(self, producer: LoopProducer, topic: str, clock: Clock, metrics: DeliveryMetrics) -> None:
        self._producer, self._topic, self._clock, self._metrics = producer, topic, clock, metrics
        self._waiting: set[tuple[Place, int]] = set()
        self._confirmed: set[tuple[Place, int]] = set()
        self._log = get_logger("dead_letters")

    def all_confirmed(self, refused: list[tuple[Received, Refused]]) -> bool:
        """Whether every one of these is in `dlq`."""
        return all(_spot(record) in self._confirmed for record, _ in refused)

    def send(self, refused: list[tuple[Received, Refused]], wait: timedelta) -> None:
        """Sends those that aren't there yet, and waits a little."""
        for record, refusal in refused:
            spot = _spot(record)
            if spot in self._confirmed or spot in self._waiting:
                continue
            letter = dead_letter(
                Place(self._topic, record.partition),
                record,
                refusal.reason,
                by="result-delivery",
                at_ms=self._clock.now().wall_ms,
                detail=refusal.detail,
                id=refusal.id,
                tenant=refusal.tenant,
            )
            try:
                self._producer.send(letter, (record, refusal))
            except QueueFullError:
                break
            self._waiting.add(spot)
        self._producer.flush(wait)

    def confirmed(self, record: Received, refusal: Refused, confirmation: Confirmation) -> None:
        """What became of a dead letter; one that wasn't written is sent again at the next try."""
        spot, error = _spot(record), confirmation.error
        self._waiting.discard(spot)
        told = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        if error is not None:
            self._log.warning("dead letter not confirmed, sending again", reason=str(error), **told)
            return
        self._confirmed.add(spot)
        self._metrics.dead_letters.labels(refusal.reason.value).inc()
        self._log.error(
            "a record was dead-lettered",
            reason=refusal.reason.value,
            detail=refusal.detail,
            request_id=refusal.id,
            **told,
        )

    def passed(self) -> None:
        """The positions have passed all that was refused so far."""
        self._confirmed.clear()


def _spot(record: Received) -> tuple[Place, int]:
    return record.place, record.offset
