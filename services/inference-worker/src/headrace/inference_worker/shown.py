"""What of a backend's events a caller is shown. Called for each event of a relayed stream.

Invariant: what is shown is as the backend wrote it, but for counts that take a part of an answer for the whole.
"""

from typing import Any

import orjson

from headrace.contracts.requests import RequestRecord
from headrace.inference_worker.said import Said, reported_of_whole


def is_shown(chunk: dict[str, Any], request: RequestRecord, *, opens: bool) -> bool:
    """Not a usage chunk that nobody asked for; nor, behind a text that was shown, one that only `opens` another."""
    if chunk.get("choices") == [] and chunk.get("usage") is not None:
        return request.sends_usage
    return not opens


def as_shown(raw: bytes, chunk: dict[str, Any], before: Said) -> bytes:
    """The event, given its bytes and what they say, of a stream that goes on from `before`."""
    if not before.tokens or not isinstance(chunk.get("usage"), dict):
        return raw
    whole = {**chunk, "usage": reported_of_whole(chunk["usage"], before.tokens)}
    return b"data: " + orjson.dumps(whole) + b"\n\n"
