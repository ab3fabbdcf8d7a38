"""A consumer group in the simulated world: members come and go, and one that stood still learns late that it was put out.

Invariant: looser than Kafka: a member goes on reading what it held for a while after a change, so two may read one partition
at once. What rests on more than the guarded position is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import BusError
from tests.simulation.world.process import Process
from tests.simulation.world.reading import Cursors

_SESSION_MS = 6_000
_NOTICED_MS = (0, 50, 300, 1_000)

Assigned = Callable[[list[Place]], Mapping[Place, int]]
Revoked = Callable[[list[Place]], None]


class SimGroup:
    """The coordinator: who is a member, and what each one reads."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.generation = 0
        self._members: list[SimGroupReader] = []

    def join(self, member: "SimGroupReader") -> None:
        """A new member."""
        self._members.append(member)
        self._change()

    def leave(self, member: "SimGroupReader") -> None:
        """It is gone, or was put out."""
        if member in self._members:
            self._members.remove(member)
            self._change()

    def has(self, member: "SimGroupReader") -> bool:
        """Whether it is a member."""
        return member in self._members

    def share_of(self, member: "SimGroupReader") -> list[Place]:
        """What this member reads, in this generation."""
        number, of = self._members.index(member), len(self._members)
        return [place for index, place in enumerate(self.places) if index % of == number]

    def _change(self) -> None:
        self.generation += 1
        for member in self._members:
            member.changed()


class SimGroupReader:
    """As ports.GroupReader."""

    def __init__(self, process: Process, group: SimGroup) -> None:
        self._process, self._group, self._life = process, group, process.lives
        self._cursors = Cursors(process)
        self._callbacks: tuple[Assigned, Revoked] | None = None
        self._held: list[Place] = []
        self._generation = -1
        self._notices_ms = 0

    def subscribe(self, topics: Sequence[str], *, assigned: Assigned, revoked: Revoked) -> None:
        """As GroupReader.subscribe."""
        self._process.step()
        self._callbacks = assigned, revoked
        logs = self._process.stage.broker.logs
        self._group.places = [place for place in logs if place.topic in topics]
        self._group.join(self)
        self._watch_session()

    def read(self, limit: int, wait: timedelta) -> list[Received]:  # noqa: ARG002
        """As GroupReader.read."""
        self._process.step()
        self._follow()
        return self._cursors.collect(limit)

    def pause(self, places: set[Place]) -> None:
        """As GroupReader.pause."""
        self._cursors.paused = frozenset(places)

    def seek(self, positions: Mapping[Place, int]) -> None:
        """As GroupReader.seek."""
        for place, position in positions.items():
            if place not in self._cursors.positions:
                raise BusError(f"{place.topic}/{place.partition} isn't assigned to this reader")
            self._cursors.positions[place] = self._cursors.resolve(place, position)

    def close(self) -> None:
        """As GroupReader.close."""
        self._let_go()
        self._group.leave(self)

    def changed(self) -> None:
        """There is a new generation; this member hears of it some time later."""
        stage = self._process.stage
        self._notices_ms = stage.now_ms + (stage.rng.choice(_NOTICED_MS) if stage.faulty else 0)

    def _watch_session(self) -> None:
        """Puts it out once its process hasn't been heard of for the session's time."""
        stage, process = self._process.stage, self._process

        def look() -> None:
            if not self._group.has(self):
                return
            stands = process.paused_until_ms - stage.now_ms
            if not process.alive or process.lives != self._life or stands > _SESSION_MS:
                self._group.leave(self)
                stage.note(process.name, "is put out of its group")
            else:
                stage.clockwork.after(500, look)

        stage.clockwork.after(500, look)

    def _follow(self) -> None:
        stage = self._process.stage
        if stage.now_ms < self._notices_ms or self._callbacks is None:
            return
        if not self._group.has(self):
            stage.saw("member put out goes on")
            self._group.join(self)
            self._watch_session()
            self._notices_ms = 0
        if self._generation != self._group.generation:
            self._let_go()
            self._generation = self._group.generation
            self._held = self._group.share_of(self)
            if self._held:
                self._cursors.assign(self._callbacks[0](list(self._held)))
            stage.saw("rebalance")

    def _let_go(self) -> None:
        held, self._held = self._held, []
        self._cursors.positions = {}
        if held and self._callbacks is not None:
            self._callbacks[1](held)
