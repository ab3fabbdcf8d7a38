"""Junk and lies in every log that the scheduler reads: each its own reason in `dlq`, and nobody's counters move."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import HEADER
from headrace.contracts.commands import Cancel, Run
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.ids import mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.reports import Held, Report, Tick
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload, Usage
from headrace.scheduler.core.same_log import UnusableStateError
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import POOL, WALL, place

K = FailureKind
Document = dict[str, Any]
Lie = Callable[[Document], object]
PARTITION = partition_of("a", 2)
TWO_DAYS_AGO, IN_1970, IN_9999 = WALL - 2 * 86_400_000, 86_400_000, 253_370_764_800_000


def state_of(case: Case) -> Any:
    assert case.owner.core is not None
    return case.owner.core.state


def counters(case: Case) -> list[object]:
    found: list[object] = []
    for name, tier in state_of(case).accounts.tiers.items():
        found += [(name, tier.account.settled, tier.account.charged)]
        found += [(name, t, a.settled, a.charged) for t, a in tier.tenants.items() if a.settled or a.charged]
    return found


def altered(message: Message, lie: Lie) -> Message:
    """The message as it would stand in the log, had its writer lied."""
    document = msgspec.json.decode(dict(message.headers)[HEADER])
    lie(document)
    headers = ((HEADER, msgspec.json.encode(document)),)
    return Message(message.topic, message.partition, message.value, headers, message.key)


def reasons(case: Case) -> list[FailureKind]:
    letters: list[Any] = case.world.records(TopicKind.DLQ)
    return [letter.reason for letter in letters]


def set_to(**fields: object) -> Lie:
    return lambda document: document.update(fields)


def request(wall: int, tier: str = "batch") -> RequestRecord:
    made = mint_request_id(
        b"k" * 32, tenant="a", pool=POOL, tier=tier, partition=PARTITION, wall_ms=wall, random=bytes(10)
    )
    return RequestRecord(
        id=made, tenant="a", pool=POOL, tier="batch", partition=PARTITION, model="m", route="/r",
        accepted_ms=wall, payload=Payload(size=2), gateway=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (set_to(finish_by_ms=IN_1970), K.OUT_OF_BOUNDS),
        (set_to(finish_by_ms=IN_9999), K.OUT_OF_BOUNDS),
        (set_to(prompt_tokens=-1), K.OUT_OF_BOUNDS),
        (set_to(tenant=""), K.OUT_OF_BOUNDS),
        (set_to(id="r" * 300), K.OUT_OF_BOUNDS),  # a few long enough make a checkpoint that no broker takes
        (set_to(accepted_ms="yesterday"), K.UNDECODABLE),
        (set_to(type="result"), K.UNDECODABLE),
        (lambda document: document.pop("tenant"), K.UNDECODABLE),
        (set_to(pool="other"), K.UNKNOWN_POOL),
        (set_to(tier="interactive"), K.LYING_RECORD),
        (set_to(partition=1 - PARTITION), K.LYING_RECORD),
        (set_to(id="nonsense"), K.LYING_RECORD),
        (set_to(tenant="a\0b"), K.LYING_RECORD),
    ],
)
def test_a_lying_request_is_dead_lettered_by_its_own_reason(
    case: Case, lie: Lie, reason: FailureKind
) -> None:
    message = message_of(
        place(TopicKind.REQUESTS, PARTITION, "batch"), request(case.world.now.wall_ms), b"{}"
    )
    before = counters(case)
    case.world.append(altered(message, lie))
    honest = case.submit()
    case.run(1_500)
    assert reasons(case) == [reason]
    assert [run.request.id for run in case.commands(Run)] == [honest.id]
    case.answer(case.commands(Run)[0], Verdict.DONE, status=Status.CANCELLED, started=False)
    case.run(300)
    assert counters(case) == before


@pytest.mark.parametrize("pool", [POOL, "other"])
def test_a_request_whose_id_names_another_place_ends_nobody_elses(case: Case, pool: str) -> None:
    where = place(TopicKind.REQUESTS, PARTITION, "batch")
    lie = request(case.world.now.wall_ms, "interactive")
    case.world.append(altered(message_of(where, lie, b"{}"), set_to(pool=pool)))
    case.run(1_500)
    assert reasons(case) == [K.LYING_RECORD if pool == POOL else K.UNKNOWN_POOL]
    assert (case.results(), case.commands(Run)) == ([], [])
    assert state_of(case).partitions.by_place[where].finished.prefix == 1


def test_a_lie_under_the_id_of_another_record_is_kept_and_ends_nothing(case: Case) -> None:
    honest = case.submit()
    lie = message_of(place(TopicKind.REQUESTS, PARTITION, "batch"), honest, b"{}")
    case.world.append(altered(lie, set_to(tier="interactive")))
    case.run(1_500)
    assert reasons(case) == [K.LYING_RECORD]
    assert case.results() == []
    case.answer(case.commands(Run)[0], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(500)
    assert not state_of(case).tracked


def test_a_tombstone_is_told_from_junk_in_every_log(case: Case) -> None:
    for kind in (TopicKind.ATTEMPTS, TopicKind.CONTROL, TopicKind.WORKERS):
        case.world.append(Message(place(kind).topic, 0, None, ()))
    case.world.append(Message(place(TopicKind.REQUESTS, 0, "batch").topic, 0, None, ()))
    case.run(1_500)
    assert reasons(case) == 4 * [K.EMPTY_RECORD]


ATTEMPT_LIES: list[tuple[Lie, FailureKind | None]] = [
    (lambda document: document["usage"].update(completion_tokens=-5), K.OUT_OF_BOUNDS),
    (lambda document: document["usage"].update(completion_tokens=10**12), K.OUT_OF_BOUNDS),
    (lambda document: document.update(times={"finished_ms": IN_1970}), K.OUT_OF_BOUNDS),
    (set_to(attempts=-1), K.OUT_OF_BOUNDS),
    (set_to(attempt=[1]), K.UNDECODABLE),
    (set_to(tenant="b"), None),  # result-delivery's to bury
    (set_to(tier="interactive"), K.LYING_ATTEMPT),
    (set_to(origin=["t.requests.other.batch", PARTITION, 0]), K.LYING_ATTEMPT),
    (lambda document: document["origin"].__setitem__(2, 7), K.LYING_ATTEMPT),
    (lambda document: document.pop("status"), K.LYING_ATTEMPT),
    (set_to(attempt=[1, 99]), K.LYING_ATTEMPT),
    (set_to(attempt=[1, 0]), K.LYING_ATTEMPT),
    (set_to(attempt=[0, 1]), K.LYING_ATTEMPT),
    (set_to(worker="w\0"), K.LYING_ATTEMPT),
    (set_to(hop=1), K.LYING_ATTEMPT),
]


@pytest.mark.parametrize(("lie", "reason"), ATTEMPT_LIES)
def test_a_lying_attempt_moves_no_counter_and_finishes_nothing(
    case: Case, lie: Lie, reason: FailureKind | None
) -> None:
    record = case.submit()
    case.run(300)
    [run] = case.commands(Run)
    done = AttemptRecord(
        id=run.request.id, tenant="a", tier="batch", origin=run.origin, attempt=run.attempt, attempts=1,
        verdict=Verdict.DONE, status=Status.SUCCEEDED, usage=Usage(completion_tokens=10**6),
    )  # fmt: skip
    before = counters(case)
    case.world.append(altered(message_of(place(TopicKind.ATTEMPTS, PARTITION), done), lie))
    case.run(500)
    assert reasons(case) == ([] if reason is None else [reason])
    assert counters(case) == before
    assert record.id in state_of(case).tracked
    assert len(state_of(case).held) == 1


def test_an_attempt_that_goes_backwards_is_dead_lettered_and_the_next_one_counts(case: Case) -> None:
    case.submit()
    case.run(300)
    failed = {"failure": None, "worker": "w", "boot": BOOT}
    for _ in range(2):
        case.answer(case.commands(Run)[-1], Verdict.RETRY_AT, **failed)
        case.report()
        case.run(1_500)
    run = case.commands(Run)[-1]
    assert run.attempts == 3
    case.answer(msgspec.structs.replace(run, attempts=1), Verdict.RETRY_AT, **failed)
    case.run(500)
    assert reasons(case) == [K.ATTEMPT_BACKWARDS]
    assert len(state_of(case).held) == 1
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED)
    case.run(500)
    assert not state_of(case).tracked


def held_of(run: Run, **more: Any) -> Held:
    fields = {"tenant": "a", "tier": "batch", "origin": run.origin, **more}
    return Held(attempt=run.attempt, id=run.request.id, attempts=run.attempts, **fields)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (set_to(lane=3), K.LYING_REPORT),
        (lambda document: document["held"][0].update(tier="interactive"), K.LYING_REPORT),
        (lambda document: document["held"][0].update(tenant="b"), K.FOREIGN_TENANT),
        (lambda document: document["held"][0].update(tokens=-3), K.OUT_OF_BOUNDS),
        (set_to(limit=-1), K.OUT_OF_BOUNDS),
        (set_to(boot="b" * 300), K.OUT_OF_BOUNDS),
        (set_to(held="everything"), K.UNDECODABLE),
    ],
)
def test_a_lying_report_is_dead_lettered_and_changes_nothing(
    case: Case, lie: Lie, reason: FailureKind
) -> None:
    case.submit()
    case.run(300)
    [run] = case.commands(Run)
    report = Report(worker="w", boot=BOOT, epoch=1, lane=0, position=9, limit=4, held=(held_of(run),))
    before = counters(case)
    case.world.append(altered(message_of(place(TopicKind.WORKERS), report), lie))
    case.run(500)
    assert reasons(case) == [reason]
    assert counters(case) == before
    assert state_of(case).workers.live["w"].report.position != 9


def test_a_tick_that_the_owner_never_wrote_keeps_no_dead_worker_alive(case: Case) -> None:
    case.world.append(message_of(place(TopicKind.WORKERS), Tick(epoch=1, number=2**53)))
    case.run(10_000)
    assert reasons(case) == [K.LYING_RECORD]
    assert not state_of(case).workers.live, "it has been silent for ten seconds"


def test_a_foreign_cancel_hides_no_genuine_one(case: Case) -> None:
    record = case.submit()
    where = place(TopicKind.REQUESTS, PARTITION, "batch")
    case.world.out_until[where] = case.world.now_ms + 1_500  # nobody can tell yet whose it is
    for tenant in "bab":
        cancel = CancelRequest(id=record.id, tenant=tenant, at_ms=case.world.now.wall_ms)
        case.world.append(message_of(place(TopicKind.CONTROL), cancel))
    case.report(limit=0)
    case.run(4_000)
    assert case.results() == [(record.id, Status.CANCELLED, K.CANCELLED_BY_CALLER)]
    assert set(reasons(case)) == {K.FOREIGN_TENANT}
    assert not state_of(case).cancels


def test_nobody_cancels_or_asks_about_what_isnt_theirs(case: Case) -> None:
    record = case.submit()
    case.run(300)
    wall = case.world.now.wall_ms
    foreign = CancelRequest(id=record.id, tenant="b", at_ms=wall)
    case.world.append(message_of(place(TopicKind.CONTROL), foreign))
    case.world.append(altered(message_of(place(TopicKind.CONTROL), foreign), set_to(at_ms=IN_9999)))
    case.world.append(message_of(place(TopicKind.CONTROL), Query(id=record.id, nonce="n", gateway=7)))
    case.run(500)
    assert sorted(reasons(case)) == sorted([K.FOREIGN_TENANT, K.OUT_OF_BOUNDS, K.LYING_RECORD])
    assert case.commands(Cancel) == []
    assert not state_of(case).cancels


def test_junk_among_the_checkpoints_stops_the_next_owner_with_a_sentence_that_says_where(case: Case) -> None:
    case.run(1_000)
    case.owner.crash()
    junk = place(TopicKind.STATE)
    case.world.append(Message(junk.topic, 0, b"", ((HEADER, b"{not"),), b"positions"))
    where = f"{junk.topic}/0 at offset {len(case.world.logs[junk]) - 1}"
    with pytest.raises(UnusableStateError, match=f"the checkpoint in {where} can't be read"):
        case.run(5_000)


def test_every_reason_for_a_dead_letter_is_one_row_and_final() -> None:
    kinds = {reason for _, reason in ATTEMPT_LIES if reason} | {
        K.EMPTY_RECORD,
        K.UNKNOWN_POOL,
        K.LYING_RECORD,
    }
    for kind in kinds | {K.FOREIGN_TENANT, K.LYING_REPORT, K.ATTEMPT_BACKWARDS, K.KILLED_WORKERS}:
        assert not rule_of(kind).retryable, kind
