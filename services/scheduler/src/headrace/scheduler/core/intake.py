"""Reads request records: what is to wait, what is finished already, what is refused. Called by PoolCore for each record.

Invariant: every record read becomes tracked, or is finished as a duplicate, or ends as a dead letter; none is skipped.
"""

from typing import TypedDict

import msgspec

from headrace.bus.dead_letters import reason_of
from headrace.bus.messages import Received
from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import Lie, lie_in_request
from headrace.contracts.lifecycle import Status
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.finishing import Finishing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.routing import recall
from headrace.scheduler.core.same_log import lost_its_end
from headrace.scheduler.core.spilling import Spilling
from headrace.scheduler.core.terminal_records import failure_of
from headrace.scheduler.core.walking import facts_in
from headrace.scheduler.decisions.pick_next import OrderKey, order_of, with_priority
from headrace.scheduler.decisions.when_expired import start_by_of
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.partitions import RequestPartition
from headrace.scheduler.state.tracked import Phase, Tracked, trace_of


class _Place(TypedDict):
    """What the header of a record says that stands there, if it is true."""

    pool: str
    tier: str
    partition: int


class Intake:
    """Takes requests in."""

    def __init__(
        self,
        state: PoolState,
        finishing: Finishing,
        endings: Endings,
        *,
        returning: Returning,
        estimating: Estimating,
        spilling: Spilling,
    ) -> None:
        self._state, self._finishing, self._endings = state, finishing, endings
        self._returning, self._estimating, self._spilling = returning, estimating, spilling

    def read(self, received: Received) -> None:
        """One record of a request topic."""
        partition = self._state.partitions.at(received)
        if not partition.note_leader(received):
            lost_its_end(self._state, received.place, received.offset)
        if received.offset < partition.next_offset:
            return
        self._tell_of_gap(partition, received)
        partition.next_offset = received.offset + 1
        if received.offset in partition.finished:
            return
        try:
            record: RequestRecord | Barrier = decode(TopicKind.REQUESTS, received.header)
        except UndecodableError as error:
            self._endings.refuse_record(received, failure_of(reason_of(received, error), str(error)))
            return
        if isinstance(record, Barrier):
            partition.finish(received.offset)
        else:
            self._judge(received, record, partition)

    def _judge(self, received: Received, record: RequestRecord, partition: RequestPartition) -> None:
        origin = Origin(received.topic, received.partition, received.offset)
        lie = lie_in_request(record, **self._place_of(partition))
        if self._is_duplicate(record, origin):
            self._pass(received, partition, lie)
        elif lie is not None:
            self._refuse(received, record, origin, partition, lie)
        else:
            self._take(received, record, origin, partition)

    def _tell_of_gap(self, partition: RequestPartition, received: Received) -> None:
        """Offsets that nobody handed out and nobody finished. Only a transaction's marker, which nobody writes there, makes
        one; anything else would be a request passed over, and that is never done in silence.
        """
        gap = range(partition.next_offset, received.offset)
        if gap and any(offset not in partition.finished for offset in gap):
            self._state.count(Counted.GAPS)
            self._state.notice(
                "offsets were passed over: no record stands there", warning=True, topic=received.topic,
                partition=received.partition, since=gap.start, until=gap.stop,
            )  # fmt: skip

    def _is_duplicate(self, record: RequestRecord, origin: Origin) -> bool:
        """Whether this id is held, waits, or was just finished, as another record."""
        state, held = self._state, self._state.held.of(record.id)
        known = record.id in state.recent or record.id in state.rerouted or record.id in state.tracked
        return known or (held is not None and held.origin != origin)

    def _pass(self, received: Received, partition: RequestPartition, lie: Lie | None) -> None:
        """Not once more; the bytes of one that lies are kept, but its id is another record's, which they don't end."""
        if lie is not None:
            self._endings.refuse_record(received, failure_of(*lie))
            return
        partition.finish(received.offset)
        self._state.count(Counted.DUPLICATES)

    def _refuse(
        self, received: Received, record: RequestRecord, origin: Origin, partition: RequestPartition, lie: Lie
    ) -> None:
        """Its caller is told, unless it isn't certain who that is."""
        place = self._place_of(partition)
        there = msgspec.structs.replace(record, **place)
        if lie_in_request(there, **place) is None:
            tracked = self._keep(received, there, origin, partition)
            self._endings.end(tracked, Status.DEAD_LETTERED, failure_of(*lie))
        else:
            self._endings.refuse_record(received, failure_of(*lie))

    def _take(
        self, received: Received, record: RequestRecord, origin: Origin, partition: RequestPartition
    ) -> None:
        tracked = self._keep(received, record, origin, partition)
        if not tracked.value and record.payload.inline:
            self._endings.end(tracked, Status.DEAD_LETTERED, failure_of(FailureKind.EMPTY_RECORD))
        else:
            self._place(tracked)

    def _keep(
        self, received: Received, record: RequestRecord, origin: Origin, partition: RequestPartition
    ) -> Tracked:
        tracked = self._track(received, record, origin)
        self._state.tracked[record.id] = tracked
        self._state.cancels.wake(record.id)
        partition.hold(len(tracked.value))
        return tracked

    def _place_of(self, partition: RequestPartition) -> _Place:
        return {
            "pool": self._state.setting.pool, "tier": partition.tier, "partition": partition.place.partition
        }  # fmt: skip

    def _track(self, received: Received, record: RequestRecord, origin: Origin) -> Tracked:
        before = self._state.retrying.get(record.id)
        used, due_ms = (0, 0) if before is None else (before.attempts, before.due_ms)
        tracked = Tracked(
            record=record,
            origin=origin,
            received=received,
            trace=trace_of(received.headers),
            order=self._order_of(record, origin),
            charge=self._estimating.charge_of(record),
            phase=Phase.DELAYED,
            used=used,
            due_boot_ms=self._state.dues.get(record.id, 0),
            start_by_ms=start_by_of(record.accepted_ms, record.start_by_ms, used=used, due_ms=due_ms),
        )
        if before is not None:
            tracked.last = before.attempt
        return tracked

    def _order_of(self, record: RequestRecord, origin: Origin) -> OrderKey:
        """By its own priority, or the one that an operator wants it to have."""
        tier, orders = self._state.setting.policy.tiers[record.tier], self._state.priority_orders
        order = order_of(record, origin.offset, tier.queue_timeout)
        wanted = orders.priority_of(facts_in(record, origin)) if orders else None
        return order if wanted is None else with_priority(order, wanted)

    def _place(self, tracked: Tracked) -> None:
        """Into a worker's hands where it is already, into the queue, or to its end."""
        held = self._state.held.of(tracked.id)
        if held is not None:
            tracked.phase, tracked.last = Phase.HELD, held.attempt
            self._state.expiries.put(tracked)
            self._charge_flow(tracked, held)
            recall(self._state, tracked.record, held.boot)
        elif tracked.id in self._state.reroutes:
            tracked.phase = Phase.ENDING  # another owner began to pass it on: core.rerouting does so again
        elif (kind := self._gave_up(tracked)) is not None:
            self._returning.end(tracked, kind)
        elif tracked.due_boot_ms > self._state.now.boot_ms:
            self._returning.wait_until_due(tracked)
        else:
            if not self._spilling.spills(tracked):
                self._returning.wait(tracked)
            self._state.waits.newest = tracked.id
            if self._state.setting.pool_policy.fallbacks:
                self._state.arrived.append(tracked.id)

    def _charge_flow(self, tracked: Tracked, held: HeldAttempt) -> None:
        """Another owner released it: now its key is known."""
        flow = self._state.queue.assign(tracked)
        if flow is not None and held.flow is None:
            held.flow = flow
            self._state.accounts.charge_flow(held.tier, held.tenant, held.charge, flow)

    def _gave_up(self, tracked: Tracked) -> FailureKind | None:
        """Why it isn't to be tried again, as an attempt settled that was read before the request itself."""
        before = self._state.retrying.get(tracked.id)
        if before is None or before.gave_up is not None:
            return None if before is None else before.gave_up
        exhausted = before.attempts >= self._state.setting.pool_policy.max_attempts and not before.deaths
        return FailureKind.ATTEMPTS_EXHAUSTED if exhausted else None
