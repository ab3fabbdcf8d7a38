"""A standby's watch over a pool: has its owner gone? Meanwhile its logs are followed. Driven by pool_loop.

Invariant: silence counts only while the broker answers, and is believed only when the broker itself confirms that the log
hasn't grown.
"""

from datetime import timedelta

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import BusError, BusUnavailableError, EndsAsked
from headrace.contracts.checkpoints import Finished, Ownership
from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.contracts.observations import Standby
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.decisions.may_take_over import may_take_over, silence_to_wait
from headrace.scheduler.decisions.who_follows import rank_of
from headrace.scheduler.warm import Warm


class Watching:
    """Stands by for one pool."""

    def __init__(self, setting: Setting, warm: Warm, now: Now) -> None:
        self._setting, self.warm = setting, warm
        self._since_ms, self._end, self._confirmed = now.boot_ms, -1, False
        self._asked: tuple[int, EndsAsked] | None = None
        self._ends: dict[Place, int] = {}
        self._told_ms = -(10**12)

    def start(self) -> None:
        """Read `state` from its beginning. Raises BusError."""
        self.warm.log.start()

    def turn(self, now: Now, wait: timedelta) -> bool:
        """Whether the pool may be claimed now."""
        try:
            self._read(now, wait)
            self._ask(now)
            self.warm.topics.turn(now)
            self.warm.following.turn(now, self.warm.log.last_ms)
        except BusUnavailableError:
            self._since_ms, self._confirmed, self._asked = now.boot_ms, False, None
            return False
        self._tell(now)
        silence = timedelta(milliseconds=now.boot_ms - self._since_ms)
        needed, vacant = self._needed(), self._vacant
        return may_take_over(silence=silence, needed=needed, vacant=vacant, confirmed=self._confirmed)

    def close(self, *, drop: bool = False) -> None:
        """Watch no more."""
        self.warm.close(drop=drop)

    @property
    def _last(self) -> Ownership | None:
        return self.warm.log.last

    @property
    def _at_end(self) -> bool:
        return self._end >= 0 and self.warm.log.position >= self._end

    @property
    def _vacant(self) -> bool:
        """Whether nobody has owned the pool yet, or the last owner released it, and not to somebody else; known once `state`
        is read to its end.
        """
        if not self._at_end:
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

    def _read(self, now: Now, wait: timedelta) -> None:
        found, following = self.warm.log.read(wait), self.warm.following
        for record in found:
            if isinstance(record, Finished):
                following.know(record)
        if found:
            self._grew(now)
        if self._at_end and not following.started:
            following.start(self.warm.log.finished())

    def _ask(self, now: Now) -> None:
        """Ask the broker for the log's end, again and again; an answer to a question asked after the silence confirms it."""
        place = self.warm.log.place
        if self._asked is None:
            requests = self._setting.request_places() if self._must_tell(now) else []
            self._asked = (now.boot_ms, self.warm.ends.ask([place, *requests]))
        asked_ms, question = self._asked
        answer = question.answer()
        if answer is None:
            return
        self._ends |= answer
        if answer[place] != self._end:
            self._end = answer[place]
            self._grew(now)
        elif asked_ms - self._since_ms >= ms(self._needed()):
            self._confirmed = True
        self._asked = None

    def _grew(self, now: Now) -> None:
        self._since_ms, self._confirmed = now.boot_ms, False

    def _must_tell(self, now: Now) -> bool:
        return now.boot_ms - self._told_ms >= ms(self._setting.timings.present)

    def _tell(self, now: Now) -> None:
        """Say now and then that this replica stands by, for those who look."""
        setting, following = self._setting, self.warm.following
        if not following.started or not self._must_tell(now):
            return
        self._told_ms = now.boot_ms
        record = Standby(
            pool=setting.pool, replica=setting.owner, as_of_ms=now.wall_ms, rank=self._rank,
            behind=following.behind(self._ends), prefetched=following.prefetched,
        )  # fmt: skip
        key = f"{setting.pool}/standby/{setting.owner}".encode()
        try:
            self.warm.producer.send(message_of(setting.place(TopicKind.QUEUE_STATE), record, key=key), None)
            self.warm.producer.confirmations()
        except BusError:
            return  # only a word for those who look
