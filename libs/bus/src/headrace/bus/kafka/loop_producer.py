"""LoopProducer on librdkafka. Made by KafkaBus; only the loop's own thread calls it.

Invariant: delivery callbacks only record. A client that is of no more use is emptied and replaced, and
all that it held is confirmed, as unknown where it may be in the log.
"""

from datetime import timedelta
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as ClientMessage

from headrace.bus.kafka.connection import MAX_MESSAGE_BYTES, KafkaConnection, milliseconds
from headrace.bus.kafka.verdicts import TOO_LARGE, ErrorVerdict, error_in, send_error, verdict_of
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, Confirmation, QueueFullError, TooLargeError

_PURGE_WITHIN_S = 1.0


class KafkaLoopProducer:
    """As ports.LoopProducer."""

    def __init__(self, connection: KafkaConnection, name: str, delivery_timeout: timedelta) -> None:
        self._delivery_timeout = delivery_timeout
        self._settings = connection.librdkafka(name) | {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": milliseconds(delivery_timeout),
            "message.max.bytes": MAX_MESSAGE_BYTES,
            "queue.buffering.max.messages": 100_000,
            "queue.buffering.max.kbytes": 256 * 1024,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 200,
            "topic.metadata.propagation.max.ms": 2_000,
            "error_cb": self._noticed,
        }
        self._confirmations: list[Confirmation] = []
        self._broken = False
        self._closed = False
        self._client = Producer(self._settings)

    def send(self, message: Message, token: object) -> None:
        """As LoopProducer.send."""
        if self._closed:
            raise BusError("this producer is closed")
        self._mend()
        try:
            self._client.produce(
                message.topic,
                message.value,
                message.key,
                message.partition,
                on_delivery=partial(self._delivered, token, message.place),
                headers=list(message.headers),
            )
        except BufferError as error:
            raise QueueFullError("the producer's queue is full") from error
        except KafkaException as exception:
            self._refused(error_in(exception), message.place, token)

    def _refused(self, error: KafkaError, place: Place, token: object) -> None:
        if error.code() in TOO_LARGE:
            raise TooLargeError(f"a message is larger than any topic takes: {MAX_MESSAGE_BYTES} bytes")
        self._broken |= verdict_of(error) in {ErrorVerdict.RECREATE, ErrorVerdict.FENCED}
        self._record(token, place, None, send_error(error, f"{place.topic}/{place.partition}"))

    def _delivered(
        self, token: object, place: Place, error: KafkaError | None, message: ClientMessage
    ) -> None:
        if error is None:
            self._record(token, place, message.offset(), None)
        else:
            self._broken |= verdict_of(error) in {ErrorVerdict.RECREATE, ErrorVerdict.FENCED}
            self._record(token, place, None, send_error(error, f"{place.topic}/{place.partition}"))

    def _record(self, token: object, place: Place, offset: int | None, error: BusError | None) -> None:
        self._confirmations.append(Confirmation(token, place, offset, error))

    def _noticed(self, error: KafkaError) -> None:
        self._broken |= error.fatal()

    def confirmations(self) -> list[Confirmation]:
        """As LoopProducer.confirmations."""
        if not self._closed:
            self._client.poll(0)
            self._mend()
        found, self._confirmations = self._confirmations, []
        return found

    def flush(self, timeout: timedelta) -> int:
        """As LoopProducer.flush."""
        return 0 if self._closed else self._client.flush(max(0.0, timeout.total_seconds()))

    def close(self, *, drop: bool = False) -> None:
        """As LoopProducer.close. Without `drop` it waits, for `delivery_timeout` at most, for what is queued."""
        if self._closed:
            return
        self._closed = True
        if not drop:
            self._client.flush(self._delivery_timeout.total_seconds())
        self._empty()
        del self._client  # it knows us by its callback, so that only the garbage collector would end it

    def _mend(self) -> None:
        if self._broken:
            self._empty()
            self._client = Producer(self._settings)
            self._broken = False

    def _empty(self) -> None:
        # A purged idempotent producer has a gap in its sequence and can't send again: it is only ever thrown away.
        self._client.purge()
        self._client.flush(_PURGE_WITHIN_S)
