"""The scheduler's loop: turns every pool in its turn, in one thread. Run by wiring.serve and by `__main__`.

Invariant: one bounded wait a turn, in the read of one pool, the next pool's the next time; so no pool stalls another.
"""

import threading
from collections.abc import Callable
from datetime import timedelta

from headrace.bus.ports import BusUnavailableError
from headrace.contracts.durations import ms
from headrace.contracts.policy import Policy
from headrace.contracts.policy_changes import with_what_went
from headrace.runtime.clock import Clock
from headrace.runtime.health import Component
from headrace.runtime.logging import get_logger
from headrace.scheduler.pool_loop import PoolLoop

NAME = "scheduler"
_AT_LEAST, _AT_MOST = timedelta(milliseconds=250), timedelta(seconds=5)
_AT_WORK, _AT_REST = timedelta(milliseconds=3), timedelta(milliseconds=15)
"""How long several pools may wait for one of them: the others' records wait as long."""
_NO_WAIT = timedelta()
_FAREWELL = timedelta(seconds=3)


class NoPoolLeftError(Exception):
    """Every pool is stopped for good; the message says why."""


class Scheduler:
    """All pools of this replica, as headrace.runtime.loop_supervisor runs them."""

    name = NAME

    def __init__(
        self,
        policy: Policy,
        *,
        make: Callable[[Policy], dict[str, Callable[[], PoolLoop]]],
        check: Callable[[], None],
        clock: Clock,
        component: Component,
    ) -> None:
        """`make` says which pools are this replica's under a policy, and makes each. `check` raises BusUnavailableError while
        no broker answers, and WrongTopicsError.
        """
        self._policy, self._make = policy, make
        self._by_name = {name: made() for name, made in make(policy).items()}
        self._check, self._clock, self._component = check, clock, component
        self._checked, self._next = False, 0
        self._pause = _AT_LEAST
        self._idle = threading.Event()

    @property
    def _pools(self) -> list[PoolLoop]:
        return list(self._by_name.values())

    def start(self) -> None:
        """Connects to nothing yet: that is tried in the first turns."""

    def turn(self) -> None:
        """One turn of every pool. Raises WrongTopicsError, NoPoolLeftError."""
        if not self._checked:
            self._open()
            return
        now = self._clock.now()
        wait = min(pool.longest_wait(now) for pool in self._pools)
        if len(self._pools) > 1:
            wait = min(wait, _AT_WORK if any(pool.at_work for pool in self._pools) else _AT_REST)
        for number, pool in enumerate(self._pools):
            pool.turn(wait if number == self._next else _NO_WAIT)
        self._next = (self._next + 1) % len(self._pools)
        self._look_for_life()

    def adopt(self, policy: Policy) -> None:
        """Another policy holds from the next turn on. Pools and tiers that it has taken out go on with what waits there."""
        self._policy = with_what_went(self._policy, policy)
        for pool in self._pools:
            pool.adopt(self._policy)
        made = self._make(self._policy)
        self._by_name |= {name: made[name]() for name in made if name not in self._by_name}

    def drain(self) -> bool:
        """One turn of giving every pool up, so that another replica takes over at once; True when that is done."""
        given_up = [pool.leave() for pool in self._pools]
        for pool in self._pools:
            pool.turn(_NO_WAIT)
        if not all(given_up):
            self._idle.wait(_AT_WORK.total_seconds())
        return all(given_up)

    def stop(self) -> None:
        """Gives up what isn't given up yet; what can't be done in a moment is left undone: silence tells as well."""
        deadline_ms = self._clock.now().boot_ms + ms(_FAREWELL)
        while not self.drain() and self._clock.now().boot_ms < deadline_ms:
            pass
        for pool in self._pools:
            pool.close(drop=False)

    def _open(self) -> None:
        try:
            self._check()
        except BusUnavailableError as error:
            if self._pause == _AT_LEAST:
                get_logger(NAME).warning("waiting for Kafka", reason=str(error))
            self._component.not_ready("no Kafka broker answers")
            self._idle.wait(self._pause.total_seconds())
            self._pause = min(2 * self._pause, _AT_MOST)
            return
        self._checked = True
        self._component.ready()

    def _look_for_life(self) -> None:
        stopped = [pool.stopped for pool in self._pools if pool.stopped is not None]
        if len(stopped) == len(self._pools):
            raise NoPoolLeftError("; ".join(stopped))
