"""Keeps the texts from which stopped requests go on, and has them read again after a change of owner. Driven by PoolCore.

Invariant: a text is given to its own request's next attempt alone, or to nobody: what can't be had in time, or isn't what the
checkpoint tells of, is left, and the request begins anew.
"""

from collections.abc import Iterable

from headrace.bus.messages import Place, Received
from headrace.bus.ports import Run, RunRead
from headrace.contracts.checkpoints import Retrying
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.suspicion import Left
from headrace.scheduler.decisions.which_text_is_kept import Text

_PATIENCE_MS = 5_000
"""So long a request waits for its text after a change of owner; then it begins anew."""
_STOPPED = frozenset({FailureKind.PREEMPTED, FailureKind.WORKER_DRAINED})


def left_by(record: AttemptRecord, received: Received) -> Left | None:
    """The text that a stopped attempt left, as its record says it."""
    told, stored = record.text, received.value or b""
    kind = None if record.failure is None else record.failure.kind
    if told is None or record.verdict is not Verdict.RETRY_AT or kind not in _STOPPED:
        return None
    if told.attempt != record.attempt or told.size != len(stored) or told.tokens > told.size:
        return None  # it lies; no token is less than a byte
    return Left(Text(told, Origin(received.topic, received.partition, received.offset)), stored)


class Continuing:
    """Texts that were kept under an earlier owner."""

    def __init__(self, state: PoolState, returning: Returning) -> None:
        self._state, self._returning = state, returning
        self._asked: dict[Run, str] = {}
        self._to_ask: list[Run] = []
        self._due: dict[str, tuple[int, int]] = {}
        """By request whose text is awaited: when it could run otherwise, and until when it waits for that, ms since boot."""

    @property
    def under_way(self) -> bool:
        """Whether any text is awaited."""
        return bool(self._asked)

    def begin(self) -> None:
        """Call once, at the claim: let those wait a little whose texts must be read again."""
        state = self._state
        for request_id, at in state.texts.missing().items():
            run = Run(Place(at.topic, at.partition), at.offset, at.offset + 1)
            self._asked[run] = request_id
            self._to_ask.append(run)
            due_ms = state.dues.get(request_id, 0)
            until_ms = state.dues[request_id] = max(due_ms, state.now.boot_ms + _PATIENCE_MS)
            self._due[request_id] = due_ms, until_ms

    def turn(self) -> None:
        """Have them read."""
        if self._to_ask:
            self._state.out.read_again += self._to_ask
            self._to_ask = []

    def read(self, runs: Iterable[RunRead]) -> None:
        """Runs that were asked for have come; those of others are passed over."""
        for each in runs:
            request_id = self._asked.pop(each.run, None)
            if request_id is not None:
                self._came(request_id, each)

    def _came(self, request_id: str, came: RunRead) -> None:
        state, known = self._state, self._state.retrying.get(request_id)
        at = Origin(came.run.place.topic, came.run.place.partition, came.run.first)
        if known is None or known.text_at != at:
            return  # it has ended, or has been stopped again meanwhile
        stored = next((text for each in came.records if (text := _text_in(each, known)) is not None), None)
        if stored is not None:
            state.texts.came(request_id, stored)
        else:
            state.forget_text(request_id)
            state.count(Counted.TEXTS_GONE)
            state.notice("the text of a stopped request is gone, so it begins anew", request=request_id)
        self._wait_no_longer(request_id)

    def _wait_no_longer(self, request_id: str) -> None:
        state, (due_ms, until_ms) = self._state, self._due.pop(request_id)
        if state.dues.get(request_id) != until_ms:
            return  # it ran all the while, and waits now since it has failed
        state.dues[request_id] = due_ms
        tracked = state.tracked.get(request_id)
        if tracked is not None:
            self._returning.may_run_at(tracked, due_ms)


def _text_in(received: Received, known: Retrying) -> bytes | None:
    """The bytes of the text that is told of, if this is the record that holds them."""
    try:
        record = decode(TopicKind.ATTEMPTS, received.header)
    except UndecodableError:
        return None
    same = isinstance(record, AttemptRecord) and record.id == known.id and record.text == known.text
    return received.value if same and known.text is not None else None
