"""Wrong versions of a worker's drain and its goodbye. Listed by mutants.every."""

from typing import Any

from headrace.inference_worker.protocol.boot import Boot
from headrace.inference_worker.protocol.core import Phase, WorkerCore
from headrace.inference_worker.protocol.holdings import Stage
from tests.simulation.mutants.mutant import Mutant, Patches


def drains_forget_what_runs(patches: Patches) -> None:
    right = Boot.drain

    def drain(self: Boot, now: Any) -> None:
        right(self, now)
        for holding in self.holdings.at(Stage.RUNNING):
            del self.holdings._held[holding.attempt]

    patches.set(Boot, "drain", drain)


def drains_take_new_work(patches: Patches) -> None:
    right = Boot.drain

    def drain(self: Boot, now: Any) -> None:
        right(self, now)
        self.draining = False

    patches.set(Boot, "drain", drain)


def goodbye_comes_too_early(patches: Patches) -> None:
    right = WorkerCore._leave

    def leave(self: WorkerCore, now: Any) -> None:
        boot = self._boot
        if boot is not None and boot.draining and self.phase is Phase.SERVING:
            self.phase = Phase.LEAVING
            self._say_goodbye(boot, now)
        right(self, now)

    patches.set(WorkerCore, "_leave", leave)


DRAINS = (
    Mutant(
        "drain forgets what runs",
        "a drain finishes what runs",
        drains_forget_what_runs,
        "a_worker_drains_while_it_runs",
    ),
    Mutant(
        "drain takes new work",
        "a draining worker starts nothing",
        drains_take_new_work,
        "a_worker_drains_while_it_runs",
    ),
    Mutant(
        "goodbye too early",
        "who says goodbye holds nothing",
        goodbye_comes_too_early,
        "a_worker_drains_while_it_runs",
    ),
)
