"""Can an answer to this be gone on with, once it was stopped? Asked once for each attempt, before its call.

Invariant: what is gone on with is what an undisturbed answer would have been, as far as anybody promised anything of it: one
choice of text alone, from an engine that continues a text, with nothing that counts or seeds what was said so far.
"""

import msgspec

from headrace.contracts.kept_text import MAX_TEXT_BYTES
from headrace.contracts.requests import RequestRecord
from headrace.inference_worker.decisions.how_to_call import BackendKind
from headrace.inference_worker.json_body import NotAnObjectError, member_of
from headrace.inference_worker.outcome import Kept
from headrace.inference_worker.said import Said

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_CAPS = ("max_tokens", "max_completion_tokens")
_COUNTING = ("presence_penalty", "frequency_penalty")
_BROKEN = "\ufffd"
_THINKS = "<think>"
_NOTHING = (None, b"null")


def can_it_go_on(request: RequestRecord, kind: BackendKind, body: bytes) -> bool:
    """Whether a later attempt could go on with what an attempt at this has said.

    A hosted service continues no chat. A seed promises a text that no second call can keep to; penalties count what was said.
    A completion without max_tokens ends where its engine's default is, which isn't known here.
    """
    if not request.plain_text or request.choices != 1:
        return False
    try:
        if request.route == CHAT:
            able = kind is not BackendKind.OPENAI and _last_role(body) not in (None, "assistant")
        else:
            able = request.route == COMPLETIONS and _is_one_prompt(body) and cap_in(body) is not None
        return able and not _is_seeded(body) and all(_number(body, name) in (None, 0) for name in _COUNTING)
    except NotAnObjectError:
        return False


def what_to_keep(said: Said, route: str) -> Kept | None:
    """The text as another attempt may go on from it: no character of it is half there, none of it is thought, which chat
    templates cut out; and it fits a record. None: there is nothing of that sort.

    Of a chat without the space at its end: templates cut it off, so that the model says it again.
    """
    text = said.text.rstrip() if route == CHAT else said.text
    if not text or text.endswith(_BROKEN) or text.lstrip().startswith(_THINKS):
        return None
    stored = text.encode()
    return Kept(stored, min(said.tokens, len(stored)), len(text)) if len(stored) <= MAX_TEXT_BYTES else None


def cap_in(body: bytes) -> int | None:
    """The caller's cap on the answer, in tokens; of two the lower. Raises NotAnObjectError."""
    caps = [cap for name in _CAPS if isinstance(cap := _number(body, name), int)]
    return min(caps, default=None)


def _last_role(body: bytes) -> object:
    messages = _decoded(member_of(body, "messages"))
    last = messages[-1] if isinstance(messages, list) and messages else None
    return last.get("role") if isinstance(last, dict) else None


def _is_one_prompt(body: bytes) -> bool:
    return isinstance(_decoded(member_of(body, "prompt")), str)


def _is_seeded(body: bytes) -> bool:
    return member_of(body, "seed") not in _NOTHING and _number(body, "temperature") != 0


def _number(body: bytes, name: str) -> object:
    return _decoded(member_of(body, name))


def _decoded(raw: bytes | None) -> object:
    try:
        return None if raw in _NOTHING or raw is None else msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.UNSET
