"""Where the bus in memory differs from Kafka, and that threads may share it."""

from datetime import timedelta
from threading import Thread

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message, Place
from headrace.bus.ports import START
from headrace.contracts.topics import TOPICS, Topic, TopicKind

PLACE = Place("t", 0)
DELIVERY = timedelta(seconds=1)


def bus_with_topic() -> MemoryBus:
    bus = MemoryBus(wall_ms=lambda: 1_800_000_000_000)
    bus.topics("test").create([Topic("t", TOPICS[TopicKind.WORK], 1, 1, 1)])
    return bus


def test_unlike_kafka_everything_is_confirmed_claimed_committed_and_answered_at_once() -> None:
    bus = bus_with_topic()
    producer = bus.loop_producer("p", delivery_timeout=DELIVERY)
    producer.send(Message("t", 0, b"x"), "token")
    assert [one.offset for one in producer.confirmations()] == [0]
    state = bus.fenced_state("s", place=PLACE, transactional_id="s")
    assert state.claim()
    state.begin([Message("t", 0, b"x", (), b"k")])
    assert state.committed()
    assert bus.ends("e").ask([PLACE]).answer() == {PLACE: 3}
    group = bus.group_reader("g", "group")
    group.subscribe(["t"], assigned=lambda places: dict.fromkeys(places, START), revoked=lambda _: None)
    assert len(group.read(10, timedelta(0))) == 2


def test_timestamps_are_the_injected_clocks() -> None:
    bus = bus_with_topic()
    bus.loop_producer("p", delivery_timeout=DELIVERY).send(Message("t", 0, b"x"), 1)
    reader = bus.loop_reader("r")
    reader.assign({PLACE: START})
    assert [one.timestamp_ms for one in reader.read(1, timedelta(0))] == [1_800_000_000_000]


def test_many_threads_write_and_one_that_waits_reads_each_record_once() -> None:
    bus = bus_with_topic()

    def write(number: int) -> None:
        producer = bus.loop_producer("p", delivery_timeout=DELIVERY)
        for sequence in range(200):
            producer.send(Message("t", 0, b"%d/%d" % (number, sequence)), sequence)

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    reader = bus.loop_reader("r")
    reader.assign({PLACE: START})
    for thread in threads:
        thread.start()
    found: list[bytes | None] = []
    while len(found) < 800 and (records := reader.read(50, timedelta(seconds=5))):
        found += [one.value for one in records]
    assert set(found) == {b"%d/%d" % (number, sequence) for number in range(4) for sequence in range(200)}
    assert len(found) == 800
    for thread in threads:
        thread.join()
