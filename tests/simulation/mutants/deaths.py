"""Wrong versions of when the owner takes a worker for dead, and of what follows. Listed by mutants.every."""

from typing import Any

from headrace.scheduler.core.ticking import Ticking
from headrace.scheduler.core.worker_log import WorkerLog
from headrace.scheduler.decisions import is_dead
from headrace.scheduler.state.workers import Workers
from tests.simulation.mutants.mutant import Mutant, Patches


def one_tick_buries(patches: Patches) -> None:
    patches.set(is_dead, "TICKS_TO_DEATH", 2)


def ticks_come_in_a_burst(patches: Patches) -> None:
    """One each 60 ms, whether or not the one before was read back."""
    right = Ticking.tick

    def tick(self: Ticking) -> None:
        last_ms = getattr(self, "last_burst_ms", -(10**12))
        if self._state.now.boot_ms - last_ms >= 60:
            self.last_burst_ms = self._state.now.boot_ms  # type: ignore[attr-defined]
            self._tick_out, self._sent_ms, self._ticked_ms = False, -(10**12), -(10**12)
            right(self)
            self._tick += 1

    patches.set(Ticking, "tick", tick)


def an_old_record_buries(patches: Patches) -> None:
    patches.set(Workers, "is_late", lambda _self, _name, _boot: False)


def the_dead_are_not_told(patches: Patches) -> None:
    patches.set(WorkerLog, "_answer_grave", lambda _self, _report: None)


def the_dead_keep_their_work(patches: Patches) -> None:
    def bury(self: WorkerLog, worker: Any, *, harmless: bool = False) -> None:
        self._state.workers.bury(worker, harmless=harmless)

    patches.set(WorkerLog, "_bury", bury)


DEATHS = (
    Mutant(
        "one tick buries",
        "8 ticks make a boot dead",
        one_tick_buries,
        "a_worker_is_paused_for_less_than_its_death",
    ),
    Mutant(
        "ticks in a burst",
        "one tick at a time",
        ticks_come_in_a_burst,
        "a_worker_is_paused_for_less_than_its_death",
    ),
    Mutant(
        "an old record buries",
        "a late record of an older boot is ignored",
        an_old_record_buries,
        "a_report_of_a_dead_boot_comes_late",
    ),
    Mutant(
        "the dead aren't told",
        "a dead boot's reports are answered",
        the_dead_are_not_told,
        "a_buried_worker_begins_anew",
    ),
    Mutant(
        "the dead keep their work",
        "a dead boot's work goes back",
        the_dead_keep_their_work,
        "a_worker_dies_for_good",
    ),
)
