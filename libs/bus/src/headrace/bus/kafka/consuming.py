"""What both readers on librdkafka share: the consumer's settings, the read, positions of START and END, unknown topics.

Called by KafkaLoopReader and KafkaGroupReader. Invariant: a position that is gone is raised at each read until the
partition is assigned or moved anew; it is never skipped.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import ceil
from time import monotonic, sleep
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as ClientMessage

from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection
from headrace.bus.kafka.hand_out import HandOut
from headrace.bus.kafka.narrowing import all_at, at, place_of, received_of
from headrace.bus.kafka.verdicts import ErrorVerdict, call_error, error_in, existing_error, verdict_of
from headrace.bus.messages import Place, Received
from headrace.bus.ports import END, START, BusError, BusUnavailableError, PositionGoneError

_GONE = {
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - librdkafka's own errors are public constants
    KafkaError._LOG_TRUNCATION,  # noqa: SLF001
    KafkaError._NO_OFFSET,  # noqa: SLF001
    KafkaError.OFFSET_OUT_OF_RANGE,
}

_NOT_YET = {KafkaError._STATE, KafkaError._PREV_IN_PROGRESS}  # noqa: SLF001 - as above
_SEEK_WITHIN_S = 2.0
_MOMENT_S = 0.001
_UNSET = {-1, -1001}
"""What librdkafka gives for an offset when an error is about none."""


def consumer_settings(connection: KafkaConnection, name: str, group: str) -> dict[str, Any]:
    """Of every consumer: nothing is committed, reset or created by the client; committed records only."""
    return connection.librdkafka(name) | {
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        # A partition that is resumed or added waits for the fetch under way, so that one must not wait long.
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 10,
        "queued.min.messages": 5_000,
        "queued.max.messages.kbytes": 32 * 1024,
    }


class Consuming:
    """A consumer with its gate."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.client = Consumer(settings)
        self.gate = HandOut()
        self._gone: dict[Place, PositionGoneError] = {}
        self._failed: BusError | None = None
        self._known: set[Place] = set()

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        deadline = monotonic() + wait.total_seconds()
        while True:
            self._raise_failure()
            # Whole ms, which is what the client counts in: less than one would be none, and this would spin.
            left_ms = ceil(max(0.0, deadline - monotonic()) * 1000)
            found = self._sort(self._first_then_rest(limit, left_ms / 1000))
            if found or monotonic() >= deadline:
                if not found:
                    self._raise_failure()
                return found

    def _first_then_rest(self, limit: int, seconds: float) -> list[ClientMessage]:
        # consume(n, t) waits for n records; so wait for one, then take what is there.
        try:
            first = self.client.poll(seconds)
            if first is None:
                return []
            rest = self.client.consume(limit - 1, 0) if limit > 1 else []
        except KafkaException as exception:
            raise call_error(error_in(exception), "reading failed") from exception
        return [first, *rest]

    def _sort(self, messages: list[ClientMessage]) -> list[Received]:
        found = []
        for message in messages:
            if (error := message.error()) is not None:
                self._note(error, message)
                continue
            record = received_of(message)
            if self.gate.admits(record):
                found.append(record)
        return found

    def _note(self, error: KafkaError, message: ClientMessage) -> None:
        place, offset = place_of(message), message.offset()
        if error.code() in _GONE:
            position = self.gate.positions.get(place)
            if position is None or offset not in {position, None, *_UNSET}:
                return  # about an assignment that isn't any more
            sentence = f"offset {position} of {place.topic}/{place.partition} is gone: {error.str()}"
            self._gone[place] = PositionGoneError(place, position, sentence)
        elif verdict_of(error) is ErrorVerdict.REFUSED:
            self._failed = BusError(f"reading {place.topic}/{place.partition} failed: {error.str()}")

    def _raise_failure(self) -> None:
        for place, error in self._gone.items():
            if place not in self.gate.paused:
                raise error
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def forget_gone(self) -> None:
        """After an assignment: what was gone before doesn't matter any more."""
        self._gone.clear()

    def move(self, positions: Mapping[Place, int]) -> None:
        """Read these on from elsewhere. Pause, then seek, then resume: the other way round loses the seek."""
        self.gate.move(positions)
        running = {place: position for place, position in positions.items() if place not in self.gate.paused}
        self.client.pause([at(place) for place in running])
        for place in positions:
            self._gone.pop(place, None)
        for place, position in running.items():  # the others are sought when they are resumed
            self._seek(place, position)
        self.client.resume([at(place) for place in running])

    def pause(self, places: set[Place]) -> None:
        """As LoopReader.pause. Resumes with a seek, because the client may have lost or overtaken our position."""
        to_pause, to_resume = self.gate.pause(places)
        if to_pause:
            self.client.pause([at(place) for place in to_pause])
        for place, position in to_resume.items():
            if place not in self._gone:
                self._seek(place, position)
        if to_resume:
            self.client.resume([at(place) for place in to_resume])

    def _seek(self, place: Place, position: int) -> None:
        """Seeks; the client refuses for a moment after an assignment, which it takes over in a thread of its own.

        Raises BusUnavailableError when it goes on refusing, as where the partition is being taken away.
        """
        deadline = monotonic() + _SEEK_WITHIN_S
        while True:
            try:
                self.client.seek(at(place, position))
            except KafkaException as exception:
                error = error_in(exception)
                if error.code() not in _NOT_YET or monotonic() > deadline:
                    what = f"going to offset {position} of {place.topic}/{place.partition} failed"
                    raise BusUnavailableError(f"{what}: {error.str()}") from exception
                sleep(_MOMENT_S)
            else:
                return

    def position(self, place: Place) -> int:
        """As LoopReader.position."""
        if place not in self.gate.positions:
            raise BusError(f"{place.topic}/{place.partition} isn't assigned to this reader")
        own = self.gate.positions[place]
        if place in self.gate.ahead or place in self._gone:
            return own
        return max(own, self.client.position([at(place)])[0].offset)

    def settle(self, positions: Mapping[Place, int]) -> None:
        """After an assignment: the client takes it over in a thread of its own, and tells old positions until then.

        Raises BusUnavailableError when it doesn't.
        """
        deadline = monotonic() + ANSWER_WITHIN.total_seconds()
        while self._tells_old_positions(positions):
            if monotonic() > deadline:
                raise BusUnavailableError("the client didn't take over its assignment in time")
            sleep(_MOMENT_S)

    def _tells_old_positions(self, positions: Mapping[Place, int]) -> bool:
        told = self.client.position(all_at(positions))
        return any(one.offset > positions[Place(one.topic, one.partition)] for one in told)

    def resolve(self, positions: Mapping[Place, int]) -> dict[Place, int]:
        """START and END as offsets. Raises BusError for what doesn't exist, BusUnavailableError."""
        self.check_exist(positions)
        named = {place: position for place, position in positions.items() if position in {START, END}}
        if not named:
            return dict(positions)
        # START and END are what ListOffsets takes in place of a time; one request for all, where a watermark is two for each.
        try:
            found = self.client.offsets_for_times(all_at(named), ANSWER_WITHIN.total_seconds())
        except KafkaException as exception:
            raise existing_error(error_in(exception), "asking for the ends of logs failed") from exception
        for one in found:
            if one.error is not None:
                raise existing_error(one.error, f"asking for the ends of {one.topic} failed")
        return dict(positions) | {Place(one.topic, one.partition): one.offset for one in found}

    def check_exist(self, places: Iterable[Place]) -> None:
        """Raises BusError for a topic or partition that doesn't exist: the client would wait for it in silence."""
        wanted = set(places)
        if not wanted <= self._known:
            self._ask_topics()
        for place in sorted(wanted - self._known):
            raise BusError(f"there is no {place.topic}/{place.partition}; run `headrace topics apply`")

    def _ask_topics(self) -> None:
        try:
            metadata = self.client.list_topics(timeout=ANSWER_WITHIN.total_seconds())
        except KafkaException as exception:
            raise call_error(error_in(exception), "asking for the topics failed") from exception
        self._known = {
            Place(name, number)
            for name, topic in metadata.topics.items()
            if topic.error is None
            for number in topic.partitions
        }
