"""Wrong versions of whose turn it is: tenants, tiers and what their counters remember. Listed by mutants.every."""

from fractions import Fraction
from typing import Any

from headrace.scheduler.decisions import pick_next
from headrace.scheduler.state import account, accounts, fair_queue, turns
from headrace.scheduler.state.account import Account
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.turns import Turns
from tests.simulation.mutants.mutant import Mutant, Patches

_BOUNDS = "test_fair_bounds::test_tenants_stay_within_the_bounds_and_no_slot_idles"
_FLOOR = "test_fair_bounds::test_a_backlogged_tier_gets_its_share_exactly_but_for_one_charge_where_charges_are_right"

_RIGHT = "test_fair_bounds::test_where_all_charges_are_right_counters_differ_by_one_charge"
_BLINKING = "test_fair_bounds::test_a_tier_gets_its_share_while_others_blink_on_and_off"


def the_greatest_counter_goes_first(patches: Patches) -> None:
    def most_served(self: Turns, _weight: int, _slots: int | None) -> str | None:
        return max(self._queues, key=lambda name: self._queues[name].account.value, default=None)

    patches.set(Turns, "least", most_served)


def the_greatest_tag_goes_first(patches: Patches) -> None:
    patches.set(fair_queue, "pick_tier", lambda tags: max(tags, key=tags.get, default=None))


def nothing_is_settled(patches: Patches) -> None:
    patches.set(Accounts, "settle", lambda _self, _tier, _tenant, _spent, _flow=None: None)


def a_charge_stays(patches: Patches) -> None:
    patches.set(Accounts, "refund", lambda _self, _tier, _tenant, _charge, _flow=None: None)


def what_is_held_counts_for_nothing(patches: Patches) -> None:
    patches.set(Account, "value", property(lambda self: self.settled))


def shares_are_divided_anew(patches: Patches) -> None:
    """Over the tiers that have something waiting at the moment."""
    right = FairQueue.next
    shares: dict[int, dict[str, Fraction]] = {}

    def next_one(self: FairQueue, slots: int, **more: Any) -> Any:
        tiers = self._accounts.tiers
        mine = shares.setdefault(id(self), {name: tier.account.share for name, tier in tiers.items()})
        busy = sum((mine[name] for name in tiers if self.depth(name)), Fraction(0))
        for name, tier in tiers.items():
            share = mine[name] / busy if busy and self.depth(name) else mine[name]
            tier.account.share, tier.account._ratio = share, share.as_integer_ratio()
        return right(self, slots, **more)

    patches.set(FairQueue, "next", next_one)


def credit_survives_idling(patches: Patches) -> None:
    patches.set(fair_queue, "lifted", lambda counter, _backlogged, _largest: counter)


def debt_is_cleared_by_idling(patches: Patches) -> None:
    def lift(self: Accounts, tier: str, tenant: str, floor: int) -> None:
        account = self.of(tier, tenant)
        account.settled = floor - account.charged
        self.tiers[tier].moved[tenant] = None

    patches.set(Accounts, "lift", lift)


def a_tiers_credit_survives_idling(patches: Patches) -> None:
    patches.set(Accounts, "lift_tier", lambda _self, _tier: None)


def nobody_knows_how_far_it_went(patches: Patches) -> None:
    """Who comes when nobody waits begins at nothing."""
    right = pick_next.lifted
    patches.set(fair_queue, "lifted", lambda counter, backlogged, _largest: right(counter, backlogged, 0))


def weights_mean_nothing(patches: Patches) -> None:
    patches.set(Accounts, "weight_of", lambda _self, _tenant: 1)


def a_charge_is_rounded_down(patches: Patches) -> None:
    patches.set(account, "step_of", lambda charge, share: charge * share[1] // share[0])


def debt_is_forgotten(patches: Patches) -> None:
    patches.set(accounts, "may_forget", lambda _counter, _largest, in_flight: in_flight == 0)


def the_last_in_order_goes_first(patches: Patches) -> None:
    def last(self: FairQueue, name: str, tenant: str) -> Any:
        flows = self._tiers[name].tenants[tenant].flows.values()
        return max(entry for flow in flows for entry in flow.heap if entry[2].phase.name == "WAITING")[2]

    patches.set(FairQueue, "_first_of", last)


def nobody_is_held_to_its_slots(patches: Patches) -> None:
    patches.set(turns, "most_in_flight", lambda _weight, _all, _slots: 10**9)


def who_is_passed_over_keeps_its_credit(patches: Patches) -> None:
    patches.set(Turns, "lift_due", lambda _self, _name: 0)


def who_is_passed_over_is_forgotten(patches: Patches) -> None:
    """Until its own counter moves."""
    patches.set(Turns, "_let_back_below", lambda _self, _weight, _slots: None)


def who_is_passed_over_pays_for_it(patches: Patches) -> None:
    """It is lifted to who is served, by what it was charged meanwhile as well."""
    right = Turns.lift_due

    def due(self: Turns, name: str) -> int:
        return right(self, name) and max(0, self._served - self._queues[name].account.value)

    patches.set(Turns, "lift_due", due)


def who_is_passed_over_pays_for_earlier_ones(patches: Patches) -> None:
    """It is lifted to who was served before it was passed over, too."""

    def due(self: Turns, name: str) -> int:
        return max(0, self._served - self._over[name][0]) if name in self._over else 0

    patches.set(Turns, "lift_due", due)


def a_new_owner_gives_the_credit(patches: Patches) -> None:
    patches.set(FairQueue, "lift_all", lambda _self: None)


_SLOW = "test_fair_bounds::test_who_sends_what_takes_long_has_twice_its_part_of_the_slots_at_most"
TURNS = (
    Mutant("greatest counter first", "the least counter is served next", the_greatest_counter_goes_first, _BOUNDS),
    Mutant("greatest tag first", "the tier of the least start tag is served next", the_greatest_tag_goes_first, _FLOOR),
    Mutant("nothing is settled", "counters move by what was really spent", nothing_is_settled, _BOUNDS),
    Mutant("a charge stays", "a charge is taken back when its attempt ends", a_charge_stays, _BOUNDS),
    Mutant("held counts for nothing", "a counter holds what is in flight", what_is_held_counts_for_nothing, _RIGHT),
    Mutant("shares divided anew", "a tier's share is constant", shares_are_divided_anew, _BLINKING),
    Mutant(
        "credit survives idling",
        "who was away asks for nothing back",
        credit_survives_idling,
        "test_fair_bounds::test_who_has_idled_gets_no_more_than_one_charge_ahead_of_the_others",
    ),
    Mutant(
        "debt is cleared by idling",
        "debt survives idling",
        debt_is_cleared_by_idling,
        "test_fair_bounds::test_who_owes_still_owes_after_idling",
    ),
    Mutant(
        "debt is forgotten",
        "a counter is kept until the others have caught up",
        debt_is_forgotten,
        "test_fair_bounds::test_who_owes_still_owes_after_idling",
    ),
    Mutant("a tier's credit survives idling", "an idle tier saves nothing up", a_tiers_credit_survives_idling, _FLOOR),
    Mutant("nobody held to its slots", "a tenant has twice its part of the slots", nobody_is_held_to_its_slots, _SLOW),
    Mutant(
        "passed over for ever",
        "who was passed over takes turns again",
        who_is_passed_over_is_forgotten,
        "test_turns::test_who_was_passed_over_is_served_as_soon_as_the_limit_rises",
    ),
    Mutant(
        "passed over and made to pay",
        "what an attempt cost less stays its tenant's",
        who_is_passed_over_pays_for_it,
        "test_turns::test_who_was_passed_over_has_no_credit_for_that_and_keeps_what_an_attempt_cost_less",
    ),
    Mutant(
        "passed over, and lifted for earlier ones",
        "where all have what they may, the least counter goes",
        who_is_passed_over_pays_for_earlier_ones,
        "test_turns::test_nobody_is_lifted_for_what_was_served_before_it_was_passed_over",
    ),
    Mutant("passed over with credit", "no credit for slots that weren't one's", who_is_passed_over_keeps_its_credit, _SLOW),
    Mutant(
        "passed over, and credit by takeover",
        "a checkpoint has what counters are to be lifted by",
        a_new_owner_gives_the_credit,
        "test_settling::test_a_new_owner_gives_no_credit_for_slots_that_a_tenant_could_not_have",
    ),
    Mutant("beginning at nothing", "who comes to an empty queue begins at its tags", nobody_knows_how_far_it_went, _BOUNDS),
    Mutant(
        "weights mean nothing",
        "twice the weight, twice the service",
        weights_mean_nothing,
        "test_fair_bounds::test_twice_the_weight_gets_twice_the_service_but_for_the_bound",
    ),
    Mutant(
        "charges rounded down",
        "each charge moves a counter",
        a_charge_is_rounded_down,
        "test_fair_order::test_requests_without_a_price_take_turns_whatever_their_tenants_weigh",
    ),
    Mutant(
        "last in order first",
        "inside a tenant: priority, deadline, arrival",
        the_last_in_order_goes_first,
        "test_fair_order::test_inside_a_tenant_priority_then_deadline_then_arrival_decide",
    ),
)  # fmt: skip
