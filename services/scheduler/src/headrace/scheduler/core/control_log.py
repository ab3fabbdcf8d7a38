"""Reads `control`: cancels, queries, an operator's orders, how far result-delivery is. Called by PoolCore for each record
and, for what is pending, each 50 ms.

Invariant: a cancel is kept, and the checkpointed position stays before it, until it is known what became of the request.
"""

from headrace.bus.dead_letters import reason_of
from headrace.bus.messages import Place, Received
from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.commands import CancelReason
from headrace.contracts.control import (
    CancelRequest,
    ControlRecord,
    DeliveryPosition,
    Query,
)
from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import MalformedIdError, read_request_id
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.answering import Answering
from headrace.scheduler.core.bulk_orders import BulkOrder, BulkOrders
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.delivery_positions import DeliveryPositions
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.finding import Finding
from headrace.scheduler.core.orders import Orders
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rerouting import Rerouting
from headrace.scheduler.core.same_log import note_leader
from headrace.scheduler.state.pending import PendingCancel
from headrace.scheduler.state.tracked import Phase


class ControlLog:
    """Folds `control`."""

    def __init__(
        self, state: PoolState, endings: Endings, commands: Commands, answering: Answering, rerouting: Rerouting
    ) -> None:  # fmt: skip
        self._state, self._endings, self._commands, self._answering = state, endings, commands, answering
        self._rerouting = rerouting
        self._finding = Finding(state, answering, rerouting)
        self._bulk_orders = BulkOrders(state, endings, commands, rerouting)
        self._orders, self._delivery = Orders(state, commands), DeliveryPositions(state, endings)
        self._swept_ms = -(10**12)

    def read(self, received: Received) -> None:
        """One record."""
        state = self._state
        note_leader(state, received, read_to=state.control_read)
        if received.offset < state.control_read:
            return
        state.control_read = received.offset + 1
        try:
            record: ControlRecord | Barrier = decode(TopicKind.CONTROL, received.header)
        except UndecodableError as error:
            self._endings.bury(received, reason_of(received, error), str(error))
            return
        if not isinstance(record, Barrier):
            self._take(received, record)

    def _take(self, received: Received, record: ControlRecord) -> None:
        state = self._state
        if isinstance(record, CancelRequest):
            if not self._rerouting.passes_on(record, received.offset):
                self._keep(record, received)
        elif isinstance(record, Query) and record.gateway >= state.setting.policy.topics.gateways:
            self._endings.bury(received, FailureKind.LYING_RECORD, f"There is no gateway {record.gateway}.")
        elif isinstance(record, Query):
            fresh = state.now.wall_ms - received.timestamp_ms <= ms(state.setting.timings.query_patience)
            if (
                fresh
                and not self._rerouting.passes_on(record, received.offset)
                and (state.open or record.why)
            ):
                self._answer(record)
        elif isinstance(record, BulkOrder):
            self._bulk_orders.take(received, record)
        elif isinstance(record, DeliveryPosition):
            self._delivery.hear(received, record)
        else:
            self._orders.take(received, record)

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return self._finding.under_way or self._bulk_orders.under_way

    def turn(self) -> None:
        """What is done a piece in each step, and what can be applied. Call only past the gate."""
        self._finding.turn()
        self._bulk_orders.turn()
        self._sweep()

    def _sweep(self) -> None:
        """Apply what can be applied."""
        state = self._state
        if state.now.boot_ms - self._swept_ms < ms(state.setting.timings.sweep):
            return
        self._swept_ms = state.now.boot_ms
        for cancel in state.cancels.to_look_at(lambda place: state.partitions.by_place[place].next_offset):
            self._apply(cancel)
        for request_id in list(state.overdue):
            held = state.held.of(request_id)
            if held is None:
                state.overdue.discard(request_id)
            else:
                self._commands.cancel_held(held, CancelReason.DEADLINE)
        self._orders.sweep()

    def _answer(self, query: Query) -> None:
        if query.find is None:
            self._answering.answer(query)
        else:
            self._finding.ask(query, query.find)

    def _keep(self, request: CancelRequest, received: Received) -> None:
        if self._state.cancels.has(request.id, request.tenant) or request.id in self._state.recent:
            return
        cancel = PendingCancel(received, request, self._place_of(request.id))
        self._state.cancels.keep(cancel)
        known = request.id in self._state.tracked or self._state.held.of(request.id) is not None
        if cancel.place is not None and not known:
            # the request was acknowledged before its caller could cancel it, so it stands before a barrier sent now
            self._state.barriers.want(cancel.place, lambda end: setattr(cancel, "read_to", end))

    def _place_of(self, request_id: str) -> Place | None:
        try:
            address = read_request_id(request_id)
        except MalformedIdError:
            return None
        setting = self._state.setting
        # wherever it came into: it stands here where it was passed on to this pool
        topic = setting.names.of(TopicKind.REQUESTS, pool=setting.pool, tier=address.tier)
        place = Place(topic, address.partition)
        return place if place in self._state.partitions.by_place else None

    def _apply(self, cancel: PendingCancel) -> None:
        state, request = self._state, cancel.request
        tracked, held = state.tracked.get(request.id), state.held.of(request.id)
        if held is not None:
            if held.tenant != request.tenant:
                self._refuse(cancel)
            else:
                self._commands.cancel_held(held, request.reason)
        elif tracked is not None:
            if tracked.record.tenant != request.tenant:
                self._refuse(cancel)
            elif tracked.phase in (Phase.WAITING, Phase.DELAYED):
                self._endings.cancel(tracked)
        elif self._is_gone(cancel):
            state.cancels.drop(cancel)
        elif cancel.read_to is not None:
            state.cancels.park(cancel)

    def _refuse(self, cancel: PendingCancel) -> None:
        """Somebody else's request isn't theirs to cancel."""
        self._state.cancels.drop(cancel)
        detail = "It would cancel a request of another tenant."
        self._endings.bury(cancel.received, FailureKind.FOREIGN_TENANT, detail)

    def _is_gone(self, cancel: PendingCancel) -> bool:
        """Whether the request would be known if it weren't finished."""
        if cancel.place is None:
            return True
        read = self._state.partitions.by_place[cancel.place].next_offset
        return cancel.read_to is not None and read >= cancel.read_to
