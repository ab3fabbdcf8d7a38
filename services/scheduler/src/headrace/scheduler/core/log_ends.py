"""Finds out where logs end, and tells each who wanted to know: `EndsDesk` by asking brokers, `BarrierDesk` by records of our
own. Brokers are asked by delivery_positions; barriers are wanted wherever nothing may be passed over.

A broker's answer costs nothing, but may be too low (see contracts.barriers); a barrier costs a record. Invariant: an answer
counts only for what was wanted before the question was asked or the barrier sent; a barrier that may be lost is sent again,
and the offset of the one that is acknowledged counts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.bus.messages import Place
from headrace.bus.ports import Confirmation
from headrace.scheduler.state.on_its_way import OnItsWay


class EndsDesk:
    """Asks brokers: one question at a time, about all that was wanted meanwhile."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Place, Callable[[int], None]]] = []
        self._asked: list[tuple[Place, Callable[[int], None]]] = []

    def want(self, place: Place, tell: Callable[[int], None]) -> None:
        """Call `tell` with the end of this log as it is at some moment after now."""
        self._wanted.append((place, tell))

    def ask(self) -> tuple[Place, ...]:
        """The question to ask now; empty when none is due or one is under way."""
        if self._asked or not self._wanted:
            return ()
        self._asked, self._wanted = self._wanted, []
        return tuple(dict.fromkeys(place for place, _ in self._asked))

    def answer(self, ends: Mapping[Place, int]) -> None:
        """The question under way is answered."""
        asked, self._asked = self._asked, []
        for place, tell in asked:
            tell(ends[place])

    @property
    def waiting(self) -> bool:
        """Whether a question is under way."""
        return bool(self._asked)


@dataclass(slots=True, eq=False)
class BarrierSent(OnItsWay):
    """A barrier, and the token of its confirmation. `tell`: whom its offset is for; who comes later waits for the next."""

    place: Place
    tell: list[Callable[[int], None]] = field(default_factory=list)


class BarrierDesk:
    """Sends barriers: one at a time into each log, for all who wanted it meanwhile."""

    def __init__(self) -> None:
        self._wanted: dict[Place, list[Callable[[int], None]]] = {}
        self._sent: dict[Place, BarrierSent] = {}

    def want(self, place: Place, tell: Callable[[int], None]) -> None:
        """Call `tell` with an offset before which all stands that was acknowledged until now."""
        self._wanted.setdefault(place, []).append(tell)

    def due(self, boot_ms: int) -> list[BarrierSent]:
        """The barriers to send now."""
        for place in self._wanted:
            self._sent.setdefault(place, BarrierSent(place))
        due = [barrier for barrier in self._sent.values() if barrier.is_due(boot_ms)]
        for barrier in due:
            barrier.under_way = True
            barrier.tell += self._wanted.pop(barrier.place, [])
        return due

    def confirmed(self, sent: BarrierSent, confirmation: Confirmation, boot_ms: int) -> None:
        """What became of one."""
        arrived = self._sent.get(sent.place) is sent and sent.arrived(confirmation.offset, boot_ms)
        if arrived and confirmation.offset is not None:
            del self._sent[sent.place]
            for tell in sent.tell:
                tell(confirmation.offset)

    @property
    def idle(self) -> bool:
        """Whether everybody was told."""
        return not self._sent and not self._wanted

    @property
    def waiting(self) -> bool:
        """Whether one is under way."""
        return any(barrier.under_way for barrier in self._sent.values())
