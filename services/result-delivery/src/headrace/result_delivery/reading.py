"""Reads this member's share of `results`, from where SQL stands. Called by the service, once a turn.

Invariant: nothing is read of a partition whose SQL position isn't known, and the group is polled all the same.
"""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import START, BusUnavailableError, GroupReader
from headrace.result_delivery.intake import Intake
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.ports import Store, StoreUnavailableError
from headrace.runtime.logging import get_logger

BATCH, BATCH_BYTES = 500, 32 * 1024 * 1024
"""What one commit may hold: records, and bytes of their values."""
_GULP = 50


class Reading:
    """A member of the group, and what it has read."""

    def __init__(self, reader: GroupReader, store: Store, topic: str, metrics: DeliveryMetrics) -> None:
        self._reader, self._store, self._topic, self._metrics = reader, store, topic, metrics
        self.intake = Intake()
        self.failing = False
        self.changed = False
        """Whether positions were asked for since this was last set to false: others may have left something to send."""
        self._assigning = False
        self._paused: set[Place] = set()
        self._log = get_logger("reading")

    def join(self) -> None:
        """Joins the group. Raises BusUnavailableError."""
        self._reader.subscribe([self._topic], assigned=self._assigned, revoked=self._revoked)

    def gather(self, wait: timedelta) -> int:
        """Reads as much as one commit should hold, more than a gulp only when it is there already; how many records.

        Raises BusUnavailableError when an assignment failed half-way: this reader must be replaced.
        """
        count = size = 0
        while count < BATCH and size < BATCH_BYTES:
            try:
                records = self._reader.read(_GULP, wait)
            except BusUnavailableError as error:
                if self._assigning:
                    raise
                self.failed(error)
                return count
            self.failing = self._assigning = False
            self.intake.take(records)
            count += len(records)
            size += sum(len(record.value or b"") for record in records)
            if len(records) < _GULP:
                return count
            wait = timedelta()
        return count

    def find_positions(self) -> None:
        """Goes on from where SQL stands in what is in doubt. Raises StoreUnavailableError, BusUnavailableError."""
        places = set(self.intake.in_doubt)
        positions = self._store.positions(places)
        self._reader.seek({place: positions.get(place, START) for place in places})
        self.intake.begin(places, positions)
        self.changed = True

    def hold_back(self, *, everything: bool) -> None:
        """Pauses what is in doubt, or everything while what was read can't get on."""
        wanted = self.intake.places if everything else set(self.intake.in_doubt)
        if wanted != self._paused:
            self._reader.pause(wanted)
            self._paused = wanted

    def failed(self, error: BusUnavailableError) -> None:
        """Kafka can't be read for now; logged once."""
        if not self.failing:
            self._log.warning("Kafka can't be read, trying again", reason=str(error))
        self.failing = True

    def leave(self) -> None:
        """Leaves the group."""
        self._reader.close()

    def _assigned(self, places: list[Place]) -> Mapping[Place, int]:
        """Called by the reader while the group changes. Without SQL: read from anywhere, drop it, ask again later."""
        self._metrics.rebalances.inc()
        self.changed = self._assigning = True
        try:
            positions = self._store.positions(places)
        except StoreUnavailableError as error:
            self._log.warning("no positions for new partitions", reason=str(error))
            positions = {}
            self.intake.doubt(places)
        else:
            self.intake.begin(places, positions)
        self._tell("partitions assigned", places)
        return {place: positions.get(place, START) for place in places}

    def _revoked(self, places: list[Place]) -> None:
        self.intake.lose(places)
        self._tell("partitions revoked", places)

    def _tell(self, what: str, places: list[Place]) -> None:
        self._metrics.partitions.set(len(self.intake.places))
        self._log.info(what, partitions=[place.partition for place in places])
