"""What is spilled runs in its order all the same, each request once, and holds up nobody."""

from random import Random

import pytest

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Usage
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.pure import WALL, place


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
