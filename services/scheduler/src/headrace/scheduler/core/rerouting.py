"""Passes requests on to other pools, and whoever asks for them or cancels them after. Driven by PoolCore.

In this order, each step acknowledged before the next: the intent stands in a committed checkpoint; the record, with one hop
more, in the other pool's log; then the request is finished here, and it is known where it went. A successor that finds an
intent writes the record again; the other pool takes an id in once. Invariant: at every instant the request is unfinished here
or stands in the other pool's log; a cancel passes on only after the request that it means.
"""

import msgspec

from headrace.bus.messages import Message, Place, message_of
from headrace.bus.ports import Confirmation, QueueFullError, TooLargeError
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.fallbacks import model_there
from headrace.contracts.ids import AttemptId
from headrace.contracts.selections import Stage, Stays
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.finishing import Finishing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.walking import facts_of
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.may_reroute import may_follow, why_it_stays
from headrace.scheduler.decisions.pick_next import priority_of
from headrace.scheduler.decisions.when_expired import expired_as
from headrace.scheduler.state.rerouted import PassedOn, Reroute
from headrace.scheduler.state.tracked import Phase, Tracked

MOST_REROUTES = 1_000
"""On their way at once: each is in memory with its payload."""
_NEVER = AttemptId(0, 0)


class Rerouting:
    """All that is on its way to other pools."""

    def __init__(
        self, state: PoolState, finishing: Finishing, returning: Returning, checkpoints: Checkpoints
    ) -> None:
        self._state, self._finishing = state, finishing
        self._returning, self._checkpoints = returning, checkpoints
        self._deaf: set[str] = set()
        """Pools whose `control` took no cancel, and an operator was told."""

    @property
    def under_way(self) -> bool:
        """Whether anything is."""
        return bool(self._state.reroutes or self._state.passed_on)

    @property
    def room(self) -> int:
        """How many more may be begun now."""
        return max(0, MOST_REROUTES - len(self._state.reroutes))

    def may(self, tracked: Tracked, to: str) -> bool:
        """Whether a request may go to this pool at all."""
        return self._why_it_stays(tracked, to) is None

    def model_there(self, facts: Facts, to: str, wanted: str | None) -> str | None:
        """The name by which the backends of the pool `to` know the model of a request that waits, `wanted` as callers name it
        there; None: it may not go, or it isn't clear which it is.
        """
        pool, tracked = self._state.setting.policy.pools.get(to), self._state.tracked.look(facts.id)
        if pool is None or facts.stage is not Stage.QUEUED or tracked is None or not self.may(tracked, to):
            return None
        return model_there(pool.models, facts.model, wanted)

    def why_not(self, facts: Facts, to: str) -> Stays:
        """Why a request that waits has no model there."""
        tracked = self._state.tracked.look(facts.id)
        stays = None if tracked is None else self._why_it_stays(tracked, to)
        return stays or Stays.NO_MODEL

    def begin(self, tracked: Tracked, to: str, model: str) -> bool:
        """Let a request that waits go to the pool `to`, whose backends know its model as `model`; whether it does."""
        if not self.room or not self.may(tracked, to):
            return False
        state = self._state
        state.queue.take(tracked, Phase.ENDING)
        reroute = Reroute(tracked.id, tracked.origin, to, model, said_in=self._checkpoints.number + 1)
        state.reroutes[tracked.id] = reroute
        state.dirty.add(f"rerouting/{tracked.id}")
        return True

    def turn(self) -> None:
        """Write what is due. Call only while in charge and past the gate."""
        state = self._state
        for reroute in list(state.reroutes.values()):
            tracked = state.tracked.look(reroute.id)
            if tracked is not None and tracked.phase is Phase.ENDING and self._is_due(reroute, tracked):
                self._write(reroute, tracked)
        for passed in list(state.passed_on.values()):
            if passed.is_due(state.now.boot_ms):
                passed.under_way = True
                place = Place(state.setting.names.of(TopicKind.CONTROL, pool=passed.to), 0)
                state.send(message_of(place, passed.request), passed)

    def confirmed(self, token: Reroute | PassedOn, confirmation: Confirmation) -> None:
        """It is in the other pool's log, or must be sent again."""
        state = self._state
        arrived = token.arrived(confirmation.offset, state.now.boot_ms)
        error = confirmation.error  # a queue of our own that is full says nothing of the log
        refused = error is not None and not confirmation.unknown and not isinstance(error, QueueFullError)
        for_good = token.is_refused_for_good(state.now.boot_ms, refused=refused)
        if isinstance(token, PassedOn):
            if arrived or for_good:
                state.passed_on.pop(token.offset, None)
                self._tell(token.to, deaf=for_good)
        elif state.reroutes.get(token.id) is token:
            self._reroute_confirmed(token, confirmation, refused=for_good)

    def passes_on(self, record: CancelRequest | Query, offset: int) -> bool:
        """Whether the request went to another pool, where this is sent now. `offset`: where it stands in `control`."""
        state = self._state
        to = state.rerouted.get(record.id)
        if to is None or to not in state.setting.policy.pools or not may_follow(record.hop):
            return False
        record = msgspec.structs.replace(record, hop=record.hop + 1)
        if isinstance(record, CancelRequest):
            state.passed_on[offset] = PassedOn(offset, record, to)
        else:
            state.send(message_of(Place(state.setting.names.of(TopicKind.CONTROL, pool=to), 0), record))
        return True

    def _why_it_stays(self, tracked: Tracked, to: str) -> Stays | None:
        state = self._state
        tried = tracked.phase is not Phase.WAITING or tracked.last != _NEVER or tracked.id in state.retrying
        stays = why_it_stays(tracked.record, to, state.setting.policy.pools, was_tried=tried)
        return Stays.REFUSED if stays is None and tracked.stays else stays

    def _is_due(self, reroute: Reroute, tracked: Tracked) -> bool:
        said = reroute.said_in <= self._checkpoints.committed_number
        return said and reroute.is_due(self._state.now.boot_ms) and tracked.whole

    def _write(self, reroute: Reroute, tracked: Tracked) -> None:
        if reroute.given_up or (not reroute.doubtful and self._is_to_end(tracked)):
            self._stay(reroute)
            return
        reroute.under_way = True
        self._state.send(self._message(reroute, tracked), reroute)

    def _is_to_end(self, tracked: Tracked) -> bool:
        """Whether it is cancelled or has expired meanwhile: that is done here, where it is known."""
        state, record = self._state, tracked.record
        facts = facts_of(tracked)._replace(stage=Stage.QUEUED)
        cancelled = state.cancels.has(tracked.id, record.tenant) or state.bulk_cancels.that_means(facts)
        expired = expired_as(tracked.start_by_ms, record.finish_by_ms, state.now.wall_ms)
        return bool(cancelled) or expired is not None

    def _message(self, reroute: Reroute, tracked: Tracked) -> Message:
        record, names = tracked.record, self._state.setting.names
        there = msgspec.structs.replace(
            record, pool=reroute.to, model=reroute.model, hop=record.hop + 1, through=(*record.through, record.pool),
            priority=priority_of(tracked.order),  # an operator's, where one gave it another
        )  # fmt: skip
        place = Place(
            names.of(TopicKind.REQUESTS, pool=reroute.to, tier=record.tier), tracked.origin.partition
        )
        return message_of(place, there, tracked.value, trace=tracked.trace)

    def _tell(self, pool: str, *, deaf: bool) -> None:
        """Say it once, and again only once it has taken something in between."""
        if deaf and pool not in self._deaf:
            event = "cancels can't be passed on: the other pool's control topic takes nothing"
            self._state.notice(event, warning=True, to=pool)
        (self._deaf.add if deaf else self._deaf.discard)(pool)

    def _reroute_confirmed(self, reroute: Reroute, confirmation: Confirmation, *, refused: bool) -> None:
        if confirmation.offset is not None:
            self._gone(reroute)
            return
        reroute.doubtful |= confirmation.unknown
        if isinstance(confirmation.error, TooLargeError) or (refused and not reroute.doubtful):
            self._give_up(reroute)

    def _gone(self, reroute: Reroute) -> None:
        """It stands in the other pool's log: finish it here, and pass on who wanted it cancelled meanwhile."""
        state = self._state
        for cancel in state.cancels.of(reroute.id):
            request = msgspec.structs.replace(cancel.request, hop=cancel.request.hop + 1)
            state.passed_on[cancel.offset] = PassedOn(cancel.offset, request, reroute.to)
        self._finishing.finish(reroute.id, reroute.origin)
        piece = state.rerouted.add(reroute.id, reroute.to, state.minute)
        if piece is not None:
            state.dirty.add(f"rerouted/{piece[0]}/{piece[1]}")
        state.count(Counted.REROUTED)

    def _give_up(self, reroute: Reroute) -> None:
        """The other log takes no such record, nor took it when an earlier owner tried. It runs here, but not before a
        committed checkpoint says so: a successor that still found the intent would stop what runs, and pass it on.
        """
        reroute.given_up, reroute.said_in = True, self._checkpoints.number + 1
        self._state.dirty.add(f"rerouting/{reroute.id}")

    def _stay(self, reroute: Reroute) -> None:
        """It isn't written, and waits here again."""
        state, tracked = self._state, self._state.tracked[reroute.id]
        del state.reroutes[reroute.id]
        state.dirty.add(f"rerouting/{reroute.id}")
        tracked.stays = True
        self._returning.wait(tracked)
