"""Takes a pool over: fence the last owner, read what it left, commit a checkpoint that says so. Driven by pool_loop.

Invariant: `state` is read to an end that was asked for after the claim had fenced the predecessor; a failure anywhere means
standing by again.
"""

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import EndsAsked, FencedError, FencedState, TopicIdsAsked
from headrace.contracts.clock import Now
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.restoring import check_lengths, read_state, restore
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.ports import PoolBus
from headrace.scheduler.warm import Warm


class Claiming:
    """One attempt at taking a pool over. It waits for nothing but records."""

    def __init__(self, setting: Setting, bus: PoolBus, name: str, warm: Warm) -> None:
        transactional_id = f"{setting.names.prefix}scheduler.{setting.pool}"
        self._setting, self.warm = setting, warm
        self.state: FencedState = bus.fenced_state(
            name, place=setting.place(TopicKind.STATE), transactional_id=transactional_id
        )
        self._asked: tuple[EndsAsked, TopicIdsAsked] | None = None
        self._ends: Mapping[Place, int] | None = None
        self._ids: Mapping[str, str] | None = None
        self._core: PoolCore | None = None
        self._idle = threading.Event()

    def turn(self, now: Now, wait: timedelta) -> PoolCore | None:
        """The core of the pool once it is ours; None: not yet. Raises BusError, UnusableStateError."""
        if self._core is not None:
            self._idle.wait(wait.total_seconds())
            return self._core if self.state.committed() else None
        if self._asked is None:
            self._claim(wait)
        elif self._has_read(wait):
            self._core = self._restored()
            self.state.begin(self._core.claim(now))
        return None

    def close(self, *, drop: bool = False) -> None:
        """Give up."""
        self.state.close()
        self.warm.close(drop=drop)

    def _claim(self, wait: timedelta) -> None:
        if not self.state.claim():
            self._idle.wait(wait.total_seconds())
            return
        setting, warm = self._setting, self.warm
        self._asked = warm.ends.ask([warm.log.place, *setting.logs()]), warm.topics.ask()

    def _has_read(self, wait: timedelta) -> bool:
        """Whether `state` is read up to where it ended after the claim, and the logs are known."""
        if self._asked is None:
            return False
        ends, ids = self._asked
        self._ends = ends.answer() if self._ends is None else self._ends
        self._ids = ids.answer() if self._ids is None else self._ids
        if self._ends is None or self._ids is None:
            self._idle.wait(wait.total_seconds())
            return False
        log = self.warm.log
        if log.position < self._ends[log.place]:
            log.read(wait)
        return log.position >= self._ends[log.place]

    def _restored(self) -> PoolCore:
        ends, found = self._ends or {}, self.warm.log.newest()
        if any(received.offset >= ends.get(received.place, 0) for received in found):
            # Then the ends that were asked for are older than the checkpoint, and would look like logs that were cut short.
            raise FencedError("another replica has taken the pool since it was claimed here")
        self.warm.topics.learn(self._ids or {})
        setting = replace(self._setting, topic_ids=dict(self._ids or {}))
        state = restore(setting, read_state(found))
        check_lengths(state, ends)
        return PoolCore(state)
