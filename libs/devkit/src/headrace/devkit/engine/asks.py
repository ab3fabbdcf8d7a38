"""Reads a request body as vLLM would: what to answer, to how many tokens, how. Called by server. Pure.

Errors are Refusal: a status and vLLM's error body.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from headrace.devkit.engine.words import chat_tokens, completion_tokens

DEFAULT_TOKENS = 16
BUSY = (
    "The engine is currently busy and cannot accept new requests. "
    "Please try again later or on a different instance."
)
DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
FAULT_REFUSALS = {
    "429": (429, "Too Many Requests", "Rate limit reached. Please try again later.", None),
    "503": (503, "Service Unavailable", BUSY, None),
    "500": (500, "InternalServerError", DEAD, None),
    "400": (400, "BadRequestError", "This request is refused, as it asked to be.", "input_tokens"),
}


class Refusal(Exception):  # noqa: N818 - an answer, not a defect
    """An error answer with vLLM's body; `retry_after_s` sets a Retry-After header (0: none, as vLLM)."""

    def __init__(
        self, status: int, kind: str, message: str, param: str | None = None, *, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
        self.body = error_body(status, kind, message, param)


def error_body(status: int, kind: str, message: str, param: str | None = None) -> bytes:
    """vLLM's error object."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": status}})


@dataclass(frozen=True)
class Ask:
    """One request, understood. `limited`: the caller set max_tokens, so the answer ends by length."""

    chat: bool
    model: str
    prompt: str
    partial: str
    max_tokens: int
    limited: bool
    stream: bool
    include_usage: bool

    @property
    def prompt_tokens(self) -> int:
        """Characters / 4, at least 1."""
        return 1 + (len(self.prompt) + len(self.partial)) // 4

    def tokens(self) -> Iterator[str]:
        """The endless answer, to be cut at max_tokens."""
        return chat_tokens(self.prompt, self.partial) if self.chat else completion_tokens(self.prompt)


def read_ask(body: bytes, *, chat: bool, models: tuple[str, ...], max_model_len: int) -> Ask:
    """Raises Refusal for what vLLM refuses."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(400, "BadRequestError", f"JSON decode error: {error}") from error
    if not isinstance(fields, dict):
        raise Refusal(400, "BadRequestError", "1 validation error:\n  the body must be an object")
    if fields.get("model") not in models:
        raise Refusal(404, "NotFoundError", f"The model `{fields.get('model')}` does not exist.", "model")
    prompt, partial = _chat_text(fields) if chat else (_completion_text(fields), "")
    ask = Ask(chat, fields["model"], prompt, partial, *_length(fields), *_manner(fields))
    if ask.prompt_tokens >= max_model_len:
        raise Refusal(400, "BadRequestError", _too_long(ask.prompt_tokens, max_model_len), "input_tokens")
    return ask


def _chat_text(fields: dict[str, Any]) -> tuple[str, str]:
    """Prompt, and the partial answer of a last message by the assistant."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise Refusal(
            400, "BadRequestError", "1 validation error:\n  messages: a list of objects", "messages"
        )
    partial = ""
    if messages[-1].get("role") == "assistant":
        partial = _content(messages[-1].get("content"))
        messages = messages[:-1]
    return "\n".join(f"{one.get('role')}: {_content(one.get('content'))}" for one in messages), partial


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    return "" if content is None else orjson.dumps(content).decode()


def _completion_text(fields: dict[str, Any]) -> str:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str):
        raise Refusal(400, "BadRequestError", "this fake engine takes one prompt, a string", "prompt")
    return prompt


def _length(fields: dict[str, Any]) -> tuple[int, bool]:
    wanted = fields.get("max_completion_tokens") or fields.get("max_tokens")
    if wanted is None:
        return DEFAULT_TOKENS, False
    if not isinstance(wanted, int) or wanted < 1:
        raise Refusal(400, "BadRequestError", f"max_tokens must be at least 1, got {wanted}.", "max_tokens")
    return wanted, True


def _manner(fields: dict[str, Any]) -> tuple[bool, bool]:
    options = fields.get("stream_options") or {}
    return bool(fields.get("stream")), bool(options.get("include_usage"))


def _too_long(tokens: int, limit: int) -> str:
    return (
        f"This model's maximum context length is {limit} tokens. However, your prompt contains {tokens} input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input "
        f"prompt. (parameter=input_tokens, value={tokens})"
    )
