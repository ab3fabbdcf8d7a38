"""An owned pool's turn: read, step the core, send what it says. Driven by pool_loop; all I/O of an owner is here.

Invariant: nothing waits but one bounded read; whoever lost the pool throws away what it had queued. A partition of which
records read ahead are still to be taken in isn't read any further: the core passes over what comes late.
"""

from collections import Counter, deque
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import (
    BusUnavailableError,
    Confirmation,
    EndsAsked,
    FencedState,
    PositionGoneError,
    QueueFullError,
    TooLargeError,
)
from headrace.contracts.clock import Now
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.same_log import to_compare
from headrace.scheduler.core.step import Inputs, Outputs, Send
from headrace.scheduler.deleting import Deleting
from headrace.scheduler.ports import RunTracing
from headrace.scheduler.rereading import Rereading
from headrace.scheduler.warm import Warm

_BATCH, _FEW = 500, 20
_SOON = timedelta(milliseconds=5)
_NO_WAIT = timedelta()


class Owning:
    """One pool while it is ours."""

    def __init__(self, core: PoolCore, state: FencedState, warm: Warm, tracing: RunTracing) -> None:
        self.core, self._state, self._warm, self._tracing = core, state, warm, tracing
        self._producer, self._reader, self._ends = warm.producer, warm.reader, warm.ends
        self._rereading = Rereading(warm.rereads, core.state.setting.place(TopicKind.ATTEMPTS).topic)
        self._deleting = Deleting(warm.trims)
        self._ahead: deque[Received] = deque()
        self._still_ahead: Counter[Place] = Counter()
        self._further: dict[Place, int] = {}
        self._compared: set[Place] = set()
        self._refused: list[Confirmation] = []
        self._question: tuple[tuple[Place, ...], EndsAsked] | None = None
        self._committing, self._claimed = False, True
        self._paused: set[Place] = set()
        self._wake_ms, self._busy = 0, True

    def start(self) -> None:
        """Read on from where the last owner stopped, or where a warm standby has read to. Raises BusError."""
        self._warm.log.close()
        records, further = self._warm.following.hand_over(self.core.state)
        self._ahead.extend(records)
        requests = self.core.state.partitions.by_place
        self._still_ahead.update(record.place for record in records if record.place in requests)
        self._paused = set(self.core.state.partitions.by_place)  # as the core says in its first step
        self._reader.pause(self._paused)
        self._further, self._compared = further, to_compare(self.core.state) - set(further)
        self._assign()

    def turn(self, clock_now: Now, records: list[Received]) -> Outputs:
        """One step with what was read. Raises FencedError, CommitFailedError when the pool is lost, BusError, and
        UnusableStateError when a topic isn't the one that it was.
        """
        self._warm.topics.turn(clock_now)
        confirmations = self._refused + self._producer.confirmations()
        self._refused = []
        outputs = self.core.step(
            Inputs(
                records,
                confirmations,
                self._answered(),
                self._has_committed(),
                self._deleting.answered(),
                self._rereading.answers(clock_now),
            ),
            clock_now,
        )
        self._carry_out(outputs)
        return outputs

    def read(self, wait: timedelta) -> list[Received]:
        """What is there, waiting no longer than `wait`. Raises PositionGoneError."""
        try:
            found = self._reader.read(_BATCH, wait)
        except BusUnavailableError:
            found = []
        except PositionGoneError as error:
            if error.place not in self._compared or error.position >= self.core.positions()[error.place]:
                raise
            found = []
            self._compared.discard(error.place)  # what was read is trimmed already: nothing to compare with
            self._assign()
        return self._from_ahead(busy=bool(found)) + found

    def _assign(self) -> None:
        """From the positions on; where it tells something, from the record before, which the core compares and passes."""
        positions = self.core.positions()
        for place, further in self._further.items():
            positions[place] = max(positions[place], further)
        for place in self._compared:
            positions[place] -= positions[place] > 0
        self._reader.assign(positions)

    def _from_ahead(self, *, busy: bool) -> list[Received]:
        """What a standby has read: workers' reports at once, requests once the gate is open, or when nothing else comes."""
        reports = self.core.state.setting.place(TopicKind.WORKERS).topic
        room = _BATCH if self.core.state.open else 0 if busy else _FEW
        taken: list[Received] = []
        while self._ahead and (self._ahead[0].topic == reports or len(taken) < room):
            taken.append(self._ahead.popleft())
        self._still_ahead.subtract(record.place for record in taken)
        return taken

    def longest_wait(self, now: Now) -> timedelta:
        """How long the next read may wait for a record."""
        if self._ahead and self.core.state.open:
            return _NO_WAIT
        until = timedelta(milliseconds=max(0, self._wake_ms - now.boot_ms))
        return min(until, _SOON) if self._busy else until

    def close(self, *, drop: bool) -> None:
        """Let go of all clients. `drop`: the pool is lost, so nothing more may be written."""
        self._warm.close(drop=drop)
        self._state.close()

    def _carry_out(self, outputs: Outputs) -> None:
        for send in outputs.sends:
            self._send(send)
        if outputs.ask_ends:
            self._question = (outputs.ask_ends, self._ends.ask(outputs.ask_ends))
        if outputs.trim:
            self._deleting.ask(outputs.trim)
        self._rereading.ask(outputs.read_again)
        if outputs.checkpoint:
            self._state.begin(outputs.checkpoint)
            self._committing = True
        paused = outputs.paused | set(+self._still_ahead) if self._ahead else outputs.paused
        if paused != self._paused:
            self._paused = paused
            self._reader.pause(paused)
        self._wake_ms, self._busy = outputs.wake_ms, outputs.busy

    def _send(self, send: Send) -> None:
        message = send.message if send.waited_ms is None else self._tracing.continued(send)
        try:
            self._producer.send(message, send.token)
        except (QueueFullError, TooLargeError) as error:
            self._refused.append(Confirmation(send.token, message.place, None, error))

    def _answered(self) -> dict[Place, int] | None:
        if self._question is None:
            return None
        places, question = self._question
        try:
            answer = question.answer()
        except BusUnavailableError:
            self._question = (places, self._ends.ask(places))
            return None
        if answer is not None:
            self._question = None
        return answer

    def _has_committed(self) -> bool:
        if self._claimed:
            self._claimed = False  # the claim's own checkpoint
            return True
        if self._committing and self._state.committed():
            self._committing = False
            return True
        return False
