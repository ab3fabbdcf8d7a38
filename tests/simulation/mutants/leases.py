"""Wrong versions of what a worker obeys: of leases, epochs and boots, on its own side. Listed by mutants.every."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headrace.contracts.commands import Fence, Ping
from headrace.inference_worker.protocol.boot import Boot
from headrace.inference_worker.protocol.core import Phase, WorkerCore
from headrace.inference_worker.protocol.inputs import EpochRead, Work
from headrace.inference_worker.protocol.lease import Lease, Pings, Trust
from headrace.inference_worker.protocol.outputs import ReadEpoch
from tests.simulation.mutants.mutant import Mutant, Patches


def no_epoch_check(patches: Patches) -> None:
    def obey(self: Boot, command: Any, now: Any) -> Iterator[Any]:
        if isinstance(command, Ping):
            if command.boot == self.id:
                self.pings.came_back(command.number)
            return
        order = command.run if isinstance(command, Work) else command
        if not (isinstance(order, Fence) or order.boot == self.id):
            return
        self.epoch = max(self.epoch, order.epoch)
        act = self._ACTS.get(type(command))
        if act is not None:
            yield from act(self, command, now)

    patches.set(Boot, "_obey", obey)


def the_buried_go_on(patches: Patches) -> None:
    acts = {kind: act for kind, act in Boot._ACTS.items() if kind.__name__ != "Buried"}
    patches.set(Boot, "_ACTS", acts)


def the_lapsed_start_work(patches: Patches) -> None:
    patches.set(Lease, "lapsed", lambda _self, _now: False)


def the_lane_is_trusted_after_a_lapse(patches: Patches) -> None:
    def turn(self: Trust, lease: Lease, pings: Pings, now: Any) -> None:  # noqa: ARG001
        self._doubted = lease.lapsed(now)
        self._until = None

    patches.set(Trust, "turn", turn)


def nothing_is_given_up(patches: Patches) -> None:
    patches.set(Lease, "given_up", lambda _self, _now: False)


def what_was_seen_runs_again(patches: Patches) -> None:
    patches.set(Boot, "_remember", lambda _self, _attempt: None)


def the_epoch_is_not_read(patches: Patches) -> None:
    right = WorkerCore._epoch_read

    def epoch_read(self: WorkerCore, read: EpochRead, now: Any) -> None:
        right(self, replace(read, epoch=0), now)

    patches.set(WorkerCore, "_TAKES", {**WorkerCore._TAKES, EpochRead: epoch_read})


def the_epoch_is_read_before_registering(patches: Patches) -> None:
    """The report that registers is written only once the epoch is known."""
    found, read = WorkerCore._lane_found, WorkerCore._epoch_read

    def lane_found(self: WorkerCore, lane: Any, now: Any) -> None:
        found(self, lane, now)
        if self._boot is not None and self.phase is Phase.REGISTERING:
            self.phase = Phase.READING_EPOCH
            self._boot.lease._next = 10**15
            self._out.append(ReadEpoch(self._boot.id))

    def epoch_read(self: WorkerCore, epoch: EpochRead, now: Any) -> None:
        read(self, epoch, now)

    from headrace.inference_worker.protocol.inputs import LaneFound  # noqa: PLC0415 - beside its use

    patches.set(WorkerCore, "_TAKES", {**WorkerCore._TAKES, LaneFound: lane_found, EpochRead: epoch_read})


LEASES = (
    Mutant(
        "no epoch check",
        "workers drop commands of older epochs",
        no_epoch_check,
        "an_old_owner_goes_on_with_its_workers",
    ),
    Mutant(
        "the buried go on", "who is buried aborts everything", the_buried_go_on, "a_buried_worker_begins_anew"
    ),
    Mutant(
        "the lapsed start work",
        "nothing is started without the lease",
        the_lapsed_start_work,
        "a_paused_worker_finds_an_old_run_at_once",
    ),
    Mutant(
        "lane trusted after a lapse",
        "a lane is read up to a ping first",
        the_lane_is_trusted_after_a_lapse,
        "a_paused_worker_finds_an_old_run_after_its_report",
    ),
    Mutant(
        "never given up",
        "after 30 s of silence a worker begins anew",
        nothing_is_given_up,
        "a_worker_loses_touch_for_half_a_minute",
    ),
    Mutant(
        "seen attempts run again",
        "an attempt id that was seen is dropped",
        what_was_seen_runs_again,
        "an_attempt_id_comes_twice",
    ),
    Mutant(
        "no floor at boot",
        "a booting worker reads the epoch",
        the_epoch_is_not_read,
        "an_old_owner_finds_a_new_worker",
    ),
    Mutant(
        "floor before registration",
        "the epoch is read after registering",
        the_epoch_is_read_before_registering,
        "a_worker_boots_while_owners_change",
    ),
)
