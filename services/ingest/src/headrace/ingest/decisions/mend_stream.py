"""What a reader of a stream must still get, once the result is committed. Called at a stream's end.

Invariant: what was sent, and what this adds, together say exactly what is stored; where that can't be, the answer is None
and the reader is told so.
"""

from typing import Any

import msgspec

from headrace.ingest.decisions.read_submission import CHAT
from headrace.ingest.decisions.sent_text import SentText

_GROWING = frozenset({"content", "text", "refusal", "reasoning", "reasoning_content"})
"""Fields whose pieces are joined, as the worker joins them; of any other the last piece is what is stored."""

DONE = b"data: [DONE]\n\n"


class StoredChoice(msgspec.Struct):
    """One choice of a stored answer: `message` in chats, `text` in completions."""

    index: int = 0
    message: dict[str, Any] | None = None
    text: str | None = None
    finish_reason: Any = None

    def texts(self) -> dict[str, str]:
        """Its text fields."""
        found = {} if self.text is None else {"text": self.text}
        fields = (self.message or {}).items()
        return found | {name: value for name, value in fields if isinstance(value, str) and name != "role"}

    def others(self) -> dict[str, Any]:
        """Its fields that aren't text, such as tool calls, as a stream would say them."""
        found = {}
        for name, value in (self.message or {}).items():
            if value and not isinstance(value, str):
                found[name] = _numbered(value) if name == "tool_calls" else value
        return found


class StoredAnswer(msgspec.Struct):
    """A stored answer, as far as it concerns a stream."""

    id: Any = None
    created: Any = None
    model: Any = None
    choices: list[StoredChoice] = []
    usage: Any = None


_ANSWER = msgspec.json.Decoder(StoredAnswer)


def read_stored(body: bytes) -> StoredAnswer | None:
    """The stored answer; None for a body that isn't one."""
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return answer if answer.choices else None


def mend_stream(
    sent: SentText, body: bytes, *, route: str, sends_usage: bool, whole: bool
) -> list[bytes] | None:
    """The events still to be sent, without [DONE]; None: what was sent isn't the beginning of what is stored.

    `whole`: everything sent came from the stored attempt, in order. Then what can't be compared needn't be: tool calls, and
    fields that a backend repeats in each chunk rather than letting them grow.
    """
    stored = read_stored(body)
    if stored is None:
        return None
    head = _head(sent, stored, route)
    events: list[bytes] = []
    for choice in stored.choices:
        missing = _missing(sent, choice, whole=whole)
        if missing is None:
            return None
        events += _choice_events(head, sent, choice, missing, chat=route == CHAT)
    if sends_usage and not sent.usage and stored.usage is not None:
        events.append(_event({**head, "choices": [], "usage": stored.usage}))
    return events


def _missing(sent: SentText, choice: StoredChoice, *, whole: bool) -> dict[str, Any] | None:
    texts, missing = choice.texts(), dict[str, Any]()
    for field in sent.fields(choice.index) | set(texts):
        before, text = sent.text(choice.index, field), texts.get(field, "")
        if not text.startswith(before):
            if field in _GROWING or not whole:
                return None
        elif len(text) > len(before):
            missing[field] = text[len(before) :]
    for field, value in choice.others().items():
        if (choice.index, field) not in sent.others:
            missing[field] = value
        elif not whole:
            return None
    return missing


def _choice_events(
    head: dict[str, Any], sent: SentText, choice: StoredChoice, missing: dict[str, Any], *, chat: bool
) -> list[bytes]:
    index, events = choice.index, []
    if chat and index not in sent.begun:
        missing = {"role": (choice.message or {}).get("role") or "assistant", **missing}
    if missing:
        events.append(_choice_event(head, index, missing, None, chat=chat))
    if index not in sent.finished:
        events.append(_choice_event(head, index, {}, choice.finish_reason, chat=chat))
    return events


def _choice_event(
    head: dict[str, Any], index: int, added: dict[str, Any], finish_reason: object, *, chat: bool
) -> bytes:
    what: dict[str, Any] = {"delta": added} if chat else {"text": added.get("text", "")}
    return _event({**head, "choices": [{"index": index, **what, "finish_reason": finish_reason}]})


def _head(sent: SentText, stored: StoredAnswer, route: str) -> dict[str, Any]:
    """What every chunk of one stream repeats."""
    return {
        "id": sent.head.id or stored.id or "",
        "object": "chat.completion.chunk" if route == CHAT else "text_completion",
        "created": sent.head.created or stored.created or 0,
        "model": sent.head.model or stored.model or "",
    }


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def _numbered(calls: object) -> object:
    """Tool calls of a message carry no index; those of a stream must."""
    if not isinstance(calls, list):
        return calls
    return [
        {"index": number, **call} if isinstance(call, dict) else call for number, call in enumerate(calls)
    ]
