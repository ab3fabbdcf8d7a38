"""The gate of the readers on librdkafka: nothing twice, nothing lost, nothing while paused."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.kafka.hand_out import HandOut
from headrace.bus.messages import Place, Received

PLACE = Place("t", 0)


def record(offset: int, place: Place = PLACE) -> Received:
    return Received(place.topic, place.partition, offset, 0, b"")


def test_a_record_of_another_assignment_or_from_before_the_position_is_not_admitted() -> None:
    gate = HandOut()
    assert not gate.admits(record(0))
    gate.assign({PLACE: 5})
    assert not gate.admits(record(4))
    assert gate.admits(record(7))  # compaction and markers leave gaps
    assert gate.positions == {PLACE: 8}
    gate.forget([PLACE])
    assert not gate.admits(record(8))


def test_resuming_says_from_where() -> None:
    gate = HandOut()
    gate.assign({PLACE: 5})
    assert gate.pause({PLACE}) == ([PLACE], {})
    assert gate.pause({PLACE}) == ([], {})
    assert not gate.admits(record(5))
    assert gate.ahead == {PLACE}
    assert gate.pause(set()) == ([], {PLACE: 5})
    assert gate.admits(record(5))
    assert gate.ahead == set()


def test_a_partition_that_is_not_assigned_is_paused_when_it_comes() -> None:
    gate = HandOut()
    assert gate.pause({PLACE}) == ([], {})
    assert gate.paused_now() == []
    gate.assign({PLACE: 0})
    assert gate.paused_now() == [PLACE]
    gate.assign({})
    assert gate.pause(set()) == ([], {})


@given(st.lists(st.sampled_from(["deliver", "pause", "resume"]), max_size=60))
def test_whatever_is_paused_and_prefetched_each_record_is_handed_out_once_in_order(steps: list[str]) -> None:
    gate, handed, client = HandOut(), list[int](), 0
    gate.assign({PLACE: 0})
    for step in [*steps, "resume", *["deliver"] * 60]:
        if step == "deliver":  # a client that ignores pauses, as a prefetched record does
            if gate.admits(record(client)):
                handed.append(client)
            client += 1
        else:
            _, to_resume = gate.pause({PLACE} if step == "pause" else set())
            client = to_resume.get(PLACE, client)
    assert handed == list(range(len(handed)))
    assert len(handed) >= 60
