"""Wrong versions of workers' lives and of what becomes of attempts, on both sides. Listed by mutants.every."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from headrace.contracts.commands import Fence, Ping
from headrace.contracts.failures import FailureKind
from headrace.inference_worker.protocol.boot import Boot
from headrace.inference_worker.protocol.core import Phase, WorkerCore
from headrace.inference_worker.protocol.holdings import Holdings, Stage
from headrace.inference_worker.protocol.inputs import EpochRead, Work
from headrace.inference_worker.protocol.lease import Lease, Pings, Trust
from headrace.inference_worker.protocol.outputs import ReadEpoch
from headrace.scheduler.core import quarantine, returning
from headrace.scheduler.core.attempt_log import AttemptLog
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.intake import Intake
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.worker_log import WorkerLog
from headrace.scheduler.decisions import how_much_may_a_backend_hold, is_dead, when_to_retry
from headrace.scheduler.decisions.when_to_retry import Again, GiveUp
from headrace.scheduler.state.lanes import Lanes
from headrace.scheduler.state.partitions import RequestPartition
from headrace.scheduler.state.workers import Workers
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


def the_attempt_is_written_first(patches: Patches) -> None:
    def end(self: Holdings, holding: Any, outcome: Any, now: Any) -> None:
        right(self, holding, outcome, now)
        holding.stage = Stage.ATTEMPT

    def written(self: Holdings, token: Any, write: Any, now: Any) -> None:
        holding = self._held.get(token.attempt)
        was = holding is not None and holding.stage is Stage.ATTEMPT and token.stage is Stage.ATTEMPT
        if was and holding is not None and write.acknowledged and holding.result is not None:
            holding.stage, holding.send_at = Stage.RESULT, now.boot_ms
        elif holding is not None and holding.stage is Stage.RESULT and write.acknowledged:
            del self._held[token.attempt]
        else:
            wrote(self, token, write, now)

    right, wrote = Holdings.end, Holdings.written
    patches.set(Holdings, "end", end)
    patches.set(Holdings, "written", written)


def the_unacknowledged_is_dropped(patches: Patches) -> None:
    right = Holdings.written

    def written(self: Holdings, token: Any, write: Any, now: Any) -> None:
        right(self, token, replace(write, acknowledged=True), now)

    patches.set(Holdings, "written", written)


def the_outcome_is_not_awaited(patches: Patches) -> None:
    """An attempt is dropped from reports as soon as its record is sent."""
    right = Holdings.report

    def report(self: Holdings) -> Any:
        ended = {h.attempt for h in self._held.values() if h.stage is Stage.ATTEMPT}
        return tuple(held for held in right(self) if held.attempt not in ended)

    patches.set(Holdings, "report", report)


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


def one_tick_buries(patches: Patches) -> None:
    patches.set(is_dead, "TICKS_TO_DEATH", 2)


def ticks_come_in_a_burst(patches: Patches) -> None:
    """One each 60 ms, whether or not the one before was read back."""
    right = WorkerLog.tick

    def tick(self: WorkerLog) -> None:
        last_ms = getattr(self, "last_burst_ms", -(10**12))
        if self._state.now.boot_ms - last_ms >= 60:
            self.last_burst_ms = self._state.now.boot_ms  # type: ignore[attr-defined]
            self._tick_out, self._ticked_ms = False, -(10**12)
            right(self)
            self._tick += 1

    patches.set(WorkerLog, "tick", tick)


def an_old_record_buries(patches: Patches) -> None:
    patches.set(Workers, "is_late", lambda _self, _name, _boot: False)


def late_workers_are_not_fenced(patches: Patches) -> None:
    right = how_much_may_a_backend_hold.room_of

    def room_of(**given: Any) -> int:
        return right(**{**given, "answered": True})

    patches.set(quarantine, "room_of", room_of)


def absence_is_believed_at_once(patches: Patches) -> None:
    patches.set(WorkerLog, "_miss", lambda self, held: self._returning.unstarted(held))


def the_unread_is_believed_absent(patches: Patches) -> None:
    """A report from before a command's place in the lane is taken as news of it."""
    right = Lanes.sent

    def sent(self: Lanes, lane: int, boot_ms: int, held: Any = None) -> Any:
        if held is not None:
            held.offset = -1
        return right(self, lane, boot_ms, held)

    patches.set(Lanes, "sent", sent)


def the_dead_are_not_told(patches: Patches) -> None:
    patches.set(WorkerLog, "_answer_grave", lambda _self, _report: None)


def adopted_work_is_not_known(patches: Patches) -> None:
    patches.set(WorkerLog, "_adopt", lambda _self, _report, _told: None)


def the_dead_keep_their_work(patches: Patches) -> None:
    def bury(self: WorkerLog, worker: Any, *, harmless: bool = False) -> None:
        self._state.workers.bury(worker, harmless=harmless)

    patches.set(WorkerLog, "_bury", bury)


def an_old_retry_puts_back_what_runs(patches: Patches) -> None:
    def retry(self: AttemptLog, record: Any) -> None:
        held = self._state.held.of(record.id)
        if held is not None and record.attempt < held.attempt:
            self._returning.let_go(held)
            self._returning.failed(self._as_failed(record, None))
            return
        right(self, record)

    right = AttemptLog._retry
    patches.set(AttemptLog, "_retry", retry)


def whatever_fails_is_tried_for_ever(patches: Patches) -> None:
    right = when_to_retry.when_to_retry

    def decide(kind: FailureKind | None, **given: Any) -> Again | GiveUp:
        return right(kind, **{**given, "max_attempts": 10**6})

    patches.set(returning, "when_to_retry", decide)


def handing_back_uses_an_attempt(patches: Patches) -> None:
    right = when_to_retry.when_to_retry

    def decide(kind: FailureKind | None, **given: Any) -> Again | GiveUp:
        return right(kind and None, **{**given, "started": True})

    patches.set(returning, "when_to_retry", decide)


def the_failed_are_forgotten(patches: Patches) -> None:
    patches.set(Returning, "_delay", lambda _self, _tracked, _again: None)


def retries_wait_by_the_wall_clock(patches: Patches) -> None:
    def wake_delayed(self: Releasing) -> None:
        now, claimed = self._state.now, self._state.claimed
        for tracked in self._state.delays.due(claimed.boot_ms + now.wall_ms - claimed.wall_ms):
            self._returning.may_run(tracked)

    patches.set(Releasing, "wake_delayed", wake_delayed)


def a_workers_instant_is_believed(patches: Patches) -> None:
    right = AttemptLog._as_failed

    def as_failed(self: AttemptLog, record: Any, kind: Any) -> Any:
        wait_ms = (record.retry_ms or 0) - self._state.now.wall_ms
        return replace(right(self, record, kind), at_least_ms=max(0, wait_ms))

    patches.set(AttemptLog, "_as_failed", as_failed)


def ids_grow_old_by_the_wall_clock(patches: Patches) -> None:
    patches.set(PoolState, "minute", property(lambda self: self.now.wall_ms // 60_000))


def a_charge_is_kept(patches: Patches) -> None:
    def let_go(self: Returning, held: Any) -> None:
        self._state.held.remove(held)
        self._state.missing.pop(held.id, None)

    patches.set(Returning, "let_go", let_go)


def duplicates_run(patches: Patches) -> None:
    patches.set(Intake, "_is_duplicate", lambda _self, _record, _origin: False)


def just_finished_ids_run_again(patches: Patches) -> None:
    def is_duplicate(self: Intake, record: Any, origin: Any) -> bool:
        held = self._state.held.of(record.id)
        return record.id in self._state.tracked or (held is not None and held.origin != origin)

    patches.set(Intake, "_is_duplicate", is_duplicate)


def windows_leak(patches: Patches) -> None:
    patches.set(RequestPartition, "drop", lambda _self, _payload: None)


def superseded_attempts_go_on(patches: Patches) -> None:
    patches.set(Commands, "cancel_held", lambda _self, _held, _reason: None)


LIVES = (
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
    Mutant(
        "completion before result",
        "result first, then attempt",
        the_attempt_is_written_first,
        "a_worker_dies_between_its_two_records",
    ),
    Mutant(
        "unacknowledged is dropped",
        "outcomes are sent until acknowledged",
        the_unacknowledged_is_dropped,
        "a_result_is_lost_on_its_way",
    ),
    Mutant(
        "outcome not awaited",
        "an attempt is reported until its record is acknowledged",
        the_outcome_is_not_awaited,
        "outcomes_take_longer_than_reports",
    ),
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
        "the dead aren't told",
        "a dead boot's reports are answered",
        the_dead_are_not_told,
        "a_buried_worker_begins_anew",
    ),
    Mutant(
        "adopted work unknown",
        "what others released goes on",
        adopted_work_is_not_known,
        "a_takeover_finds_work_in_flight",
    ),
    Mutant(
        "the dead keep their work",
        "a dead boot's work goes back",
        the_dead_keep_their_work,
        "a_worker_dies_for_good",
    ),
    Mutant(
        "old retry puts back what runs",
        "a stale RetryAt changes nothing",
        an_old_retry_puts_back_what_runs,
        "a_failure_of_an_older_attempt_comes_late",
    ),
    Mutant(
        "tried for ever",
        "attempts are bounded",
        whatever_fails_is_tried_for_ever,
        "a_request_fails_again_and_again_over_owners",
    ),
    Mutant(
        "handing back uses an attempt",
        "what never started uses no attempt",
        handing_back_uses_an_attempt,
        "a_worker_hands_back_again_and_again",
    ),
    Mutant(
        "the failed are forgotten",
        "a failed request waits for its next try",
        the_failed_are_forgotten,
        "a_request_fails_again_and_again_over_owners",
    ),
    Mutant(
        "retries wait by the wall clock",
        "a wait is a duration",
        retries_wait_by_the_wall_clock,
        "an_owners_clock_is_put_back_while_a_retry_waits",
    ),
    Mutant(
        "a worker's instant is believed",
        "a wait begins when its failure is read",
        a_workers_instant_is_believed,
        "a_workers_clock_is_ahead_when_it_fails",
    ),
    Mutant(
        "ids grow old by the wall clock",
        "ids are kept for 15 minutes whatever the clock says",
        ids_grow_old_by_the_wall_clock,
        "an_id_is_written_again_after_a_clock_was_wrong",
    ),
    Mutant("a charge is kept", "a charge is taken back once", a_charge_is_kept, 0),
    Mutant("duplicates run", "an id that is held isn't run again", duplicates_run, "an_id_is_written_twice"),
    Mutant(
        "finished ids run again",
        "an id just finished isn't run again",
        just_finished_ids_run_again,
        "an_id_is_written_again_after_a_takeover",
    ),
    Mutant("windows leak", "what has ended leaves the window", windows_leak, 0),
    Mutant(
        "cancels of the running are lost",
        "a running request can be cancelled",
        superseded_attempts_go_on,
        "a_caller_cancels_what_another_owner_released",
    ),
)
