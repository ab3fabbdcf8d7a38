"""Reads this member's share of the logs, from where SQL stands. Called by the service, once a turn.

Invariant: nothing is read of a partition whose SQL position isn't known, or isn't of the log that is there now; and the group
is polled all the same.
"""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import START, BusUnavailableError, GroupReader, PositionGoneError
from headrace.result_delivery.decisions.where_to_read import RUNBOOK, ReadFrom, Stand, where_to_read
from headrace.result_delivery.judging import Judging
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.ports import Store
from headrace.result_delivery.share import ReadShare
from headrace.result_delivery.topic_watch import TopicWatch
from headrace.runtime.logging import get_logger

BATCH, BATCH_BYTES = 500, 32 * 1024 * 1024
"""What one commit may hold: records, and bytes of their values."""
_GULP = 50


class Reading:
    """A member of the group, and what it has read."""

    def __init__(
        self,
        reader: GroupReader,
        store: Store,
        judging: Judging,
        topics: TopicWatch,
        metrics: DeliveryMetrics,
        *,
        accept_loss: bool = False,
    ) -> None:
        self._reader, self._store, self._judging, self._topics = reader, store, judging, topics
        self._metrics, self._accept_loss = metrics, accept_loss
        self.share = ReadShare(judging.judge)
        self.failing = False
        self.changed = False
        """Whether positions were asked for since this was last set to false: others may have left something to send."""
        self._assigning = False
        self._paused: set[Place] = set()
        self._log = get_logger("reading")

    def join(self) -> None:
        """Joins the group. Raises BusUnavailableError."""
        self._reader.subscribe(self._judging.topics, assigned=self._assigned, revoked=self._revoked)

    def gather(self, wait: timedelta) -> int:
        """Reads as much as one commit should hold, more than a gulp only when it is there already; how many records.

        Raises BusUnavailableError when an assignment failed half-way: this reader must be replaced.
        """
        count = size = 0
        while count < BATCH and size < BATCH_BYTES:
            try:
                records = self._reader.read(_GULP, wait)
            except PositionGoneError as error:
                self._gone(error)
                return count
            except BusUnavailableError as error:
                if self._assigning:
                    raise
                self.failed(error)
                return count
            self.failing = self._assigning = False
            self.share.take(records)
            count += len(records)
            size += sum(len(record.value or b"") for record in records)
            if len(records) < _GULP:
                return count
            wait = timedelta()
        return count

    def find_positions(self) -> None:
        """Goes on from where SQL stands in what is in doubt, once it is known which topics these are.

        Raises StoreUnavailableError, BusUnavailableError.
        """
        ids = self._topics.answer(self._judging.topics, at_once=bool(self.share.in_doubt))
        if ids is None:
            return
        self.share.doubt(
            place
            for place, stand in self.share.stands().items()
            if stand.topic_id not in (None, ids.get(place.topic))
        )
        places = set(self.share.in_doubt)
        if places:
            self._begin(self._store.positions(places), ids, places)

    def id_of(self, topic: str) -> str | None:
        """The topic's id, as the brokers last said."""
        return self._topics.ids.get(topic)

    def hold_back(self, *, everything: bool) -> None:
        """Pauses what is in doubt or can't be used, or everything while what was read can't get on."""
        wanted = self.share.places if everything else {*self.share.in_doubt, *self.share.unusable}
        self._pause(wanted)

    def failed(self, error: BusUnavailableError) -> None:
        """Kafka can't be read for now; logged once."""
        if not self.failing:
            self._log.warning("Kafka can't be read, trying again", reason=str(error))
        self.failing = True

    def leave(self) -> None:
        """Leaves the group."""
        self._reader.close()
        self._topics.close()

    def _begin(self, stands: Mapping[Place, Stand], ids: Mapping[str, str], places: set[Place]) -> None:
        reads: dict[Place, int | None] = {}
        for place in sorted(places):
            stand = stands.get(place)
            id_now = ids.get(place.topic)
            found = where_to_read(*place, stand, id_now, accept_loss=self._accept_loss)
            if isinstance(found, ReadFrom):
                reads[place] = found.position
                if found.loss is not None:
                    self._log.error("records are passed over, as somebody has accepted", reason=found.loss)
            else:
                self._give_up(place, found)
        self._reader.seek({place: START if at is None else at for place, at in reads.items()})
        self.share.begin({place: stands.get(place) for place in reads}, reads)
        self.changed = True

    def _gone(self, error: PositionGoneError) -> None:
        """The log begins beyond, or ends before, what we need. Where somebody has accepted it, read what there is."""
        place = error.place
        if not self._accept_loss or place not in self.share.places:
            self._give_up(place, f"{error}: {RUNBOOK}")
            return
        self._log.error("records are passed over, as somebody has accepted", reason=str(error))
        self._reader.seek({place: START})
        self.share.begin({place: self.share.stand(place)}, {place: None})

    def _give_up(self, place: Place, sentence: str) -> None:
        if place not in self.share.unusable:
            self._log.error("a partition isn't read any more", reason=sentence, topic=place.topic)
        self.share.give_up(place, sentence)
        self._metrics.unusable.set(len(self.share.unusable))

    def _pause(self, wanted: set[Place]) -> None:
        if wanted != self._paused:
            self._reader.pause(wanted)
            self._paused = wanted

    def _assigned(self, places: list[Place]) -> Mapping[Place, int]:
        """Called by the reader while the group changes. Where to read from is asked for later: until then they are paused."""
        self._metrics.rebalances.inc()
        self.changed = self._assigning = True
        self.share.doubt(places)
        self._pause({*self._paused, *places})
        self._tell("partitions assigned", places)
        return dict.fromkeys(places, 0)

    def _revoked(self, places: list[Place]) -> None:
        self.share.lose(places)
        self._metrics.unusable.set(len(self.share.unusable))
        self._tell("partitions revoked", places)

    def _tell(self, what: str, places: list[Place]) -> None:
        self._metrics.partitions.set(len(self.share.places))
        self._log.info(what, count=len(places), topics=len({place.topic for place in places}))
