"""Sends commands into lanes and learns what became of them. Called by every part of the core that tells workers something.

Invariant: a command whose delivery is unknown is taken to be there until a later one on its lane is acknowledged; within a
second a ping follows to bring that about.
"""

from headrace.bus.messages import Headers, message_of
from headrace.bus.ports import Confirmation, TooLargeError
from headrace.contracts.commands import (
    Buried,
    Cancel,
    CancelReason,
    Command,
    Drain,
    Fence,
    Ping,
    Undrain,
)
from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.terminal_records import failure_of
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.lanes import Sent

_BREATH_MS = 50


class Commands:
    """The owner's mouth."""

    def __init__(self, state: PoolState, returning: Returning, endings: Endings) -> None:
        self._state, self._returning, self._endings = state, returning, endings
        self._pings = 0
        self.breathless_until_ms = -(10**12)
        """The producer's queue was full: release nothing until then."""

    def send(
        self,
        lane: int,
        command: Command,
        *,
        held: HeldAttempt | None = None,
        value: bytes = b"",
        trace: Headers = (),
        waited_ms: int | None = None,
    ) -> None:
        """Send any command."""
        state = self._state
        sent = state.lanes.sent(lane, state.now.boot_ms, held)
        message = message_of(state.setting.place(TopicKind.WORK, lane), command, value, trace=trace)
        state.send(message, sent, waited_ms)

    def fence(self, lane: int) -> None:
        """Ask for a report of this epoch."""
        self.send(lane, Fence(epoch=self._state.epoch))

    def bury(self, lane: int, boot: str) -> None:
        """Tell a dead boot that it is."""
        self.send(lane, Buried(epoch=self._state.epoch, boot=boot))

    def drain(self, lane: int, boot: str, *, draining: bool) -> None:
        """Take a worker out of service, or put it back."""
        kind = Drain if draining else Undrain
        self.send(lane, kind(epoch=self._state.epoch, boot=boot))

    def cancel(self, lane: int, boot: str, attempt: AttemptId, request_id: str, reason: CancelReason) -> None:
        """Stop an attempt, once a second at most until it ends."""
        state, told = self._state, self._state.told.get(attempt)
        if told is not None and state.now.boot_ms - told < ms(state.setting.timings.repeat):
            return
        state.told[attempt] = state.now.boot_ms
        command = Cancel(epoch=state.epoch, boot=boot, attempt=attempt, id=request_id, reason=reason)
        self.send(lane, command)

    def cancel_held(self, held: HeldAttempt, reason: CancelReason) -> None:
        """Stop an attempt that is held."""
        self.cancel(held.lane, held.boot, held.attempt, held.id, reason)

    def confirmed(self, sent: Sent, confirmation: Confirmation) -> None:
        """What became of a command."""
        state = self._state
        if confirmation.offset is not None:
            state.lanes.acknowledged(sent, confirmation.offset, state.now.boot_ms)
        elif confirmation.unknown:
            sent.unknown = True
        else:
            state.lanes.refused(sent)
            self._refused(sent, confirmation)

    def ping(self) -> None:
        """Make sure that the fate of every command becomes known."""
        state = self._state
        for lane in state.lanes.to_ping(state.now.boot_ms, ms(state.setting.timings.repeat)):
            self._pings += 1
            self.send(lane, Ping(number=self._pings, epoch=state.epoch))

    def _refused(self, sent: Sent, confirmation: Confirmation) -> None:
        self.breathless_until_ms = self._state.now.boot_ms + _BREATH_MS
        held = sent.held
        if held is None or self._state.held.of(held.id) is not held:
            return
        if not isinstance(confirmation.error, TooLargeError) or held.said:
            if held.said:  # whatever it was, it may be that the text was too much beside the request
                self._state.forget_text(held.id)
            self._returning.unstarted(held)
            return
        self._returning.let_go(held)
        tracked = self._state.tracked.get(held.id)
        if tracked is not None:
            failure = failure_of(
                FailureKind.LYING_RECORD, "With its command it is larger than a worker's topic takes."
            )
            self._endings.end(tracked, Status.DEAD_LETTERED, failure)
