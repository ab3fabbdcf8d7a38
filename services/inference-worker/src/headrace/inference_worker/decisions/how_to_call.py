"""How is the backend called? Called once for each attempt.

Invariant: as the caller asked, streaming for streams and plain for plain; only where the backend can't cancel a plain call
and the answer is plain text is it streamed upstream and assembled.
"""

from dataclasses import dataclass
from enum import StrEnum

from headrace.contracts.requests import RequestRecord
from headrace.inference_worker.json_body import NotAnObjectError, with_member, with_usage


class BackendKind(StrEnum):
    """Whose wire it is. llama.cpp doesn't notice that a plain call was given up, and closes after every stream."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class CallPlan:
    """`streamed` upstream; `relayed`: its events go to the caller as they come."""

    streamed: bool
    relayed: bool


def how_to_call(request: RequestRecord, kind: BackendKind) -> CallPlan:
    """Plain or streamed, and whether there is anybody to relay to."""
    if request.stream:
        return CallPlan(streamed=True, relayed=True)
    return CallPlan(streamed=kind is BackendKind.LLAMA_CPP and request.plain_text, relayed=False)


def body_for(plan: CallPlan, body: bytes) -> bytes:
    """The caller's bytes; for a stream, with what makes it one that counts its tokens."""
    if not plan.streamed:
        return body
    try:
        return with_usage(with_member(body, "stream", b"true"))
    except NotAnObjectError:
        return body
