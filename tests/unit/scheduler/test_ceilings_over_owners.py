"""What is owed below a ceiling survives its owner: however often that changes, no more is released than the ceiling says."""

from random import Random

from headrace.contracts.commands import Run
from headrace.contracts.policy import CeilingPolicy
from headrace.contracts.values import Usage
from tests.support.scheduler.ceilings import PacedWorker, live, paced_ms, ran, served, taken_over
from tests.support.scheduler.reports import held_of


def test_what_is_owed_survives_a_change_of_owner() -> None:
    case = served(CeilingPolicy(requests=2, at_once=1))
    for _ in range(3):
        case.submit()
    live(case, 5)
    assert ran(case) == ["a"]
    owner = taken_over(case)
    live(case, 8, epoch=2)
    assert ran(case) == ["a"]
    assert owner.core is not None
    assert owner.core.state.open
    live(case, 18, epoch=2)
    assert ran(case) == ["a"] * 2, "30 s after the first, whoever owns the pool"


def test_what_was_released_since_the_last_checkpoint_counts_for_the_next_owner_as_well() -> None:
    """The worker holds it, and says so; nobody else knows that it was charged."""
    case = served(CeilingPolicy(tokens=6_000, at_once=1))
    case.run(300)
    core = case.owner.core
    assert core is not None
    case.submit(prompt_tokens=1_000)
    case.submit(prompt_tokens=1_000)
    while not case.commands(Run):
        case.run(25)
    (run,) = case.commands(Run)
    case.owner.commit = None
    owner = taken_over(case)
    held = held_of(run)
    for _ in range(14):
        case.run(500)
        case.report(limit=40, epoch=2, held=(held,))
    assert owner.core is not None
    assert owner.core.state.open
    assert owner.core.state.held.of(run.request.id) is not None
    assert len(case.commands(Run)) == 1
    assert owner.core.state.ceilings.closed["a"] > case.world.now.boot_ms


def test_who_is_known_to_the_checkpoint_isnt_charged_twice() -> None:
    case = served(CeilingPolicy(tokens=600, at_once=1))
    case.submit(prompt_tokens=1_000)
    case.run(2_500)
    (run,) = case.commands(Run)
    assert case.owner.core is not None
    until_ms = case.owner.core.state.ceilings.closed["a"]
    owner = taken_over(case)
    held = held_of(run)
    for _ in range(14):
        case.run(500)
        case.report(limit=40, epoch=2, held=(held,))
    assert owner.core is not None
    assert owner.core.state.held.of(run.request.id) is not None
    assert abs(owner.core.state.ceilings.closed["a"] - until_ms) <= 1_000


def test_however_often_the_owner_changes_no_more_is_released_than_the_ceiling_says() -> None:
    """Two seconds are left for what is between an owner's clock and a worker's."""
    took_over = 0
    for seed in range(8):
        dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
        case = served(CeilingPolicy(requests=60, at_once=20))
        worker = PacedWorker(case, dice, Usage(completion_tokens=3))
        for _ in range(150):
            case.submit()
        crash_ms = case.world.now_ms + dice.randint(100, 1_500)
        for _ in range(600):
            case.run(100)
            worker.turn()
            if dice.random() < 0.2:
                worker.report()
            if case.world.now_ms >= crash_ms:
                taken_over(case)
                took_over += 1
                crash_ms = case.world.now_ms + dice.randint(500, 10_000)
        at = worker.started_ms
        assert len(at) > 30
        for first, since_ms in enumerate(at):
            for last in range(first, len(at)):
                assert (last - first + 1 - 20) * 1_000 <= at[last] - since_ms + 2_000, (seed, first, last)
    assert took_over > 40


def test_a_clock_that_is_behind_paces_nobody_longer() -> None:
    assert [paced_ms(ahead_ms) for ahead_ms in (-3_600_000, 0)] == [10_000, 10_000]


def test_time_that_passed_before_the_next_owner_came_counts() -> None:
    assert [paced_ms(ahead_ms) for ahead_ms in (4_000, 3_600_000)] == [6_000, 0]
