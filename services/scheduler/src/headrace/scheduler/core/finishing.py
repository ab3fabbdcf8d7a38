"""Finishes requests: the only place where an offset is marked and a request is forgotten.

Called by core.attempt_log, core.endings and core.intake. Invariant: what is finished here has a terminal record in the log,
stands in another pool's log, or is a duplicate or a dead letter that needs none.
"""

from headrace.contracts.values import Origin
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.state.tracked import Phase, Tracked


class Finishing:
    """Marks ends."""

    def __init__(self, state: PoolState) -> None:
        self._state = state

    def finish(self, request_id: str, origin: Origin) -> None:
        """This request has reached its end. The attempt that is held of it, if any, is the caller's to deal with."""
        state = self._state
        self.finish_offset(origin)
        piece = state.recent.add(request_id, state.minute)
        if piece is not None:
            state.dirty.add(f"recent/{piece[0]}/{piece[1]}")
        if state.retrying.pop(request_id, None) is not None:
            state.dirty.add(f"retrying/{request_id}")
            state.texts.drop(request_id)
        if state.reroutes.pop(request_id, None) is not None:
            state.dirty.add(f"rerouting/{request_id}")
        state.dues.pop(request_id, None)
        state.suspects.leave(request_id)
        state.cancels.ended(request_id)
        state.overdue.discard(request_id)
        tracked = state.tracked.pop(request_id)
        if tracked is not None:
            self._forget(tracked)
            if tracked.origin != origin:
                self.finish_offset(tracked.origin)

    def finish_offset(self, origin: Origin) -> None:
        """This record needs nothing more; whoever's id it bears."""
        partition = self._state.partitions.of(origin)
        if partition is not None:
            partition.finish(origin.offset)

    def _forget(self, tracked: Tracked) -> None:
        if tracked.phase is Phase.WAITING:
            self._state.queue.take(tracked, Phase.FINISHED)
        tracked.phase = Phase.FINISHED
        self._state.unread.pop(tracked.id, None)
        if tracked.whole:
            self._state.partitions.at(tracked.origin).drop(len(tracked.value))
        tracked.received = (
            None  # its place in a queue may be held for long after it, by an entry that no longer counts
        )
