"""A live worker whose engine has a cache of prompts, and that tells a new owner what it began last, as the product's does.

Used by tests/integration/scheduler. Its cache never forgets: what isn't found there was never sent there.
"""

from typing import NamedTuple

from headrace.contracts.commands import Run
from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, HASH_CHARACTERS, Prefix, hashes_of
from headrace.contracts.reports import MOST_RAN
from headrace.contracts.values import Usage
from tests.support.scheduler.live import Pool
from tests.support.scheduler.live_worker import LiveWorker


class Answered(NamedTuple):
    """One attempt: tokens of its prompt, how many were in the cache, and what it was charged (micro service units)."""

    prompt: int
    cached: int
    charge: int


class CachingWorker(LiveWorker):
    """`answered`: what its engine found, in order. `tells`: whether it says what it began. It has begun as many other
    prompts before as it can tell of, so that a report with them is as large as any.
    """

    def __init__(self, pool: Pool, name: str, *, limit: int = 4, tells: bool = True) -> None:
        super().__init__(pool, limit=limit, name=name)
        self.tells = tells
        self.answered: list[Answered] = []
        self._cache = set[str]()
        self._begun: dict[Prefix, None] = {}
        for number in range(MOST_RAN):
            self._remember("".join(f"{name}{number}.{end}".ljust(HASH_CHARACTERS, "_") for end in ENDS))

    def begun(self) -> tuple[Prefix, ...]:
        """The latest last."""
        return tuple(self._begun) if self.tells else ()

    def usage_of(self, run: Run) -> Usage:
        """What was sent there before it has in its cache."""
        hashes, prompt = hashes_of(run.request.prefix), run.request.prompt_tokens
        found = [end for end, each in zip(ENDS, hashes, strict=False) if each in self._cache]
        cached = min(prompt, found[-1] * BLOCK_TOKENS) if found else 0
        self._cache.update(hashes)
        self._remember(run.request.prefix)
        self.answered.append(Answered(prompt, cached, run.charge))
        return Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=1)

    def _remember(self, prefix: Prefix) -> None:
        self._begun.pop(prefix, None)
        self._begun[prefix] = None
        if len(self._begun) > MOST_RAN:
            del self._begun[next(iter(self._begun))]
