"""What LoopProducer, LoopReader and Ends promise, on both buses."""

from datetime import timedelta

import pytest

from headrace.bus.messages import Message, Place
from headrace.bus.ports import END, START, BusError, LoopReader, PositionGoneError, TooLargeError
from tests.contract.bus.conftest import SOON, Bench, confirmations_of, read_records, read_values
from tests.support.eventually import eventually
from tests.support.log_ends import trim

NONE_COMES = timedelta(milliseconds=300)


def position_gone(reader: LoopReader) -> PositionGoneError:
    """The error that reading raises soon."""
    raised: list[PositionGoneError] = []

    def raises() -> bool:
        try:
            reader.read(10, SOON)
        except PositionGoneError as error:
            raised.append(error)
        return bool(raised)

    eventually(raises, "the position is said to be gone")
    return raised[0]


def test_confirmations_come_with_token_and_offset_in_the_order_of_the_sends(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    producer = bench.producer()
    for number in range(200):
        place = (first, second)[number % 2]
        producer.send(Message(place.topic, place.partition, b"x"), number)
    confirmed = confirmations_of(producer, 200)
    for place, tokens in ((first, range(0, 200, 2)), (second, range(1, 200, 2))):
        of_place = [one for one in confirmed if one.place == place]
        assert [one.token for one in of_place] == list(tokens)
        assert [one.offset for one in of_place] == list(range(100))
    producer.close()


def test_flush_waits_and_leaves_the_confirmations_to_be_fetched(bench: Bench) -> None:
    (place,) = bench.topic("t")
    producer = bench.producer()
    producer.send(Message(place.topic, place.partition, b"x"), "token")
    assert producer.flush(timedelta(seconds=10)) == 0
    assert [one.token for one in producer.confirmations()] == ["token"]
    producer.close()


def test_a_record_comes_back_as_it_was_sent(bench: Bench) -> None:
    (place,) = bench.topic("t")
    headers = (("headrace", b"{}"), ("twice", b"1"), ("twice", b"\x00\xff"), ("empty", b""))
    producer = bench.producer()
    producer.send(Message(place.topic, 0, b"\x00value\xff", headers, b"key"), 1)
    producer.send(Message(place.topic, 0, None, (), b"tombstone"), 2)
    producer.send(Message(place.topic, 0, b""), 3)
    producer.flush(timedelta(seconds=10))
    first, tombstone, empty = read_records(bench.reader(place), 3)
    assert (first.value, first.headers, first.key, first.offset) == (b"\x00value\xff", headers, b"key", 0)
    assert (tombstone.value, tombstone.key) == (None, b"tombstone")
    assert (empty.value, empty.key, empty.headers) == (b"", None, ())
    assert first.timestamp_ms > 1_577_836_800_000
    producer.close()


def test_a_send_to_an_unknown_topic_or_partition_is_confirmed_as_refused(bench: Bench) -> None:
    (place,) = bench.topic("t")
    producer = bench.producer()
    producer.send(Message(place.topic, 7, b"x"), "partition")
    producer.send(Message(place.topic + ".no", 0, b"x"), "topic")
    for one in confirmations_of(producer, 2):
        assert one.offset is None
        assert one.error is not None
        assert not one.unknown
    producer.send(Message(place.topic, 0, b"x"), "good")
    (good,) = confirmations_of(producer, 1)
    assert good.offset == 0
    producer.close()


def test_what_is_larger_than_the_topic_takes_is_refused_and_the_producer_goes_on(bench: Bench) -> None:
    (place,) = bench.topic("t", room=10_000)
    producer = bench.producer()
    producer.send(Message(place.topic, 0, b"before"), 0)
    producer.flush(timedelta(seconds=10))
    producer.send(Message(place.topic, 0, bytes(11_000)), 1)
    producer.flush(timedelta(seconds=10))
    producer.send(Message(place.topic, 0, b"after"), 2)
    before, large, after = confirmations_of(producer, 3)
    assert isinstance(large.error, TooLargeError)
    assert (before.offset, large.offset, after.offset) == (0, None, 1)
    producer.close()


def test_the_largest_message_of_the_table_goes_through(bench: Bench) -> None:
    (place,) = bench.topic("t")
    payload = bytes(8 * 1024 * 1024)
    assert bench.write(place, payload) == [0]
    assert read_values(bench.reader(place), 1) == [payload]


def test_a_closed_producer_takes_nothing_more(bench: Bench) -> None:
    (place,) = bench.topic("t")
    producer = bench.producer()
    producer.send(Message(place.topic, 0, b"x"), 1)
    producer.close()
    assert [one.offset for one in producer.confirmations()] == [0]
    with pytest.raises(BusError):
        producer.send(Message(place.topic, 0, b"x"), 2)


def test_reading_starts_where_it_is_told_to(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0", b"1", b"2")
    assert read_values(bench.reader(place, position=START), 3) == [b"0", b"1", b"2"]
    assert read_values(bench.reader(place, position=1), 2) == [b"1", b"2"]
    at_end = bench.reader(place, position=END)
    assert at_end.position(place) == 3
    bench.write(place, b"3")
    assert read_values(at_end, 1) == [b"3"]
    assert at_end.position(place) == 4


def test_read_returns_at_most_its_limit_and_nothing_after_its_wait(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, *(b"%d" % number for number in range(10)))
    reader = bench.reader(place)
    first = eventually(lambda: reader.read(3, SOON), "a record")
    assert 1 <= len(first) <= 3
    assert reader.position(place) == len(first)
    rest = read_values(reader, 10 - len(first))
    assert [*(one.value for one in first), *rest] == [b"%d" % number for number in range(10)]
    assert reader.read(5, timedelta(0)) == []


def test_no_record_of_a_paused_partition_is_handed_out_and_none_is_lost(bench: Bench) -> None:
    paused, other = bench.topic("t", partitions=2)
    values = [b"%d" % number for number in range(500)]
    bench.write(paused, *values)
    reader = bench.reader(paused, other)
    first = read_values(reader, 1)  # by now the client has prefetched the others
    reader.pause({paused})
    bench.write(other, b"other")
    assert read_records(reader, 1)[0].place == other
    assert reader.read(10, NONE_COMES) == []
    assert reader.position(paused) == 1
    reader.pause(set())
    assert reader.position(paused) == 1
    assert first + read_values(reader, 499) == values
    assert reader.read(10, NONE_COMES) == []


def test_a_pause_outlives_a_new_assignment(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    bench.write(first, b"first")
    bench.write(second, b"second")
    reader = bench.bus.loop_reader("reader")
    reader.pause({first})
    reader.assign({first: START})
    assert reader.read(10, NONE_COMES) == []
    reader.assign({first: START, second: START})
    assert read_values(reader, 1) == [b"second"]
    assert reader.read(10, NONE_COMES) == []
    reader.pause(set())
    assert read_values(reader, 1) == [b"first"]
    reader.close()


def test_assigning_again_reads_from_the_new_positions_only(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    bench.write(first, b"0", b"1")
    bench.write(second, b"2")
    reader = bench.reader(first)
    read_values(reader, 2)
    reader.assign({first: 1, second: START})
    assert (reader.position(first), reader.position(second)) == (1, 0)
    assert sorted(value or b"" for value in read_values(reader, 2)) == [b"1", b"2"]
    reader.assign({second: END})
    bench.write(first, b"unread")
    assert reader.read(10, NONE_COMES) == []
    with pytest.raises(BusError):
        reader.position(first)


def test_a_position_is_never_that_of_an_earlier_assignment(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    bench.write(first, b"0", b"1")
    reader = bench.reader(first)
    for number in range(30):
        read_values(reader, 1 if number else 2)
        reader.assign({first: 1, second: START} if number % 2 else {first: 1})
        assert reader.position(first) == 1


def test_reading_an_unknown_topic_or_partition_is_an_error_and_creates_nothing(bench: Bench) -> None:
    (place,) = bench.topic("t")
    reader = bench.bus.loop_reader("reader")
    for unknown in (Place(place.topic + ".no", 0), Place(place.topic, 1)):
        with pytest.raises(BusError, match=r"topics apply|no partition"):
            reader.assign({unknown: START})
    assert bench.bus.topics("t").describe([place.topic + ".no"]) == {}


def test_a_position_that_was_trimmed_away_is_never_skipped(bench: Bench) -> None:
    gone, good = bench.topic("t", partitions=2)
    bench.write(gone, b"0", b"1", b"2", b"3")
    trim(bench.bus, {gone: 2})
    reader = bench.bus.loop_reader("reader")
    reader.assign({gone: 1, good: START})
    for _ in range(2):
        error = position_gone(reader)
        assert (error.place, error.position) == (gone, 1)
    reader.assign({gone: START})
    assert read_values(reader, 2) == [b"2", b"3"]


def test_a_position_beyond_the_end_is_gone_too(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0")
    reader = bench.reader(place, position=9)
    assert position_gone(reader).position == 9


def test_ends_are_after_the_last_record_of_each(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    bench.write(first, b"0", b"1")
    ends = bench.bus.ends("ends")
    asked = ends.ask([first, second])
    assert eventually(asked.answer, "an answer") == {first: 2, second: 0}
    assert ends.ask([]).answer() == {}
    with pytest.raises(BusError):
        eventually(ends.ask([Place(first.topic + ".no", 0)]).answer, "an answer")
    ends.close()
