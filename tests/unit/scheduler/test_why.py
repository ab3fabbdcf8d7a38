"""Why a request waits, as its pool's owner tells it: each gate once, each where it is really closed."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from headrace.bus.messages import message_of
from headrace.contracts.commands import Run
from headrace.contracts.control import Query
from headrace.contracts.explanations import (
    GATES,
    Ahead,
    Closed,
    Gate,
    Why,
)
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Gauges
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.decisions.which_gate_is_closed import Gates, Slots, which_gates
from headrace.scheduler.state.frozen import Hold
from headrace.scheduler.state.suspects import Apart
from headrace.scheduler.state.tracked import Phase
from tests.support.scheduler.asking import asked, started, submit, why, why_at_once
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import place, policy


def test_full_slots_and_who_is_ahead_are_told_with_the_limit_and_what_is_taken() -> None:
    case = started()
    waiting = [submit(case) for _ in range(7)]
    case.run(300)
    found = why(case, waiting[-1].id)
    assert found.closed == (Closed(gate=Gate.SLOTS, limit=4, used=4),)
    assert found.ahead == Ahead(own=2, tiers={"batch": 2}, cost=4)
    assert found.share is not None
    assert (found.share.weight, found.share.waiting_weight, found.share.in_flight) == (1, 1, 4)
    assert (found.share.part_permille, found.share.tier_permille) == (1_000, 1_000)


def test_who_is_frozen_goes_before_nobody() -> None:
    case = started()
    mine = [submit(case) for _ in range(6)]
    case.run(300)
    for tier in ("batch", "interactive"):
        submit(case, "b", tier)
    case.run(100)
    found = why(case, mine[-1].id).ahead
    assert found is not None
    assert (found.own, found.others, found.tiers) == (1, 1, {"batch": 2, "interactive": 1})
    holds = case.core.state.queue.frozen.holds
    holds |= {Hold(None, "b"), Hold("interactive", None)}
    assert why_at_once(case, mine[-1].id).ahead == Ahead(own=1, tiers={"batch": 1}, cost=2)


def test_a_running_request_has_no_gate_and_nothing_ahead() -> None:
    case = started()
    record = submit(case)
    case.run(300)
    found = why(case, record.id)
    assert (found.closed, found.ahead) == ((), None)
    assert found.basis is not None


def test_without_a_worker_that_is_the_gate() -> None:
    case = Case()
    record = submit(case)
    case.run()
    assert why(case, record.id).closed == (Closed(gate=Gate.NO_WORKER),)


@pytest.mark.parametrize("report", [{"healthy": False}, {"draining": True}])
def test_a_worker_that_takes_nothing_is_told_apart_from_none(report: dict[str, Any]) -> None:
    case = started(**report)
    record = submit(case)
    case.run(200)
    assert why(case, record.id).closed == (Closed(gate=Gate.NO_READY_WORKER, limit=1, used=0),)


def test_a_new_owner_that_still_asks_workers_says_so() -> None:
    case = Case()
    case.report(epoch=0)
    record = submit(case)
    case.run(900)
    assert not case.core.state.open
    answer = asked(case, Query(id=record.id, nonce="r", gateway=0, why=True))
    assert (answer.known, answer.status) == (False, None), "a worker may run it"
    assert answer.why == Why(closed=(Closed(gate=Gate.RECOVERING),))


def test_a_plain_query_is_not_answered_before_the_gate_is_open() -> None:
    case = Case()
    case.report(epoch=0)
    case.run(900)
    case.world.append(message_of(place(TopicKind.CONTROL), Query(id="req_x", nonce="n", gateway=0)))
    case.run(200)
    assert case.world.records(TopicKind.REPLIES) == []


def test_an_owner_that_gives_its_pool_up_says_so() -> None:
    case = started(limit=1)
    waiting = [submit(case) for _ in range(2)]
    case.run(200)
    case.core.leave()
    assert why_at_once(case, waiting[1].id).closed[0] == Closed(gate=Gate.LEAVING)


def test_commands_that_kafka_does_not_take_are_a_gate() -> None:
    case = started(limit=1)
    waiting = [submit(case) for _ in range(2)]
    case.run(200)
    core = case.core
    core._commands.breathless_until_ms = core.state.now.boot_ms + 50
    assert why_at_once(case, waiting[1].id).closed[0] == Closed(gate=Gate.COMMANDS_STALLED)


def test_a_request_that_waits_for_its_next_try_is_told_when_that_is() -> None:
    case = started()
    record = submit(case)
    case.run(200)
    for _ in range(3):
        case.answer(
            case.commands(Run)[-1], Verdict.RETRY_AT, started=True,
            failure=Failure(kind=FailureKind.BACKEND_ERROR, retry_after_ms=4_000),
        )  # fmt: skip
        case.run(50)
        if case.core.state.tracked[record.id].phase is Phase.DELAYED:
            break
    found = why(case, record.id)
    due_ms = case.core.state.tracked[record.id].due_boot_ms
    wall_ms = due_ms + case.world.now.wall_ms - case.world.now.boot_ms
    assert found.closed == (Closed(gate=Gate.RETRY_WAIT, until_ms=wall_ms),)
    assert wall_ms > case.world.now.wall_ms


def test_a_suspect_waits_for_its_trial() -> None:
    case = started(limit=1)
    waiting = [submit(case) for _ in range(2)]
    case.run(200)
    state = case.core.state
    state.queue.take(state.tracked[waiting[1].id], Phase.DELAYED)
    state.suspects.join(waiting[1].id, "death")
    assert Closed(gate=Gate.SUSPECT) in why_at_once(case, waiting[1].id).closed


def test_the_only_worker_set_apart_for_suspects_is_a_gate() -> None:
    case = started(limit=1)
    waiting = [submit(case) for _ in range(2)]
    case.run(200)
    state = case.core.state
    state.suspects.apart = Apart(BOOT, state.now.boot_ms)
    assert why_at_once(case, waiting[1].id).closed == (Closed(gate=Gate.SET_APART),)


def test_what_an_engine_was_found_to_hold_binds_before_what_its_operator_allows() -> None:
    case = started(limit=2)
    waiting = [submit(case) for _ in range(3)]
    case.run(200)
    limits = case.core.state.limits[BOOT]
    limits.requests = replace(limits.requests, limit=1)
    worker = case.core.state.workers.live["w"]
    worker.report = msgspec.structs.replace(worker.report, limit=64)
    assert why_at_once(case, waiting[2].id).closed == (Closed(gate=Gate.BACKEND_LIMIT, limit=1, used=2),)


def test_slots_that_another_tier_owns_are_a_gate() -> None:
    case = started(policy(headroom_percent=25))
    case.submit(into="interactive")
    case.run(300)
    case.answer(case.commands(Run)[0], Verdict.DONE, status=Status.SUCCEEDED)
    waiting = [submit(case) for _ in range(4)]
    case.run(300)
    assert why(case, waiting[-1].id).closed == (Closed(gate=Gate.HEADROOM, limit=1, used=0),)


def test_a_tenant_with_all_its_slots_is_told_how_many_while_others_wait() -> None:
    case = started()
    mine = [submit(case) for _ in range(5)]
    case.run(300)
    assert [each.gate for each in why(case, mine[-1].id).closed] == [Gate.SLOTS], "alone it has no cap"
    submit(case, "b")
    case.run(100)
    found = why(case, mine[-1].id)
    assert found.closed[-1] == Closed(gate=Gate.TENANT_SLOTS, limit=2, used=4)
    assert found.share is not None
    assert (found.share.part_permille, found.share.waiting_weight) == (250, 4)


def test_a_prompt_that_fits_no_cache_is_told_of_the_cache_and_whoever_is_behind_it_too() -> None:
    case = started(gauges=Gauges(sample=1, waiting=0, running=0, kv_tokens=1_000))
    for size in (700, 600, 10):
        last = submit(case, prompt_tokens=size)
        case.run(100)
    found = why(case, last.id)
    assert [each.gate for each in found.closed] == [Gate.CACHE]
    assert (found.closed[0].limit, found.closed[0].used) == (1_000, 701)


def test_a_spilled_request_knows_its_place_and_waits_until_it_is_read_again() -> None:
    case = Case()
    few = SpillBounds(records=4, size=1_000_000, reach=2, run=5, gap=1, under_way=100)
    case.owner.setting = replace(case.owner.setting, spill=few, window=Window())
    case.run()
    case.report(0)
    waiting = [submit(case) for _ in range(10)]
    case.run(300)
    last = waiting[-1].id
    assert last in case.core.state.spilled
    assert why(case, last).ahead == Ahead(own=9, tiers={"batch": 9}, cost=18)
    assert last in case.core.state.spilled, "asking brings nothing into memory"
    case.report(6)
    seen = set()
    for _ in range(8):
        case.run(25)
        seen |= {each.gate for each in why_at_once(case, last).closed}
    assert Gate.READING_AGAIN in seen


def test_an_id_that_the_owner_does_not_hold_is_unread_or_just_ended() -> None:
    case = started()
    answer = asked(case, Query(id="req_nobody", nonce="u", gateway=0, why=True))
    assert (answer.known, answer.why) == (False, Why(closed=(Closed(gate=Gate.UNREAD),)))


def test_every_gate_has_its_sentence() -> None:
    assert set(GATES) == set(Gate)
    assert len(set(GATES.values())) == len(Gate)


FULL = Slots(limit=4, held=4)


@pytest.mark.parametrize(
    ("closing", "gates"),
    [
        (Gates([]), [Gate.NO_WORKER]),
        (Gates([FULL._replace(ready=False)]), [Gate.NO_READY_WORKER]),
        (Gates([FULL._replace(held=0, apart=True)]), [Gate.SET_APART]),
        (Gates([FULL]), [Gate.SLOTS]),
        (Gates([FULL._replace(held=3, learned=3)]), [Gate.BACKEND_LIMIT]),
        (Gates([FULL, FULL._replace(held=3, learned=2)]), [Gate.SLOTS, Gate.BACKEND_LIMIT]),
        (Gates([FULL, FULL._replace(held=3)]), []),
        (Gates([FULL._replace(held=3)], kept=1), [Gate.HEADROOM]),
        (Gates([FULL._replace(held=2)], kept=1), []),
        (Gates([FULL._replace(held=3)], staying=(1, 1)), [Gate.STOPPED_OFTEN]),
        (Gates([FULL], staying=(1, 1)), [Gate.SLOTS]),
        (Gates([FULL._replace(held=3)], in_flight=3, most_in_flight=3), [Gate.TENANT_SLOTS]),
        (Gates([FULL._replace(held=3)], in_flight=2, most_in_flight=3), []),
        (Gates([FULL._replace(held=3)], cache=(10, 9)), [Gate.CACHE]),
        (Gates([FULL._replace(held=3)], reading_again=True), [Gate.READING_AGAIN]),
        (Gates([FULL], reading_again=True, cache=(10, 9)), [Gate.SLOTS]),
        (Gates([FULL._replace(held=3)], leaving=True), [Gate.LEAVING]),
        (Gates([FULL._replace(held=3)], stalled=True), [Gate.COMMANDS_STALLED]),
        (Gates([FULL._replace(held=3)], suspect=True), [Gate.SUSPECT]),
        (Gates([FULL._replace(held=3)], due_ms=7), [Gate.RETRY_WAIT]),
    ],
)
def test_a_gate_is_told_when_it_is_closed_and_never_else(closing: Gates, gates: list[Gate]) -> None:
    assert [each.gate for each in which_gates(closing)] == gates
