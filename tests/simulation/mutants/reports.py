"""Wrong versions of what the owner believes of a report: who may get work, what runs there and what doesn't.

Listed by mutants.every.
"""

from typing import Any

from headrace.scheduler.core import room
from headrace.scheduler.core.reconciling import Reconciling
from headrace.scheduler.decisions import how_much_may_a_backend_hold
from headrace.scheduler.state.lanes import Lanes
from tests.simulation.mutants.mutant import Mutant, Patches


def late_workers_are_not_fenced(patches: Patches) -> None:
    right = how_much_may_a_backend_hold.room_of

    def room_of(**given: Any) -> int:
        return right(**{**given, "answered": True})

    patches.set(room, "room_of", room_of)


def absence_is_believed_at_once(patches: Patches) -> None:
    patches.set(Reconciling, "_miss", lambda self, held: self._returning.unstarted(held))


def the_unread_is_believed_absent(patches: Patches) -> None:
    """A report from before a command's place in the lane is taken as news of it."""
    right = Lanes.sent

    def sent(self: Lanes, lane: int, boot_ms: int, held: Any = None) -> Any:
        if held is not None:
            held.offset = -1
        return right(self, lane, boot_ms, held)

    patches.set(Lanes, "sent", sent)


def adopted_work_is_not_known(patches: Patches) -> None:
    patches.set(Reconciling, "_adopt", lambda _self, _report, _told: None)


REPORTS = (
    Mutant(
        "no fence for late workers",
        "later boots get work once they have answered",
        late_workers_are_not_fenced,
        "a_worker_comes_when_the_gate_is_open",
    ),
    Mutant(
        "absence believed at once",
        "an absent attempt's outcome is waited for",
        absence_is_believed_at_once,
        "a_report_is_read_before_the_outcome",
    ),
    Mutant(
        "unread believed absent",
        "absence counts past the command's place",
        the_unread_is_believed_absent,
        "a_worker_reports_before_it_reads_its_lane",
    ),
    Mutant(
        "adopted work unknown",
        "what others released goes on",
        adopted_work_is_not_known,
        "a_takeover_finds_work_in_flight",
    ),
)
