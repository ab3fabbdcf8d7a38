"""The fair queue and its accounts, with slots and nothing else around them. Used by the tests of the order of release.

Keeps its own books of what each tenant was charged and got, by which the accounts can be judged. Invariant: no clock and no
randomness; requests and ends come from the caller.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from headrace.bus.messages import Received
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin, Payload
from headrace.scheduler.decisions.pick_next import order_of
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tracked import Phase, Tracked

WALL = 1_700_000_000_000
UNIT = 1_000_000
ONE_TIER = {"t": Fraction(1)}
Whose = tuple[str, str]
"""Tier and tenant."""


def request(number: int, tenant: str, tier: str, cost: int, **more: object) -> Tracked:
    """One that waits nowhere yet."""
    record = RequestRecord(
        id=f"r{number}",
        tenant=tenant,
        pool="p",
        tier=tier,
        partition=0,
        model="m",
        route="/r",
        accepted_ms=WALL + number,
        payload=Payload(size=1),
        gateway=0,
        **more,  # type: ignore[arg-type]
    )
    return Tracked(
        record=record,
        origin=Origin("t", 0, number),
        received=Received("t", 0, number, WALL, b"x"),
        trace=(),
        order=order_of(record, number, timedelta(minutes=10)),
        charge=cost,
        phase=Phase.DELAYED,
    )


def queue_of(shares: Mapping[str, Fraction], weights: Mapping[str, int]) -> tuple[Accounts, FairQueue]:
    """An empty queue, and its accounts."""
    accounts = Accounts(shares, weights)
    return accounts, FairQueue(accounts, Spilled())


@dataclass(eq=False)
class Attempt:
    """One in a slot. `charge`: as at dispatch; `stands`: as raised since; `flow`: charged for it inside its tenant."""

    request: Tracked
    charge: int
    stands: int
    flow: int | None = None

    @property
    def whose(self) -> Whose:
        """Tier and tenant."""
        return self.request.record.tier, self.request.record.tenant


class QueueAlone:
    """`got`, `charged`: micro service units that each tenant has been settled, and is charged for what it has in its slots.

    `most_charge`: the greatest charge over weight; `most_cost`: the greatest charge; `most_error`: the most by which a charge
    at dispatch and the actual cost came apart.
    """

    def __init__(
        self, slots: int, weights: Mapping[str, int], shares: Mapping[str, Fraction] | None = None
    ) -> None:
        self.slots, self.weights = slots, weights
        self.accounts = Accounts(shares or ONE_TIER, weights)
        self.queue = FairQueue(self.accounts, Spilled())
        self.running: list[Attempt] = []
        self.got: defaultdict[Whose, int] = defaultdict(int)
        self.charged: defaultdict[Whose, int] = defaultdict(int)
        self.most_charge, self.most_cost, self.most_error = Fraction(0), 0, 0
        self.passed: set[Whose] = set()
        """Tenants that were lifted since a watch looked last, as they had all the slots that they may have."""
        self._count = 0
        self._going_on = False
        """Whether nothing but picks happened since the last one, as where an owner fills free slots."""

    def put(self, tenant: str, cost: int, tier: str = "t", **more: object) -> Tracked:
        """A request arrives."""
        self._going_on = False
        self._count += 1
        made = request(self._count, tenant, tier, cost, **more)
        self.queue.put(made)
        return made

    def give_up(self, waiting: Tracked) -> None:
        """It waits no longer, and was never begun."""
        self._going_on = False
        self.queue.take(waiting, Phase.ENDING)

    def dispatch(self) -> Attempt | None:
        """The next one gets a slot, if one is free and anybody waits."""
        found = self._next() if len(self.running) < self.slots else None
        if found is None:
            return None
        flow = self.queue.assign(found)
        self.queue.take(found, Phase.HELD)
        attempt = Attempt(found, found.charge, found.charge, flow)
        self.accounts.dispatch(*attempt.whose, found.charge, flow)
        self.running.append(attempt)
        self.charged[self.book_of(attempt)] += found.charge
        self._note_charge(attempt)
        return attempt

    def book_of(self, attempt: Attempt) -> Whose:
        """Where it is booked."""
        return attempt.whose

    def _note_charge(self, attempt: Attempt) -> None:
        weight = self.weights.get(self.book_of(attempt)[1], 1)
        self.most_charge = max(self.most_charge, Fraction(attempt.stands, weight))
        self.most_cost = max(self.most_cost, attempt.stands)

    def _next(self) -> Tracked | None:
        before = {
            (tier, name): account.settled
            for tier, accounts in self.accounts.tiers.items()
            for name, account in accounts.tenants.items()
        }
        found = self.queue.next(self.slots, going_on=self._going_on)
        self._going_on = True
        self.passed |= {w for w, settled in before.items() if self.accounts.of(*w).settled != settled}
        self.passed |= {
            (name, each) for name, tier in self.queue._tiers.items() for each in tier.turns.those_over()
        }
        return found

    def report(self, attempt: Attempt, spent: int) -> None:
        """It has spent so much by now."""
        self._going_on = False
        if spent > attempt.stands:
            self.accounts.recharge(*attempt.whose, attempt.stands, spent, attempt.flow)
            self.charged[self.book_of(attempt)] += spent - attempt.stands
            attempt.stands = spent
            self._note_charge(attempt)

    def end(self, attempt: Attempt, spent: int) -> None:
        """It has ended, and spent this in all; at least what was reported."""
        self._going_on = False
        spent = spent if attempt.stands == attempt.charge else max(spent, attempt.stands)
        self.running.remove(attempt)
        self.accounts.refund(*attempt.whose, attempt.stands, attempt.flow)
        self.accounts.settle(*attempt.whose, spent, attempt.flow)
        self.charged[self.book_of(attempt)] -= attempt.stands
        self.got[self.book_of(attempt)] += spent
        self.most_error = max(self.most_error, abs(spent - attempt.charge))

    def checkpoint(self) -> None:
        """Forget who need not be remembered."""
        self.queue.forget_flows()
        list(self.accounts.forget_idle(self.queue.backlogged()))

    def compared(self) -> dict[str, set[str]]:
        """By tier, those between whom it is to be fair now."""
        return {tier: names - self.queue.frozen.paced for tier, names in self.queue.backlogged().items()}

    def waiting(self, name: str) -> int:
        """How many requests of one of them wait in the only tier."""
        return self.queue.backlog("t", name).requests

    def backlogged(self, tier: str = "t") -> set[str]:
        """Tenants with waiting requests."""
        return self.queue.backlogged()[tier]

    def counter(self, tenant: str, tier: str = "t") -> Fraction:
        """v: settled, lifts included, and what is charged by our own books, over weight."""
        account = self.accounts.of(tier, tenant)
        lift = self.queue._tiers[tier].turns.lift_due(tenant)  # which comes with its next turn
        return account.settled + lift + Fraction(self.charged[tier, tenant], self.weights.get(tenant, 1))


def dispatch(accounts: Accounts, queue: FairQueue) -> Tracked | None:
    found = queue.next(1_000)
    if found is not None:
        queue.take(found, Phase.HELD)
        accounts.dispatch(found.record.tier, found.record.tenant, found.charge)
    return found
