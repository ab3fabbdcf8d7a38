"""The reader of runs against a client that is late, restless and sometimes not there."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from headrace.bus.errors import BusUnavailableError, PositionGoneError
from headrace.bus.messages import Place, Received
from headrace.bus.rereads import Run, RunReader

HERE, THERE = Place("t", 0), Place("t", 1)


def record(place: Place, offset: int) -> Received:
    return Received(place.topic, place.partition, offset, 0, b"%d" % offset)


class Client:
    """Hands out what a test has put there, whatever is assigned."""

    def __init__(self) -> None:
        self.assigned: list[dict[Place, int]] = []
        self.to_come: list[Received] = []
        self.away = False
        self.gone: PositionGoneError | None = None
        self.closed = 0

    def assign(self, positions: Mapping[Place, int]) -> None:
        if self.away:
            raise BusUnavailableError("not now")
        self.assigned.append(dict(positions))

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        assert wait == timedelta()
        if self.away:
            raise BusUnavailableError("not now")
        if self.gone is not None:
            raise self.gone
        found, self.to_come = self.to_come[:limit], self.to_come[limit:]
        return found

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def reader(client: Client) -> RunReader:
    return RunReader(lambda: client)


def told(reader: RunReader, limit: int = 100) -> list[tuple[Run, list[int]]]:
    return [(each.run, [record.offset for record in each.records]) for each in reader.answers(limit)]


def test_no_client_is_made_before_the_first_run_is_asked_for() -> None:
    def never() -> Client:
        raise AssertionError("nobody needs it")

    reader = RunReader(never)
    assert reader.answers(10) == []
    reader.close()


def test_what_comes_behind_a_run_is_no_part_of_the_next_one_that_begins_before_it(
    client: Client, reader: RunReader
) -> None:
    late, early = Run(HERE, 10, 12), Run(HERE, 2, 4)
    reader.ask(late)
    reader.ask(early)
    client.to_come = [record(HERE, offset) for offset in (10, 11, 12, 13)]
    assert told(reader) == [(late, [10, 11])]
    client.to_come = [record(HERE, offset) for offset in (2, 3, 4)]
    assert told(reader) == [(early, [2, 3])]
    assert client.assigned == [{HERE: 10}, {HERE: 2}]
    reader.answers(10)
    assert client.assigned[-1] == {}, "nothing is fetched any more"


def test_runs_that_follow_each_other_are_read_on(client: Client, reader: RunReader) -> None:
    runs = [Run(HERE, 0, 2), Run(HERE, 2, 5)]
    for run in runs:
        reader.ask(run)
    client.to_come = [record(HERE, offset) for offset in range(6)]
    assert told(reader) == [(runs[0], [0, 1]), (runs[1], [2, 3, 4])]
    assert client.assigned == [{HERE: 0}]


def test_a_new_run_elsewhere_leaves_what_has_come_of_another(client: Client, reader: RunReader) -> None:
    long, other = Run(HERE, 0, 4), Run(THERE, 7, 8)
    reader.ask(long)
    client.to_come = [record(HERE, 0), record(HERE, 1)]
    assert told(reader) == []
    reader.ask(other)
    client.to_come = [record(THERE, 7), record(HERE, 2), record(HERE, 3)]
    assert told(reader) == [(other, [7]), (long, [0, 1, 2, 3])]
    assert client.assigned[:2] == [{HERE: 0}, {HERE: 2, THERE: 7}]


def test_an_offset_without_a_record_is_left_out_and_the_next_record_ends_the_run(
    client: Client, reader: RunReader
) -> None:
    run = Run(HERE, 5, 8)
    reader.ask(run)
    client.to_come = [record(HERE, 5), record(HERE, 9)]
    assert told(reader) == [(run, [5])]


def test_records_from_before_the_run_and_of_other_partitions_are_passed(
    client: Client, reader: RunReader
) -> None:
    run = Run(HERE, 5, 6)
    reader.ask(run)
    client.to_come = [record(HERE, 4), record(HERE, 5)]
    assert told(reader) == [(run, [5])]
    reader.answers(10)
    client.to_come = [record(HERE, 6), record(THERE, 0)]
    reader.ask(Run(THERE, 0, 1))
    assert told(reader) == [(Run(THERE, 0, 1), [0])]


def test_a_client_that_has_no_broker_is_asked_again(client: Client, reader: RunReader) -> None:
    run = Run(HERE, 0, 1)
    reader.ask(run)
    client.away, client.to_come = True, [record(HERE, 0)]
    assert told(reader) == []
    client.away = False
    assert told(reader) == [(run, [0])]
    assert client.assigned == [{HERE: 0}]


def test_what_is_said_to_be_gone_is_read_once_it_is_there_again(client: Client, reader: RunReader) -> None:
    run = Run(HERE, 3, 4)
    reader.ask(run)
    client.gone = PositionGoneError(HERE, 3, "gone")
    for _ in range(2):
        with pytest.raises(PositionGoneError):
            reader.answers(10)
    client.gone, client.to_come = None, [record(HERE, 3)]
    assert told(reader) == [(run, [3])]
    assert client.assigned == [{HERE: 3}] * 3


def test_the_client_is_closed_with_it(client: Client, reader: RunReader) -> None:
    reader.ask(Run(HERE, 0, 1))
    reader.answers(1)
    reader.close()
    assert client.closed == 1
