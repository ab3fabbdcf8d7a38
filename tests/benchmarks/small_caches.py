"""How many prefix hits small caches leave to be had: ours, beside a router that knows what each cache holds.

    python -m tests.benchmarks.small_caches [SEEDS]

As tests/benchmarks/caches.py, with caches of 0.77 million tokens each. Hits over those of one cache that never forgets, and
tokens a second over round robin's: of ours; of ours where what is believed of caches is what they hold; of one cache as
large as all eight, in the order of arrival; of round robin. Invariant: the same requests for all.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.contracts.prefixes import ENDS, hashes_of
from headrace.scheduler.simulate.backend import BlockCache
from headrace.scheduler.simulate.baselines import IN_TURN
from headrace.scheduler.simulate.comparing import HEADRACE, Course, Entrant, compare, contenders
from headrace.scheduler.simulate.contender import Left, Order
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.owner import Owner
from headrace.scheduler.simulate.records import _prefix_of
from headrace.scheduler.simulate.scenario import draw
from tests.benchmarks.caches import BACKENDS, MODEL, NAMES, course_of
from tests.benchmarks.saying import say
from tests.support.entry import count_of, parser_of

BLOCKS = 1_500
_KNOWING = "all-knowing"


class AllKnowing(Owner):
    """The product, but for what it believes of caches: that is what they hold."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._caches = [backend._cache._blocks for backend in args[2]]
        self._block_of: dict[str, int] = {}
        self._core.state.workers.caches.blocks_of = self._blocks_of  # type: ignore[method-assign]

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:
        """One step, with the prompts of those that have arrived learnt before."""
        for job in arrived:
            ends = zip(hashes_of(_prefix_of(job)), ENDS, strict=False)
            self._block_of |= {each: job.blocks[end - 1] for each, end in ends}
        return super().turn(now_ms, arrived, left)

    def _blocks_of(self, hashes: Sequence[str]) -> dict[str, int]:
        blocks = list(zip(ENDS, (self._block_of[each] for each in hashes), strict=False))
        longest = (max((end for end, block in blocks if block in cache), default=0) for cache in self._caches)
        return {boot: found for boot, found in zip(self._scribe._boots, longest, strict=True) if found}


def together(course: Course, seed: int) -> float:
    """The hits of one cache as large as all, over those of one that never forgets, in the order of arrival."""
    jobs = draw(course.trace, course.scenario, course.policy, course.models, seed)
    one, perfect = BlockCache(BACKENDS * BLOCKS), BlockCache(10**9)
    found = [(one.use(job.blocks), perfect.use(job.blocks)) for job in jobs]
    late = found[len(found) // 2 :]
    return sum(ours for ours, _ in late) / sum(most for _, most in late)


def main(seeds: int) -> None:
    """A line for each trace and seed."""
    for name in NAMES:
        course = replace(course_of(name), models=[replace(MODEL, cache_blocks=BLOCKS)] * BACKENDS)
        known = contenders(course.policy, "main")
        entrants = {
            HEADRACE: known[HEADRACE],
            _KNOWING: Entrant(partial(AllKnowing, course.policy, "main"), course.policy),
            IN_TURN: known[IN_TURN],
        }
        for seed in range(1, 1 + seeds):
            found = {each: runs[0] for each, runs in compare(course, entrants, [seed]).items()}
            ours, knowing, in_turn = found[HEADRACE], found[_KNOWING], found[IN_TURN]
            say(
                f"{name}, seed {seed}: hits {ours.hits or 0:.2f}, all-knowing {knowing.hits or 0:.2f}, "
                f"one cache {together(course, seed):.2f}, round robin {in_turn.hits or 0:.2f}; tokens/s over "
                f"round robin's {ours.tokens / in_turn.tokens:.2f}, all-knowing {knowing.tokens / in_turn.tokens:.2f}"
            )


if __name__ == "__main__":
    main(count_of(parser_of(__spec__, __doc__), "seeds", 3, "runs of each trace"))
