"""Wrong versions of holding tenants back. Listed by mutants.every."""

from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.held_back import HeldBack
from headrace.scheduler.state.tier_queue import TierQueue
from headrace.scheduler.state.tracked import Tracked
from tests.simulation.mutants.mutant import Mutant, Patches


def who_comes_back_keeps_its_credit(patches: Patches) -> None:
    def comes_back(self: FairQueue, name: str, tenant: str) -> None:
        self._tiers[name].bring_back(tenant)

    patches.set(FairQueue, "_comes_back", comes_back)


def who_is_held_back_takes_part_of_the_slots(patches: Patches) -> None:
    right = FairQueue._least_of

    def least_of(self: FairQueue, name: str, tier: TierQueue, slots: int | None) -> Tracked | None:
        before, tier.weight = tier.weight, sum(queue.weight for queue in tier.tenants.values())
        found = right(self, name, tier, slots)
        tier.weight = before
        return found

    patches.set(FairQueue, "_least_of", least_of)


def a_tier_that_comes_back_keeps_its_credit(patches: Patches) -> None:
    right = HeldBack._set

    def set_(self: HeldBack, name: str, queue: TierQueue, tenant: str, *, aside: bool) -> None:
        start_tag = self._accounts.tiers[name].account.settled
        right(self, name, queue, tenant, aside=aside)
        self._accounts.tiers[name].account.settled = start_tag

    patches.set(HeldBack, "_set", set_)


def newcomers_begin_where_those_are_who_are_held_back(patches: Patches) -> None:
    def floor(self: FairQueue, name: str) -> int:
        tier, accounts = self._tiers[name], self._accounts.tiers[name]
        counters = [self._accounts.of(name, tenant).value for tenant in tier.tenants]
        return min(counters, default=accounts.largest_tag)

    patches.set(FairQueue, "_floor", floor)


def a_ceiling_that_opens_thaws_what_is_frozen(patches: Patches) -> None:
    def go_on(self: HeldBack, tenant: str) -> None:
        self.paced.discard(tenant)
        for name, queue in self._tiers.items():
            self._set(name, queue, tenant, aside=False)

    patches.set(HeldBack, "go_on", go_on)


def a_tier_is_lifted_only_when_nobody_waits_at_all(patches: Patches) -> None:
    right = Accounts.lift_tier

    def lift_tier(self: Accounts, tier: str) -> None:
        if not self.tiers[tier].tenants:
            right(self, tier)

    patches.set(Accounts, "lift_tier", lift_tier)


HELD_BACK = (
    Mutant(
        "who is paced gathers credit",
        "credit doesn't survive being held back",
        who_comes_back_keeps_its_credit,
        "test_held_back::test_who_comes_back_is_served_alike_from_then_on",
    ),
    Mutant(
        "who is paced takes part of the slots",
        "who is held back is in no sum",
        who_is_held_back_takes_part_of_the_slots,
        "test_held_back::test_who_is_held_back_is_in_no_sum_by_which_others_have_their_parts_of_the_slots",
    ),
    Mutant(
        "a tier of whom all are paced gathers credit",
        "a tier that can't be served isn't backlogged",
        a_tier_that_comes_back_keeps_its_credit,
        "test_held_back::test_a_tier_of_whom_nobody_may_be_served_keeps_no_credit",
    ),
    Mutant(
        "a newcomer begins at the counter of one that is held back",
        "who comes to wait begins at the least counter of those who are served",
        newcomers_begin_where_those_are_who_are_held_back,
        "test_held_back::test_who_comes_to_wait_meanwhile_begins_where_those_are_who_are_served",
    ),
    Mutant(
        "a ceiling that opens thaws what an operator froze",
        "one is held back as long as anybody wants it",
        a_ceiling_that_opens_thaws_what_is_frozen,
        "test_held_back::test_it_is_held_back_as_long_as_anybody_wants_it",
    ),
    Mutant(
        "a newcomer gets the credit of its tier's paced tenants",
        "a tier that can't be served isn't backlogged",
        a_tier_is_lifted_only_when_nobody_waits_at_all,
        "test_held_back::test_a_tier_of_whom_nobody_may_be_served_keeps_no_credit",
    ),
)
