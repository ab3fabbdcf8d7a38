"""Wrong versions of how pools are owned: claims, fences, the gate, commands, the lease. Listed by mutants.every."""

from typing import Any

from headrace.contracts.ids import AttemptId
from headrace.contracts.topics import TopicKind
from headrace.scheduler.claiming import Claiming
from headrace.scheduler.core import endings, terminal_records
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.gate import Gate
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.core.worker_log import WorkerLog
from headrace.scheduler.watching import Watching
from tests.simulation.mutants.mutant import Mutant, Patches


def everybody_has_an_id_of_its_own(patches: Patches) -> None:
    right = Claiming.__init__

    def init(self: Claiming, setting: Any, bus: Any, name: str, warm: Any) -> None:
        right(self, setting, bus, name, warm)
        self.state = bus.fenced_state(name, place=setting.place(TopicKind.STATE), transactional_id=name)

    patches.set(Claiming, "__init__", init)


def state_is_read_before_the_claim(patches: Patches) -> None:
    """The end up to which it is read is asked for before the fence."""

    def claim(self: Claiming, wait: Any) -> None:  # noqa: ARG001
        setting, place = self._setting, self.warm.log.place
        if not hasattr(self, "early"):
            self.early = self.warm.ends.ask([place, *setting.logs()]), self.warm.topics.ask()  # type: ignore[attr-defined]
        elif (ends := self.early[0].answer()) is not None and self.state.claim():
            self._proved[place] = ends[place] - 1
            self._asked = self.early

    patches.set(Claiming, "_claim", claim)


def silence_needs_no_word_of_the_broker(patches: Patches) -> None:
    right = Watching.turn

    def turn(self: Watching, now: Any, wait: Any) -> bool:
        self._confirmed = True
        return right(self, now, wait)

    patches.set(Watching, "turn", turn)


def nobody_is_waited_for(patches: Patches) -> None:
    patches.set(Gate, "unanswered", property(lambda _self: set()))


def everybody_is_waited_for(patches: Patches) -> None:
    def unanswered(self: Gate) -> set[str]:
        return {w.boot for w in self._state.workers.live.values() if w.report.epoch < self._state.epoch}

    patches.set(Gate, "unanswered", property(unanswered))


def outcomes_are_not_caught_up_with(patches: Patches) -> None:
    patches.set(Gate, "_read_up", lambda _self: True)


def ends_are_noted_before_the_answers(patches: Patches) -> None:
    def turn(self: Gate) -> None:
        state = self._state
        if state.open:
            return
        if self._ends is None:
            self._note_ends()
        if self._boots is None:
            if self._ticking.reads_its_own:
                self._boots = {worker.boot for worker in state.workers.live.values()}
                state.caught_up = True
        elif not self.unanswered and len(self._ends or {}) == len(self._places()) and self._read_up():
            state.open = True

    patches.set(Gate, "turn", turn)


def old_reports_are_trusted(patches: Patches) -> None:
    right = WorkerLog._reported

    def reported(self: WorkerLog, report: Any) -> None:
        right(self, report)
        if report.epoch < self._state.epoch and report.boot not in self._state.workers.graves:
            self._reconciling.reconcile(report)

    patches.set(WorkerLog, "_reported", reported)


def workers_are_fenced_once(patches: Patches) -> None:
    def fence(self: WorkerLog) -> None:
        for worker in self._state.workers.live.values():
            if worker.report.epoch < self._state.epoch and worker.fenced_ms < 0:
                worker.fenced_ms = self._state.now.boot_ms
                self._commands.fence(worker.report.lane)

    patches.set(WorkerLog, "fence", fence)


def attempts_have_no_epoch(patches: Patches) -> None:
    def next_attempt(self: PoolState) -> AttemptId:
        self.sequence += 1
        return AttemptId(0, self.sequence)

    patches.set(PoolState, "next_attempt", next_attempt)


def commands_carry_the_attempts_epoch(patches: Patches) -> None:
    right = Commands.cancel

    def cancel(self: Commands, lane: int, boot: str, attempt: AttemptId, *more: Any) -> None:
        kept, self._state.epoch = self._state.epoch, attempt.epoch
        try:
            right(self, lane, boot, attempt, *more)
        finally:
            self._state.epoch = kept

    patches.set(Commands, "cancel", cancel)


def the_unknown_is_not_pinged(patches: Patches) -> None:
    patches.set(Commands, "ping", lambda _self: None)


def the_attempt_comes_before_the_result(patches: Patches) -> None:
    patches.set(endings, "result_message", terminal_records.attempt_message)
    patches.set(endings, "attempt_message", terminal_records.result_message)


def ends_without_a_lease(patches: Patches) -> None:
    patches.set(Checkpoints, "in_charge", property(lambda _self: True))


def the_gate_is_open_at_once(patches: Patches) -> None:
    right = Gate.turn

    def turn(self: Gate) -> None:
        right(self)
        self._state.open = True

    patches.set(Gate, "turn", turn)


def expiry_is_not_looked_at(patches: Patches) -> None:
    patches.set(Releasing, "expire", lambda _self: None)


OWNERSHIP = (
    Mutant(
        "no fence on state",
        "a claim fences the predecessor",
        everybody_has_an_id_of_its_own,
        "an_old_owner_finds_a_new_worker",
    ),
    Mutant(
        "read state before init",
        "`state` is read after the fence",
        state_is_read_before_the_claim,
        "two_standbys_claim_at_once",
    ),
    Mutant(
        "silence unconfirmed",
        "the broker confirms the silence",
        silence_needs_no_word_of_the_broker,
        "a_standby_that_reads_late_takes_nothing_over",
    ),
    Mutant(
        "no wait for reports",
        "all boots answer before the gate",
        nobody_is_waited_for,
        "a_worker_answers_late",
    ),
    Mutant("wait for everyone", "later boots hold up nobody", everybody_is_waited_for, 0),
    Mutant(
        "no gate", "nothing is released before the gate", the_gate_is_open_at_once, "a_worker_answers_late"
    ),
    Mutant(
        "no catch-up",
        "outcomes are read before the gate",
        outcomes_are_not_caught_up_with,
        "an_outcome_is_read_late_by_a_new_owner",
    ),
    Mutant(
        "ends before answers",
        "ends are noted after the answers",
        ends_are_noted_before_the_answers,
        "an_outcome_is_written_between_claim_and_answer",
    ),
    Mutant(
        "trust old reports for ever",
        "only reports of this epoch count",
        old_reports_are_trusted,
        "an_old_report_lists_what_has_failed_since",
    ),
    Mutant("fence once", "a fence is sent until it is answered", workers_are_fenced_once, "a_fence_is_lost"),
    Mutant(
        "attempts without epoch",
        "attempt ids grow over owners",
        attempts_have_no_epoch,
        "a_request_fails_again_and_again_over_owners",
    ),
    Mutant(
        "commands carry the attempt's epoch",
        "a command has its sender's epoch",
        commands_carry_the_attempts_epoch,
        "a_caller_cancels_what_another_owner_released",
    ),
    Mutant(
        "no ping after the unknown",
        "a ping tells an unknown command's fate",
        the_unknown_is_not_pinged,
        "a_command_is_lost_and_nothing_follows_it",
    ),
    Mutant(
        "owner's attempt before result", "result first, then attempt", the_attempt_comes_before_the_result, 0
    ),
    Mutant(
        "ends without a lease",
        "no terminal record without the lease",
        ends_without_a_lease,
        "an_owner_without_a_lease_ends_nothing",
    ),
    Mutant("nothing expires", "who waited too long is told", expiry_is_not_looked_at, 1),
)
