"""What tenants, and the pool, have spent of their ceilings. Charged by the core at dispatch, settled as attempts end.

Invariant: who has no ceiling has nothing here and costs nothing; who is over one is in `closed` until it opens, and the
queue is told of both. What is owed survives a change of owner (`debts`, `owe`), with the last attempt whose charge is in it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from headrace.contracts.checkpoints import Paced
from headrace.contracts.ids import AttemptId
from headrace.contracts.policy import Spent
from headrace.scheduler.decisions.is_it_over_its_ceiling import Ceiling, charged, opens_us, settled

Whose = str | None
"""A tenant, or None: the pool itself."""
NONE = AttemptId(0, 0)
_MS = 1_000


class Owed(NamedTuple):
    """For how many ms what is owed takes to be paid back, where the ceiling is so many in its time (None: as it is now)."""

    ms: int
    amount: int | None = None

    def at(self, ceiling: Ceiling) -> int:
        """How many ms it takes at this ceiling's pace: what was spent is the same."""
        return self.ms if self.amount is None else -(-self.ms * self.amount // ceiling.amount)


@dataclass(slots=True)
class _Meter:
    """One's ceilings, and of each when what it owes is paid back, in microseconds since boot."""

    ceilings: Sequence[Ceiling]
    due_us: list[int]
    through: AttemptId = NONE
    """As restored: charges of attempts up to this one are in what was owed; `Ceilings.through` says the same of all."""

    def opens_us(self) -> int:
        return max(opens_us(due, of) for due, of in zip(self.due_us, self.ceilings, strict=True))


_NOTHING = Owed(0)


def _counts(ceiling: Ceiling, tokens: int) -> int:
    return tokens if ceiling.spent is Spent.TOKENS else 1


def _with_any(
    pool: Sequence[Ceiling], tenants: Mapping[str, Sequence[Ceiling]]
) -> dict[Whose, Sequence[Ceiling]]:
    """Those who have any."""
    found: dict[Whose, Sequence[Ceiling]] = {name: each for name, each in tenants.items() if each}
    if pool:
        found[None] = pool
    return found


class Ceilings:
    """All of a pool. `boot_ms` is now, in each call; times passed in and out are ms since boot."""

    def __init__(self, pool: Sequence[Ceiling], tenants: Mapping[str, Sequence[Ceiling]]) -> None:
        self._of = _with_any(pool, tenants)
        self._meters: dict[Whose, _Meter] = {}
        self._opening: list[tuple[int, str]] = []
        self.closed: dict[Whose, int] = {}
        """Who is over a ceiling, and until when."""
        self.through = NONE
        self.changed: set[Whose] = set()
        """Whose debts moved since the last checkpoint."""
        self.paced: Callable[[str], None] = lambda _: None
        self.goes_on: Callable[[str], None] = lambda _: None
        """Told of each tenant that is over a ceiling from now on, and of each that no longer is."""
        self.left_by: dict[Whose, Paced] = {}
        """What the last owner left of them."""

    def adopt(
        self, pool: Sequence[Ceiling], tenants: Mapping[str, Sequence[Ceiling]], *, boot_ms: int
    ) -> None:
        """Others hold from now on."""
        holds = _with_any(pool, tenants)
        for whose in [*(each for each in self._of if each not in holds), *holds]:
            self.hold(whose, holds.get(whose, ()), boot_ms)

    def hold(self, whose: Whose, ceilings: Sequence[Ceiling], boot_ms: int) -> None:
        """These hold for one from now on. What it owes of one that counts the same in the same time it owes on: as much as it
        has spent, however many it may spend now.
        """
        debts, through = self.debts(whose, boot_ms), self.through_of(whose)
        if self._meters.pop(whose, None) is not None:
            self.changed.add(whose)
        if ceilings:
            self._of[whose] = ceilings
            if debts or whose in self.closed:
                self.owe(whose, debts, through, boot_ms)
            return
        self._of.pop(whose, None)
        if self.closed.pop(whose, None) is not None and whose is not None:
            self.goes_on(whose)

    def __bool__(self) -> bool:
        return bool(self._of)

    def count(self, tenant: str) -> bool:
        """Whether anything is to be counted for a tenant."""
        return bool(self._of) and (tenant in self._of or None in self._of)

    @property
    def pool_is_closed(self) -> bool:
        """Whether nothing is to be released at all."""
        return None in self.closed

    @property
    def next_ms(self) -> int | None:
        """When the next of them opens."""
        return min(self._openings(), default=None)

    def _openings(self) -> list[int]:
        tenants = [self._opening[0][0]] if self._opening else []
        return [*tenants, *([self.closed[None]] if None in self.closed else [])]

    def charge(self, tenant: str, tokens: int, boot_ms: int) -> None:
        """An attempt that is expected to take so many tokens is released."""
        for whose in self._whose(tenant):
            meter = self._meter(whose)
            for number, each in enumerate(meter.ceilings):
                due_us, amount = meter.due_us[number], _counts(each, tokens)
                meter.due_us[number] = charged(due_us, boot_ms * _MS, amount, each)
            self._moved(whose, boot_ms)

    def settle(self, tenant: str, before: int, after: int, boot_ms: int) -> None:
        """It was charged `before`, and took or has taken `after`."""
        for whose in self._whose(tenant) if before != after else ():
            meter = self._meter(whose)
            for number, each in enumerate(meter.ceilings):
                if each.spent is Spent.TOKENS:
                    due_us = meter.due_us[number]
                    meter.due_us[number] = settled(due_us, boot_ms * _MS, before, after, each)
            self._moved(whose, boot_ms)

    def take_back(self, tenant: str, tokens: int, boot_ms: int) -> None:
        """It was charged so much, and never began."""
        for whose in self._whose(tenant):
            meter = self._meter(whose)
            for number, each in enumerate(meter.ceilings):
                due_us, amount = meter.due_us[number], _counts(each, tokens)
                meter.due_us[number] = settled(due_us, boot_ms * _MS, amount, 0, each)
            self._moved(whose, boot_ms)

    def knows(self, tenant: str, attempt: AttemptId) -> bool:
        """Whether the charge of an earlier owner's attempt is in what that owner said was owed."""
        return all(attempt <= self.through_of(whose) for whose in self._whose(tenant))

    def through_of(self, whose: Whose) -> AttemptId:
        """The last attempt whose charge is in what an earlier owner said was owed."""
        meter = self._meters.get(whose)
        return self.through if meter is None else max(self.through, meter.through)

    def turn(self, boot_ms: int) -> None:
        """Let those go on whose time has come."""
        if self.closed.get(None, boot_ms + 1) <= boot_ms:
            del self.closed[None]
        while self._opening and self._opening[0][0] <= boot_ms:
            at_ms, tenant = heappop(self._opening)
            if self.closed.get(tenant) == at_ms:
                self._look(tenant, boot_ms)

    def debts(self, whose: Whose, boot_ms: int) -> dict[str, Owed]:
        """By ceiling. Empty: nothing is owed."""
        meter = self._meters.get(whose)
        if meter is None:
            return {}
        pairs = zip(meter.ceilings, meter.due_us, strict=True)
        owed = {each.key: Owed(-(-(due - boot_ms * _MS) // _MS), each.amount) for each, due in pairs}
        return {key: debt for key, debt in owed.items() if debt.ms > 0}

    def owe(self, whose: Whose, debts: Mapping[str, Owed], through: AttemptId, boot_ms: int) -> None:
        """What an earlier owner said. Of ceilings that there are no more nothing is owed."""
        if whose in self._of:
            meter = self._meter(whose)
            owed_ms = [debts.get(each.key, _NOTHING).at(each) for each in meter.ceilings]
            meter.due_us = [(boot_ms + each_ms) * _MS for each_ms in owed_ms]
            meter.through = through
            self._look(whose, boot_ms)

    def forget_idle(self, boot_ms: int) -> Iterator[Whose]:
        """Drop those who owe nothing any more; yields who they were."""
        for whose, meter in list(self._meters.items()):
            if max(meter.due_us) <= boot_ms * _MS and whose not in self.closed:
                del self._meters[whose]
                self.changed.add(whose)
        for whose in sorted(self.changed - set(self._meters), key=lambda each: each or ""):
            self.changed.discard(whose)
            yield whose

    def wait_ms(self, tenant: str, requests: int, tokens: int, boot_ms: int) -> int:
        """How long ceilings alone keep one back that has so many of its tenant's before it, each of so many tokens."""
        waits = [0]
        for whose in self._whose(tenant):
            meter = self._meters.get(whose) or _Meter(self._of[whose], [0] * len(self._of[whose]))
            for due_us, each in zip(meter.due_us, meter.ceilings, strict=True):
                at_us = charged(due_us, boot_ms * _MS, requests * _counts(each, tokens), each)
                waits.append(-(-opens_us(at_us, each) // _MS) - boot_ms)
        return max(waits)

    def closest(self, whose: Whose) -> Ceiling | None:
        """By which ceiling one is kept back the longest; None: by none."""
        meter = self._meters.get(whose)
        if meter is None or whose not in self.closed:
            return None
        pairs = zip(meter.due_us, meter.ceilings, strict=True)
        return max(pairs, key=lambda pair: opens_us(pair[0], pair[1]))[1]

    def _whose(self, tenant: str) -> list[Whose]:
        return [whose for whose in (tenant, None) if whose in self._of]

    def _meter(self, whose: Whose) -> _Meter:
        if whose not in self._meters:
            ceilings = self._of[whose]
            self._meters[whose] = _Meter(ceilings, [0] * len(ceilings))
        return self._meters[whose]

    def _moved(self, whose: Whose, boot_ms: int) -> None:
        self.changed.add(whose)
        self._look(whose, boot_ms)

    def _look(self, whose: Whose, boot_ms: int) -> None:
        """Whether it is over a ceiling now, and until when."""
        opens_ms, was_closed = -(-self._meters[whose].opens_us() // _MS), whose in self.closed
        if opens_ms <= boot_ms:
            self.closed.pop(whose, None)
            if was_closed and whose is not None:
                self.goes_on(whose)
        elif self.closed.get(whose) != opens_ms:
            self.closed[whose] = opens_ms
            if whose is not None:
                heappush(self._opening, (opens_ms, whose))
            if not was_closed and whose is not None:
                self.paced(whose)
