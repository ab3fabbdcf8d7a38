"""Proves ends of logs by records of our own, one under way in each, and tells each who wanted one. Used by gate and absences.

Invariant: a barrier counts only for what was wanted before it was sent; one that may be lost is sent again, and the offset
of the one that is acknowledged counts.
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.bus.messages import Place
from headrace.bus.ports import Confirmation

_AGAIN_MS = 200


@dataclass(frozen=True, slots=True)
class BarrierSent:
    """The token of a barrier."""

    place: Place


class BarrierDesk:
    """Collects wishes until the barrier under way is acknowledged."""

    def __init__(self) -> None:
        self._wanted: dict[Place, list[Callable[[int], None]]] = {}
        self._sent: dict[Place, list[Callable[[int], None]]] = {}
        self._not_before: dict[Place, int] = {}

    def want(self, place: Place, tell: Callable[[int], None]) -> None:
        """Call `tell` with an offset before which all stands that was acknowledged until now."""
        self._wanted.setdefault(place, []).append(tell)

    def due(self, boot_ms: int) -> list[BarrierSent]:
        """The barriers to send now."""
        free = [
            place
            for place in self._wanted
            if place not in self._sent and self._not_before.get(place, boot_ms) <= boot_ms
        ]
        for place in free:
            self._sent[place] = self._wanted.pop(place)
        return [BarrierSent(place) for place in free]

    def confirmed(self, sent: BarrierSent, confirmation: Confirmation, boot_ms: int) -> None:
        """What became of one."""
        waiting = self._sent.pop(sent.place, [])
        if confirmation.offset is None:
            self._wanted[sent.place] = waiting + self._wanted.pop(sent.place, [])
            self._not_before[sent.place] = boot_ms + _AGAIN_MS
            return
        self._not_before.pop(sent.place, None)
        for tell in waiting:
            tell(confirmation.offset)

    @property
    def idle(self) -> bool:
        """Whether everybody was told."""
        return not self._sent and not self._wanted

    @property
    def waiting(self) -> bool:
        """Whether one is under way."""
        return bool(self._sent)
