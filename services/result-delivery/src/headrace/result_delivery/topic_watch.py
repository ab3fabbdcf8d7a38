"""Asks the brokers which topics these are, when somebody must know and each few seconds. Used by reading.

Invariant: nothing here waits. A topic that was deleted and made anew has another id, and then no old position is of it.
"""

from collections.abc import Sequence
from datetime import timedelta

from headrace.bus.ports import BusUnavailableError, TopicIds, TopicIdsAsked
from headrace.contracts.durations import ms
from headrace.runtime.clock import Clock

PERIOD = timedelta(seconds=5)


class TopicWatch:
    """The ids of the topics that are read."""

    def __init__(self, topic_ids: TopicIds, clock: Clock) -> None:
        self._topic_ids, self._clock = topic_ids, clock
        self._asked: TopicIdsAsked | None = None
        self._asked_ms = -(10**12)
        self.ids: dict[str, str] = {}
        """As last answered."""

    def answer(self, topics: Sequence[str], *, at_once: bool) -> dict[str, str] | None:
        """A new answer; None when none has come. Raises BusUnavailableError, after which it is asked again."""
        if self._asked is None:
            now_ms = self._clock.now().boot_ms
            if not at_once and now_ms - self._asked_ms < ms(PERIOD):
                return None
            self._asked, self._asked_ms = self._topic_ids.ask(topics), now_ms
        try:
            found = self._asked.answer()
        except BusUnavailableError:
            self._asked = None
            raise
        if found is not None:
            self._asked, self.ids = None, found
        return found

    def close(self) -> None:
        """Lets go of the client."""
        self._topic_ids.close()
