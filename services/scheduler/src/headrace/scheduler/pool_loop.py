"""One pool's life in this replica: stand by, claim, own, stand by again. Turned by service.Scheduler.

Invariant: exactly one of the three at a time; a takeover that fails backs off, doubling; what only a person can mend stops
this pool with a sentence and leaves the others alone.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from headrace.bus.messages import Place
from headrace.bus.ports import BusError, BusUnavailableError, PositionGoneError
from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.contracts.policy import Policy
from headrace.contracts.topics import TopicKind
from headrace.runtime.clock import Clock
from headrace.runtime.health import Component
from headrace.scheduler.claiming import Claiming
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.same_log import UnusableStateError
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.core.step import Notice
from headrace.scheduler.decisions.must_it_begin_anew import must_begin_anew
from headrace.scheduler.owning import Owning
from headrace.scheduler.ports import PoolBus, RunTracing, Standing, Watcher
from headrace.scheduler.warm import Warm
from headrace.scheduler.watching import Watching

_PATIENT, _EAGER = timedelta(milliseconds=50), timedelta(milliseconds=2)

_LOOK_AGAIN = timedelta(milliseconds=250)


class PoolLoop:
    """One pool. `doing` is what it does now; None: it is between two tries, or stopped for good."""

    def __init__(
        self,
        setting: Setting,
        bus: PoolBus,
        *,
        clock: Clock,
        watcher: Watcher,
        tracing: RunTracing,
        component: Component,
    ) -> None:
        self._setting, self._bus = setting, bus
        self._clock, self._watcher, self._tracing, self._component = clock, watcher, tracing, component
        self._name = f"scheduler-{setting.owner}-{setting.pool}"
        self.doing: Watching | Claiming | Owning | None = None
        self._back_off, self._not_before_ms = setting.timings.back_off, 0
        self.stopped: str | None = None
        self._leaving = False
        self._known_topics: dict[str, str] = {}
        self._idle = threading.Event()

    def turn(self, wait: timedelta) -> None:
        """One turn, which waits for `wait` at most."""
        if self.stopped is not None or (self._leaving and self.doing is None):
            self._idle.wait(wait.total_seconds())
            return
        what_now = self._tried(wait)
        if what_now is not None:
            what_now()

    def _tried(self, wait: timedelta) -> Callable[[], None] | None:
        """What a failure of this turn asks for. It is done only once the failure is forgotten: an error knows the frames that
        it came through, those the clients, and a client is closed only when nothing knows it.
        """
        try:
            self._turn(wait)
        except UnusableStateError as error:
            return partial(self._stop_for_good, str(error))
        except PositionGoneError as error:
            return partial(self._lost_a_position, error.place, error.position, str(error))
        except BusUnavailableError as error:
            if isinstance(self.doing, Claiming | Owning):
                return partial(self._stand_by, str(error))
            return partial(self._look_again_later, str(error))
        except BusError as error:
            return partial(self._stand_by, f"{type(error).__name__}: {error}")
        return None

    def adopt(self, policy: Policy) -> None:
        """Another policy holds from the next turn on, or from when the pool has been given up and taken over again."""
        anew = must_begin_anew(self._setting.policy, policy)
        self._setting = replace(self._setting, policy=policy)
        if isinstance(self.doing, Owning):
            self._adopt(self.doing.core)
        elif anew and isinstance(self.doing, Watching):
            self.close(drop=True)

    def _adopt(self, core: PoolCore) -> None:
        if must_begin_anew(core.state.setting.policy, self._setting.policy):
            core.leave()
        else:
            core.adopt(self._setting.policy)

    def longest_wait(self, now: Now) -> timedelta:
        """How long the next turn may wait."""
        if isinstance(self.doing, Owning):
            return self.doing.longest_wait(now)
        return _EAGER if isinstance(self.doing, Claiming) else _PATIENT

    @property
    def at_work(self) -> bool:
        """Whether requests wait or run in it."""
        return isinstance(self.doing, Owning) and self.doing.core.at_work

    def leave(self) -> bool:
        """A clean stop: give the pool up, so that the next owner takes over at once. Call it and `turn` until it is True."""
        self._leaving = True
        if isinstance(self.doing, Owning):
            self.doing.core.leave()
            return False
        if isinstance(self.doing, Claiming):
            return False  # the claim may be in the log already, so it is carried through first
        self.close(drop=False)
        return True

    def close(self, *, drop: bool) -> None:
        """Let go of all clients."""
        doing, self.doing = self.doing, None
        if doing is not None:
            doing.close(drop=drop)

    def _turn(self, wait: timedelta) -> None:
        match self.doing:
            case Owning():
                self._own(self.doing, wait)
            case Watching():
                if self.doing.turn(self._clock.now(), wait):
                    self._claim(self.doing)
            case Claiming():
                core = self.doing.turn(self._clock.now(), wait)
                if core is not None:
                    self._become_owner(self.doing, core)
            case _:
                self._watch_when_due(wait)

    def _watch_when_due(self, wait: timedelta) -> None:
        now = self._clock.now()
        if now.boot_ms < self._not_before_ms:
            self._idle.wait(wait.total_seconds())
            return
        self.doing = watching = Watching(
            self._setting, Warm(self._setting, self._bus, self._name, self._known_topics), now
        )
        watching.start()
        self._watcher.stands(self._setting.pool, Standing.STANDING_BY)
        self._component.ready()

    def _claim(self, watching: Watching) -> None:
        self.doing = Claiming(self._setting, self._bus, self._name, watching.warm)

    def _become_owner(self, claiming: Claiming, core: PoolCore) -> None:
        if core.state.setting.policy is not self._setting.policy:
            self._adopt(core)  # it came meanwhile
        self.doing = owning = Owning(core, claiming.state, claiming.warm, self._tracing)
        owning.start()
        self._component.ready()
        self._watcher.took_over(self._setting.pool)
        self._watcher.stands(self._setting.pool, Standing.TAKING_OVER)
        self._notice("owns the pool", epoch=core.state.epoch)

    def _own(self, owning: Owning, wait: timedelta) -> None:
        records = owning.read(wait)
        outputs = owning.turn(self._clock.now(), records)
        core = owning.core
        states = list(core.queue_states.values())
        self._watcher.stepped(self._setting.pool, outputs, states, core.fleet)
        if core.state.open:
            self._watcher.stands(self._setting.pool, Standing.OWNER)
            self._back_off = self._setting.timings.back_off
        if outputs.stop is not None:
            self._stop_for_good(outputs.stop)
        elif outputs.released:
            self._given_up()

    def _given_up(self) -> None:
        """The last checkpoint says that the pool isn't ours any more."""
        self.close(drop=False)
        self._not_before_ms = 0
        self._notice("gave the pool up")

    def _stand_by(self, why: str) -> None:
        """The pool is lost, or couldn't be won: throw everything away, and watch again after a while."""
        self.close(drop=True)
        self._watcher.stands(self._setting.pool, Standing.STANDING_BY)
        self._not_before_ms = self._clock.now().boot_ms + ms(self._back_off)
        self._notice("stands by", warning=True, reason=why)
        self._back_off = min(2 * self._back_off, self._setting.timings.back_off_most)

    def _look_again_later(self, why: str) -> None:
        """Not even watching is possible now."""
        self.close(drop=True)
        self._not_before_ms = self._clock.now().boot_ms + ms(_LOOK_AGAIN)
        self._component.not_ready(why)

    def _lost_a_position(self, place: Place, position: int, why: str) -> None:
        """`workers` is read from its beginning, which moves on by the hour, `state` tells by itself who owns the pool, and of
        `queue-state` only what is new matters: a new reading of these is as good as the old one. Of any other log something
        is missing that nobody can make up for.
        """
        kinds = (TopicKind.WORKERS, TopicKind.STATE, TopicKind.QUEUE_STATE)
        if place in [self._setting.place(kind) for kind in kinds]:
            self._stand_by(why)
            return
        where = f"{place.topic}/{place.partition}"
        self._stop_for_good(
            f"the pool {self._setting.pool} needs {where} from offset {position} on, which is gone: the log was "
            f"trimmed, truncated or made anew; bring it back, or delete the pool's topics and make them anew ({why})"
        )

    def _stop_for_good(self, sentence: str) -> None:
        self.close(drop=True)
        self.stopped = sentence
        self._watcher.stands(self._setting.pool, Standing.STOPPED)
        self._component.not_ready(sentence)
        self._notice("pool is stopped", warning=True, reason=sentence)

    def _notice(self, event: str, *, warning: bool = False, **fields: str | int | None) -> None:
        self._watcher.noticed(Notice(event, {"pool": self._setting.pool, **fields}, warning))
