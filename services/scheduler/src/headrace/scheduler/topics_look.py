"""Looks again and again whether a pool's topics are still the ones they were. Turned by watching and owning.

Invariant: what this process once knew of a topic it remembers: one that was deleted and made anew stops the pool, whoever
noticed it, before an offset is taken for what it isn't.
"""

from collections.abc import Mapping

from headrace.bus.ports import BusError, TopicIds, TopicIdsAsked
from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.scheduler.core.same_log import check_topics
from headrace.scheduler.core.setting import Setting


class TopicsLook:
    """`known`: ids by topic name, shared by all that this process ever does with the pool."""

    def __init__(self, setting: Setting, ids: TopicIds, known: dict[str, str]) -> None:
        self._setting, self._ids, self._known = setting, ids, known
        self._asked: TopicIdsAsked | None = None
        self._asked_ms = -(10**12)

    def ask(self) -> TopicIdsAsked:
        """A question that its asker looks after."""
        return self._ids.ask(self._setting.topics_to_know())

    def learn(self, found: Mapping[str, str]) -> None:
        """Raises UnusableStateError for a topic that is another than it was."""
        check_topics(self._known, found)
        self._known.update(found)

    def turn(self, now: Now) -> None:
        """Look when it is due. One that is gone is felt elsewhere; made anew, it is found. Raises UnusableStateError."""
        if self._asked is None:
            if now.boot_ms - self._asked_ms >= ms(self._setting.timings.look_at_topics):
                self._asked_ms, self._asked = now.boot_ms, self.ask()
            return
        try:
            found = self._asked.answer()
        except BusError:
            self._asked = None
            return
        if found is not None:
            self._asked = None
            self.learn(found)

    def close(self) -> None:
        """Ask no more."""
        self._ids.close()
