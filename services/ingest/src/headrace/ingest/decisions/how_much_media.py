"""Of how many things that belong to a prompt do its bytes not tell the tokens? Asked by read_submission.

Such are the parts of messages that aren't text, by link or as a data URL, and tools that the backend runs itself, whose
findings become part of the prompt. Invariant: one too many costs nothing but a wider bound on what a worker may say was
spent; one too few would cut what an honest engine says, so what isn't understood counts.
"""

from collections.abc import Mapping

import msgspec

from headrace.ingest.decisions.is_plain_text import is_off

_TEXTS = frozenset({"text", "input_text", "output_text", "refusal", "thinking"})
_SEARCHES = ("web_search_options", "search_parameters", "plugins")
"""Members by which APIs are asked to look something up for a chat."""


class _Part(msgspec.Struct):
    type: str | None = None
    text: str | None = None


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None
    audio: dict[str, msgspec.Raw] | None = None


class _Tool(msgspec.Struct):
    type: str | None = None


_MESSAGES = msgspec.json.Decoder(list[_Message])
_TOOLS = msgspec.json.Decoder(list[_Tool] | None)


def how_much_media(fields: Mapping[str, msgspec.Raw]) -> int:
    """Of so many."""
    searches = sum(name in fields and not is_off(name, fields[name]) for name in _SEARCHES)
    return _in_messages(fields.get("messages")) + _in_tools(fields.get("tools")) + searches


def _in_messages(messages: msgspec.Raw | None) -> int:
    if messages is None:
        return 0
    try:
        return sum(_in_message(message) for message in _MESSAGES.decode(messages))
    except (msgspec.DecodeError, RecursionError):
        return _objects(messages)


def _in_message(message: _Message) -> int:
    parts = message.content if isinstance(message.content, list) else []
    return sum(not _is_text(part) for part in parts) + (message.audio is not None)


def _is_text(part: _Part) -> bool:
    return part.text is not None if part.type is None else part.type in _TEXTS


def _in_tools(tools: msgspec.Raw | None) -> int:
    if tools is None:
        return 0
    try:
        return sum(tool.type not in (None, "function") for tool in _TOOLS.decode(tools) or ())
    except (msgspec.DecodeError, RecursionError):
        return _objects(tools)


def _objects(raw: msgspec.Raw) -> int:
    """As many as there can be."""
    return bytes(raw).count(b"{")
