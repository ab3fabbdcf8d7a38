"""FencedState on a transactional librdkafka producer. Made by KafkaBus; one thread calls it.

Invariant: nothing here waits longer than a few ms. Once a checkpoint has failed, whatever the reason, this state
only repeats that failure until it is closed: its producer may have a transaction in flight, and only a new claim is sure.
"""

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as ClientMessage

from headrace.bus.kafka.connection import MAX_MESSAGE_BYTES, KafkaConnection
from headrace.bus.kafka.verdicts import ErrorVerdict, error_in, verdict_of
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, CommitFailedError, FencedError

POLL_S = 0.01
COMMIT_LOOK_S = 0.001
"""Requests wait meanwhile: the owner looks again at its next turn."""
TRANSACTION_TIMEOUT_MS = 15_000


class Committing(Thread):
    """One commit, asked for once and waited for to its end, in a thread of its own.

    A commit that timed out and is asked for again is what librdkafka 2.16 may answer by ending the whole process
    (`Invalid transaction state transition`), the sooner the shorter the time-outs are.
    """

    def __init__(self, producer: Producer) -> None:
        super().__init__(name="commit", daemon=True)
        self._producer = producer
        self.error: KafkaError | None = None
        self.start()

    def run(self) -> None:
        """Commits; `error` says what went wrong once this has ended."""
        try:
            # Without a time-out each step gets one of its own: of a common one, what is left may expire at any of them.
            self._producer.commit_transaction()
        except KafkaException as exception:
            self.error = error_in(exception)


class KafkaFencedState:
    """As ports.FencedState."""

    def __init__(self, connection: KafkaConnection, name: str, place: Place, transactional_id: str) -> None:
        self._connection, self._name = connection, name
        self._place, self._id = place, transactional_id
        self._producer: Producer | None = None
        self._claimed = False
        self._writing = False
        self._committing: Committing | None = None
        self._failed: BusError | None = None

    def claim(self) -> bool:
        """As FencedState.claim."""
        if self._claimed:
            return True
        self._producer = self._producer or self._new_producer()
        try:
            self._producer.init_transactions(POLL_S)
        except KafkaException as exception:
            return self._not_claimed(exception)
        self._claimed = True
        return True

    def _not_claimed(self, exception: KafkaException) -> bool:
        error = error_in(exception)
        if error.retriable():
            return False
        self._producer = None
        raise BusError(f"claiming {self._id} failed: {error.str()}") from exception

    def _new_producer(self) -> Producer:
        return Producer(
            self._connection.librdkafka(self._name)
            | {
                "transactional.id": self._id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "message.max.bytes": MAX_MESSAGE_BYTES,
                "linger.ms": 0,
                # The default of 100 ms is what a transaction waits for at each step.
                "retry.backoff.ms": 2,
                "retry.backoff.max.ms": 50,
            }
        )

    def begin(self, messages: Sequence[Message]) -> None:
        """As FencedState.begin. What went wrong is told by `committed`."""
        producer = self._producer_claimed()
        if self._writing:
            raise BusError("a checkpoint is being written already")
        if any(message.place != self._place for message in messages):
            raise BusError(f"a checkpoint is written to {self._place.topic}/{self._place.partition} only")
        self._writing = True
        try:
            producer.begin_transaction()
            for message in messages:
                self._produce(producer, message)
        except KafkaException as exception:
            self._failed = self._failure(error_in(exception))
        except BufferError:
            self._failed = CommitFailedError("the checkpoint is larger than the producer's queue")

    def _produce(self, producer: Producer, message: Message) -> None:
        producer.produce(
            message.topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=self._delivered,
            headers=list(message.headers),
        )

    def _delivered(self, error: KafkaError | None, message: ClientMessage) -> None:  # noqa: ARG002
        if error is not None and self._failed is None:
            self._failed = self._failure(error)

    def committed(self) -> bool:
        """As FencedState.committed."""
        producer = self._producer_claimed()
        if self._failed is None and not self._writing:
            raise BusError("no checkpoint is being written")
        if self._failed is None:
            self._commit(producer)
        if self._failed is not None:
            raise self._failed
        return not self._writing

    def _commit(self, producer: Producer) -> None:
        committing = self._committing = self._committing or Committing(producer)
        committing.join(COMMIT_LOOK_S)
        if committing.is_alive():
            return
        self._committing = None
        if committing.error is None:
            self._writing = False
        else:
            self._failed = self._failed or self._failure(committing.error)

    def _failure(self, error: KafkaError) -> BusError:
        if verdict_of(error) is ErrorVerdict.FENCED:
            # The coordinator ends a transaction that is open for too long, and fences its owner as a claim does.
            why = f"another owner has claimed it, or a checkpoint was open for {TRANSACTION_TIMEOUT_MS // 1000} s"
            return FencedError(f"the transactional id {self._id} isn't ours any more: {why}")
        return CommitFailedError(f"a checkpoint of {self._place.topic} failed: {error.str()}")

    def close(self) -> None:
        """As FencedState.close."""
        producer, self._producer, self._claimed = self._producer, None, False
        # What isn't delivered yet knows us, inside the client, where no collector looks: we may know nothing that knows the
        # client. A raised error knows the frames that it came through; a commit under way knows the client itself.
        self._failed = self._committing = None
        if producer is not None:
            # A fenced producer raises what everybody knows by now.
            with suppress(KafkaException):
                producer.purge()
                producer.flush(POLL_S)

    def _producer_claimed(self) -> Producer:
        if self._producer is None or not self._claimed:
            raise BusError(f"the transactional id {self._id} isn't claimed")
        return self._producer
