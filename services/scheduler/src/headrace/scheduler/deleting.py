"""Carries out what the core says is to be trimmed, without waiting for it. Used by owning.

Invariant: a failure is told once and stands in nobody's way: it is tried again at the next period.
"""

from collections.abc import Mapping

from headrace.bus.messages import Place
from headrace.bus.ports import BusError, Trims, TrimsAsked
from headrace.runtime.logging import get_logger


class Deleting:
    """One question under way at most."""

    def __init__(self, trims: Trims) -> None:
        self._trims = trims
        self._asked: TrimsAsked | None = None
        self._failing = False

    def ask(self, before: Mapping[Place, int]) -> None:
        """Delete the records below these offsets."""
        self._asked = self._trims.ask(before)

    def answered(self) -> dict[Place, int] | None:
        """Where those logs begin now; empty when it failed, None while there is no answer."""
        if self._asked is None:
            return None
        try:
            begins = self._asked.answer()
        except BusError as error:
            if not self._failing:
                get_logger("scheduler").warning("logs can't be trimmed, trying again", reason=str(error))
            self._failing, begins = True, {}
        else:
            self._failing &= begins is None
        if begins is not None:
            self._asked = None
        return begins
