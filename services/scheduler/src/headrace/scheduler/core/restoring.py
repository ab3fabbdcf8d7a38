"""Rebuilds a pool's state from the checkpoints of its last owner. Called once at each takeover, by pool_loop.

Invariant: the epoch is 1 + the greatest in `state`; what is in flight isn't known yet and comes from workers' reports.
"""

from collections.abc import Iterable
from typing import assert_never

from headrace.bus.messages import Place, Received
from headrace.contracts.checkpoints import (
    BackendPaced,
    Finished,
    Forgotten,
    Frozen,
    Ownership,
    Paced,
    Positions,
    RecentlyFinished,
    Reprioritised,
    Rerouted,
    Rerouting,
    Retrying,
    Settled,
    StateRecord,
    TenantCounter,
    TierCounter,
)
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.deaths import Death
from headrace.contracts.ids import AttemptId
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.same_log import UnusableStateError, check_topics
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.state.frozen import Hold
from headrace.scheduler.state.partitions import RequestPartition
from headrace.scheduler.state.recent import PIECE
from headrace.scheduler.state.rerouted import Reroute


def read_state(received: Iterable[Received]) -> list[StateRecord]:
    """The records of `state`. Raises UnusableStateError for one that can't be decoded: guessing would repeat or lose work."""
    records: list[StateRecord] = []
    for each in received:
        try:
            records.append(decode(TopicKind.STATE, each.header))
        except UndecodableError as error:
            where = f"{each.topic}/{each.partition} at offset {each.offset}"
            raise UnusableStateError(f"the checkpoint in {where} can't be read ({error})") from error
    return records


def last_ownership(records: Iterable[StateRecord]) -> Ownership | None:
    """Who owned the pool last."""
    owners = [record for record in records if isinstance(record, Ownership)]
    return max(owners, key=lambda owner: (owner.epoch, owner.number), default=None)


def restore(setting: Setting, records: list[StateRecord]) -> PoolState:
    """The state that the next owner begins with. Raises UnusableStateError."""
    owner = last_ownership(records)
    if owner is not None and owner.state_id is not None:
        check_topics({setting.place(TopicKind.STATE).topic: owner.state_id}, setting.topic_ids)
    state = PoolState.empty(setting, 1 if owner is None else owner.epoch + 1)
    if owner is not None and owner.gate_open:
        through = AttemptId(owner.epoch, owner.sequence)
        state.ceilings.through = state.backend_ceilings.through = through
    for record in sorted(records, key=_is_piece_being_filled):
        _restore_one(state, record)
    for partition in state.partitions.by_place.values():
        partition.next_offset = partition.finished.prefix
    tags = [tier.account.settled for tier in state.accounts.tiers.values()]
    state.accounts.virtual_time = min(tags, default=0)
    state.accounts.changed.clear()
    return state


def _restore_one(state: PoolState, record: StateRecord) -> None:
    match record:
        case Finished():
            _restore_finished(state, record)
        case Positions():
            _restore_positions(state, record)
        case TenantCounter() | TierCounter():
            _restore_counter(state, record)
        case Retrying() | Death() | Rerouting():
            _restore_of_request(state, record)
        case RecentlyFinished() | Rerouted() | Settled():
            _restore_minute(state, record)
        case Frozen() | Paced() | BackendPaced() | Reprioritised():
            _restore_order(state, record)
        case Ownership() | Forgotten():
            pass
        case _:
            assert_never(record)


def _is_piece_being_filled(record: StateRecord) -> bool:
    """The last piece of a minute comes last: full ones may change places, but this one is written again under its key."""
    if isinstance(record, Rerouted):
        return len(record.went) < PIECE
    if isinstance(record, RecentlyFinished):
        return len(record.ids) < PIECE
    return isinstance(record, Settled) and len(record.attempts) < PIECE


def _restore_reroute(state: PoolState, record: Rerouting) -> None:
    """It is written again; where the policy has no such pool any more, it waits here."""
    if record.to in state.setting.policy.pools:
        state.reroutes[record.id] = Reroute(record.id, record.origin, record.to, record.model, doubtful=True)
    else:
        state.dirty.add(f"rerouting/{record.id}")


def _restore_minute(state: PoolState, record: RecentlyFinished | Rerouted | Settled) -> None:
    if isinstance(record, Rerouted):
        state.rerouted.restore(record.went, record.minute)
        return
    if isinstance(record, Settled):
        for attempt in record.attempts:
            state.settled.add(attempt, record.minute)
        return
    for request_id in record.ids:
        state.recent.add(request_id, record.minute)


def _restore_positions(state: PoolState, record: Positions) -> None:
    check_topics(record.topic_ids, state.setting.topic_ids)
    state.attempts_read.update(record.attempts)
    state.control_read = record.control
    place = state.setting.place
    state.leaders |= {place(TopicKind.ATTEMPTS, p): leader for p, leader in record.attempts_leaders.items()}
    if record.control_leader is not None:
        state.leaders[place(TopicKind.CONTROL)] = record.control_leader
    for topic, partitions in record.delivered.items():
        state.delivered |= {Place(topic, number): offset for number, offset in partitions.items()}


def _restore_of_request(state: PoolState, record: Retrying | Death | Rerouting) -> None:
    if isinstance(record, Rerouting):
        _restore_reroute(state, record)
        return
    if isinstance(record, Death):
        state.suspects.deaths[record.key] = record
        return
    state.retrying[record.id] = record
    if record.text is not None and record.text_at is not None:
        state.texts.keep(record.id, record.text_at, record.text.size, None)
    if record.group is not None:
        state.suspects.join(record.id, record.group)


def _restore_finished(state: PoolState, record: Finished) -> None:
    if record.topic_id is not None:
        check_topics({record.topic: record.topic_id}, state.setting.topic_ids)
    place = Place(record.topic, record.partition)
    partition = state.partitions.by_place.get(place)
    if partition is None:
        partition = state.unserved[place] = RequestPartition(place, "")
    partition.know(record)


def _restore_counter(state: PoolState, record: TenantCounter | TierCounter) -> None:
    tier = state.accounts.tiers.get(record.tier)
    if tier is None:
        state.unserved_tiers.add(record.tier)
    elif isinstance(record, TierCounter):
        tier.account.settled, tier.largest_tag = record.start_tag, record.largest_tag
    else:
        state.accounts.of(record.tier, record.tenant).settled = record.settled


def _restore_order(state: PoolState, record: Frozen | Paced | BackendPaced | Reprioritised) -> None:
    if isinstance(record, Frozen):
        state.queue.frozen.holds.update(Hold(held.tier, held.tenant) for held in record.holds)
    elif isinstance(record, Reprioritised):
        state.priority_orders.keep(record)
    elif isinstance(record, BackendPaced):
        state.backend_ceilings.last_said[record.worker] = record
    else:
        state.ceilings.left_by[record.tenant] = record
