"""The whole scheduler on a real or in-memory bus, and its pool's logs as a test sees them.

Used by tests/integration/scheduler and tests/benchmarks. Everything is turned by the test's own thread: no waiting but for
conditions. When to use it: see scheduler.pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import START, Bus, BusUnavailableError, LoopReader
from headrace.bus.topic_check import apply_topics
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.codec import decode
from headrace.contracts.control import ControlRecord
from headrace.contracts.durations import ms
from headrace.contracts.ids import mint_request_id
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind, TopicNames, required_topics
from headrace.contracts.values import Payload
from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.telemetry import Telemetry
from headrace.scheduler.service import Scheduler
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.timings import Timings
from headrace.scheduler.wiring import build
from tests.support.eventually import PATIENCE, eventually_without
from tests.support.scheduler.pure import POOL

_NO_WAIT = timedelta()
_KEY = b"k" * 32
_QUEUE_TIMEOUT = timedelta(hours=24)
"""Of whatever tier: by each request's own word, as ingest writes it."""
FAST = Timings(
    checkpoint=timedelta(milliseconds=200),
    silent=timedelta(milliseconds=900),
    back_off=timedelta(milliseconds=100),
    tick=timedelta(milliseconds=100),
    trim=timedelta(milliseconds=200),
)


@dataclass
class Pool:
    """The logs of one pool on one bus, as a test sees them."""

    bus: Bus
    prefix: str
    policy: Policy
    clock: Clock = field(default_factory=SystemClock)
    submitted: int = 0
    bodies: bool = False
    """Whether each request's body is its id."""
    body: bytes = b"{}"
    """The body of every request, where it isn't its id."""

    def __post_init__(self) -> None:
        self.names = TopicNames(self.prefix)
        topics = self.bus.topics("test")
        counts = self.policy.topics.counts()
        pools = self.policy.pools
        apply_topics(topics, required_topics(self.names, counts, pools=pools, tiers=self.policy.tiers))
        topics.close()
        self.producer = self.bus.loop_producer("test", delivery_timeout=timedelta(seconds=10))
        self.results: list[ResultRecord] = []
        self._reader = self.bus.loop_reader("test")
        partitions = range(self.policy.topics.tenant_partitions)
        self.assign(self._reader, {Place(self.names.of(TopicKind.RESULTS), p): START for p in partitions})

    @staticmethod
    def assign(reader: LoopReader, positions: dict[Place, int]) -> None:
        """A topic made a moment ago has no leader yet: assign as soon as that is possible."""
        eventually_without(BusUnavailableError, lambda: reader.assign(positions), "the logs can be read")

    def place(self, kind: TopicKind, partition: int = 0, tier: str = "") -> Place:
        """A partition of one of its topics."""
        return Place(self.names.of(kind, pool=POOL, tier=tier), partition)

    def scheduler(
        self, name: str, replicas: tuple[str, ...] = (), timings: Timings = FAST, **more: Any
    ) -> Scheduler:
        """A new replica. `more`: other settings of it."""
        settings = SchedulerSettings(prefix=self.prefix, name=name, replicas=replicas, **more)
        telemetry = Telemetry.create(settings, self.clock)
        return build(settings, bus=self.bus, policy=self.policy, telemetry=telemetry, timings=timings)

    def tell(self, record: ControlRecord) -> None:
        """Write to `control`."""
        self.producer.send(message_of(self.place(TopicKind.CONTROL), record), None)

    def submit(self, count: int, tenant: str = "a", tier: str = "batch", **more: Any) -> list[str]:
        """Let so many requests be accepted; their ids. `more`: other fields of their records."""
        return [self._submit_one(tenant, tier, more) for _ in range(count)]

    def results_read(self) -> list[ResultRecord]:
        """All results so far."""
        found = self._reader.read(500, _NO_WAIT)
        self.results += [decode(TopicKind.RESULTS, received.header) for received in found]
        return self.results

    def _submit_one(self, tenant: str, tier: str, more: Mapping[str, Any]) -> str:
        partition = partition_of(tenant, self.policy.topics.tenant_partitions)
        self.submitted += 1
        wall = self.clock.now().wall_ms
        made = mint_request_id(
            _KEY,
            tenant=tenant,
            pool=POOL,
            tier=tier,
            partition=partition,
            wall_ms=wall,
            random=self.submitted.to_bytes(10, "big"),
        )
        body = made.encode() if self.bodies else self.body
        record = RequestRecord(
            id=made,
            tenant=tenant,
            pool=POOL,
            tier=tier,
            partition=partition,
            model="m",
            route="/v1/chat/completions",
            accepted_ms=wall,
            payload=Payload(size=len(body)),
            gateway=0,
            start_by_ms=wall + ms(_QUEUE_TIMEOUT),
            **{"max_tokens": 10, "prompt_tokens": 4, **more},
        )
        self.producer.send(message_of(self.place(TopicKind.REQUESTS, partition, tier), record, body), None)
        return made

    def close(self) -> None:
        """Let go."""
        self._reader.close()
        self.producer.close()


def turn_until(pool: Pool, turns: list[Callable[[], None]], condition: Callable[[], bool]) -> None:
    """Turn these one after the other until the condition holds."""
    deadline = pool.clock.now().boot_ms + ms(PATIENCE)
    while not condition():
        assert pool.clock.now().boot_ms < deadline, "the condition didn't come true in time"
        for turn in turns:
            turn()


class Ownerships:
    """Who has owned a pool, as `state` tells it."""

    def __init__(self, pool: Pool, name: str = POOL) -> None:
        self._reader = pool.bus.loop_reader("ownerships")
        self._all: list[Ownership] = []
        pool.assign(self._reader, {Place(pool.names.of(TopicKind.STATE, pool=name), 0): START})

    def all(self) -> list[Ownership]:
        """All so far, in log order."""
        found = [decode(TopicKind.STATE, r.header) for r in self._reader.read(500, _NO_WAIT)]
        self._all += [record for record in found if isinstance(record, Ownership)]
        return self._all

    def last(self) -> Ownership | None:
        """The newest."""
        return self.all()[-1] if self.all() else None

    def open_by(self, name: str) -> bool:
        """Whether this replica owns it, and its gate is open."""
        last = self.last()
        return last is not None and (last.owner, last.gate_open, last.released) == (name, True, False)

    def close(self) -> None:
        """Let go."""
        self._reader.close()
