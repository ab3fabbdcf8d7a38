"""The gate of a new owner: nothing is released and no terminal record written before it opens. Called by PoolCore.

Invariant: the boots known where this owner's first tick stands in `workers` have answered or are dead; only then barriers are
written to `attempts` and `control`, and read up to.
"""

from functools import partial

from headrace.bus.messages import Place
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.ticking import Ticking


class Gate:
    """Opens once."""

    def __init__(self, state: PoolState, ticking: Ticking) -> None:
        self._state, self._ticking = state, ticking
        self._boots: set[str] | None = None
        self._ends: dict[Place, int] | None = None

    def turn(self) -> None:
        """Look whether it may open."""
        state = self._state
        if state.open:
            return
        if self._boots is None:
            if self._ticking.reads_its_own:
                self._boots = {worker.boot for worker in state.workers.live.values()}
                state.caught_up = True
        elif self._ends is None:
            if not self.unanswered:
                self._note_ends()
        elif len(self._ends) == len(self._places()) and self._read_up():
            state.open = True
            state.notice(
                "gate is open", epoch=state.epoch, held=len(state.held), workers=len(state.workers.live)
            )
            self._tell_of_unserved()

    def _tell_of_unserved(self) -> None:
        """Whatever still waits there waits until the policy has that tier again: nobody may find out by chance."""
        for place in sorted(self._state.unserved):
            self._state.notice(
                "a tier or partition was taken out of the policy: what may still wait there isn't served",
                warning=True,
                requests=f"{place.topic}/{place.partition}",
            )

    @property
    def unanswered(self) -> set[str]:
        """Boots that were there when this owner came, are alive, and haven't answered its fence."""
        live = self._state.workers.live.values()
        return {w.boot for w in live if w.report.epoch < self._state.epoch} & (self._boots or set())

    def _places(self) -> list[Place]:
        setting, attempts = self._state.setting, self._state.attempts_read
        return [setting.place(TopicKind.CONTROL), *(setting.place(TopicKind.ATTEMPTS, p) for p in attempts)]

    def _note_ends(self) -> None:
        self._ends = {}
        for place in self._places():
            self._state.barriers.want(place, partial(self._ends.__setitem__, place))

    def _read_up(self) -> bool:
        state, ends = self._state, self._ends or {}
        control = state.setting.place(TopicKind.CONTROL)
        return all(
            (state.control_read if place == control else state.attempts_read[place.partition]) >= end
            for place, end in ends.items()
        )
