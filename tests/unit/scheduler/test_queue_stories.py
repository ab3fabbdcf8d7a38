"""Whatever happens to a queue, the next is of the tenant that a search over all who wait finds, and no tenant gets lost."""

from collections.abc import Iterator
from fractions import Fraction
from random import Random

from headrace.bus.messages import Received
from headrace.scheduler.decisions.pick_next import most_in_flight
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.frozen import Hold
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tracked import Phase, Tracked
from tests.support.scheduler.queue_alone import request

TIERS, NAMES = {"s": Fraction(2, 3), "t": Fraction(1, 3)}, "abcdef"
STEPS = (
    ["puts"] * 8 + ["spills"] * 3 + ["fetches", "reads"] * 2 + ["ends"] * 5 + ["picks"] * 12
    + ["grows", "holds", "paces", "weighs", "checkpoints", "loses_slots"]
)  # fmt: skip


class Story:
    """One queue, and all that happens to it."""

    def __init__(self, seed: int) -> None:
        self.dice, self.count, self.slots = Random(seed), 0, 6  # noqa: S311 - a run that can be had again
        self.weights = {name: self.dice.randint(1, 5) for name in NAMES}
        self.accounts, self.spilled = Accounts(TIERS, self.weights), Spilled()
        self.queue = FairQueue(self.accounts, self.spilled)
        self.away: list[str] = []
        self.unread: list[Tracked] = []
        self.running: list[tuple[Tracked, int]] = []

    def made(self) -> Tracked:
        self.count += 1
        tier, cost = self.dice.choice(list(TIERS)), self.dice.randint(1, 200)
        return request(self.count, self.dice.choice(NAMES), tier, cost)

    def puts(self) -> None:
        self.queue.put(self.made())

    def spills(self) -> None:
        tracked = self.made()
        self.queue.assign(tracked)
        assert self.spilled.put(tracked)
        self.queue.put_spilled(tracked)
        self.away.append(tracked.id)

    def fetches(self) -> None:
        if self.away:
            tracked = self.spilled.take(self.away.pop(self.dice.randrange(len(self.away))))
            assert tracked is not None
            self.queue.enter(tracked)
            self.unread.append(tracked)

    def reads(self) -> None:
        if self.unread:
            tracked = self.unread.pop(self.dice.randrange(len(self.unread)))
            tracked.received = Received("t", 0, tracked.origin.offset, 0, b"x")
            self.queue.payload_came(tracked)

    def ends(self) -> None:
        if self.running:
            tracked, charge = self.running.pop(self.dice.randrange(len(self.running)))
            tier, tenant = tracked.record.tier, tracked.record.tenant
            self.accounts.refund(tier, tenant, charge)
            self.accounts.settle(tier, tenant, self.dice.choice([0, charge, 300]))

    def grows(self) -> None:
        if self.running:
            tracked, charge = self.running.pop()
            self.accounts.recharge(tracked.record.tier, tracked.record.tenant, charge, charge + 90)
            self.running.append((tracked, charge + 90))

    def holds(self) -> None:
        hold = Hold(self.dice.choice([None, *TIERS]), self.dice.choice(NAMES))
        self.dice.choice([self.queue.frozen.freeze, self.queue.frozen.thaw])(hold)

    def paces(self) -> None:
        self.dice.choice([self.queue.frozen.pace, self.queue.frozen.go_on])(self.dice.choice(NAMES))

    def weighs(self) -> None:
        self.weights = {name: self.dice.randint(1, 5) for name in NAMES}
        charges = [(each.record.tier, each.record.tenant, charge) for each, charge in self.running]
        self.accounts.adopt(TIERS, self.weights, charges)
        self.queue.weights_changed()

    def checkpoints(self) -> None:
        self.queue.lift_all()
        list(self.accounts.forget_idle(self.queue.backlogged()))

    def loses_slots(self) -> None:
        self.slots = self.dice.randint(1, 8)

    def picks(self) -> None:
        self.queue.look_again()
        for going_on in (False, True):
            expected = next(self.search(), None)
            found = self.queue.next(self.slots, going_on=going_on)
            assert (found and (found.record.tier, found.record.tenant)) == expected
            if found is not None and self.dice.random() < 0.9:
                self.queue.take(found, Phase.HELD)
                self.accounts.dispatch(found.record.tier, found.record.tenant, found.charge)
                self.running.append((found, found.charge))

    def search(self) -> Iterator[tuple[str, str]]:
        """Whose turn it is: the tier's and the tenant's names."""
        for tier in sorted(TIERS, key=lambda name: (self.accounts.tiers[name].account.value, name)):
            free = {each for each in self.waiting(tier) if not self.queue.frozen.by_name(tier, each)}
            weight = sum(self.weights[each] for each in free)
            here = [each for each in free if self.queue.next_is_here(tier, each)]
            below = [each for each in here if self.in_flight(tier, each) < self.most(each, weight)]
            counters = [(self.queue.counter_when_waiting(tier, each), each) for each in below or here]
            if counters:
                yield tier, min(counters)[1]

    def waiting(self, tier: str) -> set[str]:
        return self.queue.backlogged()[tier]

    def in_flight(self, tier: str, name: str) -> int:
        return sum((each.record.tier, each.record.tenant) == (tier, name) for each, _ in self.running)

    def most(self, name: str, weight: int) -> int:
        return most_in_flight(self.weights[name], weight, self.slots)

    def agrees(self) -> None:
        """Accounts and sums are those of what runs and waits."""
        for tier in TIERS:
            for name in self.waiting(tier):
                account = self.accounts.of(tier, name)
                assert self.queue._tiers[tier].tenants[name].account is account
                assert account.in_flight == self.in_flight(tier, name)
            free = [each for each in self.waiting(tier) if not self.queue.frozen.by_name(tier, each)]
            assert self.queue.others_weight(tier, "nobody") == sum(self.weights[each] for each in free)


def test_the_next_is_whom_a_search_over_all_finds_whatever_happens_in_between() -> None:
    for seed in range(150):
        story = Story(seed)
        for _ in range(120):
            getattr(story, story.dice.choice(STEPS))()
            story.agrees()
