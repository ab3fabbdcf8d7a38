"""Wrong ways to search for a killer, each caught by a scenario that the right one passes."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.contracts.lifecycle import Status
from headrace.scheduler.core import quarantine, suspicion
from headrace.scheduler.core.quarantine import Quarantine
from headrace.scheduler.core.reconciling import Reconciling
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.suspicion import Case, Suspicion
from tests.support.scheduler.deadly_pool import KILLER, DeadlyPool

Patch = pytest.MonkeyPatch


def one_killer() -> list[str]:
    """What is wrong after one killer among 256, of which many still wait when it is tried."""
    pool = DeadlyPool(runs_ms=600)
    pool.run(1_000)
    made = [pool.submit(KILLER if n == 9 else b"{}") for n in range(256)]
    pool.run_until_ended(60_000)
    ends, ran = pool.ends(), pool.ran
    killer = made.pop(9)
    wrong = [] if ends.get(killer) is Status.DEAD_LETTERED else ["the killer isn't taken out"]
    wrong += ["a neighbour isn't answered"] * any(ends.get(n) is not Status.SUCCEEDED for n in made)
    wrong += ["too many deaths"] * (pool.deaths > 3)
    wrong += ["a neighbour runs too often"] * any(ran[n] > 3 for n in made)
    wrong += ["a trial had company"] * any(worker.company for worker in pool.workers)
    return wrong


def killed_by_hand() -> list[str]:
    """What is wrong after many kills of workers that no prompt is guilty of."""
    wrong = []
    for seed in range(4):
        pool = DeadlyPool(seed=seed, workers=3, limit=4, runs_ms=800)
        pool.run(1_000)
        for _ in range(300):
            pool.submit()
        while len(pool.ends()) < len(pool.requests) and pool.world.now_ms < 200_000:
            pool.run(pool.world.rng.randrange(500, 3_000, 25))
            if pool.world.now_ms < 100_000:
                pool.world.rng.choice(pool.workers).kill()
        wrong += ["somebody innocent is taken out"] * len(pool.letters())
    return wrong


def many_suspects() -> list[str]:
    """What is wrong after one killer among 64 that run at a time."""
    pool = DeadlyPool(limit=64, runs_ms=2_000)
    pool.run(1_000)
    for n in range(64):
        pool.submit(KILLER if n == 17 else b"{}")
    pool.run_until_ended(40_000)
    return ["the search takes too long"] * (len(pool.ends()) < 64) + ["too many deaths"] * (pool.deaths > 6)


def lost_touch() -> list[str]:
    """What is wrong after a worker was frozen for longer than its burial takes."""
    pool = DeadlyPool(workers=1, runs_ms=600)
    pool.run(1_000)
    for _ in range(12):
        pool.submit()
    pool.run(300)
    [worker] = pool.workers
    turn, worker.turn = worker.turn, lambda: None  # type: ignore[method-assign]
    pool.run(6_000)
    worker.turn = turn  # type: ignore[method-assign]
    pool.run(3_000)
    assert pool.owner.core is not None
    return ["somebody is suspected of a death that was none"] * len(pool.owner.core.state.suspects.deaths)


def only_what_was_reported_running_is_suspect(patch: Patch) -> None:
    right = Reconciling._lost
    patch.setattr(
        Reconciling,
        "_lost",
        lambda self, held: right(self, held) if held.running else self._returning.unstarted(held),
    )


def nobody_is_kept_apart(patch: Patch) -> None:
    patch.setattr(suspicion, "must_be_apart", lambda _deaths: False)


def a_trial_has_company(patch: Patch) -> None:
    def boot(self: Quarantine) -> str | None:
        apart, tried = self._state.suspects.apart, any(held.trial for held in self._state.held.all())
        return None if tried or apart is None else apart.boot

    patch.setattr(Quarantine, "boot", property(boot))


def any_second_death_convicts(patch: Patch) -> None:
    patch.setattr(suspicion, "is_killer", lambda own, _recent, **_more: len(own) > 1)


def a_death_alone_always_convicts(patch: Patch) -> None:
    patch.setattr(suspicion, "is_killer", lambda own, _recent, **_more: own[-1].trial == 1)


def a_trial_that_never_began_counts(patch: Patch) -> None:
    def lost(self: Reconciling, held: Any) -> None:
        grave = self._state.workers.graves.get(held.boot)
        if grave is None or grave.harmless:
            self._returning.unstarted(held)
        else:
            self._returning.died(held, grave.worker)

    patch.setattr(Reconciling, "_lost", lost)
    patch.setattr(suspicion, "is_killer", lambda own, _recent, **_more: own[-1].trial == 1)


def many_are_tried_one_by_one(patch: Patch) -> None:
    patch.setattr(quarantine, "parts_of", lambda members, _limit: [[member] for member in members])


def every_death_is_forgotten(patch: Patch) -> None:
    right = Suspicion.case_of

    def case_of(self: Suspicion, failed: Any) -> Case:
        found = right(self, failed)
        return Case(guilty=found.guilty)

    patch.setattr(Suspicion, "case_of", case_of)


def a_worker_that_comes_back_acquits_nobody(patch: Patch) -> None:
    patch.setattr(Returning, "came_back", lambda _self, _boot: None)


WRONG: list[tuple[Callable[[Patch], None], Callable[[], list[str]]]] = [
    (only_what_was_reported_running_is_suspect, one_killer),
    (nobody_is_kept_apart, one_killer),
    (a_trial_has_company, one_killer),
    (any_second_death_convicts, one_killer),
    (every_death_is_forgotten, one_killer),
    (a_death_alone_always_convicts, killed_by_hand),
    (a_trial_that_never_began_counts, killed_by_hand),
    (many_are_tried_one_by_one, many_suspects),
    (a_worker_that_comes_back_acquits_nobody, lost_touch),
]


@pytest.mark.interpreted
@pytest.mark.parametrize(("wrong", "scenario"), WRONG)
def test_a_wrong_search_is_caught(
    wrong: Callable[[Patch], None], scenario: Callable[[], list[str]], monkeypatch: Patch
) -> None:
    wrong(monkeypatch)
    assert scenario()


@pytest.mark.parametrize("scenario", [one_killer, killed_by_hand, many_suspects, lost_touch])
def test_the_right_search_passes(scenario: Callable[[], list[str]]) -> None:
    assert scenario() == []
