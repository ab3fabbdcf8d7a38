"""Who reads what in one consumer group in memory: the classic, eager protocol with range assignment.

Called by MemoryGroupReader. Invariant: a new generation is assigned only after every member gave back what it held, so no
partition is ever held by two.
"""

from collections.abc import Sequence
from itertools import count
from threading import Lock

from headrace.bus.memory.broker import Bell
from headrace.bus.messages import Place


def range_assignment(members: Sequence[str], partitions: int) -> dict[str, list[int]]:
    """Of one topic: consecutive partitions for each member in the order of their names, the first ones one more."""
    each, more = divmod(partitions, len(members))
    shares: dict[str, list[int]] = {}
    begin = 0
    for index, member in enumerate(sorted(members)):
        size = each + (index < more)
        shares[member] = list(range(begin, begin + size))
        begin += size
    return shares


class MemoryGroup:
    """One group's coordinator. A member asks for its part at each read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = count(1)
        self._topics: dict[str, dict[str, int]] = {}
        self._bells: dict[str, Bell] = {}
        self._holding: set[str] = set()
        self._current: set[str] = set()
        self._generation = 0

    def join(self, name: str, topics: dict[str, int], bell: Bell) -> str:
        """A new member that wants these topics of so many partitions; its id."""
        with self._lock:
            member = f"{name}-{next(self._numbers):06}"
            self._topics[member], self._bells[member] = topics, bell
            self._next_generation()
            return member

    def leave(self, member: str) -> None:
        """The member is gone, with all that it held."""
        with self._lock:
            if self._topics.pop(member, None) is not None:
                del self._bells[member]
                self._holding.discard(member)
                self._next_generation()

    def generation(self) -> int:
        """Another number than a member's own means: give back and ask again."""
        with self._lock:
            return self._generation

    def give_back(self, member: str) -> None:
        """The member has stopped reading what it held."""
        with self._lock:
            if member in self._holding:
                self._holding.discard(member)
                self._ring()

    def take(self, member: str) -> tuple[int, list[Place]] | None:
        """The generation and this member's part of it; None while another still holds something of an older one."""
        with self._lock:
            if self._holding - self._current:
                return None
            self._holding.add(member)
            self._current.add(member)
            return self._generation, self._part(member)

    def _next_generation(self) -> None:
        self._generation += 1
        self._current.clear()
        self._ring()

    def _ring(self) -> None:
        for bell in self._bells.values():
            bell.ring()

    def _part(self, member: str) -> list[Place]:
        part: list[Place] = []
        for topic, partitions in sorted(self._topics[member].items()):
            members = [one for one, topics in self._topics.items() if topic in topics]
            part += [Place(topic, number) for number in range_assignment(members, partitions)[member]]
        return part
