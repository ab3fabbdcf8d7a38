"""What is spilled is read again by whoever owns the pool; what doesn't come back as it was stops it with a sentence."""

from typing import Any

import msgspec
import pytest

from headrace.bus.messages import message_of
from headrace.contracts.codec import HEADER, encode
from headrace.contracts.commands import Run
from headrace.contracts.control import CancelRequest
from headrace.contracts.topics import TopicKind
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.pure import place


def test_no_checkpoint_passes_a_spilled_request_and_the_next_owner_reads_it_again() -> None:
    flood = Flood()
    records = flood.flood(12)
    where = place(TopicKind.REQUESTS, records[0].partition, "batch")
    for each in records[6:9]:
        cancel = CancelRequest(id=each.id, tenant="a", at_ms=flood.world.now.wall_ms)
        flood.world.append(message_of(place(TopicKind.CONTROL), cancel))
    flood.run(3_000)
    state = flood.core.state
    assert state.partitions.by_place[where].finished.prefix == 0
    assert state.checkpointed[where] == 0
    flood.owner.crash()
    flood.run(6_000)
    flood.epoch = 2
    flood.run(2_000)
    assert len(flood.core.state.tracked) == 9
    flood.limit = 20
    flood.run(2_000)
    assert sorted(run.request.id for run in flood.commands(Run)) == sorted(
        each.id for each in records[:6] + records[9:]
    )


def test_what_comes_back_as_another_stops_the_pool() -> None:
    it_stops("another")


@pytest.mark.parametrize("how", ["garbage", "nothing"])
def test_what_comes_back_as_nothing_at_all_stops_the_pool(how: str) -> None:
    it_stops(how)


def it_stops(how: str) -> None:
    """With a sentence."""
    flood = Flood()
    records = flood.flood(12)
    log = flood.world.logs[place(TopicKind.REQUESTS, records[0].partition, "batch")]
    offset = next(n for n, each in enumerate(log) if records[4].id.encode() in (each.header or b""))
    if how == "another":
        other = msgspec.structs.replace(records[4], id=records[4].id[:-1] + "x")
        log[offset] = msgspec.structs.replace(log[offset], headers=((HEADER, encode(other)),))
    elif how == "garbage":
        log[offset] = msgspec.structs.replace(log[offset], headers=((HEADER, b"{"),))
    else:
        log[offset] = msgspec.structs.replace(log[offset], offset=10**9)
    flood.limit = 4
    flood.run(1_000)
    assert flood.owner.stopped is not None
    assert records[4].id in flood.owner.stopped
    assert "bring it back" in flood.owner.stopped


def test_a_payload_that_comes_for_a_request_that_has_ended_is_passed() -> None:
    flood = Flood()
    records = flood.flood(12)
    flood.owner.answers_runs = False
    flood.limit = 3
    flood.run(200)
    assert flood.owner.runs, "payloads are on their way"
    for each in records[4:]:
        cancel = CancelRequest(id=each.id, tenant="a", at_ms=flood.world.now.wall_ms)
        flood.world.append(message_of(place(TopicKind.CONTROL), cancel))
    flood.run(500)
    flood.owner.answers_runs = True
    flood.run(500)
    assert flood.owner.stopped is None
    assert len(flood.ended()) == 8
    assert len(flood.core.state.tracked) == 4
    assert (
        flood.core.state.partitions.by_place[place(TopicKind.REQUESTS, records[0].partition, "batch")].records
        == 4
    )


@pytest.mark.interpreted
def test_payloads_that_do_not_come_are_told_of_once_a_minute() -> None:
    flood = Flood()
    notices: list[str] = []
    flood.flood(12)
    flood.owner.answers_runs = False
    flood.limit = 4
    right = flood.core.step

    def step(*given: Any) -> Any:
        out = right(*given)
        notices.extend(notice.event for notice in out.notices)
        return out

    flood.core.step = step  # type: ignore[method-assign, assignment]
    flood.run(29_000)
    assert notices == []
    flood.run(40_000)
    assert notices == ["payloads that were to be read again don't come"]
