"""What GroupReader promises, on both buses."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread, get_ident

import pytest

from headrace.bus.kafka import group_reader
from headrace.bus.messages import Place, Received
from headrace.bus.ports import START, BusError
from tests.contract.bus.conftest import SOON, Bench
from tests.support.eventually import eventually


class Member:
    """A member of a group in a thread of its own, as a service's loop is. Keeps positions as SQL would."""

    def __init__(self, bench: Bench, name: str, positions: dict[Place, int], *, paused: set[Place]) -> None:
        self.held: set[Place] = set()
        self.read: list[Received] = []
        self.callback_threads: set[int] = set()
        self.positions, self.rewind = positions, dict[Place, int]()
        self.paused = paused
        self._bench, self._name = bench, name
        self._stop = Event()
        self.thread = Thread(target=self._run)

    def _assigned(self, places: list[Place]) -> dict[Place, int]:
        self.callback_threads.add(get_ident())
        self.held |= set(places)
        return {place: self.positions.get(place, START) for place in places}

    def _revoked(self, places: list[Place]) -> None:
        self.callback_threads.add(get_ident())
        self.held -= set(places)

    def _run(self) -> None:
        reader = self._bench.bus.group_reader(self._name, self._bench.prefix + "group")
        reader.pause(self.paused)
        reader.subscribe([self._bench.prefix + "t"], assigned=self._assigned, revoked=self._revoked)
        while not self._stop.is_set():
            for record in reader.read(100, timedelta(milliseconds=50)):
                assert record.place in self.held
                self.read.append(record)
                self.positions[record.place] = record.offset + 1
            if self.rewind:
                reader.seek(self.rewind)
                self.rewind = {}
            reader.pause(set(self.paused))
        reader.close()

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.read]

    def stop(self) -> None:
        self._stop.set()
        self.thread.join(20)
        assert not self.thread.is_alive()


@contextmanager
def member(
    bench: Bench, name: str, positions: dict[Place, int] | None = None, *, paused: set[Place] | None = None
) -> Iterator[Member]:
    one = Member(bench, name, {} if positions is None else positions, paused=paused or set())
    one.thread.start()
    try:
        yield one
    finally:
        one.stop()


def test_two_members_share_and_the_one_that_stays_takes_all(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_reader, "SESSION", timedelta(minutes=5))  # nobody is given up as dead meanwhile
    places = set(bench.topic("t", partitions=4))
    positions: dict[Place, int] = {}
    with member(bench, "a", positions) as first:
        eventually(lambda: first.held == places, "the first holds all")
        for place in places:
            bench.write(place, b"1")
        eventually(lambda: len(first.read) == 4, "four records")
        with member(bench, "b", positions) as second:
            eventually(lambda: len(first.held) == len(second.held) == 2, "each holds two")
            assert first.held | second.held == places
            for place in places:
                bench.write(place, b"2")
            eventually(lambda: len(first.read) + len(second.read) == 8, "eight records, each once")
        assert second.held == set()
        eventually(lambda: first.held == places, "the first holds all again, at once")
        assert sorted((first.values() + second.values()).__iter__(), key=str) == [b"1"] * 4 + [b"2"] * 4
        assert first.callback_threads == {first.thread.ident}


def test_reading_begins_where_the_caller_says_at_each_assignment(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0", b"1", b"2")
    with member(bench, "a", {place: 1}) as first:
        eventually(lambda: first.values() == [b"1", b"2"], "from the second on")
    with member(bench, "b", {place: 0}) as second:
        eventually(lambda: second.values() == [b"0", b"1", b"2"], "from the first on")


def test_a_rolled_back_transaction_is_read_again_after_a_seek(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0", b"1", b"2")
    with member(bench, "a") as one:
        eventually(lambda: len(one.read) == 3, "three records")
        one.rewind = {place: 1}
        eventually(lambda: one.values() == [b"0", b"1", b"2", b"1", b"2"], "the last two again")


def test_a_pause_is_kept_over_assignments_and_loses_nothing(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    bench.write(first, b"paused")
    bench.write(second, b"read")
    with member(bench, "a", paused={first}) as one:
        eventually(lambda: one.values() == [b"read"], "the other partition's record")
        with member(bench, "b", one.positions, paused={first}) as other:
            eventually(lambda: len(one.held) == len(other.held) == 1, "each holds one")
        eventually(lambda: one.held == {first, second}, "all is back")
        bench.write(second, b"read too")
        eventually(lambda: one.values() == [b"read", b"read too"], "only the other partition's")
        one.paused.clear()
        eventually(lambda: one.values() == [b"read", b"read too", b"paused"], "what was paused")


def test_what_a_callback_raises_is_raised_by_read(bench: Bench) -> None:
    (place,) = bench.topic("t")

    def fails(_: list[Place]) -> dict[Place, int]:
        raise LookupError("the database is away")

    reader = bench.bus.group_reader("a", bench.prefix + "group")
    reader.subscribe([place.topic], assigned=fails, revoked=lambda _: None)
    with pytest.raises(LookupError, match="database"):
        eventually(lambda: reader.read(1, SOON), "the callback's error")
    reader.close()


def test_an_unknown_topic_and_a_partition_that_is_not_held_are_errors(bench: Bench) -> None:
    (place,) = bench.topic("t")
    reader = bench.bus.group_reader("a", bench.prefix + "group")
    with pytest.raises(BusError):
        reader.subscribe([place.topic + ".no"], assigned=lambda _: {}, revoked=lambda _: None)
    reader.subscribe(
        [place.topic], assigned=lambda places: dict.fromkeys(places, START), revoked=lambda _: None
    )
    with pytest.raises(BusError):
        reader.seek({Place(place.topic, 5): 0})
    reader.read(1, SOON)
    reader.close()
