"""Junk and lies in `requests` and `attempts`, which a pool's owner and result-delivery both read: one dead letter each."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message, Place
from headrace.bus.topic_check import apply_topics
from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import HEADER, decode, encode
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.topics import TopicKind, TopicNames, required_topics
from headrace.contracts.values import Origin
from headrace.runtime.clock import SystemClock
from headrace.runtime.telemetry import Telemetry
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.owning import Owning
from headrace.scheduler.service import Scheduler
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.wiring import build
from tests.support.delivery import POLICY, PREFIX, Member, produce, records_in, rows, topic
from tests.support.eventually import eventually
from tests.support.results import attempt, attempt_message, request, request_message
from tests.support.scheduler.live import FAST

REQUESTS, ATTEMPTS, DLQ = topic(TopicKind.REQUESTS), topic(TopicKind.ATTEMPTS), topic(TopicKind.DLQ)
K = FailureKind
GARBAGE = ((HEADER, b"{"),)
ELSEWHERE = Origin("headrace.requests.other.standard", 0, 1)
AT_GARBAGE = Origin(REQUESTS, 0, 1)
"""A request that isn't known: nothing finishes the one that is."""
KNOWN_TO_OWNER: list[tuple[Message, FailureKind]] = [
    (attempt_message(ATTEMPTS, attempt(0, origin=AT_GARBAGE)), K.LYING_ATTEMPT),
    (attempt_message(ATTEMPTS, attempt(0, attempt=AttemptId(1, 99))), K.LYING_ATTEMPT),
    (attempt_message(ATTEMPTS, attempt(0, tenant="birch", verdict=Verdict.RETRY_AT)), K.FOREIGN_TENANT),
]
"""Lies that nobody sees without knowing the request, or what was released."""

BAD: list[tuple[Message, FailureKind]] = [
    (Message(REQUESTS, 0, b"raw", GARBAGE), K.UNDECODABLE),
    (Message(REQUESTS, 0, None, ()), K.EMPTY_RECORD),
    (request_message(REQUESTS, request(2, prompt_tokens=-1)), K.OUT_OF_BOUNDS),
    (request_message(REQUESTS, request(3, pool="other")), K.UNKNOWN_POOL),
    (request_message(REQUESTS, request(4, tier="batch")), K.LYING_RECORD),
    (request_message(REQUESTS, request(5, tenant="a\0b")), K.LYING_RECORD),
    (request_message(REQUESTS, request(6, id="nonsense")), K.LYING_RECORD),
    (request_message(REQUESTS, request(0, tier="batch")), K.LYING_RECORD),
    (Message(ATTEMPTS, 0, b"raw", GARBAGE), K.UNDECODABLE),
    (Message(ATTEMPTS, 0, None, ()), K.EMPTY_RECORD),
    (Message(ATTEMPTS, 0, b"", ((HEADER, encode(attempt(2)).replace(b":11", b":-1")),)), K.OUT_OF_BOUNDS),
    (attempt_message(ATTEMPTS, attempt(2, origin=ELSEWHERE)), K.LYING_ATTEMPT),
    (attempt_message(ATTEMPTS, attempt(2, tier="batch")), K.LYING_ATTEMPT),
    (attempt_message(ATTEMPTS, attempt(2, id="nonsense")), K.LYING_ATTEMPT),
    (attempt_message(ATTEMPTS, attempt(2, status=Status.RUNNING)), K.LYING_ATTEMPT),
    (attempt_message(ATTEMPTS, attempt(2, worker="a\0b")), K.LYING_ATTEMPT),
    *KNOWN_TO_OWNER,
]


@pytest.fixture
def bus() -> MemoryBus:
    """All topics, and one honest request, which nobody runs."""
    made = MemoryBus()
    topics = made.topics("test")
    wanted = required_topics(
        TopicNames(PREFIX), POLICY.topics.counts(), pools=POLICY.pools, tiers=POLICY.tiers
    )
    apply_topics(topics, wanted)
    topics.close()
    produce(made, [request_message(REQUESTS, request(0, accepted_ms=SystemClock().now().wall_ms))])
    return made


@pytest.fixture
def owner(bus: MemoryBus) -> Iterator[Callable[[], Scheduler]]:
    """Makes a scheduler."""
    begun: list[Scheduler] = []

    def begin() -> Scheduler:
        """A replica."""
        settings = SchedulerSettings(prefix=PREFIX, name="s")
        telemetry = Telemetry.create(settings)
        scheduler = build(settings, bus=bus, policy=POLICY, telemetry=telemetry, timings=FAST)
        scheduler.start()
        begun.append(scheduler)
        return scheduler

    yield begin
    for scheduler in begun:
        scheduler.stop()


@pytest.fixture
def member(bus: MemoryBus, database: str) -> Iterator[Member]:
    """result-delivery."""
    made = Member(bus, database)
    yield made
    made.leave()


def letters(bus: MemoryBus) -> list[tuple[FailureKind, str, int]]:
    """Where each stood among what others than the owner wrote: its barriers come when its gate opens."""
    found = [decode(TopicKind.DLQ, record.header) for record in records_in(bus, DLQ)]
    barriers = {name: barriers_in(bus, name) for name in (REQUESTS, ATTEMPTS)}
    return sorted(
        (each.reason, each.topic, each.offset - sum(at < each.offset for at in barriers[each.topic]))
        for each in found
    )


def barriers_in(bus: MemoryBus, name: str) -> list[int]:
    return [
        record.offset
        for record in records_in(bus, name)
        if record.partition == 0 and record.header == encode(Barrier())
    ]


def wanted(bad: list[tuple[Message, FailureKind]]) -> list[tuple[FailureKind, str, int]]:
    """Each with the offset at which it is written behind the honest request."""
    offsets = {REQUESTS: count(1), ATTEMPTS: count(0)}
    return sorted((reason, message.topic, next(offsets[message.topic])) for message, reason in bad)


def core_of(scheduler: Scheduler) -> PoolCore | None:
    """While it owns the pool."""
    doing = scheduler._pools[0].doing
    return doing.core if isinstance(doing, Owning) else None


def tracks(scheduler: Scheduler) -> bool:
    """Whether it knows the honest request."""
    core = core_of(scheduler)
    return core is not None and request(0).id in core.state.tracked


def has_read(scheduler: Scheduler, bad: list[tuple[Message, FailureKind]]) -> bool:
    """Whether these attempts and requests are read, and every letter of its own is written."""
    core, there = core_of(scheduler), Counter(message.topic for message, _ in bad)
    if core is None or not core.state.open:
        return False
    finished = core.state.partitions.by_place[Place(REQUESTS, 0)].finished
    read = core.state.attempts_read[0] > there[ATTEMPTS] and there[REQUESTS] in finished
    return read and not core._endings.waiting


def has_committed(bus: MemoryBus, database: str, bad: list[tuple[Message, FailureKind]]) -> bool:
    """Whether result-delivery has passed them all."""
    stands = dict(rows(database, "SELECT topic, next_offset FROM positions WHERE partition = 0"))
    written = Counter(message.topic for message, _ in bad)
    attempts = written[ATTEMPTS] + len(barriers_in(bus, ATTEMPTS))
    return bool(stands.get(REQUESTS, 0) > written[REQUESTS] and stands.get(ATTEMPTS, 0) >= attempts)


def until(condition: Callable[[], bool], what: str, *turning: Callable[[], None]) -> None:
    """Turns these until the condition holds."""

    def turned() -> bool:
        for turn in turning:
            turn()
        return condition()

    eventually(turned, what)


def test_each_bad_record_that_both_read_has_one_dead_letter(
    bus: MemoryBus, database: str, owner: Callable[[], Scheduler], member: Member
) -> None:
    scheduler = owner()
    until(lambda: tracks(scheduler), "the honest request is known", scheduler.turn)
    produce(bus, [message for message, _ in BAD])
    both = (scheduler.turn, member.loop.turn)
    until(lambda: has_read(scheduler, BAD) and has_committed(bus, database, BAD), "both have read all", *both)
    assert letters(bus) == wanted(BAD)
    left = Counter(reason for _, reason in BAD) - Counter({K.FOREIGN_TENANT: 1, K.LYING_ATTEMPT: 2})
    assert {reason: member.metric("left_to_owner_total", reason=reason) for reason in left} == left
    assert member.metric("dlq_total", reason="foreign_tenant") == 1


def test_what_only_the_owner_has_read_is_buried_once_when_result_delivery_comes(
    bus: MemoryBus, database: str, owner: Callable[[], Scheduler]
) -> None:
    scheduler = owner()
    until(lambda: tracks(scheduler), "the honest request is known", scheduler.turn)
    produce(bus, [message for message, _ in BAD])
    until(lambda: has_read(scheduler, BAD), "the owner has read all", scheduler.turn)
    assert letters(bus) == [each for each in wanted(BAD) if each[0] is not K.FOREIGN_TENANT]
    member = Member(bus, database)
    until(lambda: has_committed(bus, database, BAD), "so has result-delivery", member.loop.turn)
    assert letters(bus) == wanted(BAD)
    member.leave()


def test_what_only_result_delivery_has_read_is_buried_once_when_an_owner_comes(
    bus: MemoryBus, database: str, owner: Callable[[], Scheduler], member: Member
) -> None:
    bad = [each for each in BAD if each not in KNOWN_TO_OWNER]
    produce(bus, [message for message, _ in bad])
    until(lambda: has_committed(bus, database, bad), "result-delivery has read all", member.loop.turn)
    assert letters(bus) == []
    scheduler = owner()
    until(lambda: has_read(scheduler, bad) and tracks(scheduler), "so has the owner", scheduler.turn)
    assert letters(bus) == wanted(bad)
