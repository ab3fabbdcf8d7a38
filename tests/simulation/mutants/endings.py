"""Wrong versions of what the owner keeps of a request and lets go of: charges, windows, ids, cancels.

Listed by mutants.every.
"""

from typing import Any

from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.intake import Intake
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.state.partitions import RequestPartition
from tests.simulation.mutants.mutant import Mutant, Patches


def a_charge_is_kept(patches: Patches) -> None:
    def let_go(self: Returning, held: Any) -> None:
        self._state.held.remove(held)
        self._state.missing.pop(held.id, None)

    patches.set(Returning, "let_go", let_go)


def windows_leak(patches: Patches) -> None:
    patches.set(RequestPartition, "drop", lambda _self, _payload: None)


def ids_grow_old_by_the_wall_clock(patches: Patches) -> None:
    patches.set(PoolState, "minute", property(lambda self: self.now.wall_ms // 60_000))


def duplicates_run(patches: Patches) -> None:
    patches.set(Intake, "_is_duplicate", lambda _self, _record, _origin: False)


def just_finished_ids_run_again(patches: Patches) -> None:
    def is_duplicate(self: Intake, record: Any, origin: Any) -> bool:
        held = self._state.held.of(record.id)
        return record.id in self._state.tracked or (held is not None and held.origin != origin)

    patches.set(Intake, "_is_duplicate", is_duplicate)


def superseded_attempts_go_on(patches: Patches) -> None:
    patches.set(Commands, "cancel_held", lambda _self, _held, _reason: None)


ENDINGS = (
    Mutant("a charge is kept", "a charge is taken back once", a_charge_is_kept, 0),
    Mutant("windows leak", "what has ended leaves the window", windows_leak, 0),
    Mutant(
        "ids grow old by the wall clock",
        "ids are kept for 15 minutes whatever the clock says",
        ids_grow_old_by_the_wall_clock,
        "an_id_is_written_again_after_a_clock_was_wrong",
    ),
    Mutant("duplicates run", "an id that is held isn't run again", duplicates_run, "an_id_is_written_twice"),
    Mutant(
        "finished ids run again",
        "an id just finished isn't run again",
        just_finished_ids_run_again,
        "an_id_is_written_again_after_a_takeover",
    ),
    Mutant(
        "cancels of the running are lost",
        "a running request can be cancelled",
        superseded_attempts_go_on,
        "a_caller_cancels_what_another_owner_released",
    ),
)
