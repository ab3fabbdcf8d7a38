"""A broker is killed and restarted under load: nothing acknowledged is lost or doubled, and everyone goes on."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message, Place
from headrace.bus.ports import (
    START,
    BusError,
    BusUnavailableError,
    CommitFailedError,
    Confirmation,
    FencedError,
    FencedState,
    QueueFullError,
)
from headrace.contracts.topics import TOPICS, Topic, TopicKind
from headrace.devkit.kafka import KafkaCluster
from tests.integration.bus.under_load import (
    PATIENT,
    SHORT,
    all_well,
    confirmed_by,
    kill_and_restart,
    read_until,
    written,
)
from tests.support.eventually import eventually, eventually_async, eventually_without
from tests.support.log_ends import newest_values
from tests.support.turned import turned

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    # A killed broker comes back when its old session has ended: 9 s by default, seven times over.
    with KafkaCluster(settings={"broker.session.timeout.ms": "3000"}) as running:
        yield running


@pytest.fixture
def bus(cluster: KafkaCluster) -> KafkaBus:
    return KafkaBus(KafkaConnection(cluster.bootstrap))


@pytest.fixture
def place(bus: KafkaBus, prefix: str) -> Place:
    topics, topic = bus.topics("test"), Topic(prefix + "t", TOPICS[TopicKind.WORK], 1, 1, 1)
    # After the test before, the broker is hardly back.
    eventually_without(BusError, lambda: topics.create([topic]), "the topic")
    topics.close()
    return Place(prefix + "t", 0)


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

    with turned(turn) as well:
        kill_and_restart(cluster, lambda: well() and min(len(confirmed), len(read)))
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
    await asyncio.to_thread(kill_and_restart, cluster, lambda: all_well(tasks) and len(read))
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
        stored = newest_values(bus, place)
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
        except (CommitFailedError, FencedError):
            # Fenced by nobody: the broker, once it is back, ends a transaction that was open for 15 s.
            state.close()
            state = owner()
        else:
            acknowledged.append(following)

    with turned(turn) as well:
        kill_and_restart(cluster, lambda: well() and len(acknowledged))

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
    trims = bus.trims("trims")
    eventually(trims.ask({place: 0}).answer, "trimming before")
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

    with turned(turn) as well:
        kill_and_restart(cluster, lambda: well() and len(read))
    assert read == [b"%d" % number for number in range(len(read))]
    assert eventually(trims.ask({place: 10}).answer, "trimming afterwards") == {place: 10}
    trims.close()
    producer.close()
    reader.close()


def test_what_is_dropped_on_close_is_never_written_and_what_was_sent_is_unknown(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    dropped = bus.loop_producer("dropped", delivery_timeout=PATIENT)
    giving_up = bus.loop_producer("giving-up", delivery_timeout=timedelta(seconds=1))
    for producer in (dropped, giving_up):
        eventually(lambda producer=producer: written(producer, b"first", place), "writing")  # type: ignore[misc]
    cluster.kill()
    for producer in (dropped, giving_up):
        producer.send(Message(place.topic, 0, b"second"), 1)
    found: list[Confirmation] = []
    eventually(lambda: confirmed_by(giving_up, found), "the delivery timeout")
    assert [(one.token, one.unknown) for one in found] == [(1, True)]
    dropped.close(drop=True)
    assert [one.token for one in dropped.confirmations()] == [1]
    cluster.restart()
    eventually(lambda: written(giving_up, b"third", place), "writing again")
    reader = bus.loop_reader("reader")
    reader.assign({place: START})
    read = read_until(reader, lambda values: b"third" in values)
    # "second" of the one that gave up may be there; of the one that was told to drop it, never.
    assert read.count(b"second") <= 1
    assert read.count(b"first") >= 2


async def test_without_a_broker_callers_are_told_so_in_time(
    cluster: KafkaCluster, bus: KafkaBus, place: Place
) -> None:
    producer = bus.async_producer("producer", delivery_timeout=timedelta(seconds=1))
    await producer.start()

    async def writes() -> bool:
        try:
            await producer.send(Message(place.topic, 0, b"x"))
        except BusError:
            return False
        return True

    await eventually_async(writes, "writing")
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
    await eventually_async(writes, "writing again")
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
