"""A tenant over its bound is spilled: it runs in its order all the same, ends without its payload, and nobody feels it."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import HEADER, encode
from headrace.contracts.commands import Run
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.replies import Answer
from headrace.contracts.reports import Held
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Origin, Usage
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import WALL, place

FEW = SpillBounds(records=4, size=1_000_000, reach=2, run=5, gap=1, under_way=100)


def _held(run: Run) -> Held:
    """As its worker reports it."""
    return Held(
        id=run.request.id, tenant=run.request.tenant, tier=run.request.tier, origin=run.origin, attempt=run.attempt,
        attempts=run.attempts, charge=run.charge, running=True,
    )  # fmt: skip


class Flood(Case):
    """Tenant a may have four requests in memory whole."""

    def __init__(self, spill: SpillBounds | None = FEW, limit: int = 0) -> None:
        super().__init__()
        self.owner.setting = replace(self.owner.setting, spill=spill, window=Window())
        self.limit, self.epoch, self.done = limit, 1, set[str]()
        self.run(200)

    def run(self, ms: int = 600) -> None:
        """Let time pass; the worker says what it holds, twice a second."""
        while ms > 0:
            held = [_held(run) for run in self.commands(Run) if run.request.id not in self.done]
            self.report(limit=self.limit, epoch=self.epoch, held=tuple(held))
            super().run(min(ms, 500))
            ms -= 500

    def finish(self, run: Run) -> None:
        """The worker has done this."""
        self.done.add(run.request.id)
        self.answer(run, Verdict.DONE, status=Status.SUCCEEDED)

    @property
    def core(self) -> PoolCore:
        """The owner's."""
        assert self.owner.core is not None
        return self.owner.core

    @property
    def spilled(self) -> int:
        """How many are."""
        return len(self.core.state.spilled)

    def flood(self, count: int, **more: Any) -> list[RequestRecord]:
        """So many requests of tenant a, read."""
        found = [self.submit(b"body-%d" % self.count, **more) for _ in range(count)]
        self.run(200)
        return found

    def ended(self) -> dict[str, tuple[Status, FailureKind | None]]:
        """What became of those that have ended."""
        return {request_id: (status, kind) for request_id, status, kind in self.results()}

    def run_all(self) -> list[Run]:
        """Every request, one after the other on one slot; in the order of their runs."""
        runs: list[Run] = []
        self.limit = 1
        while (run := self.next_run(len(runs))) is not None:
            runs.append(run)
            self.finish(run)
        return runs

    def next_run(self, number: int) -> Run | None:
        """The run of this number, once its worker has it; None: nothing is left to run."""
        for _ in range(100):
            self.run(50)
            runs: list[Run] = self.commands(Run)
            if len(runs) > number:
                return runs[number]
            if not self.core.state.tracked:
                return None
        raise AssertionError("a request waits, and nothing runs")

    def values(self) -> list[bytes | None]:
        """The payloads that workers were sent."""
        log = self.world.logs[place(TopicKind.WORK, 0)]
        return [each.value for each in log if each.value]


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


def test_every_spilled_request_runs_once_in_its_order_with_its_own_payload_and_trace() -> None:
    flood = Flood()
    records = flood.flood(30)
    runs = flood.run_all()
    assert [run.request for run in runs] == records
    assert flood.values() == [b"body-%d" % number for number in range(30)]
    log = flood.world.logs[place(TopicKind.WORK, 0)]
    assert all(("traceparent", b"00-x") in each.headers for each in log if each.value)
    state = flood.core.state
    assert (len(state.tracked), flood.spilled, len(state.unread)) == (0, 0, 0)
    partition = state.partitions.by_place[place(TopicKind.REQUESTS, records[0].partition, "batch")]
    assert (partition.records, partition.size) == (0, 0)


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


def order_of_runs(seed: int, spill: SpillBounds | None, keys: tuple[str | None, ...] = (None,)) -> list[str]:
    """Random floods of two tenants in two tiers, one slot: the numbers of the requests in the order of their runs."""
    dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
    flood = Flood(spill)
    runs: list[Run] = []
    flood.limit = 1
    rounds = dice.randint(5, 12)
    while True:
        if rounds > 0 and dice.random() < 0.5:
            rounds -= 1
            _arrive(flood, dice, keys)
            flood.run(150)
        run = flood.next_run(len(runs))
        if run is not None:
            runs.append(run)
            flood.finish(run)
            flood.run(150)
        elif rounds <= 0:
            assert spill is None or flood.core.state.queue.hungry == {}
            return [run.request.metadata["number"] for run in runs]


def _arrive(flood: Flood, dice: Random, keys: tuple[str | None, ...]) -> None:
    tenant, tier = dice.choice("aaab"), dice.choice(("batch", "batch", "interactive"))
    for _ in range(dice.randint(1, 12)):
        deadline = WALL + dice.randint(300_000, 500_000) if dice.random() < 0.3 else None
        flood.submit(
            tenant=tenant, into=tier, priority=dice.choice((0, 0, 0, 1, -1)), finish_by_ms=deadline,
            prompt_tokens=dice.randint(0, 50), metadata={"number": str(flood.count)},
            fairness_key=dice.choice(keys),
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_release_is_the_one_without_spilling(seed: int) -> None:
    spilling = SpillBounds(records=3, size=1_000_000, reach=2, run=4, gap=2, under_way=100)
    expected = order_of_runs(seed, None)
    assert len(expected) > 20
    assert order_of_runs(seed, spilling) == expected


def test_keys_take_turns_in_the_same_order_with_spilling() -> None:
    spilling = SpillBounds(records=3, size=1_000_000, reach=2, run=4, gap=2, under_way=100)
    keys = (None, "x", "y", "z")
    for seed in range(12):
        expected = order_of_runs(seed, None, keys)
        assert order_of_runs(seed, spilling, keys) == expected, seed


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


def test_a_key_whose_turn_comes_by_a_settlement_is_read_again() -> None:
    flood, keys = Flood(limit=4), ("u", "v", "x", "y")
    for key in keys:
        flood.submit(fairness_key=key, max_tokens=100)
    flood.run(200)
    running: list[Run] = flood.commands(Run)
    assert [run.request.fairness_key for run in running] == list(keys)
    for key in ("x", "x", "x", "x", "u", "v", "y", "y", "y"):
        flood.submit(fairness_key=key, max_tokens=100)
    flood.run(500)
    for run in running:
        flood.done.add(run.request.id)
        tokens = 1 if run.request.fairness_key == "y" else 1_000
        usage = Usage(prompt_tokens=1, completion_tokens=tokens)
        flood.answer(run, Verdict.DONE, status=Status.SUCCEEDED, started=True, usage=usage)
    flood.run(1_000)
    assert flood.commands(Run)[4].request.fairness_key == "y"


def test_a_spilled_request_is_cancelled_at_once_without_its_payload() -> None:
    flood = Flood()
    last = flood.flood(20)[-1]
    flood.owner.answers_runs = False
    cancel = CancelRequest(id=last.id, tenant="a", at_ms=flood.world.now.wall_ms)
    flood.world.append(message_of(place(TopicKind.CONTROL), cancel))
    flood.run(1_000)
    assert flood.ended() == {last.id: (Status.CANCELLED, FailureKind.CANCELLED_BY_CALLER)}
    assert flood.core.state.queue.depth("batch") == 19
    assert flood.spilled == 15


def test_a_spilled_request_expires_at_its_time_without_its_payload() -> None:
    flood = Flood()
    flood.flood(10)
    late = flood.submit(start_by_ms=flood.world.now.wall_ms + 500, priority=-5)
    flood.owner.answers_runs = False
    flood.run(200)
    assert late.id in flood.core.state.spilled
    flood.run(325)
    assert flood.core.state.tracked[late.id].phase.name == "ENDING"
    flood.run(500)
    assert flood.ended() == {late.id: (Status.EXPIRED, FailureKind.QUEUE_TIMEOUT)}


def test_a_spilled_request_that_is_written_again_is_a_duplicate() -> None:
    flood = Flood()
    last = flood.flood(10)[-1]
    where = place(TopicKind.REQUESTS, last.partition, "batch")
    flood.world.append(Message(where.topic, where.partition, b"again", ((HEADER, encode(last)),)))
    flood.run(200)
    assert len(flood.core.state.tracked) == 10
    assert [run.request.id for run in flood.run_all()].count(last.id) == 1


def test_a_spilled_request_knows_its_place_in_the_queue() -> None:
    flood = Flood()
    records = flood.flood(20)
    flood.world.append(message_of(place(TopicKind.CONTROL), Query(id=records[13].id, nonce="n", gateway=0)))
    flood.run(200)
    (answer,) = [each for each in flood.world.records(TopicKind.REPLIES) if isinstance(each, Answer)]
    assert (answer.known, answer.status, answer.position) == (True, Status.QUEUED, 13)
    assert flood.spilled == 16, "whoever asks changes nothing"


def tenants_of(runs: list[Run]) -> list[str]:
    """Whose they are."""
    return [run.request.tenant for run in runs]


def test_a_payload_on_its_way_holds_up_no_other_tenant_and_its_tenant_keeps_its_turn() -> None:
    flood = Flood()
    flood.flood(20)
    for _ in range(60):
        flood.submit(tenant="d")  # of another partition
    flood.run(200)
    flood.world.out_until[place(TopicKind.REQUESTS, partition_of("a", 2), "batch")] = 10**9
    flood.limit = 34
    flood.run(1_500)
    ran = flood.commands(Run)
    assert tenants_of(ran).count("a") == 4, "all that it has in memory"
    assert tenants_of(ran).count("d") == 30, "more than its part"
    flood.world.out_until.clear()
    flood.run(500)
    flood.limit = 38
    flood.run(500)
    assert tenants_of(flood.commands(Run)[34:]) == ["a"] * 4


def test_what_goes_behind_a_spilled_request_is_spilled_too_and_what_goes_first_of_all_stays() -> None:
    flood = Flood()
    flood.flood(8)
    state = flood.core.state
    flood.owner.answers_runs, flood.limit = False, 2
    flood.run(600)
    last, first = flood.submit(), flood.submit(priority=1)
    flood.run(200)
    assert (last.id in state.spilled, first.id in state.spilled) == (True, False)


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


def test_a_spilled_request_that_must_be_dead_lettered_waits_for_its_bytes() -> None:
    flood = Flood()
    last = flood.flood(12)[-1]
    flood.owner.answers_runs = False
    state, where = flood.core.state, place(TopicKind.REQUESTS, last.partition, "batch")
    attempt = AttemptId(1, 10**6)
    state.sequence = attempt.sequence
    run = Run(
        epoch=1, boot="b", attempt=attempt, attempts=4, origin=Origin(where.topic, where.partition, 11),
        request=last, charge=1, dispatched_ms=flood.world.now.wall_ms,
    )  # fmt: skip
    flood.answer(run, Verdict.RETRY_AT, failure=Failure(kind=FailureKind.BACKEND_ERROR))
    flood.run(1_000)
    assert flood.ended() == {}
    flood.owner.answers_runs = True
    flood.run(1_000)
    assert flood.ended() == {last.id: (Status.DEAD_LETTERED, FailureKind.ATTEMPTS_EXHAUSTED)}
    assert [each.value for each in flood.world.logs[place(TopicKind.DLQ, last.partition)]] == [b"body-11"]


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
