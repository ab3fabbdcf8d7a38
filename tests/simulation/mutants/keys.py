"""Wrong versions of whose turn it is inside a tenant: fairness keys, and what is known of them. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.decisions.which_flow import NO_KEY, which_flow
from headrace.scheduler.state import backlogs, flows
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.flows import Flows
from headrace.scheduler.state.tenant_queue import TenantQueue
from tests.simulation.mutants.mutant import Mutant, Patches

_KEYS = "test_fairness_keys::"


def keys_mean_nothing(patches: Patches) -> None:
    patches.set(FairQueue, "flow_of", lambda _self, _record: None)


def the_greatest_key_goes_first(patches: Patches) -> None:
    def greatest(self: TenantQueue, counters: Flows) -> int:
        return max(self.flows, key=lambda flow: counters.of(flow).value)

    patches.set(TenantQueue, "next_flow", greatest)


def keys_are_charged_nothing(patches: Patches) -> None:
    for name in ("dispatch", "refund", "settle"):
        right = getattr(Accounts, name)
        patches.set(Accounts, name, lambda self, *what, _right=right: _right(self, *what[:3]))


def a_keys_counter_moves_in_silence(patches: Patches) -> None:
    """Its turn stays where it was."""
    patches.set(FairQueue, "touch_flow", lambda _self, _tier, _tenant, _flow: None)


def a_keys_credit_survives_idling(patches: Patches) -> None:
    patches.set(flows, "lifted", lambda counter, _backlogged, _largest: counter)


def a_keys_debt_is_forgotten(patches: Patches) -> None:
    patches.set(flows, "may_forget", lambda _counter, _largest, in_flight: in_flight == 0)


def every_key_has_its_own_counter(patches: Patches) -> None:
    def own(key: str | None, known: Any, waiting: Any) -> int | None:
        return known.get(key) if key is not None else which_flow(key, known, waiting)

    patches.set(flows, "which_flow", own)


def a_key_waits_in_two_places(patches: Patches) -> None:
    """As soon as there is room it gets its own counter, whatever of it waits at another."""
    patches.set(flows, "which_flow", lambda key, own, _waiting: which_flow(key, own, ()))


def no_key_goes_before_all(patches: Patches) -> None:
    right = TenantQueue.next_flow

    def first(self: TenantQueue, counters: Flows) -> int:
        return NO_KEY if NO_KEY in self.flows else right(self, counters)

    patches.set(TenantQueue, "next_flow", first)


def nobody_counts_the_turns_of_others(patches: Patches) -> None:
    patches.set(backlogs, "with_turns", lambda own, _queue, _counters, _flow: own)


def what_is_spilled_comes_in_no_order_of_keys(patches: Patches) -> None:
    def turns(_self: TenantQueue, firsts: Any, _counters: Flows) -> dict[int, int]:
        return {flow: -flow * 10**12 for flow in firsts}

    patches.set(TenantQueue, "turns_of_spilled", turns)


def a_turn_that_moves_makes_nobody_read(patches: Patches) -> None:
    def touch(self: FairQueue, tier: str, tenant: str, flow: int) -> None:
        queue = self._tiers[tier].tenants.get(tenant)
        if queue is not None:
            queue.moved(flow, self._accounts.flows[tier, tenant])

    patches.set(FairQueue, "touch_flow", touch)


KEYS = (
    Mutant(
        "keys mean nothing",
        "keys of a tenant share alike",
        keys_mean_nothing,
        _KEYS + "test_keys_are_served_as_tenants_of_a_tier_would_be",
    ),
    Mutant(
        "greatest key first",
        "the key of the least counter is served next",
        the_greatest_key_goes_first,
        _KEYS + "test_keys_stay_within_the_bounds_of_tenants",
    ),
    Mutant(
        "keys are charged nothing",
        "a key is charged at dispatch and settled on what was used",
        keys_are_charged_nothing,
        _KEYS + "test_a_key_is_settled_on_what_its_requests_really_used",
    ),
    Mutant(
        "a key's counter moves in silence",
        "whose turn it is follows the counters",
        a_keys_counter_moves_in_silence,
        _KEYS + "test_keys_stay_within_the_bounds_of_tenants",
    ),
    Mutant(
        "a key's credit survives idling",
        "a key that was away asks for nothing back",
        a_keys_credit_survives_idling,
        _KEYS + "test_a_key_that_has_idled_has_no_credit",
    ),
    Mutant(
        "a key's debt is forgotten",
        "a key's counter is kept until the others have caught up",
        a_keys_debt_is_forgotten,
        _KEYS + "test_a_key_that_owes_still_owes_after_idling",
    ),
    Mutant(
        "every key has its own counter",
        "a tenant's keys take a bounded memory",
        every_key_has_its_own_counter,
        _KEYS + "test_however_many_keys_there_are_the_memory_is_bounded_and_all_is_forgotten_in_the_end",
    ),
    Mutant(
        "a key waits in two places",
        "the requests of a key keep their order",
        a_key_waits_in_two_places,
        _KEYS + "test_a_key_that_shares_its_counter_keeps_its_order",
    ),
    Mutant(
        "no key goes before all",
        "requests without a key are one more key",
        no_key_goes_before_all,
        _KEYS + "test_requests_without_a_key_are_one_key_and_a_second_user_gets_half",
    ),
    Mutant(
        "nobody counts the turns of others",
        "a place in the queue counts the turns of other keys",
        nobody_counts_the_turns_of_others,
        _KEYS + "test_the_place_in_the_queue_counts_the_turns_of_other_keys",
    ),
    Mutant(
        "spilled in no order of keys",
        "what is next by the counters is read again first",
        what_is_spilled_comes_in_no_order_of_keys,
        "test_spilling_bounds::test_keys_that_take_turns_fill_no_memory_with_what_is_not_next",
    ),
    Mutant(
        "a turn that moves makes nobody read",
        "whose turn has come by a settlement is read again",
        a_turn_that_moves_makes_nobody_read,
        "test_spilling_order::test_a_key_whose_turn_comes_by_a_settlement_is_read_again",
    ),
)
