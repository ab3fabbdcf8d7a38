"""Takes a pool over: fence the last owner, read what it left, commit a checkpoint that says so. Driven by pool_loop.

Invariant: `state` is read up to a barrier that was written after the claim had fenced the predecessor, and no log is called
too short on a broker's word alone; a failure anywhere means standing by again.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import (
    BusUnavailableError,
    Confirmation,
    EndsAsked,
    FencedError,
    FencedState,
    QueueFullError,
    TooLargeError,
    TopicIdsAsked,
)
from headrace.contracts.barriers import Barrier
from headrace.contracts.clock import Now
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.log_ends import BarrierDesk, BarrierSent
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.restoring import read_state, restore
from headrace.scheduler.core.same_log import check_lengths, too_short
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.ports import PoolBus
from headrace.scheduler.warm import Warm

_KEY = b"barrier"


class Claiming:
    """One attempt at taking a pool over. It waits for nothing but records."""

    def __init__(self, setting: Setting, bus: PoolBus, name: str, warm: Warm) -> None:
        transactional_id = f"{setting.names.prefix}scheduler.{setting.pool}"
        self._setting, self.warm = setting, warm
        self.state: FencedState = bus.fenced_state(
            name, place=setting.place(TopicKind.STATE), transactional_id=transactional_id
        )
        self._asked: tuple[EndsAsked, TopicIdsAsked] | None = None
        self._ends: dict[Place, int] | None = None
        self._ids: Mapping[str, str] | None = None
        self._barriers, self._proved = BarrierDesk(), dict[Place, int]()
        self._core: PoolCore | None = None
        self._idle = threading.Event()

    def turn(self, now: Now, wait: timedelta) -> PoolCore | None:
        """The core of the pool once it is ours; None: not yet. Raises BusError, UnusableStateError."""
        if self._core is not None:
            self._idle.wait(wait.total_seconds())
            return self._core if self.state.committed() else None
        if self._asked is None:
            self._claim(wait)
        elif self._knows_ends(now, wait) and self._has_read(wait):
            restored = self._restored()
            doubtful = too_short(restored, self._ends or {}).keys() - self._proved.keys()
            if doubtful:
                self._prove(doubtful)
            else:
                check_lengths(restored, self._ends or {})
                self._core = PoolCore(restored)
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
        self._prove([self.warm.log.place])
        self._asked = self.warm.ends.ask(self._setting.logs()), self.warm.topics.ask()

    def _prove(self, places: Iterable[Place]) -> None:
        for place in places:
            self._barriers.want(place, partial(self._proved.__setitem__, place))

    def _knows_ends(self, now: Now, wait: timedelta) -> bool:
        """Whether all that was asked for is known."""
        for confirmation in self.warm.producer.confirmations():
            if isinstance(confirmation.token, BarrierSent):
                self._barriers.confirmed(confirmation.token, confirmation, now.boot_ms)
        for due in self._barriers.due(now.boot_ms):
            self._send(due, now)
        if self._asked is not None:
            ends, ids = self._asked
            self._ends = ends.answer() if self._ends is None else self._ends
            self._ids = ids.answer() if self._ids is None else self._ids
        if self._ends is None or self._ids is None or not self._barriers.idle:
            self._idle.wait(wait.total_seconds())
            return False
        # One made anew a moment ago is unknown to some brokers: without its id it would pass for a log that lost its end.
        unknown = set(self._setting.topics_to_know()) - self._ids.keys()
        if unknown:
            raise BusUnavailableError(f"no broker tells the id of the topic {min(unknown)}")
        self._ends |= {place: self._proved[place] for place in self._ends.keys() & self._proved.keys()}
        return True

    def _send(self, due: BarrierSent, now: Now) -> None:
        """In `state`, which is compacted, under a key, and as a tombstone, so that it doesn't stay."""
        message = message_of(due.place, Barrier(), None, key=_KEY)
        try:
            self.warm.producer.send(message, due)
        except (QueueFullError, TooLargeError) as error:
            self._barriers.confirmed(due, Confirmation(due, due.place, None, error), now.boot_ms)

    def _has_read(self, wait: timedelta) -> bool:
        """Whether `state` is read up to its barrier."""
        log = self.warm.log
        if log.position <= self._proved[log.place]:
            log.read(wait)
        return log.position > self._proved[log.place]

    def _restored(self) -> PoolState:
        found = self.warm.log.newest()
        if any(received.offset > self._proved[received.place] for received in found):
            # Then the ends that were asked for are older than the checkpoint, and would look like logs that were cut short.
            raise FencedError("another replica has taken the pool since it was claimed here")
        self.warm.topics.learn(self._ids or {})
        setting = replace(self._setting, topic_ids=dict(self._ids or {}))
        return restore(setting, read_state(found))
