"""What FencedState promises, on both buses."""

from datetime import timedelta

import pytest

from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, CommitFailedError, FencedError, FencedState
from tests.contract.bus.conftest import Bench, read_values
from tests.support.eventually import eventually
from tests.support.log_ends import newest_values

NONE_COMES = timedelta(milliseconds=300)


def claimed(bench: Bench, place: Place) -> FencedState:
    state = bench.bus.fenced_state("owner", place=place, transactional_id=f"{place.topic}.owner")
    eventually(state.claim, "the claim")
    return state


def record(place: Place, key: bytes, value: bytes | None) -> Message:
    return Message(place.topic, place.partition, value, (), key)


def commit(state: FencedState, *messages: Message) -> None:
    state.begin(messages)
    eventually(state.committed, "the commit")


def test_nobody_sees_a_checkpoint_before_it_is_committed(bench: Bench) -> None:
    (place,) = bench.topic("state")
    state = claimed(bench, place)
    reader = bench.reader(place)
    state.begin([record(place, b"a", b"1")])
    assert reader.read(10, NONE_COMES) == []
    eventually(state.committed, "the commit")
    assert read_values(reader, 1) == [b"1"]
    state.close()


def test_a_claim_fences_the_predecessor_and_drops_what_it_had_open(bench: Bench) -> None:
    (place,) = bench.topic("state")
    old = claimed(bench, place)
    commit(old, record(place, b"a", b"old"))
    old.begin([record(place, b"a", b"zombie")])
    new = claimed(bench, place)
    assert newest_values(bench.bus, place) == {b"a": b"old"}
    with pytest.raises(FencedError):
        eventually(old.committed, "the zombie's commit")
    with pytest.raises(FencedError):
        old.committed()
    commit(new, record(place, b"a", b"new"))
    assert newest_values(bench.bus, place) == {b"a": b"new"}
    old.close()
    new.close()


def test_a_paused_owner_learns_at_its_next_checkpoint_that_it_was_replaced(bench: Bench) -> None:
    (place,) = bench.topic("state")
    old = claimed(bench, place)
    commit(old, record(place, b"a", b"1"))
    new = claimed(bench, place)
    old.begin([record(place, b"a", b"2")])
    with pytest.raises(FencedError):
        eventually(old.committed, "the commit")
    assert newest_values(bench.bus, place) == {b"a": b"1"}
    old.close()
    new.close()


def test_an_owner_that_went_without_a_word_is_succeeded(bench: Bench) -> None:
    (place,) = bench.topic("state")
    old = claimed(bench, place)
    commit(old, record(place, b"a", b"1"))
    old.begin([record(place, b"a", b"open")])
    old.close()
    new = claimed(bench, place)
    assert newest_values(bench.bus, place) == {b"a": b"1"}
    new.close()


def test_reading_gets_past_markers_to_the_end(bench: Bench) -> None:
    (place,) = bench.topic("state")
    state = claimed(bench, place)
    commit(state, record(place, b"a", b"1"))
    commit(state, record(place, b"a", b"2"))
    ends = bench.bus.ends("ends")
    answer = eventually(ends.ask([place]).answer, "the end") or {}
    reader = bench.reader(place)
    read_values(reader, 2)

    def at_end() -> bool:
        reader.read(1, timedelta(milliseconds=50))
        return reader.position(place) >= answer[place]

    eventually(at_end, "the position past the last marker")
    assert answer[place] == 4
    assert reader.position(place) == 4
    state.close()


def test_calls_out_of_turn_are_errors(bench: Bench) -> None:
    (place,) = bench.topic("state")
    state = bench.bus.fenced_state("owner", place=place, transactional_id=f"{place.topic}.owner")
    for out_of_turn in (state.committed, lambda: state.begin([])):
        with pytest.raises(BusError):
            out_of_turn()
    eventually(state.claim, "the claim")
    with pytest.raises(BusError):
        state.begin([Message(place.topic + ".other", 0, b"")])
    state.begin([record(place, b"a", b"1")])
    with pytest.raises(BusError):
        state.begin([record(place, b"a", b"2")])
    eventually(state.committed, "the commit")
    with pytest.raises(BusError):
        state.committed()
    state.close()


def test_a_checkpoint_that_is_too_large_fails_for_good_and_a_new_claim_goes_on(bench: Bench) -> None:
    (place,) = bench.topic("state", room=10_000)
    state = claimed(bench, place)
    commit(state, record(place, b"a", b"1"))
    state.begin([record(place, b"a", bytes(20_000))])
    with pytest.raises(CommitFailedError):
        eventually(state.committed, "the commit")
    with pytest.raises(CommitFailedError):
        state.committed()
    state.close()
    following = claimed(bench, place)
    assert newest_values(bench.bus, place) == {b"a": b"1"}
    commit(following, record(place, b"a", b"2"))
    following.close()


def test_a_commit_may_be_asked_after_as_often_as_one_likes(bench: Bench) -> None:
    """A client that is asked to commit again and again may end the process."""
    (place,) = bench.topic("state")
    state = claimed(bench, place)
    for number in range(200):
        state.begin([record(place, b"%d" % (number % 5), b"x" * 100) for _ in range(5)])
        eventually(state.committed, "the commit")
    assert len(newest_values(bench.bus, place)) == 5
    state.close()
