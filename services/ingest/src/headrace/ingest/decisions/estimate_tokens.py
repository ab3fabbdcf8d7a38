"""How many tokens a prompt has, about. Called by read_submission; the scheduler charges it until the engine has counted.

Source of the rule: about four bytes of UTF-8 text a token. Invariant: only text counts; an image's data URL does not.
"""

from collections.abc import Sequence

import msgspec

BYTES_PER_TOKEN = 4
_PER_MESSAGE = 4
"""Tokens that a chat template adds around a message, about."""


class _Part(msgspec.Struct):
    text: str | None = None


class _Message(msgspec.Struct):
    content: str | list[_Part] | None = None


_MESSAGES = msgspec.json.Decoder(list[_Message])
_PROMPT = msgspec.json.Decoder(str | list[str | int | list[int]])


def estimate_chat(messages: bytes | msgspec.Raw) -> int:
    """Tokens of the JSON list of messages. A shape that only its backend may understand is counted by its bytes."""
    try:
        decoded = _MESSAGES.decode(messages)
    except (msgspec.DecodeError, RecursionError):
        return _tokens(len(bytes(messages)))
    return sum(_PER_MESSAGE + _tokens(_content_bytes(message.content)) for message in decoded)


def estimate_prompt(prompt: bytes | msgspec.Raw) -> tuple[int, int]:
    """(tokens, number of prompts) of a completions `prompt`: a text, token ids, or a list of either."""
    try:
        decoded = _PROMPT.decode(prompt)
    except (msgspec.DecodeError, RecursionError):
        return _tokens(len(bytes(prompt))), 1
    if isinstance(decoded, str):
        return _tokens(_size(decoded)), 1
    if all(isinstance(item, int) for item in decoded):
        return len(decoded), 1
    return sum(_item_tokens(item) for item in decoded), max(1, len(decoded))


def _item_tokens(item: str | int | Sequence[int]) -> int:
    if isinstance(item, str):
        return _tokens(_size(item))
    return 1 if isinstance(item, int) else len(item)


def _content_bytes(content: str | list[_Part] | None) -> int:
    if isinstance(content, list):
        return sum(_size(part.text or "") for part in content)
    return _size(content or "")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
