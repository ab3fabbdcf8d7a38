"""What has happened to each prompt of the demo. Pure; fed by the callers, read by score.py and by whoever draws.

Invariant: every instant comes in as an argument (ms since the demo's start); nothing here reads a clock, and a terminal
answer that comes twice is counted, not hidden.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class How(StrEnum):
    """By which door a prompt goes in and its answer comes out."""

    WAIT = "wait"
    STREAM = "stream"
    POLL = "poll"


class State(StrEnum):
    """As a caller sees it; the last three are the end."""

    PLANNED = "planned"
    SENT = "sent"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def is_end(self) -> bool:
        """Whether nothing more comes."""
        return self in (State.SUCCEEDED, State.FAILED)

    @property
    def is_active(self) -> bool:
        """Whether an answer is awaited."""
        return self in (State.SENT, State.QUEUED, State.RUNNING)


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt to be sent."""

    number: int
    tenant: str
    tier: str
    how: How
    prompt: str


@dataclass(slots=True)
class Row:
    """One prompt and what has become of it. Times are ms since the demo's start."""

    ask: Ask
    state: State = State.PLANNED
    request_id: str = ""
    sent_ms: int | None = None
    accepted_ms: int | None = None
    first_ms: int | None = None
    ended_ms: int | None = None
    tokens: int = 0
    """Completion tokens: pieces seen so far while it streams, the backend's own count at the end."""
    prompt_tokens: int = 0
    text: str = ""
    problem: str = ""
    answers: int = 0
    queued_ms: int | None = None
    """As headrace itself recorded it, known at the end: from acceptance until a backend began."""
    started_ms: int | None = None
    """Likewise, Unix ms: when a backend began."""
    first_token_ms: int | None = None
    """Likewise, until the first token; None for plain answers, of which nobody sees it."""

    def waited_ms(self, now_ms: int) -> int | None:
        """From sending to the first sign of an answer, or until now."""
        if self.sent_ms is None:
            return None
        until = self.first_ms if self.first_ms is not None else self.ended_ms
        return (now_ms if until is None else until) - self.sent_ms


@dataclass(slots=True)
class Board:
    """All prompts, by number, and the tenants' weights."""

    weights: Mapping[str, int]
    rows: dict[int, Row] = field(default_factory=dict)
    contended: dict[str, dict[str, int]] = field(default_factory=dict)
    """By tier: tokens by tenant up to the answer with which the first tenant had no more unanswered prompts there."""

    _settled: set[str] = field(default_factory=set)

    def plan(self, asks: Iterable[Ask]) -> None:
        """Put prompts on the board before anything is sent."""
        self.rows = {ask.number: Row(ask) for ask in asks}

    def sent(self, number: int, at_ms: int) -> None:
        """The HTTP request goes out."""
        row = self.rows[number]
        row.state, row.sent_ms = State.SENT, at_ms

    def accepted(self, number: int, request_id: str, at_ms: int) -> None:
        """The door has said that it is kept."""
        row = self.rows[number]
        row.request_id = request_id or row.request_id
        row.accepted_ms = at_ms if row.accepted_ms is None else row.accepted_ms
        if row.state is State.SENT:
            row.state = State.QUEUED

    def running(self, number: int, at_ms: int, *, tokens: int | None = None, first: bool = False) -> None:
        """A backend works on it; `first` marks the first token."""
        row = self.rows[number]
        if row.state.is_end:
            return
        row.state = State.RUNNING
        row.tokens = row.tokens if tokens is None else max(row.tokens, tokens)
        if first and row.first_ms is None:
            row.first_ms = at_ms
        self._look(row.ask.tier)

    def piece(self, number: int, text: str, at_ms: int) -> None:
        """Some of the answer's text arrived."""
        row = self.rows[number]
        self.running(number, at_ms, tokens=row.tokens + 1, first=True)
        row.text += text

    def answered(
        self,
        number: int,
        at_ms: int,
        *,
        text: str,
        tokens: int,
        prompt_tokens: int = 0,
        first_ms: int | None = None,
    ) -> None:
        """The whole answer is here. `first_ms` is when its first token was made, where the service says so."""
        row = self.rows[number]
        row.answers += 1
        row.state, row.ended_ms, row.text = State.SUCCEEDED, at_ms, text
        row.tokens, row.prompt_tokens = tokens or row.tokens, prompt_tokens
        if row.first_ms is None:
            row.first_ms = at_ms if first_ms is None else first_ms
        self._look(row.ask.tier)

    def failed(self, number: int, at_ms: int, problem: str) -> None:
        """It ended otherwise."""
        row = self.rows[number]
        row.state, row.ended_ms, row.problem = State.FAILED, at_ms, problem

    def recorded(
        self, number: int, *, started_ms: int | None, queued_ms: int | None, first_token_ms: int | None
    ) -> None:
        """What headrace recorded of an ended prompt's times."""
        row = self.rows[number]
        row.started_ms, row.queued_ms, row.first_token_ms = started_ms, queued_ms, first_token_ms

    @property
    def ended(self) -> bool:
        """Whether every prompt has come to its end."""
        return all(row.state.is_end for row in self.rows.values())

    @property
    def accepted_count(self) -> int:
        """Prompts that a door has said it keeps, or has answered."""
        return sum(row.accepted_ms is not None or row.state is State.SUCCEEDED for row in self.rows.values())

    @property
    def answered_count(self) -> int:
        """Prompts with a whole answer."""
        return sum(row.state is State.SUCCEEDED for row in self.rows.values())

    @property
    def every_one_once(self) -> bool:
        """Whether each prompt ended with exactly one answer, under an id of its own."""
        rows = list(self.rows.values())
        ids = [row.request_id for row in rows if row.request_id]
        once = all(row.state is State.SUCCEEDED and row.answers == 1 for row in rows)
        return bool(rows) and once and len(ids) == len(set(ids)) == len(rows)

    def visible(self, room: int) -> list[Row]:
        """The rows worth the screen's `room` lines: those that run or wait, and the latest to have ended, by number."""
        active = [row for row in self.rows.values() if row.state.is_active]
        active.sort(key=lambda row: (row.state is not State.RUNNING, row.ask.number))
        ended = [row for row in self.rows.values() if row.state.is_end]
        ended.sort(key=lambda row: -(row.ended_ms or 0))
        chosen = active[: max(room - min(len(ended), room // 3), 0)]
        chosen += ended[: max(room - len(chosen), 0)]
        return sorted(chosen, key=lambda row: row.ask.number)

    def tokens(self, tier: str | None = None) -> dict[str, int]:
        """Tokens by tenant so far, of one tier or of all."""
        tokens = dict.fromkeys(self.weights, 0)
        for row in self.rows.values():
            if tier in (None, row.ask.tier):
                tokens[row.ask.tenant] += row.tokens
        return tokens

    def _look(self, tier: str) -> None:
        """Notes the tokens while all tenants have work: fairness says nothing of a tenant that asks for nothing."""
        if tier in self._settled:
            return
        self.contended[tier] = self.tokens(tier)
        rows = [row for row in self.rows.values() if row.ask.tier == tier and not row.state.is_end]
        if not {row.ask.tenant for row in rows}.issuperset(self.weights):
            self._settled.add(tier)
