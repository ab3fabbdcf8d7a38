"""Ends requests by the owner's own terminal records: expired, cancelled, dead-lettered. Driven by PoolCore.

Invariant: each record is acknowledged before the next is sent, and sent again (the same one) until it is; nothing is sent
while this owner's lease has run out; the offset is finished only after the last.
"""

from collections import deque
from dataclasses import dataclass

from headrace.bus.messages import Message, Received
from headrace.bus.ports import Confirmation
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.values import Failure, Origin
from headrace.scheduler.core.counted import OF_END, Counted
from headrace.scheduler.core.finishing import Finishing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.terminal_records import (
    OwnEnd,
    attempt_message,
    dead_letter_message,
    failure_of,
    result_message,
)
from headrace.scheduler.state.on_its_way import OnItsWay
from headrace.scheduler.state.tracked import Phase, Tracked

MOST_ENDINGS = 2_000
"""Beside so many that are being written, no others are begun that can wait: a flood may be ended at one instant."""


@dataclass(slots=True, eq=False)
class Ending(OnItsWay):
    """One request's end under way. `id` None: an undecodable record, which has no id; its bytes count in the window.
    `lacks`: its dead letter, for this reason, can't be written before its payload is read again.
    """

    id: str | None
    origin: Origin
    messages: deque[Message]
    size: int = 0
    begun: bool = False
    lacks: Failure | None = None


class Endings:
    """All ends under way."""

    def __init__(self, state: PoolState, finishing: Finishing) -> None:
        self._state, self._finishing = state, finishing
        self._endings: dict[Origin, Ending] = {}

    def end(self, tracked: Tracked, status: Status, failure: Failure) -> None:
        """End a request that no worker holds. With `dead_lettered`, its bytes go to the dead letters first."""
        if tracked.phase is Phase.WAITING:
            self._state.queue.take(tracked, Phase.ENDING)
        tracked.phase = Phase.ENDING
        setting, origin = self._state.setting, tracked.origin
        attempt = self._state.next_attempt()
        end = OwnEnd(tracked.record, origin, attempt, tracked.used, status, failure, self._state.now)
        records = result_message(setting, end), attempt_message(setting, end)
        ending = Ending(tracked.id, origin, deque(records))
        if status is not Status.DEAD_LETTERED:
            self._state.unread.pop(tracked.id, None)
        elif tracked.received is None:
            ending.lacks = failure
        else:
            ending.messages.appendleft(self._letter(tracked, tracked.received, failure))
        self._add(ending)
        self._state.count(OF_END[status])

    def payload_came(self, tracked: Tracked) -> None:
        """Its bytes were read again: a dead letter may have waited for them."""
        ending = self._endings.get(tracked.origin)
        if ending is not None and ending.lacks is not None and tracked.received is not None:
            ending.messages.appendleft(self._letter(tracked, tracked.received, ending.lacks))
            ending.lacks = None

    def expire(self, tracked: Tracked, kind: FailureKind, detail: str = "") -> None:
        """It waited too long, or its deadline passed or can't be kept. `detail`: a better sentence than the table's."""
        self.end(tracked, Status.EXPIRED, failure_of(kind, detail))

    def cancel(self, tracked: Tracked, kind: FailureKind = FailureKind.CANCELLED_BY_CALLER) -> None:
        """Its caller, or an operator, no longer wants it."""
        self.end(tracked, Status.CANCELLED, failure_of(kind))

    def refuse_record(self, received: Received, failure: Failure) -> None:
        """A record that can't be read at all: nobody can be told, so only its bytes are kept."""
        origin = Origin(received.topic, received.partition, received.offset)
        partition = self._state.partitions.by_place[received.place]
        partition.hold(len(received.value or b""))
        letter = dead_letter_message(self._state.setting, received, failure, self._state.now)
        self._add(Ending(None, origin, deque([letter]), len(received.value or b"")))
        self._state.count(Counted.ENDED_DEAD_LETTERED)

    def bury(self, received: Received, kind: FailureKind, detail: str) -> None:
        """A record of another log that can't be read or lies: its bytes are kept; till then the position stays before it."""
        origin = Origin(received.topic, received.partition, received.offset)
        self._state.unburied.add(origin)
        failure = failure_of(kind, detail)
        letter = dead_letter_message(self._state.setting, received, failure, self._state.now)
        self._add(Ending(None, origin, deque([letter])))
        self._state.count(Counted.BURIED_RECORDS)
        self._state.notice(
            "a record goes to the dead letters", warning=True, topic=received.topic, partition=received.partition,
            offset=received.offset, reason=failure.message,
        )  # fmt: skip

    def confirmed(self, ending: Ending, confirmation: Confirmation) -> None:
        """A record of this end is in the log, or must be sent again."""
        if not ending.arrived(confirmation.offset, self._state.now.boot_ms):
            return
        ending.messages.popleft()
        if not ending.messages and self._endings.get(ending.origin) is ending:
            self._finish(ending)

    def pump(self, *, begin: bool = True) -> None:
        """Send what is due; without `begin` only of ends that are begun. Call only while in charge and past the gate."""
        for ending in list(self._endings.values()):
            if ending.id is not None and ending.id not in self._state.tracked:
                del self._endings[ending.origin]  # a worker's late outcome has finished it meanwhile
            elif not (begin or ending.begun) or ending.lacks is not None:
                continue
            elif ending.is_due(self._state.now.boot_ms):
                ending.begun = ending.under_way = True
                self._state.send(ending.messages[0], ending)

    def __len__(self) -> int:
        return len(self._endings)

    @property
    def waiting(self) -> bool:
        """Whether any end is under way."""
        return bool(self._endings)

    @property
    def begun(self) -> bool:
        """Whether any end is half written."""
        return any(ending.begun for ending in self._endings.values())

    def _add(self, ending: Ending) -> None:
        self._endings[ending.origin] = ending

    def _finish(self, ending: Ending) -> None:
        del self._endings[ending.origin]
        self._state.unburied.discard(ending.origin)
        if ending.id is None:
            self._finishing.finish_offset(ending.origin)
            partition = self._state.partitions.of(ending.origin)
            if partition is not None:
                partition.drop(ending.size)
        else:
            self._finishing.finish(ending.id, ending.origin)

    def _letter(self, tracked: Tracked, received: Received, failure: Failure) -> Message:
        state, known = self._state, self._state.retrying.get(tracked.id)
        keys = () if known is None else known.deaths
        deaths = tuple(state.suspects.deaths[key] for key in keys if key in state.suspects.deaths)
        return dead_letter_message(
            state.setting, received, failure, state.now, tracked.record, tracked.used, deaths
        )
