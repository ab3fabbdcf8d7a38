"""A standby's watch over a pool's `state` log: has its owner gone? Driven by pool_loop.

Invariant: silence counts only while the broker answers, and is believed only when the broker itself confirms that the log
hasn't grown.
"""

from datetime import timedelta

from headrace.bus.messages import Received
from headrace.bus.ports import START, BusUnavailableError, EndsAsked
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.clock import Now
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import Setting
from headrace.scheduler.decisions.may_take_over import may_take_over, silence_to_wait
from headrace.scheduler.decisions.who_follows import rank_of
from headrace.scheduler.ports import PoolBus
from headrace.scheduler.timings import ms

_BATCH = 500


class Watching:
    """Stands by for one pool."""

    def __init__(self, setting: Setting, bus: PoolBus, name: str, now: Now) -> None:
        self._setting = setting
        self._place = setting.place(TopicKind.STATE)
        self._reader, self._ends = bus.loop_reader(name), bus.ends(name)
        self._since_ms, self._end, self._confirmed = now.boot_ms, -1, False
        self._asked: tuple[int, EndsAsked] | None = None
        self._last: Ownership | None = None

    def start(self) -> None:
        """Read `state` from its beginning. Raises BusError."""
        self._reader.assign({self._place: START})

    def turn(self, now: Now, wait: timedelta) -> bool:
        """Whether the pool may be claimed now."""
        try:
            for received in self._reader.read(_BATCH, wait):
                self._read(received, now)
            self._ask(now)
        except BusUnavailableError:
            self._since_ms, self._confirmed, self._asked = now.boot_ms, False, None
            return False
        silence = timedelta(milliseconds=now.boot_ms - self._since_ms)
        needed, vacant = self._needed(), self._vacant
        return may_take_over(silence=silence, needed=needed, vacant=vacant, confirmed=self._confirmed)

    def close(self) -> None:
        """Watch no more."""
        self._reader.close()
        self._ends.close()

    @property
    def _vacant(self) -> bool:
        """Whether nobody has owned the pool yet, or the last owner released it, and not to somebody else; known once `state`
        is read to its end.
        """
        if self._end < 0 or self._reader.position(self._place) < self._end:
            return False
        if self._last is None:
            return True
        return self._last.released and self._last.successor in {None, self._setting.owner}

    @property
    def _rank(self) -> int:
        setting, last = self._setting, None if self._last is None else self._last.owner
        return rank_of(setting.owner, setting.replicas, setting.pool, list(setting.policy.pools), last)

    def _needed(self) -> timedelta:
        timings = self._setting.timings
        named = self._vacant and self._last is not None and self._last.successor is not None
        rank = 0 if named else self._rank
        return silence_to_wait(rank, vacant=self._vacant, silent=timings.silent, rank_step=timings.rank_step)

    def _read(self, received: Received, now: Now) -> None:
        self._grew(now)
        try:
            record = decode(TopicKind.STATE, received.header)
        except UndecodableError:
            return  # whoever claims the pool will say so
        if isinstance(record, Ownership):
            self._last = record

    def _ask(self, now: Now) -> None:
        """Ask the broker for the log's end, again and again; an answer to a question asked after the silence confirms it."""
        if self._asked is None:
            self._asked = (now.boot_ms, self._ends.ask([self._place]))
        asked_ms, question = self._asked
        answer = question.answer()
        if answer is None:
            return
        end = answer[self._place]
        if end != self._end:
            self._end = end
            self._grew(now)
        elif asked_ms - self._since_ms >= ms(self._needed()):
            self._confirmed = True
        self._asked = None

    def _grew(self, now: Now) -> None:
        self._since_ms, self._confirmed = now.boot_ms, False
