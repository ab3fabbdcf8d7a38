"""Asks brokers for ends of logs, one question at a time, and tells each who wanted one. Used by control_log.

Invariant: an answer counts only for what was wanted before the question was asked. It may be too low even so (see
contracts.barriers): what must not be passed over is asked of barrier_desk.
"""

from collections.abc import Callable, Mapping

from headrace.bus.messages import Place


class EndsDesk:
    """Collects wishes until the question under way is answered."""

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
