"""Simulated calls of a backend: how long each takes, what it says on the way and what it comes to. Used by world.backend.

Invariant: an answer's text is a function of the request, and of the attempt where the request says so, behind the text that
the attempt was handed; so what readers were sent can be compared with what is stored.
"""

from dataclasses import dataclass, field
from random import Random

import msgspec

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Failure, Usage
from headrace.inference_worker.outcome import Kept, Outcome, unstarted
from headrace.inference_worker.protocol.inputs import Work

PROMPT = 4
"""Tokens of every prompt."""
RETRYABLE = (FailureKind.BACKEND_ERROR, FailureKind.BACKEND_OVERLOADED, FailureKind.BACKEND_TIMEOUT)


@dataclass(eq=False)
class Ran:
    """A run as it really happened. `why`: what ended it. `disturbed`: its worker died or stood still meanwhile."""

    request: str
    attempt: AttemptId
    boot: str
    epoch: int
    began_ms: int
    ended_ms: int | None = None
    why: str = ""
    disturbed: bool = False
    zombie: bool = False
    hop: int = 0
    """Whether it was begun by a worker that had stood still past its lease."""
    tokens: int = 0


@dataclass(eq=False)
class Call:
    """One call under way. `words`: the answer's text in pieces, each a chunk, `every_ms` apart, behind `before`."""

    work: Work
    ran: Ran
    words: list[str]
    every_ms: int
    outcome: Outcome
    next_ms: int
    before: str = ""
    said: int = 0
    chunks: int = 0
    over: bool = field(default=False)

    @property
    def text(self) -> str:
        """What was said so far."""
        return self.before + "".join(self.words[: self.said])


def words_of(request: RequestRecord, attempt: AttemptId, count: int) -> list[str]:
    """The answer's text. A request whose metadata says `varies` gets another text at each attempt."""
    flavour = f"{attempt}" if "varies" in request.metadata else ""
    return [f"{request.id[-6:]}{flavour}:{number} " for number in range(count)]


def count_of(text: str) -> int:
    """How many words it is."""
    return text.count(" ")


def body_of(text: str, tokens: int) -> bytes:
    """A stored chat answer."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": PROMPT, "completion_tokens": tokens}
    return msgspec.json.encode({"id": "c", "model": "m", "choices": [choice], "usage": usage})


def events_of_words(words: list[str]) -> bytes:
    """The backend's own events for these."""
    return b"".join(
        b"data: " + msgspec.json.encode({"id": "c", "choices": [{"index": 0, "delta": {"content": word}}]}) + b"\n\n"
        for word in words
    )  # fmt: skip


def outcome_of(rng: Random, words: list[str], before: str, *, fails: bool) -> Outcome:
    """What a call will come to that goes on from `before`."""
    read = count_of(before)
    usage = Usage(prompt_tokens=PROMPT + read, completion_tokens=len(words))
    if not fails:
        body = body_of(before + "".join(words), read + len(words))
        return Outcome(http_status=200, body=body, usage=usage, before=read)
    roll = rng.random()
    if roll < 0.1:
        return Outcome(
            failure=Failure(kind=FailureKind.INVALID_REQUEST), http_status=400, body=b"{}", usage=usage
        )
    if roll < 0.25:
        return unstarted(FailureKind.BACKEND_UNAVAILABLE)
    return Outcome(failure=Failure(kind=rng.choice(RETRYABLE)), usage=usage, before=read)


def aborted(call: Call) -> Outcome:
    """The outcome of a call that was given up."""
    text, read = call.text, count_of(call.before)
    usage = Usage(prompt_tokens=PROMPT + read, completion_tokens=call.said, estimated=True)
    body = body_of(text, read + call.said) if text else b""
    kept = Kept(text.encode(), read + call.said, len(text)) if text else None
    return Outcome(aborted=True, partial=bool(body), body=body, usage=usage, before=read, kept=kept)
