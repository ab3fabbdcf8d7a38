"""A broker is killed and restarted under load: nothing acknowledged is lost or doubled, and everyone goes on."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message, Place
from headrace.bus.ports import (
    START,
    BusError,
    BusUnavailableError,
    CommitFailedError,
    Confirmation,
    FencedState,
    LoopProducer,
    LoopReader,
    QueueFullError,
)
from headrace.contracts.topics import TOPICS, Topic, TopicKind
from headrace.devkit.kafka import KafkaCluster
from tests.support.eventually import eventually, eventually_async

pytestmark = pytest.mark.kafka

PATIENT = timedelta(seconds=60)
SHORT = timedelta(milliseconds=20)
A_FEW = 50


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    # A killed broker comes back when its old session has ended: 9 s by default, seven times over.
    with KafkaCluster(settings={"broker.session.timeout.ms": "2000"}) as running:
        yield running


@pytest.fixture
def bus(cluster: KafkaCluster) -> KafkaBus:
    return KafkaBus(KafkaConnection(cluster.bootstrap))


@pytest.fixture
def place(bus: KafkaBus, prefix: str) -> Place:
    topics = bus.topics("test")
    topics.create([Topic(prefix + "t", TOPICS[TopicKind.WORK], 1, 1, 1)])
    return Place(prefix + "t", 0)


@contextmanager
def in_thread(turn: Callable[[], None]) -> Iterator[None]:
    """Calls `turn` over and over in a thread; what it raises is raised here."""
    stop, errors = Event(), list[BaseException]()

    def run() -> None:
        try:
            while not stop.is_set():
                turn()
        except BaseException as error:  # noqa: BLE001 - handed over to the test
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    if errors:
        raise errors[0]


def kill_and_restart(cluster: KafkaCluster, counts: Callable[[], int]) -> None:
    """Under load: wait for some, kill, restart, wait for some more."""
    eventually(lambda: counts() >= A_FEW, "a few before")
    cluster.kill()
    cluster.restart()
    before = counts()
    eventually(lambda: counts() >= before + A_FEW, "a few after", PATIENT)


def confirmed_by(producer: LoopProducer, found: list[Confirmation]) -> bool:
    """Whether anything is confirmed by now; `found` gets it."""
    found.extend(producer.confirmations())
    return bool(found)


def read_until(reader: LoopReader, enough: Callable[[list[bytes | None]], bool]) -> list[bytes | None]:
    """The values read until there are enough."""
    values: list[bytes | None] = []

    def read_on() -> bool:
        values.extend(record.value for record in reader.read(100, SHORT))
        return enough(values)

    eventually(read_on, "enough records", PATIENT)
    return values


def test_a_plain_loop_loses_nothing_that_was_acknowledged(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    producer = bus.loop_producer("producer", delivery_timeout=PATIENT)
    reader = bus.loop_reader("reader")
    reader.assign({place: START})
    confirmed: list[Confirmation] = []
    read: list[bytes | None] = []
    sent = 0

    def turn() -> None:
        nonlocal sent
        producer.send(Message(place.topic, 0, b"%d" % sent), sent)
        sent += 1
        confirmed.extend(producer.confirmations())
        read.extend(record.value for record in reader.read(100, SHORT))

    with in_thread(turn):
        kill_and_restart(cluster, lambda: min(len(confirmed), len(read)))
    assert producer.flush(PATIENT) == 0
    confirmed.extend(producer.confirmations())
    assert [(one.token, one.error) for one in confirmed] == [(number, None) for number in range(sent)]
    read += read_until(reader, lambda values: len(read) + len(values) >= sent)
    assert read == [b"%d" % number for number in range(sent)]
    producer.close()
    reader.close()


async def test_asyncio_loses_nothing_that_was_acknowledged(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    producer = bus.async_producer("producer", delivery_timeout=PATIENT)
    reader = bus.async_reader("reader")
    await producer.start()
    await reader.start()
    await reader.assign({place: START})
    sends: list[asyncio.Task[int]] = []
    read: list[bytes | None] = []
    stop = asyncio.Event()

    async def write() -> None:
        while not stop.is_set():
            message = Message(place.topic, 0, b"%d" % len(sends))
            sends.append(asyncio.create_task(producer.send(message)))
            await asyncio.sleep(0.005)

    async def follow() -> None:
        while not stop.is_set():
            read.extend(record.value for record in await reader.read(100, SHORT))

    tasks = [asyncio.create_task(write()), asyncio.create_task(follow())]
    await asyncio.to_thread(kill_and_restart, cluster, lambda: len(read))
    stop.set()
    await asyncio.gather(*tasks)
    assert await asyncio.gather(*sends) == list(range(len(sends)))

    async def all_read() -> bool:
        read.extend(record.value for record in await reader.read(100, SHORT))
        return len(read) >= len(sends)

    await eventually_async(all_read, "all read")
    assert read == [b"%d" % number for number in range(len(sends))]
    assert await reader.ends([place]) == {place: len(sends)}
    await producer.stop()
    await reader.stop()


def test_an_owner_goes_on_from_its_last_committed_checkpoint_and_ends_are_answered_again(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    asking = bus.ends("ends")
    eventually(asking.ask([place]).answer, "ends before")
    acknowledged = [0]
    states: list[FencedState] = []

    def owner() -> FencedState:
        state = bus.fenced_state("owner", place=place, transactional_id=place.topic)
        states.append(state)
        eventually(state.claim, "the claim", PATIENT)
        stored = {record.key: record.value for record in state.load()}
        # The last begun may have been committed too, without anybody having been told.
        assert int(stored.get(b"n") or b"0") in {acknowledged[-1], acknowledged[-1] + 1}
        return state

    state = owner()

    def turn() -> None:
        nonlocal state
        following = acknowledged[-1] + 1
        try:
            state.begin([Message(place.topic, 0, b"%d" % following, (), b"n")])
            eventually(state.committed, "the commit", PATIENT)
        except CommitFailedError:
            state.close()
            state = owner()
        else:
            acknowledged.append(following)

    with in_thread(turn):
        kill_and_restart(cluster, lambda: len(acknowledged))

    def ends_again() -> bool:
        asked = asking.ask([place])
        try:
            answer = eventually(asked.answer, "an answer")
        except BusUnavailableError:
            return False
        return bool(answer)

    eventually(ends_again, "ends after")
    for one in states:
        one.close()


def test_a_group_goes_on_reading_and_trimming_works_again(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    producer = bus.loop_producer("producer", delivery_timeout=PATIENT)
    reader = bus.group_reader("reader", place.topic)
    topics = bus.topics("topics")
    topics.trim({place: 0})
    positions = {place: 0}
    read: list[bytes | None] = []
    sent = 0
    reader.subscribe(
        [place.topic],
        assigned=lambda places: {one: positions[one] for one in places},
        revoked=lambda _: None,
    )

    def turn() -> None:
        nonlocal sent
        producer.send(Message(place.topic, 0, b"%d" % sent), sent)
        sent += 1
        producer.confirmations()
        for record in reader.read(100, SHORT):
            positions[place] = record.offset + 1
            read.append(record.value)

    with in_thread(turn):
        kill_and_restart(cluster, lambda: len(read))
    assert read == [b"%d" % number for number in range(len(read))]
    topics.trim({place: 10})
    producer.close()
    reader.close()


def test_what_is_dropped_on_close_is_never_written_and_what_was_sent_is_unknown(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    dropped = bus.loop_producer("dropped", delivery_timeout=PATIENT)
    giving_up = bus.loop_producer("giving-up", delivery_timeout=timedelta(seconds=1))
    for producer in (dropped, giving_up):
        producer.send(Message(place.topic, 0, b"first"), 0)
        assert producer.flush(PATIENT) == 0
        assert [one.error for one in producer.confirmations()] == [None]
    cluster.kill()
    for producer in (dropped, giving_up):
        producer.send(Message(place.topic, 0, b"second"), 1)
    found: list[Confirmation] = []
    eventually(lambda: confirmed_by(giving_up, found), "the delivery timeout")
    assert [(one.token, one.unknown) for one in found] == [(1, True)]
    dropped.close(drop=True)
    assert [one.token for one in dropped.confirmations()] == [1]
    cluster.restart()

    def writes_again() -> bool:
        giving_up.send(Message(place.topic, 0, b"third"), 2)
        assert giving_up.flush(PATIENT) == 0
        return giving_up.confirmations()[-1].error is None

    eventually(writes_again, "writing again")
    reader = bus.loop_reader("reader")
    reader.assign({place: START})
    read = read_until(reader, lambda values: b"third" in values)
    # "second" of the one that gave up may be there; of the one that was told to drop it, never.
    assert read.count(b"second") <= 1
    assert read[:2] == [b"first", b"first"]


async def test_without_a_broker_callers_are_told_so_in_time(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    producer = bus.async_producer("producer", delivery_timeout=timedelta(seconds=1))
    await producer.start()
    await producer.send(Message(place.topic, 0, b"before"))
    cluster.kill()
    outcomes = await asyncio.gather(
        *(producer.send(Message(place.topic, 0, b"lost")) for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(one, BusError) for one in outcomes)
    starting = bus.async_reader("reader")
    describing = asyncio.to_thread(bus.topics("topics").describe, [place.topic])
    for told in await asyncio.gather(starting.start(), describing, return_exceptions=True):
        assert isinstance(told, BusUnavailableError)
    cluster.restart()

    async def writes_again() -> bool:
        try:
            await producer.send(Message(place.topic, 0, b"after"))
        except BusError:
            return False
        return True

    await eventually_async(writes_again, "writing again")
    await producer.stop()


def test_a_full_queue_is_said_and_nothing_is_dropped(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    producer = bus.loop_producer("producer", delivery_timeout=PATIENT)
    cluster.pause()
    sent = 0
    with pytest.raises(QueueFullError):  # noqa: PT012 - it is one send of many that says so
        while sent < 1_000_000:
            producer.send(Message(place.topic, 0, b"x"), sent)
            sent += 1
    cluster.resume()
    assert producer.flush(PATIENT) == 0
    assert [(one.token, one.error) for one in producer.confirmations()] == [(n, None) for n in range(sent)]
    producer.close()
