"""Lanes of the asyncio producer: order, batches, and who is told what when time runs out."""

import asyncio
from datetime import timedelta

import pytest

from headrace.bus.kafka.lanes import BATCH_BYTES, Lane
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusUnavailableError, DeliveryUnknownError

PLACE = Place("t", 0)
LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=20)


def message(size: int = 1) -> Message:
    return Message("t", 0, bytes(size))


async def test_what_waits_goes_together_up_to_the_size_of_a_batch_and_a_large_one_alone() -> None:
    lane = Lane(PLACE, asyncio.get_running_loop())
    for size in (1, 1, BATCH_BYTES * 2, BATCH_BYTES // 2, BATCH_BYTES // 3, BATCH_BYTES // 3):
        lane.add(message(size), LONG)
    assert [len(lane.take()) for _ in range(5)] == [2, 1, 2, 1, 0]
    lane.close()


async def test_when_time_runs_out_the_one_under_way_is_unknown_and_the_waiting_one_was_not_written() -> None:
    lane = Lane(PLACE, asyncio.get_running_loop())
    under_way = lane.add(message(), SHORT)
    [handed_over] = lane.take()
    handed_over.handed_over = True
    waiting = lane.add(message(), SHORT)
    with pytest.raises(DeliveryUnknownError):
        await under_way
    with pytest.raises(BusUnavailableError):
        await waiting
    assert lane.take() == []


async def test_what_ran_out_of_time_before_it_was_handed_over_was_not_written_and_must_not_be() -> None:
    lane = Lane(PLACE, asyncio.get_running_loop())
    late, gone = lane.add(message(), SHORT), lane.add(message(), SHORT)
    pending, left = lane.take()
    gone.cancel()
    with pytest.raises(BusUnavailableError):
        await late
    assert (pending.given_up, left.given_up) == (True, False), "who hangs up unsends nothing"


async def test_a_late_confirmation_and_a_cancelled_caller_hurt_nobody() -> None:
    lane = Lane(PLACE, asyncio.get_running_loop())
    cancelled, kept = lane.add(message(), LONG), lane.add(message(), LONG)
    cancelled.cancel()
    for offset, pending in enumerate(lane.take()):
        pending.succeed(offset)
        pending.succeed(offset + 100)
        pending.fail(DeliveryUnknownError("late"))
    assert await kept == 1
    lane.close()


async def test_closing_a_lane_tells_everybody() -> None:
    lane = Lane(PLACE, asyncio.get_running_loop())
    under_way = lane.add(message(), LONG)
    lane.take()
    waiting = lane.add(message(), LONG)
    lane.close()
    with pytest.raises(DeliveryUnknownError):
        await under_way
    with pytest.raises(BusUnavailableError):
        await waiting
