"""Writes what the owner knows into `state`, each second, in keyed records, only what changed. Driven by PoolCore.

Invariant: a checkpoint is one snapshot between two steps; its begin is the lease, once it is committed; a failed one means
standing by and rebuilding, so nothing here is undone.
"""

from datetime import timedelta

import msgspec

from headrace.bus.messages import Message, Place, message_of
from headrace.contracts.checkpoints import (
    Finished,
    Forgotten,
    Frozen,
    HeldBack,
    Ownership,
    Positions,
    RecentlyFinished,
    Rerouted,
    Rerouting,
    Settled,
    StateRecord,
    TenantCounter,
    TierCounter,
)
from headrace.contracts.durations import ms
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import backend_pacing, needed_from, pacing
from headrace.scheduler.core.pool_state import MINUTE_MS, PoolState
from headrace.scheduler.core.same_log import attempts_leaders

_KEPT_MS = ms(timedelta(hours=1))
"""Deaths of an hour ago say nothing about what runs now."""


class Checkpoints:
    """The owner's checkpoints."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self.number = self.committed_number = 0
        """Of the last one begun, and of the last one committed, in this epoch."""
        self._since_ms = state.now.wall_ms
        self._begun_ms = -(10**12)
        self.under_way = False
        self._positions: Positions | None = None
        self._says: dict[Place, int] = {}
        self._tiers: dict[str, TierCounter] = {}

    def claim(self) -> list[Message]:
        """The first one of an epoch: says who owns the pool now, and changes nothing else."""
        self._since_ms = self._state.now.wall_ms
        return self._begin([])

    def due(self) -> list[Message]:
        """The next one, when it is due; else nothing. One at a time."""
        period = ms(self._state.setting.timings.checkpoint)
        if self.under_way or self._state.now.boot_ms - self._begun_ms < period:
            return []
        return self._begin(self._changed())

    def release(self, successor: str | None) -> list[Message]:
        """The last one: the next owner may take over at once; the named one alone, where one is named."""
        self._state.moving = None  # obeyed by this very checkpoint
        return self._begin(self._changed(), released=True, successor=successor)

    def committed(self) -> int:
        """The one under way is committed: its begin (ms since boot) is the lease. How long it took, in ms."""
        self.under_way = False
        self._state.checkpointed = self._says
        self._state.lease_ms = self._begun_ms
        self.committed_number = self.number
        return self._state.now.boot_ms - self._begun_ms

    @property
    def in_charge(self) -> bool:
        """Whether this owner may write terminal records."""
        lease = ms(self._state.setting.timings.lease)
        return self._state.now.boot_ms - self._state.lease_ms <= lease

    @property
    def begun_ms(self) -> int:
        """When the last one was begun, ms since boot."""
        return self._begun_ms

    def _begin(
        self, changed: list[Message], *, released: bool = False, successor: str | None = None
    ) -> list[Message]:
        state = self._state
        self.number += 1
        self._begun_ms, self.under_way = state.now.boot_ms, True
        self._says = needed_from.needed_from(state)
        ownership = Ownership(
            epoch=state.epoch,
            owner=state.setting.owner,
            number=self.number,
            begun_ms=state.now.wall_ms,
            sequence=state.sequence,
            released=released,
            successor=successor,
            since_ms=self._since_ms,
            gate_open=state.open,
            state_id=state.setting.topic_ids.get(state.setting.place(TopicKind.STATE).topic),
        )
        return [*changed, self._message("ownership", ownership)]

    def _changed(self) -> list[Message]:
        self._forget_old()
        return [
            *self._finished(),
            *self._position(),
            *self._tenants(),
            *self._tier_counters(),
            *self._ceilings(),
            *self._backend_ceilings(),
            *self._dirty(),
        ]

    def _forget_old(self) -> None:
        state = self._state
        since = state.claimed.wall_ms // MINUTE_MS
        state.dirty.update(
            f"settled/{minute}/{piece}"
            for minute, piece in state.settled.forget_before(state.minute, since=since)
        )
        state.dirty.update(
            f"death/{key}" for key in state.suspects.forget_before(state.now.wall_ms - _KEPT_MS)
        )
        state.dirty.update(
            f"recent/{minute}/{piece}"
            for minute, piece in state.recent.forget_before(state.minute, since=since)
        )
        state.dirty.update(
            f"rerouted/{minute}/{piece}"
            for minute, piece in state.rerouted.forget_before(state.minute, since=since)
        )
        over = state.priority_orders.forget_over(state.partitions.finished_prefix)
        state.dirty.update(f"reprioritised/{offset}" for offset in over)

    def _finished(self) -> list[Message]:
        found, ids = [], self._state.setting.topic_ids
        for place, partition in (*self._state.partitions.by_place.items(), *self._state.unserved.items()):
            if partition.dirty:
                partition.dirty = False
                record = Finished(
                    topic=place.topic,
                    partition=place.partition,
                    prefix=partition.finished.prefix,
                    beyond=partition.finished.bitmaps(),
                    topic_id=ids.get(place.topic, partition.known_id),
                    leader_epoch=partition.leader_epoch,
                    read_to=partition.read_to,
                )
                found.append(self._message(f"finished/{place.topic}/{place.partition}", record))
        return found

    def _position(self) -> list[Message]:
        state = self._state
        delivered: dict[str, dict[int, int]] = {}
        for place, offset in sorted(state.delivered.items()):
            delivered.setdefault(place.topic, {})[place.partition] = offset
        positions = Positions(
            attempts=needed_from.attempts_to_keep(state),
            control=needed_from.control_to_keep(state),
            topic_ids=dict(state.setting.topic_ids),
            attempts_leaders=attempts_leaders(state),
            control_leader=state.leaders.get(state.setting.place(TopicKind.CONTROL)),
            delivered=delivered,
        )
        if positions == self._positions:
            return []
        self._positions = positions
        return [self._message("positions", positions)]

    def _tenants(self) -> list[Message]:
        accounts, found = self._state.accounts, []
        self._state.queue.forget_flows()
        self._state.queue.lift_all()
        for tier, tenant in accounts.forget_idle(self._state.queue.backlogged()):
            found.append(self._forgotten(f"tenant/{tier}/{tenant}"))
        for tier, tenant in sorted(accounts.changed):
            record = TenantCounter(tier=tier, tenant=tenant, settled=accounts.of(tier, tenant).settled)
            found.append(self._message(f"tenant/{tier}/{tenant}", record))
        accounts.changed.clear()
        return found

    def _tier_counters(self) -> list[Message]:
        """Start tags without what is in flight, as for tenants: the next owner learns that from reports."""
        state, found = self._state, []
        for name, tier in state.accounts.tiers.items():
            if not state.queue.frozen.free_depth(name):
                state.accounts.lift_tier(name)  # as it will be lifted anyway when it becomes backlogged
            record = TierCounter(tier=name, start_tag=tier.account.settled, largest_tag=tier.largest_tag)
            if self._tiers.get(name) != record:
                self._tiers[name] = record
                found.append(self._message(f"tier/{name}", record))
        return found

    def _ceilings(self) -> list[Message]:
        """What is owed of them. A charge and the attempt that it is for come into the same checkpoint."""
        state = self._state
        idle = state.ceilings.forget_idle(state.now.boot_ms)
        found = [self._forgotten(pacing.key_of(whose)) for whose in idle]
        changed = sorted(state.ceilings.changed, key=lambda whose: whose or "")
        state.ceilings.changed.clear()
        return found + [
            self._message(pacing.key_of(whose), pacing.to_keep(state, whose)) for whose in changed
        ]

    def _backend_ceilings(self) -> list[Message]:
        """Likewise."""
        kept = backend_pacing.to_keep(self._state)
        return [self._forgotten(key) if each is None else self._message(key, each) for key, each in kept]

    def _dirty(self) -> list[Message]:
        keys, self._state.dirty = self._state.dirty, set()
        return [self._of_key(key) for key in sorted(keys)]

    def _of_key(self, key: str) -> Message:
        kind, _, rest = key.partition("/")
        if kind == "frozen":
            holds = sorted(
                self._state.queue.frozen.holds, key=lambda hold: (hold.tier or "", hold.tenant or "")
            )
            return self._message(
                key, Frozen(holds=tuple(HeldBack(tier=tier, tenant=name) for tier, name in holds))
            )
        record = self._keyed(kind, rest)
        return self._forgotten(key) if record is None else self._message(key, record)

    def _keyed(self, kind: str, rest: str) -> StateRecord | None:
        """What there is to say under a key; None when it is forgotten."""
        state = self._state
        if kind == "retrying":
            return state.retrying.get(rest)
        if kind == "death":
            return state.suspects.deaths.get(rest)
        if kind == "rerouting":
            reroute = state.reroutes.get(rest)
            if reroute is None or reroute.given_up:
                return None
            return Rerouting(id=rest, origin=reroute.origin, to=reroute.to, model=reroute.model)
        if kind == "reprioritised":
            return state.priority_orders.standing.get(int(rest))
        minute, piece = (int(part) for part in rest.split("/"))
        return self._of_minute(kind, minute, piece)

    def _of_minute(self, kind: str, minute: int, piece: int) -> RecentlyFinished | Rerouted | Settled | None:
        """What is kept by the minute; None when it is forgotten."""
        if kind == "settled":
            attempts = self._state.settled.pieces.get((minute, piece))
            return None if attempts is None else Settled(minute=minute, attempts=tuple(attempts))
        if kind == "rerouted":
            went = self._state.rerouted.piece(minute, piece)
            return None if went is None else Rerouted(minute=minute, went=went)
        ids = self._state.recent.pieces.get((minute, piece))
        return None if ids is None else RecentlyFinished(minute=minute, ids=tuple(ids))

    def _message(self, key: str, record: StateRecord) -> Message:
        return message_of(self._state.setting.place(TopicKind.STATE), record, key=key.encode())

    def _forgotten(self, key: str) -> Message:
        """A tombstone as well: compaction drops the key in the end, and until then a reader is told why it is empty."""
        message = self._message(key, Forgotten(at_ms=self._state.now.wall_ms))
        return msgspec.structs.replace(message, value=None)
