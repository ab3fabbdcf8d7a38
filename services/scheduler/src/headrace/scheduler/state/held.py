"""Attempts in workers' hands, or on the way there. Used by the core.

Invariant: at most one attempt of a request is held; its absence means nothing before its command's place is known. What
is held besides takes room at its backend, and is in no counter and no queue.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import Held
from headrace.contracts.values import Origin


@dataclass(slots=True, eq=False)
class Absence:
    """`until`: the end of its attempts partition, asked for after the absence; read to there, it is lost. None: not told."""

    until: int | None = None


class Expected(NamedTuple):
    """What was believed to be in a backend's cache when a request was sent there: tokens, last used at `since`, that is,
    `age` tokens of prompts ago. `likely`: whether its cache reaches as far back.
    """

    tokens: int
    since: int
    age: int
    likely: bool

    @property
    def counted(self) -> int:
        """The tokens that a charge may count on."""
        return self.tokens if self.likely else 0


class Reserved(NamedTuple):
    """Tokens that ceilings count for an attempt. `owed`: they are in what an earlier owner said was owed, so that they are
    only raised, since what they were is its worker's word.
    """

    tokens: int
    owed: bool = False

    def until(self, took: int) -> int:
        """How many of them are settled, where it took so many."""
        return min(self.tokens, took) if self.owed else self.tokens


@dataclass(slots=True, eq=False)
class HeldAttempt:
    """One attempt as the owner believes it to be there.

    `offset` is where its `run` stands on the lane: -1 for one that another owner sent, None while that isn't known.
    `absence`: a report lacks it. `trial`: so many suspects of a death run at its worker, and nothing else; 0: normal work.
    `reported`: a report has shown it. `since_ms`: when it was released, or found, ms since boot. `freed_ms`: when the slot
    that it took became free, by the worker's clock; None: it didn't wait for one. `flow`: which flow of its tenant is charged
    for it; None: none is. `expects`: the tokens that it was expected to take when it was released; 0: nobody counts them.
    `reserved`: what ceilings are charged for it; None: nothing, or nobody knows how many.
    `spends`: the worker whose backend's ceilings are charged for it, and what; None: none are.
    `said`: tokens of the text that it goes on from; `tokens` are those that it has added.
    `cached`: tokens of its prompt that it is charged for as cached; as many as there are where another owner charged it.
    `moved_ms`: when its tokens were told to have grown last. `keeps`: its worker was told to keep its text.
    `expected`: what its backend's cache was believed to have of its prompt; None: nothing.
    """

    attempt: AttemptId
    id: str
    tenant: str
    tier: str
    origin: Origin
    attempts: int
    charge: int
    boot: str
    lane: int
    offset: int | None = None
    tokens: int = 0
    running: bool = False
    absence: Absence | None = None
    trial: int = 0
    reported: bool = False
    since_ms: int = 0
    freed_ms: int | None = None
    flow: int | None = None
    expects: int = 0
    reserved: Reserved | None = None
    spends: tuple[str, Reserved] | None = None
    said: int = 0
    cached: int = 0
    expected: Expected | None = None
    moved_ms: int = 0
    keeps: bool = False


class HeldAttempts:
    """Held attempts by request and by boot. What a boot holds besides is of tiers or partitions that were taken out of the
    policy: another owner released it, and the boot's last report tells of it.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, HeldAttempt] = {}
        self._by_boot: defaultdict[str, dict[str, HeldAttempt]] = defaultdict(dict)
        self._of_tier: Counter[str] = Counter()
        self._besides: dict[str, tuple[Held, ...]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def of(self, request_id: str) -> HeldAttempt | None:
        """The attempt of a request."""
        return self._by_id.get(request_id)

    def of_boot(self, boot: str) -> list[HeldAttempt]:
        """All that a boot holds, but for what it holds besides."""
        return list(self._by_boot[boot].values()) if boot in self._by_boot else []

    def count_of(self, boot: str) -> int:
        """How many a boot holds, in all."""
        return (len(self._by_boot[boot]) if boot in self._by_boot else 0) + len(self._besides.get(boot, ()))

    @property
    def in_all(self) -> int:
        """How many all boots hold, besides included."""
        return len(self._by_id) + sum(map(len, self._besides.values()))

    def besides(self, boot: str) -> tuple[Held, ...]:
        """What a boot holds besides."""
        return self._besides.get(boot, ())

    def holds_besides(self, boot: str, held: tuple[Held, ...]) -> None:
        """A boot holds this besides, and nothing else."""
        if held:
            self._besides[boot] = held
        else:
            self._besides.pop(boot, None)

    def count_of_tier(self, tier: str) -> int:
        """How many attempts of a tier are held."""
        return self._of_tier[tier]

    def add(self, held: HeldAttempt) -> None:
        """A new one. Raises ValueError when the request has one already."""
        if held.id in self._by_id:
            raise ValueError(f"{held.id} has an attempt in flight already")
        self._by_id[held.id] = held
        self._by_boot[held.boot][held.id] = held
        self._of_tier[held.tier] += 1

    def remove(self, held: HeldAttempt) -> None:
        """It has ended or was never there."""
        del self._by_id[held.id]
        self._of_tier[held.tier] -= 1
        of_boot = self._by_boot[held.boot]
        del of_boot[held.id]
        if not of_boot:
            del self._by_boot[held.boot]

    def all(self) -> Iterable[HeldAttempt]:
        """Every one of them."""
        return self._by_id.values()
