"""Where the beginnings of prompts are is known to a new owner, too: workers tell it what they began last."""

import random
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from headrace.contracts.policy import CostWeights
from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, HASH_CHARACTERS
from tests.support.scheduler.caching_worker import CachingWorker
from tests.support.scheduler.live import Ownerships, Pool, turn_until

TALKS, BEFORE, AFTER = 36, 4, 3
BY_CHANCE = 0.7
"""More than is found on three workers by chance: 0.4 to 0.6 of the usual, by the order in which requests come."""
WEIGHTS = CostWeights()


class Turn(NamedTuple):
    """What engines had in their caches, over what was sent to any of them before; what charges took for cached, over that."""

    hits: float
    charged: float


class Talks:
    """Conversations of one tenant, each turn of which goes on with the prompt of the one before; three workers."""

    def __init__(self, pool: Pool, *, tells: bool) -> None:
        self.pool, self.turns, self.rng = pool, 0, random.Random(7)  # noqa: S311
        self.workers = [CachingWorker(pool, name, tells=tells) for name in "uvw"]

    def go_on(self, scheduler: Callable[[], None]) -> Turn:
        """One turn of each, in any order."""
        sent_before, self.turns = ENDS[self.turns], self.turns + 1
        known = [len(worker.answered) for worker in self.workers]
        for talk in self.rng.sample(range(TALKS), TALKS):
            names = (f"{talk}.{turn}" for turn in range(self.turns + 1))
            prefix = "".join(name.ljust(HASH_CHARACTERS, "_") for name in names)
            tokens = ENDS[self.turns] * BLOCK_TOKENS
            self.pool.submit(1, prefix=prefix, prompt_tokens=tokens, max_tokens=1)
        wanted, turns = self.turns * TALKS, [scheduler, *(worker.turn for worker in self.workers)]
        turn_until(self.pool, turns, lambda: len(self.pool.results_read()) == wanted and self._at_rest())
        pairs = zip(self.workers, known, strict=True)
        answered = [each for worker, before in pairs for each in worker.answered[before:]]
        cached = sum(each.cached for each in answered)
        saved = sum(each.prompt * WEIGHTS.prompt - each.charge for each in answered)
        most_saved = cached * (WEIGHTS.prompt - WEIGHTS.cached)
        return Turn(cached / (TALKS * sent_before * BLOCK_TOKENS), saved / max(1, most_saved))

    def _at_rest(self) -> bool:
        return all(worker.empty for worker in self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def over_a_takeover(pool: Pool, *, tells: bool = True) -> tuple[list[Turn], list[Turn]]:
    """Each turn under the first owner but the very first, which finds nothing; each under the second."""
    talks, owners, first = Talks(pool, tells=tells), Ownerships(pool), pool.scheduler("one")
    talks.go_on(first.turn)
    before = [talks.go_on(first.turn) for _ in range(BEFORE)]
    del first  # killed: no farewell, no last checkpoint
    second = pool.scheduler("two")
    after = [talks.go_on(second.turn) for _ in range(AFTER)]
    turn_until(pool, [second.turn], lambda: owners.open_by("two"))
    second.stop()
    owners.close()
    talks.close()
    return before, after


def test_a_new_owner_finds_prompts_where_they_are_and_charges_them_as_cached(pool: Pool) -> None:
    before, after = over_a_takeover(pool)
    usual = fmean(turn.hits for turn in before[-AFTER:])
    assert usual > 0.8
    assert fmean(turn.hits for turn in after) >= 0.9 * usual
    assert after[0].hits > BY_CHANCE * usual, "from the first turn on"
    assert after[0].charged > 0, "once engines have told of some"
    assert min(turn.charged for turn in after[1:]) >= 0.9 * before[-1].charged


def test_without_what_workers_tell_a_new_owner_finds_them_by_chance(pool: Pool) -> None:
    before, after = over_a_takeover(pool, tells=False)
    assert after[0].hits < BY_CHANCE * fmean(turn.hits for turn in before[-AFTER:])
