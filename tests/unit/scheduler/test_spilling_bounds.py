"""What a tenant has over its bound is spilled: neither memory nor its part of the window ever holds more."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler.flood import FEW, Flood
from tests.support.scheduler.pure import place


def test_what_is_over_the_bound_keeps_no_payload_and_takes_no_room_in_the_window() -> None:
    flood = Flood()
    records = flood.flood(20)
    state = flood.core.state
    assert flood.spilled == 16
    assert len(list(state.tracked.values())) == 4
    partition = state.partitions.by_place[place(TopicKind.REQUESTS, records[0].partition, "batch")]
    assert partition.records == 4
    assert state.queue.depth("batch") == 20
    flood.run(1_000)
    states = flood.core.queue_states["batch"]
    assert (states.depth, states.spilled) == (20, 16)
    assert states.oldest_wait_ms >= 850


def test_a_flood_that_is_worked_off_never_takes_more_than_its_bound() -> None:
    flood = Flood()
    records = flood.flood(20)
    state, runs = flood.core.state, 0
    partition = state.partitions.by_place[place(TopicKind.REQUESTS, records[0].partition, "batch")]
    flood.limit = 1
    while (run := flood.next_run(runs)) is not None:
        runs += 1
        assert partition.records <= FEW.records + 1, "and the one that runs"
        flood.finish(run)
    assert runs == 20


def test_keys_that_take_turns_fill_no_memory_with_what_is_not_next() -> None:
    flood = Flood()
    for number in range(60):
        flood.submit(fairness_key="xyz"[number // 20])
    flood.run(200)
    flood.limit = 1
    for number in range(60):
        run = flood.next_run(number)
        assert run is not None
        assert flood.core.state.queue.in_memory("batch", "a").records <= 4 + 2 + 2
        flood.finish(run)


def test_a_flood_leaves_as_much_of_the_window_as_it_has() -> None:
    flood = Flood(SpillBounds(records=1_000))
    flood.core.state.setting = replace(flood.core.state.setting, window=Window(20, 10))
    records = flood.flood(40)
    where = place(TopicKind.REQUESTS, records[0].partition, "batch")
    assert flood.core.state.partitions.by_place[where].records == 10
    flood.run(1_500)
    assert flood.owner.paused == set()


def test_a_window_full_of_metadata_pauses_its_partition_and_is_read_again_below() -> None:
    flood = Flood()
    window = Window(high_spilled=20, low_spilled=10)
    flood.core.state.setting = replace(flood.core.state.setting, window=window)
    records = flood.flood(40)
    flood.run(1_500)
    where = place(TopicKind.REQUESTS, records[0].partition, "batch")
    assert flood.owner.paused == {where}
    assert len(flood.run_all()) == 40


@pytest.mark.interpreted
def test_what_is_spilled_and_read_again_is_counted() -> None:
    flood = Flood()
    counted: dict[str, int] = {}
    right = flood.core.step

    def step(*given: Any) -> Any:
        out = right(*given)
        for what, count in out.counts.items():
            counted[what] = counted.get(what, 0) + count
        return out

    flood.core.step = step  # type: ignore[method-assign, assignment]
    flood.flood(20)
    flood.submit(start_by_ms=flood.world.now.wall_ms + 500, priority=-5)
    flood.run(1_000)
    flood.run_all()
    assert (counted[Counted.SPILLED], counted[Counted.READ_AGAIN]) == (17, 16)
    assert counted[Counted.ENDED_EXPIRED] == 1
