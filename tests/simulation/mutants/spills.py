"""Wrong versions of what is kept of a flood, and of how its payloads come back. Listed by mutants.every."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.scheduler.core import spilling
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.spilling import Spilling
from headrace.scheduler.decisions import what_to_spill
from headrace.scheduler.decisions.pick_next import with_priority
from headrace.scheduler.decisions.what_to_spill import Amount
from headrace.scheduler.state.backlogs import Backlogs
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.packed import Packing
from headrace.scheduler.state.partitions import RequestPartition
from headrace.scheduler.state.requests import Requests
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tenant_queue import Waiting
from headrace.scheduler.state.tracked import Tracked
from tests.simulation.mutants.mutant import Mutant, Patches

_SPILLING_BOUNDS = "test_spilling_bounds::test_"
_SPILLING_ENDS = "test_spilling_ends::test_"
_SPILLING_ORDER = "test_spilling_order::test_"
_SPILLING_READ_AGAIN = "test_spilling_read_again::test_"
_TURN = _SPILLING_ORDER + "a_payload_on_its_way_holds_up_no_other_tenant_and_its_tenant_keeps_its_turn"
_RUNS = _SPILLING_ORDER + "every_spilled_request_runs_once_in_its_order_with_its_own_payload_and_trace"


def all_is_kept_whole(patches: Patches) -> None:
    patches.set(spilling, "may_stay", lambda *_amounts, **_next: True)


def a_window_is_anybodys(patches: Patches) -> None:
    right = what_to_spill.may_stay

    def may_stay(own: Amount, _free: Amount, bounds: Any, *, is_next: bool) -> bool:
        return right(own, Amount(10**9, 10**12), bounds, is_next=is_next)

    patches.set(spilling, "may_stay", may_stay)


def what_is_spilled_counts_in_the_window(patches: Patches) -> None:
    patches.set(RequestPartition, "drop", lambda _self, _payload: None)


def what_is_spilled_counts_as_finished(patches: Patches) -> None:
    right = Spilling.spills

    def spills(self: Spilling, tracked: Any) -> bool:
        spilled = right(self, tracked)
        if spilled:
            partition = self._state.partitions.of(tracked.origin)
            assert partition is not None
            partition.finish(tracked.origin.offset)
        return spilled

    patches.set(Spilling, "spills", spills)


def nobody_reads_again(patches: Patches) -> None:
    patches.set(Spilling, "_feed", lambda _self, _whose, _bounds: None)


def it_is_looked_at_once(patches: Patches) -> None:
    """A tenant that had enough when it was looked at isn't looked at when it has less."""
    right = FairQueue.take

    def take(self: FairQueue, request: Any, phase: Any) -> None:
        before = dict(self.hungry)
        right(self, request, phase)
        self.hungry = before

    patches.set(FairQueue, "take", take)


def any_record_will_do(patches: Patches) -> None:
    def tell(_self: Spilling, _stub: Any, _what: str) -> None:
        return None

    patches.set(Spilling, "_tell_of_wrong", tell)


def a_spilled_request_cannot_be_cancelled(patches: Patches) -> None:
    patches.set(Requests, "get", lambda self, request_id: self._here.get(request_id))


def time_does_not_pass_for_it(patches: Patches) -> None:
    patches.set(Spilled, "due", lambda _self, _wall_ms, _most: [])


def nobody_knows_that_it_waits(patches: Patches) -> None:
    patches.set(Requests, "__contains__", lambda self, request_id: request_id in self._here)


def a_payload_on_its_way_stops_the_queue(patches: Patches) -> None:
    right = FairQueue._next_of

    def next_of(self: FairQueue, name: str, tier: Any, slots: int) -> Tracked | None:
        least = tier.turns.least(tier.weight, slots)
        if least is not None and self._first_of(name, least) is None:
            return None
        return right(self, name, tier, slots)

    patches.set(FairQueue, "_next_of", next_of)


def who_is_not_read_loses_its_turn(patches: Patches) -> None:
    right = FairQueue._next_of

    def next_of(self: FairQueue, name: str, tier: Any, slots: int) -> Tracked | None:
        found = right(self, name, tier, slots)
        if found is not None:
            to = self._accounts.of(name, found.record.tenant).value
            for tenant in [each for each in tier.tenants if self._first_of(name, each) is None]:
                self._accounts.lift(name, tenant, to)
                self._accounts.tiers[name].moved[tenant] = None
        return found

    patches.set(FairQueue, "_next_of", next_of)


def who_is_in_memory_goes_first(patches: Patches) -> None:
    patches.set(Backlogs, "goes_before_spilled", lambda _self, _request: True)


def the_least_urgent_is_read_first(patches: Patches) -> None:
    right = Spilled.in_turns

    def lasts(self: Spilled, tier: str, tenant: str, counters: Any) -> Any:
        return iter(list(right(self, tier, tenant, counters))[::-1])

    patches.set(Spilled, "in_turns", lasts)


def a_dead_letter_is_written_without_its_bytes(patches: Patches) -> None:
    right = Endings.end

    def end(self: Endings, tracked: Any, status: Any, failure: Any) -> None:
        right(self, tracked, status, failure)
        for ending in self._endings.values():
            ending.lacks = None

    patches.set(Endings, "end", end)


def its_place_is_not_known(patches: Patches) -> None:
    patches.set(Spilled, "ahead", lambda _self, _tier, _tenant, _flow, _order: Waiting(0, 0))


def metadata_may_fill_memory(patches: Patches) -> None:
    right: Callable[..., None] = RequestPartition.decide

    def decide(self: RequestPartition, window: Any, boot_ms: int, resume_ms: int, _spilled: int = 0) -> None:
        right(self, window, boot_ms, resume_ms)

    patches.set(RequestPartition, "decide", decide)


def priorities_are_forgotten(patches: Patches) -> None:
    right = Packing.pack

    def pack(self: Packing, tracked: Tracked) -> bytes | None:
        return right(self, replace(tracked, order=with_priority(tracked.order, 0)))

    patches.set(Packing, "pack", pack)


SPILLS = (
    Mutant(
        "all is kept whole",
        "a tenant over its bound is spilled",
        all_is_kept_whole,
        _SPILLING_BOUNDS + "what_is_over_the_bound_keeps_no_payload_and_takes_no_room_in_the_window",
    ),
    Mutant(
        "a window is anybody's",
        "nobody has more of a window than it leaves free",
        a_window_is_anybodys,
        _SPILLING_BOUNDS + "a_flood_leaves_as_much_of_the_window_as_it_has",
    ),
    Mutant(
        "spilled counts in the window",
        "what is spilled takes no room",
        what_is_spilled_counts_in_the_window,
        _SPILLING_BOUNDS + "what_is_over_the_bound_keeps_no_payload_and_takes_no_room_in_the_window",
    ),
    Mutant(
        "spilled counts as finished",
        "no checkpoint passes what is spilled",
        what_is_spilled_counts_as_finished,
        _SPILLING_READ_AGAIN + "no_checkpoint_passes_a_spilled_request_and_the_next_owner_reads_it_again",
    ),
    Mutant("nobody reads again", "payloads are read again when their turn nears", nobody_reads_again, _RUNS),
    Mutant("looked at once", "who has less in memory is looked at again", it_is_looked_at_once, _RUNS),
    Mutant(
        "any record will do",
        "what comes back is the record that was read",
        any_record_will_do,
        _SPILLING_READ_AGAIN + "what_comes_back_as_another_stops_the_pool",
    ),
    Mutant(
        "no cancel of a spilled one",
        "a spilled request can be cancelled",
        a_spilled_request_cannot_be_cancelled,
        _SPILLING_ENDS + "a_spilled_request_is_cancelled_at_once_without_its_payload",
    ),
    Mutant(
        "time doesn't pass for it",
        "a spilled request expires in time",
        time_does_not_pass_for_it,
        _SPILLING_ENDS + "a_spilled_request_expires_at_its_time_without_its_payload",
    ),
    Mutant(
        "nobody knows that it waits",
        "a spilled request isn't taken twice",
        nobody_knows_that_it_waits,
        _SPILLING_ENDS + "a_spilled_request_that_is_written_again_is_a_duplicate",
    ),
    Mutant(
        "a payload on its way stops the queue",
        "others run meanwhile",
        a_payload_on_its_way_stops_the_queue,
        _TURN,
    ),
    Mutant(
        "who isn't read loses its turn", "its tenant keeps its turn", who_is_not_read_loses_its_turn, _TURN
    ),
    Mutant(
        "in memory first",
        "the order is the one without spilling",
        who_is_in_memory_goes_first,
        _SPILLING_ORDER
        + "what_goes_behind_a_spilled_request_is_spilled_too_and_what_goes_first_of_all_stays",
    ),
    Mutant(
        "the last read first",
        "the first of what is spilled are read again first",
        the_least_urgent_is_read_first,
        _SPILLING_BOUNDS + "a_flood_that_is_worked_off_never_takes_more_than_its_bound",
    ),
    Mutant(
        "a letter without its bytes",
        "a dead letter holds the record's bytes",
        a_dead_letter_is_written_without_its_bytes,
        _SPILLING_ENDS + "a_spilled_request_that_must_be_dead_lettered_waits_for_its_bytes",
    ),
    Mutant(
        "its place isn't known",
        "what is spilled counts in positions",
        its_place_is_not_known,
        _SPILLING_ENDS + "a_spilled_request_knows_its_place_in_the_queue",
    ),
    Mutant(
        "metadata may fill memory",
        "metadata is bounded, too",
        metadata_may_fill_memory,
        _SPILLING_BOUNDS + "a_window_full_of_metadata_pauses_its_partition_and_is_read_again_below",
    ),
    Mutant(
        "priorities are forgotten",
        "what is packed compares as it did",
        priorities_are_forgotten,
        "test_spilled::test_who_is_urgent_is_first_among_the_spilled",
    ),
)
