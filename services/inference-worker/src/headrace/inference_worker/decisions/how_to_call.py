"""How is the backend called? Called once for each attempt.

Invariant: as the caller asked, streaming for streams and plain for plain; only where the answer is plain text, and the
backend can't cancel a plain call or what is said so far may be wanted, is it streamed upstream and assembled.
"""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from headrace.contracts.requests import RequestRecord
from headrace.inference_worker.json_body import NotAnObjectError, with_member, with_usage


class BackendKind(StrEnum):
    """Whose wire it is. llama.cpp doesn't notice that a plain call was given up, and closes after every stream."""

    VLLM = "vllm"
    LLAMA_CPP = "llama.cpp"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class CallPlan:
    """`streamed` upstream; `relayed`: its events go to the caller as they come. `counted`: the backend is asked to say all
    along how many tokens there are, which no caller is shown.
    """

    streamed: bool
    relayed: bool
    counted: bool = False


def how_to_call(request: RequestRecord, kind: BackendKind, *, keeps: bool = False) -> CallPlan:
    """Plain or streamed, and whether there is anybody to relay to. `keeps`: it is plain text, and may be stopped and gone on
    with, or goes on from what was said before.
    """
    if request.stream:
        return CallPlan(streamed=True, relayed=True)
    counted = keeps and kind is BackendKind.VLLM
    unstoppable = kind is BackendKind.LLAMA_CPP and request.plain_text
    return CallPlan(streamed=keeps or unstoppable, relayed=False, counted=counted)


def body_for(plan: CallPlan, request: RequestRecord, body: bytes) -> bytes:
    """The caller's bytes; for a stream, with what makes it one that counts its tokens; of a request that another pool passed
    on, with the name that this backend knows its model by: who passed it on opens no payload.
    """
    try:
        if request.hop:
            body = with_member(body, "model", msgspec.json.encode(request.model))
        if not plan.streamed:
            return body
        return with_usage(with_member(body, "stream", b"true"), all_along=plan.counted)
    except NotAnObjectError:
        return body
