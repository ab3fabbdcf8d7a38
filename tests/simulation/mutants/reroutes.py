"""Wrong versions of how requests are passed on to other pools. Listed by mutants.every."""

from typing import Any

from headrace.contracts.checkpoints import StateRecord
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin
from headrace.scheduler.core import rerouting
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.control_log import ControlLog
from headrace.scheduler.core.falling_back import FallingBack
from headrace.scheduler.core.intake import Intake
from headrace.scheduler.core.rerouting import Rerouting
from headrace.scheduler.decisions import may_reroute, which_fallback
from headrace.scheduler.decisions.which_fallback import There
from headrace.scheduler.state import rerouted
from headrace.scheduler.state.elsewhere import Elsewhere
from headrace.scheduler.state.on_its_way import OnItsWay
from headrace.scheduler.state.pending import Cancels
from headrace.scheduler.state.rerouted import Reroute, Rerouted
from headrace.scheduler.state.tracked import Tracked
from tests.simulation.mutants.mutant import Mutant, Patches

_AWAY = "the_other_pools_log_is_away_while_the_owner_dies"
_DIES = "an_owner_dies_while_its_requests_go_to_another_pool"
_COMES_BACK = "a_backend_comes_back_while_its_requests_go_to_another_pool"
_CANCEL = "test_rerouting::test_a_cancel_reaches_its_request_wherever_it_is"
_OUTLIVES = "test_rerouting::test_a_cancel_outlives_the_owner_that_was_to_pass_it_on"
_KNOWS = "test_rerouting::test_a_successor_knows_where_requests_went_before_it_came"


def finished_before_it_is_written(patches: Patches) -> None:
    right = Rerouting._write

    def write(self: Rerouting, reroute: Reroute, tracked: Tracked) -> None:
        right(self, reroute, tracked)
        self._gone(reroute)

    patches.set(Rerouting, "_write", write)


def taken_in_twice(patches: Patches) -> None:
    right = Intake._is_duplicate

    def is_duplicate(self: Intake, record: RequestRecord, origin: Origin) -> bool:
        return not record.hop and right(self, record, origin)

    patches.set(Intake, "_is_duplicate", is_duplicate)


def no_intent_in_the_checkpoint(patches: Patches) -> None:
    right = Checkpoints._keyed

    def keyed(self: Checkpoints, kind: str, rest: str) -> StateRecord | None:
        return None if kind == "rerouting" else right(self, kind, rest)

    patches.set(Checkpoints, "_keyed", keyed)


def written_before_the_intent_is_committed(patches: Patches) -> None:
    right = Rerouting.begin

    def begin(self: Rerouting, tracked: Tracked, to: str, model: str) -> bool:
        begun = right(self, tracked, to, model)
        if begun:
            self._state.reroutes[tracked.id].said_in = 0
        return begun

    patches.set(Rerouting, "begin", begin)


def a_successor_forgets_where_they_went(patches: Patches) -> None:
    patches.set(Rerouted, "restore", lambda *_given: None)


def cancels_stay_behind(patches: Patches) -> None:
    patches.set(Cancels, "of", lambda *_given: [])


def a_checkpoint_passes_a_cancel_on_its_way(patches: Patches) -> None:
    right = Rerouting.passes_on

    def passes_on(self: Rerouting, record: Any, offset: int) -> bool:
        passed = right(self, record, offset)
        if offset in self._state.passed_on:
            self._state.passed_on[10**9 + offset] = self._state.passed_on.pop(offset)
        return passed

    patches.set(Rerouting, "passes_on", passes_on)


def a_cancel_is_looked_for_where_its_id_says(patches: Patches) -> None:
    patches.set(ControlLog, "_place_of", lambda *_given: None)


def passed_on_for_ever(patches: Patches) -> None:
    patches.set(may_reroute, "MOST_HOPS", 10**9)


def cancels_go_round_for_ever(patches: Patches) -> None:
    patches.set(rerouting, "may_follow", lambda _hop: True)


def a_deleted_log_is_tried_for_ever(patches: Patches) -> None:
    patches.set(OnItsWay, "is_refused_for_good", lambda *_, **__: False)


def it_waits_as_long_there(patches: Patches) -> None:
    patches.set(which_fallback, "PASSING_MS", -(10**9))


def who_was_sent_takes_no_room(patches: Patches) -> None:
    patches.set(Elsewhere, "sent", lambda *_given: None)


def a_closed_pool_is_open(patches: Patches) -> None:
    right = Elsewhere._of

    def of(self: Elsewhere, *given: Any) -> There:
        return right(self, *given)._replace(takes=True, wait_ms=0)

    patches.set(Elsewhere, "_of", of)


def looked_at_only_after_it_was_released(patches: Patches) -> None:
    right = FallingBack.turn

    def turn(self: FallingBack) -> None:
        self._state.arrived = []
        right(self)

    patches.set(FallingBack, "turn", turn)


def what_was_let_go_is_looked_at_later(patches: Patches) -> None:
    patches.set(FallingBack, "_has_thawed", lambda _self: False)


def all_that_went_is_known(patches: Patches) -> None:
    patches.set(rerouted, "MOST", 10**9)


def what_can_not_be_written_is_tried_for_ever(patches: Patches) -> None:
    right = Rerouting._give_up

    def give_up(self: Rerouting, reroute: Reroute) -> None:
        if not reroute.doubtful:
            right(self, reroute)

    patches.set(Rerouting, "_give_up", give_up)


def given_up_and_released_at_once(patches: Patches) -> None:
    patches.set(Rerouting, "_give_up", Rerouting._stay)


REROUTES = (
    Mutant(
        "an owner remembers all that went in a day",
        "a checkpoint stays small enough to be read at a claim",
        all_that_went_is_known,
        "test_rerouted::test_where_requests_went_is_known_for_a_day_of_so_many_as_an_owner_can_read_at_its_claim",
    ),
    Mutant(
        "what an operator lets go on is looked at only after it was released",
        "each request is looked at before it can be released",
        what_was_let_go_is_looked_at_later,
        "test_fallbacks::test_what_is_too_long_and_was_frozen_goes_before_a_worker_gets_it",
    ),
    Mutant(
        "a successor tries for ever to write what is too large for the other log",
        "what can't be passed on runs where it is",
        what_can_not_be_written_is_tried_for_ever,
        "test_rerouting::test_what_is_too_large_for_the_other_pools_log_runs_here_whoever_tried_to_write_it",
    ),
    Mutant(
        "what could not be passed on is released before a checkpoint says so",
        "a successor that finds an intent may take it for true",
        given_up_and_released_at_once,
        "test_rerouting::test_what_could_not_be_written_runs_here_only_once_no_successor_can_find_the_intent",
    ),
    Mutant(
        "a request is finished before it stands in the other pool's log",
        "at every instant it is unfinished here or stands there",
        finished_before_it_is_written,
        _AWAY,
    ),
    Mutant(
        "the other pool takes in what it has seen",
        "a successor repeats the write, the other pool drops it",
        taken_in_twice,
        _DIES,
    ),
    Mutant(
        "no checkpoint says who is on its way",
        "a successor finishes what was begun",
        no_intent_in_the_checkpoint,
        _COMES_BACK,
    ),
    Mutant(
        "a request is written before its intent is committed",
        "the intent is in the checkpoint before the record in the other log",
        written_before_the_intent_is_committed,
        _COMES_BACK,
    ),
    Mutant(
        "a successor doesn't know where requests went",
        "cancels follow their requests for a day",
        a_successor_forgets_where_they_went,
        _KNOWS,
    ),
    Mutant(
        "a cancel that comes in between stays behind",
        "a cancel follows the request that it means",
        cancels_stay_behind,
        _CANCEL,
    ),
    Mutant(
        "a checkpoint passes a cancel that is on its way",
        "no checkpoint passes an order that isn't obeyed",
        a_checkpoint_passes_a_cancel_on_its_way,
        _OUTLIVES,
    ),
    Mutant(
        "a cancel is looked for where its id says",
        "a cancel waits until its request is read, where it was passed on to",
        a_cancel_is_looked_for_where_its_id_says,
        "test_rerouting::test_a_cancel_that_is_read_before_its_request_is_kept_where_that_was_passed_on_to",
    ),
    Mutant(
        "requests are passed on for ever",
        "three hops at most",
        passed_on_for_ever,
        "test_rerouting::test_nobody_goes_where_it_was_or_nobody_is_or_too_often",
    ),
    Mutant(
        "a request goes where it waits as long",
        "a fallback shortens a wait, by more than going there takes",
        it_waits_as_long_there,
        "test_which_fallback::test_who_would_wait_too_long_goes_where_the_wait_is_shorter",
    ),
    Mutant(
        "who was sent to a fallback takes no room there",
        "those who go at once don't all find the same free place",
        who_was_sent_takes_no_room,
        "test_elsewhere::test_who_is_sent_counts_until_it_must_be_in_the_owners_word",
    ),
    Mutant(
        "requests go to a pool without backends",
        "nobody goes to a pool that is frozen, full, silent or without backends",
        a_closed_pool_is_open,
        "test_fallbacks::test_nobody_goes_to_a_pool_whose_owner_is_silent_or_that_has_no_backend",
    ),
    Mutant(
        "what is too long is looked at only once it was released",
        "each request is looked at before it can be released",
        looked_at_only_after_it_was_released,
        "test_fallbacks::test_what_is_too_long_goes_before_a_worker_gets_it",
    ),
    Mutant(
        "cancels go round for ever",
        "a cancel follows its request, and goes no further than that may",
        cancels_go_round_for_ever,
        "test_passed_on_in_circles::test_a_cancel_that_two_pools_send_to_each_other_goes_round_no_longer_than_a_request_would",
    ),
    Mutant(
        "a deleted log is tried for ever",
        "nothing waits for a log that is gone",
        a_deleted_log_is_tried_for_ever,
        "test_passed_on_in_circles::test_a_cancel_whose_pool_has_no_log_any_more_is_given_up_and_that_is_said_once",
    ),
)
