"""The wire: what a process has sent and what becomes of it. Used by world.clients, one channel for each producer.

Invariant: per producer and partition, what arrives arrives in the order of its sending, and so do the confirmations; a
confirmation is the log's word, or "unknown", which may be either.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from headrace.bus.messages import Place
from headrace.bus.ports import BusError, DeliveryUnknownError
from tests.simulation.world.broker import Broker
from tests.simulation.world.clockwork import Clockwork

Arrival = Callable[[], int | BusError]
Confirm = Callable[[int | None, BusError | None], None]
DELAYS_MS = (1, 1, 2, 2, 5, 5, 20, 200)


@dataclass(slots=True, eq=False)
class Parcel:
    """Something on its way. `lost`: it will never arrive. `told`: its sender believes to know what became of it."""

    place: Place
    deadline_ms: int
    arrival: Arrival
    confirm: Confirm
    lost: bool = False
    told: bool = False
    arrived: bool = False


class Weather:
    """How bad the wire is. Changed by world.faults; quiet once the faults are over."""

    def __init__(self, rng: Random, seen: Counter[str]) -> None:
        self.rng, self._seen = rng, seen
        self.faulty, self.calm = True, False
        self.lose_next: list[str] = []
        """Topics whose next message is lost: for written schedules."""
        self.lost_share, self.late_share, self.lag_share, self.stale_share = 0.0, 0.01, 0.0, 0.1
        self.topics_losing: tuple[str, ...] = ()

    def delay_ms(self) -> int:
        """How long a message is on its way."""
        return self.rng.choice(DELAYS_MS) if not self.calm else 1

    def stale_end(self, end: int) -> int:
        """Where a log ends, as a broker says that was paused and doesn't know yet that another leads it."""
        if not self.faulty or end == 0 or self.rng.random() >= self.stale_share:
            return end
        self._seen["stale end"] += 1
        return max(0, end - self.rng.choice((1, 3, 20)))

    def loses(self, place: Place) -> bool:
        """Whether this message never arrives."""
        if place.topic in self.lose_next:
            self.lose_next.remove(place.topic)
            return True
        if not self.faulty or not any(topic in place.topic for topic in self.topics_losing):
            return False
        lost = self.rng.random() < self.lost_share
        self._seen["lost command" if ".work." in place.topic else "lost message"] += lost
        return lost

    def acknowledgement_ms(self) -> int:
        """How long an acknowledgement is on its way; a lost one, longer than its sender waits."""
        if self.faulty and self.rng.random() < self.late_share:
            self._seen["lost acknowledgement"] += 1
            return self.rng.choice((800, 1_500, 4_000, 12_000))
        return self.delay_ms()


class Channel:
    """One producer's connection. `delivery_ms`: a message is confirmed or unknown by then."""

    def __init__(
        self, broker: Broker, clockwork: Clockwork, weather: Weather, delivery_ms: int, noticed: Callable[[], None]
    ) -> None:  # fmt: skip
        self._broker, self._clockwork, self._weather = broker, clockwork, weather
        self._delivery_ms, self._noticed = delivery_ms, noticed
        self._arrivals: dict[Place, int] = {}
        self._words: dict[Place, int] = {}
        self._under_way: dict[Parcel, None] = {}
        self.held_until_ms = 0
        """Till then nothing of it reaches the broker: its process stands still."""

    def send(self, place: Place, arrival: Arrival, confirm: Confirm) -> None:
        """Put something on the wire. `arrival` happens at the broker; it returns the offset, or why it is refused."""
        now_ms = self._clockwork.now_ms
        parcel = Parcel(place, now_ms + self._delivery_ms, arrival, confirm)
        self._under_way[parcel] = None
        if self._weather.loses(place):
            parcel.lost = True
            self._tell_at(parcel, parcel.deadline_ms, None)
            return
        arrives_ms = max(now_ms + self._weather.delay_ms(), self._arrivals.get(place, 0))
        self._arrivals[place] = arrives_ms
        self._clockwork.at(arrives_ms, lambda: self._arrive(parcel))

    def flush(self) -> int:
        """What can arrive arrives now, and is confirmed; how much is left."""
        for parcel in list(self._under_way):
            if not parcel.arrived and not parcel.lost and self._may_arrive(parcel) is None:
                self._arrived(parcel, at_once=True)
        return sum(not parcel.told for parcel in self._under_way)

    def cut(self, share: float) -> None:
        """Its process is gone, or drops what is queued: of each partition only the first so many still arrive."""
        by_place: dict[Place, list[Parcel]] = {}
        for parcel in self._under_way:
            parcel.told = True
            by_place.setdefault(parcel.place, []).append(parcel)
        for parcels in by_place.values():
            kept = round(len(parcels) * share * self._weather.rng.random() * 2)
            for parcel in parcels[kept:]:
                parcel.lost = True

    def _may_arrive(self, parcel: Parcel) -> int | None:
        """None: now; else when to try again."""
        again_ms = max(self.held_until_ms, self._broker.logs[parcel.place].out_until_ms)
        return again_ms if again_ms > self._clockwork.now_ms else None

    def _arrive(self, parcel: Parcel) -> None:
        if parcel.arrived or parcel.lost:
            self._under_way.pop(parcel, None)
            return
        again_ms = self._may_arrive(parcel)
        if again_ms is None:
            self._arrived(parcel, at_once=False)
            return
        if again_ms > parcel.deadline_ms and not parcel.told:
            self._tell_at(parcel, parcel.deadline_ms, None)
            if self._weather.rng.random() < 0.7:
                parcel.lost = True  # it was still queued here when its time was over
                return
        self._clockwork.at(again_ms, lambda: self._arrive(parcel))

    def _arrived(self, parcel: Parcel, *, at_once: bool) -> None:
        parcel.arrived = True
        outcome = parcel.arrival()
        if at_once:
            self._tell(parcel, outcome)
        else:
            self._tell_at(parcel, self._clockwork.now_ms + self._weather.acknowledgement_ms(), outcome)

    def _tell_at(self, parcel: Parcel, when_ms: int, outcome: int | BusError | None) -> None:
        unknown = outcome is None or when_ms > parcel.deadline_ms
        when_ms = min(when_ms, max(parcel.deadline_ms, self._clockwork.now_ms))
        when_ms = self._words[parcel.place] = max(when_ms, self._words.get(parcel.place, 0))
        self._clockwork.at(when_ms, lambda: self._tell(parcel, None if unknown else outcome))

    def _tell(self, parcel: Parcel, outcome: int | BusError | None) -> None:
        if parcel.arrived or parcel.lost:
            self._under_way.pop(parcel, None)
        if parcel.told:
            return
        parcel.told = True
        if isinstance(outcome, int):
            parcel.confirm(outcome, None)
        else:
            parcel.confirm(None, outcome or DeliveryUnknownError("timed out"))
        self._noticed()
