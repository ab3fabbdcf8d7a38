"""Logs and a wire that loses and delays, in virtual time, around the scheduler's core. Used by tests/unit/scheduler.

Which world a test of the scheduler needs:
- `pure`, turned by `processes`: one case of the core, scripted record by record, in milliseconds;
- `deadly_pool`: the same, where workers or engines die of marked prompts;
- `live` and `live_worker`: the whole service on a real or in-memory bus, for what only a bus can show;
- tests/simulation: whole histories of all services with faults, each judged at its end.

Invariant: everything random comes from the seed and time is virtual, so a seed is a history.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import BusError, Confirmation, DeliveryUnknownError, TooLargeError
from headrace.contracts.clock import Now
from headrace.contracts.codec import decode
from headrace.contracts.policy import Policy, PoolPolicy, TopicPolicy, policy_from
from headrace.contracts.topics import TopicKind, TopicNames

WALL = 1_700_000_000_000
STEP_MS = 25
DELIVERY_MS = 1_000
NAMES = TopicNames("t.")
POOL = "small"


def policy(tenant_partitions: int = 2, lanes: int = 3, headroom_percent: int = 0, **topics: int) -> Policy:
    """One pool, two tiers, two tenants of weights 1 and 3; `topics`: what else the policy says of them. With headroom for
    interactive work, batch work may give way.
    """
    made = policy_from(
        {
            "pools": {POOL: {"models": {"m": "m"}, "max_attempts": 4}},
            "tiers": {
                "interactive": {
                    "weight": 4,
                    "floor_percent": 10,
                    "queue_timeout": "10m",
                    "headroom_percent": headroom_percent,
                },
                "batch": {
                    "weight": 1,
                    "floor_percent": 5,
                    "queue_timeout": "24h",
                    "preemptible": headroom_percent > 0,
                },
            },
            "tenants": {
                "a": {"weight": 1, "default_tier": "batch"},
                "b": {"weight": 3, "default_tier": "batch"},
            },
            "topics": {"tenant_partitions": tenant_partitions, "lanes": lanes, "gateways": 1, **topics},
        }
    )
    assert isinstance(made.pools[POOL], PoolPolicy)
    assert isinstance(made.topics, TopicPolicy)
    return made


def place(kind: TopicKind, partition: int = 0, tier: str = "") -> Place:
    """A partition of the world's one pool."""
    return Place(NAMES.of(kind, pool=POOL, tier=tier), partition)


@dataclass
class Parcel:
    """A message on its way; `lost`: it will never arrive, and its sender never knows."""

    arrives_ms: int
    sent_ms: int
    sender: "Sender"
    message: Message
    token: object
    lost: bool = False


@dataclass(eq=False)
class Sender:
    """One producer: order is kept for each partition; confirmations are fetched by its owner."""

    world: "World"
    confirmations: list[Confirmation] = field(default_factory=list)
    last: dict[Place, int] = field(default_factory=dict)

    def send(self, message: Message, token: object = None) -> None:
        """Put a message on the wire."""
        world = self.world
        arrives = max(world.now_ms + world.rng.choice([1, 2, 5, 20, 200]), self.last.get(message.place, 0))
        self.last[message.place] = arrives
        parcel = Parcel(arrives, world.now_ms, self, message, token)
        parcel.lost = world.loses(message)
        world.wire.append(parcel)

    def take(self) -> list[Confirmation]:
        """What was confirmed since the last call."""
        found, self.confirmations = self.confirmations, []
        return found


class World:
    """The logs and the wire. `faults_end_ms`: from then on nothing more goes wrong."""

    def __init__(self, seed: int, faults_end_ms: int = 12_000) -> None:
        self.rng = Random(seed)  # noqa: S311 a seed is a history
        self.now_ms, self.faults_end_ms = 0, faults_end_ms
        self.forgets = 0.0
        """How likely it is that a message arrives and its sender is never told."""
        self.wall_off_ms = 0
        """How wrong all wall clocks are."""
        self.logs: defaultdict[Place, list[Received]] = defaultdict(list)
        self.wire: list[Parcel] = []
        self.out_until: defaultdict[Place, int] = defaultdict(int)
        self.narrow: set[Place] = set()
        """Where every record is too large."""
        self.deleted: set[Place] = set()
        """Where there is no log any more."""
        self.producer_epochs: defaultdict[Place, int] = defaultdict(int)
        """By the log of checkpoints that a producer writes."""
        self.seen: defaultdict[str, int] = defaultdict(int)

    @property
    def now(self) -> Now:
        """The virtual instant."""
        return Now(WALL + self.now_ms + self.wall_off_ms, self.now_ms)

    @property
    def faulty(self) -> bool:
        """Whether something may still go wrong."""
        return self.now_ms < self.faults_end_ms

    def loses(self, message: Message) -> bool:
        """Whether a command times out on its way: its sender can't know."""
        lost = self.faulty and ".work." in f".{message.topic}" and self.rng.random() < 0.02
        self.seen["lost command"] += lost
        return lost

    def append(self, message: Message) -> int:
        """Put a message into its log at once; its offset."""
        log = self.logs[message.place]
        log.append(
            Received(
                message.topic,
                message.partition,
                len(log),
                self.now.wall_ms,
                message.value,
                message.headers,
                message.key,
            )
        )
        return len(log) - 1

    def advance(self) -> None:
        """One step of time: what is due arrives, unless its partition is unavailable."""
        self.now_ms += STEP_MS
        if self.faulty and self.logs and self.rng.random() < 0.004:
            where = self.rng.choice(list(self.logs))
            self.out_until[where] = self.now_ms + self.rng.randint(500, 4_000)
            self.seen["partition out"] += 1
        in_order = sorted(self.wire, key=lambda p: p.arrives_ms)
        self.wire = [parcel for parcel in in_order if not self._arrived(parcel)]

    def _arrived(self, parcel: Parcel) -> bool:
        if parcel.lost:
            if self.now_ms - parcel.sent_ms < DELIVERY_MS:
                return False
            self._confirm(parcel, None)
            return True
        if parcel.arrives_ms > self.now_ms or self.out_until[parcel.message.place] > self.now_ms:
            return False
        if parcel.message.place in self.deleted:
            self._confirm(parcel, None, BusError("there is no such topic"))
            return True
        if parcel.message.place in self.narrow:
            self._confirm(parcel, None, TooLargeError("too large"))
            return True
        offset = self.append(parcel.message)
        forgotten = self.forgets > 0 and self.faulty and self.rng.random() < self.forgets
        self._confirm(parcel, None if forgotten else offset)
        return True

    def _confirm(self, parcel: Parcel, offset: int | None, refusal: BusError | None = None) -> None:
        error = None if offset is not None else refusal or DeliveryUnknownError("timed out")
        parcel.sender.confirmations.append(Confirmation(parcel.token, parcel.message.place, offset, error))

    def crash(self, sender: Sender) -> None:
        """Its process died: what it had under way arrives or doesn't."""
        self.wire = [
            p for p in self.wire if p.sender is not sender or (not p.lost and self.rng.random() < 0.5)
        ]

    def read(self, where: Place, position: int) -> list[Received]:
        """All that stands there from `position` on; nothing while it is unavailable."""
        return [] if self.out_until[where] > self.now_ms else self.logs[where][position:]

    def records(self, kind: TopicKind) -> list[object]:
        """All records of a kind that can be decoded, partition by partition."""
        topics = {NAMES.of(kind, pool=POOL, tier=tier) for tier in ("interactive", "batch")}
        found = [r for where, log in sorted(self.logs.items()) if where.topic in topics for r in log]
        return [decode(kind, r.header) for r in found]
