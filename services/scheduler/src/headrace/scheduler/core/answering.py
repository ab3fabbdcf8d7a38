"""Tells whoever asks how things stand: answers to queries, on `replies`. Called by core.control_log.

Invariant: reads the state and changes nothing; every record carries the epoch, so that readers keep the highest owner's word.
"""

from headrace.bus.messages import message_of
from headrace.contracts.control import Query
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Answer
from headrace.contracts.selections import Found
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.explaining import Explaining
from headrace.scheduler.core.forecasting import Forecasting
from headrace.scheduler.core.gates_now import GatesNow
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.quoting import Quoting
from headrace.scheduler.core.rates import Rates
from headrace.scheduler.decisions.estimate_wait import Likely
from headrace.scheduler.state.ahead import Before
from headrace.scheduler.state.tracked import Phase, Tracked


class Answering:
    """The owner's word on its queue."""

    def __init__(
        self,
        state: PoolState,
        rates: Rates,
        estimating: Estimating,
        gates: GatesNow,
        forecasting: Forecasting,
    ) -> None:
        self._state, self._forecasting = state, forecasting
        self._explaining = Explaining(state, rates, estimating, gates)
        self._quoting = Quoting(state, forecasting, estimating, self._explaining)

    def answer(self, query: Query) -> None:
        """Answer a query from what is known now; before the gate is open, what workers hold isn't."""
        answer = self._known(query) if self._state.open else self._unknown(query)
        self._state.send(message_of(self._state.setting.place(TopicKind.REPLIES, query.gateway), answer))

    def _unknown(self, query: Query) -> Answer:
        state = self._state
        why = self._explaining.of_unknown() if query.why else None
        return Answer(
            id=query.id,
            nonce=query.nonce,
            epoch=state.epoch,
            as_of_ms=state.now.wall_ms,
            known=False,
            why=why,
        )

    def _known(self, query: Query) -> Answer:
        state, tracked = self._state, self._state.tracked.look(query.id)
        held = state.held.of(query.id)
        status, ahead = self._status(query.id, tracked)
        wait = self._wait_of(tracked, ahead)
        attempts = held.attempts if held is not None else tracked.used if tracked is not None else 0
        return Answer(
            id=query.id,
            nonce=query.nonce,
            epoch=state.epoch,
            as_of_ms=state.now.wall_ms,
            known=status is not None,
            status=status,
            position=None if ahead is None else ahead.requests,
            estimated_wait_ms=wait.p50_ms,
            estimated_wait_p95_ms=wait.p95_ms,
            tokens=0 if held is None else held.said + held.tokens,
            attempts=attempts,
            gateway=None if tracked is None else tracked.record.gateway,
            model=None if tracked is None else tracked.record.model,
            why=self._explaining.why(query.id, ahead) if query.why else None,
            offers=() if query.quote is None else self._quoting.offers(query.quote),
        )

    def found(self, query: Query, found: Found) -> None:
        """Answer which requests fit."""
        state = self._state
        answer = Answer(
            id=query.id,
            nonce=query.nonce,
            epoch=state.epoch,
            as_of_ms=state.now.wall_ms,
            known=False,
            found=found,
        )
        state.send(message_of(state.setting.place(TopicKind.REPLIES, query.gateway), answer))

    def _wait_of(self, tracked: Tracked | None, ahead: Before | None) -> Likely:
        """How long until it starts, where it waits for its turn."""
        if tracked is None or ahead is None:
            return Likely(None, None)
        return self._forecasting.wait_of(tracked.record, tracked.charge, ahead)

    def _status(self, request_id: str, tracked: Tracked | None) -> tuple[Status | None, Before | None]:
        held = self._state.held.of(request_id)
        if held is not None:
            return (Status.RUNNING if held.running else Status.DISPATCHED), None
        if tracked is None:
            return None, None
        if tracked.phase is not Phase.WAITING:
            return Status.QUEUED, None
        return Status.QUEUED, self._state.queue.ahead_of(tracked.record, tracked.order)
