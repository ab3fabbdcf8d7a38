"""An operator's cancel of many requests: it ends what is meant, wherever that is kept, and nothing that came after it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace.bus.messages import message_of
from headrace.contracts.commands import Cancel, CancelReason, Run
from headrace.contracts.control import CancelMatching
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.selections import Selection, Stage
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import bulk_cancelling, carrying_out, needed_from
from headrace.scheduler.core.counted import Counted
from tests.support.scheduler.case import Case
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.orders import ends_now
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import place


def cancel(case: Case, **fields: Any) -> int:
    """An operator's order, of now; where it stands in `control`."""
    selection = Selection(**{"stands_before": ends_now(case), **fields})
    order = CancelMatching(selection=selection, before_ms=case.world.now.wall_ms)
    return case.world.append(message_of(place(TopicKind.CONTROL), order))


def ended(case: Case) -> set[str]:
    """Who was cancelled by an operator."""
    results = case.results()
    assert {(status, kind) for _, status, kind in results} <= {
        (Status.CANCELLED, FailureKind.CANCELLED_BY_OPERATOR)
    }
    return {request_id for request_id, _, _ in results}


def ids(records: list[RequestRecord]) -> set[str]:
    return {record.id for record in records}


def flooded(case: Case) -> list[RequestRecord]:
    """Ten of tenant a wait, of which the most are spilled."""
    made = [case.submit() for _ in range(10)]
    case.run()
    assert len(case.core.state.spilled) > 0
    return made


@pytest.mark.parametrize("ends", [1, 100])
def test_all_that_fit_and_are_older_end_whether_they_are_spilled_or_not(
    monkeypatch: pytest.MonkeyPatch, ends: int
) -> None:
    monkeypatch.setattr(bulk_cancelling, "MOST_AT_ONCE", ends)
    monkeypatch.setattr(carrying_out, "_AT_ONCE", ends)
    case = Flood()
    meant, others = flooded(case), [case.submit(tenant="b"), case.submit(into="interactive")]
    case.run()
    cancel(case, tenant="a", tier="batch")
    newer = case.submit()
    case.run(4_000)
    assert ended(case) == ids(meant)
    assert all(record.id in case.core.state.tracked for record in (*others, newer))
    assert not case.core.state.bulk_cancels
    assert case.core.state.spilled.count_of_tier("batch") == 0


@pytest.mark.interpreted
def test_a_step_ends_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_cancelling, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(carrying_out, "_AT_ONCE", 2)
    case = Flood()
    meant, core, most = flooded(case), case.core, 0
    right = core.step

    def step(*given: Any) -> Any:
        nonlocal most
        out = right(*given)
        most = max(most, out.counts.get(Counted.ENDED_CANCELLED, 0))
        return out

    monkeypatch.setattr(core, "step", step)
    cancel(case)
    case.run(4_000)
    assert ended(case) == ids(meant)
    assert most == 2


def test_no_checkpoint_passes_the_order_before_all_that_it_means_has_its_end_in_the_log() -> None:
    case = Flood()
    meant = flooded(case)
    results = place(TopicKind.RESULTS, meant[0].partition)
    case.world.out_until[results] = case.world.now_ms + 3_000
    stands = cancel(case)
    case.run(2_500)
    assert needed_from.control_to_keep(case.core.state) == stands
    case.run(4_000)
    assert ended(case) == ids(meant)
    assert needed_from.control_to_keep(case.core.state) == case.core.state.control_read > stands


def test_a_successor_reads_the_order_again_ends_the_rest_and_nothing_newer() -> None:
    case = Flood()
    meant = flooded(case)
    results = place(TopicKind.RESULTS, meant[0].partition)
    case.world.out_until[results] = case.world.now_ms + 3_000
    cancel(case)
    case.run(2_500)
    case.owner.core, case.epoch = None, 2
    case.owner = SimScheduler(case.world, 0)
    newer = case.submit()
    case.run(12_000)
    assert ended(case) == ids(meant)
    assert newer.id in case.core.state.tracked
    assert not case.core.state.bulk_cancels


def test_what_runs_is_left_alone_unless_it_is_meant_and_stopped_at_its_worker_then() -> None:
    case = Flood(limit=2)
    held = [case.submit() for _ in range(2)]
    case.run()
    waiting = flooded(case)
    cancel(case, stage=Stage.QUEUED)
    case.run(2_000)
    assert ended(case) == ids(waiting)
    assert case.commands(Cancel) == []
    cancel(case)
    case.run(1_000)
    assert {(c.id, c.reason) for c in case.commands(Cancel)} == {
        (record.id, CancelReason.OPERATOR) for record in held
    }
    assert len(case.core.state.bulk_cancels) == 1
    for run in case.commands(Run):
        case.finish(run)
        case.answer(run, Verdict.DONE, status=Status.CANCELLED)
    case.run(2_000)
    assert not case.core.state.bulk_cancels


def test_what_stands_unread_in_the_log_is_ended_when_it_is_read_and_never_runs() -> None:
    case = Flood(limit=2)
    record = case.submit()
    where = place(TopicKind.REQUESTS, record.partition, "batch")
    case.owner.stalled[where] = case.world.now_ms + 3_000
    stands = cancel(case)
    case.run(2_500)
    assert needed_from.control_to_keep(case.core.state) == stands
    case.run(2_500)
    assert ended(case) == {record.id}
    assert case.commands(Run) == []
    assert not case.core.state.bulk_cancels


def test_an_order_that_waits_for_a_log_holds_up_no_other() -> None:
    case = Flood()
    unread = case.submit()
    case.owner.stalled[place(TopicKind.REQUESTS, unread.partition, "batch")] = case.world.now_ms + 4_000
    read = case.submit(into="interactive")
    first = cancel(case, tier="batch")
    cancel(case, tier="interactive")
    case.run(2_500)
    assert ended(case) == {read.id}
    assert needed_from.control_to_keep(case.core.state) == first
    case.run(4_000)
    assert ended(case) == {read.id, unread.id}


def test_it_means_what_stands_before_its_ends_whatever_clocks_say() -> None:
    """What was accepted before it is stamped an hour later or earlier than its instant, and so is what comes after it."""
    for off_ms in (3_600_000, -3_600_000):
        case = Flood()
        wall_ms = case.world.now.wall_ms + off_ms
        meant = [case.submit(accepted_ms=wall_ms) for _ in range(6)]
        case.run()
        cancel(case)
        newer = [case.submit(accepted_ms=wall_ms) for _ in range(6)]
        case.run(4_000)
        assert ended(case) == ids(meant)
        assert all(record.id in case.core.state.tracked for record in newer)
        assert not case.core.state.bulk_cancels


def test_an_order_of_an_older_writer_goes_by_its_instant() -> None:
    case = Flood()
    meant = flooded(case)
    case.world.now_ms += 1
    order = CancelMatching(selection=Selection(), before_ms=case.world.now.wall_ms)
    case.world.append(message_of(place(TopicKind.CONTROL), order))
    newer = case.submit()
    case.run(4_000)
    assert ended(case) == ids(meant)
    assert newer.id in case.core.state.tracked


def test_an_order_that_names_an_end_beyond_its_log_is_over_all_the_same() -> None:
    case = Flood()
    meant = flooded(case)
    topic = place(TopicKind.REQUESTS, 0, "batch").topic
    cancel(case, stands_before={topic: {0: 10**12, 1: 10**12, 9: 1}, "unknown": {0: 10**12}})
    case.run(4_000)
    assert ended(case) == ids(meant)
    assert not case.core.state.bulk_cancels


@pytest.mark.parametrize(
    "spoil",
    [
        lambda order: msgspec.structs.replace(order, selection=Selection(tier="none")),
        lambda order: msgspec.structs.replace(order, before_ms=1_577_836_800_000),
        lambda order: msgspec.structs.replace(order, selection=Selection(stands_before={})),
    ],
)
def test_an_order_that_means_nobody_is_over_at_once(
    spoil: Callable[[CancelMatching], CancelMatching],
) -> None:
    case = Flood()
    meant = flooded(case)
    order = CancelMatching(selection=Selection(), before_ms=case.world.now.wall_ms)
    case.world.append(message_of(place(TopicKind.CONTROL), spoil(order)))
    case.run(1_500)
    assert case.results() == []
    assert not case.core.state.bulk_cancels
    assert case.core.state.tracked.look(meant[0].id) is not None
