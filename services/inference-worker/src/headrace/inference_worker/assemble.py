"""Builds the plain answer (chat.completion, text_completion) from a stream's chunks. Called for every streamed call.

Invariant: equal as JSON to what the backend would have answered plainly, but for id, created and timings. Unknown members
are kept: the last one that isn't null wins.
"""

from typing import Any

import orjson

from headrace.contracts.values import Usage
from headrace.inference_worker.said import NOTHING, Said, reported_of_whole
from headrace.inference_worker.usage import usage_from

_GROWING = frozenset({"content", "text", "arguments", "refusal", "reasoning", "reasoning_content"})
_CHUNK, _PLAIN = "chat.completion.chunk", "chat.completion"
_APART = frozenset({"role", "index", "finish_reason", "logprobs", "stop_reason"})
_SPOKEN = ("content", "reasoning", "reasoning_content", "refusal")


class Assembler:
    """The answer so far. `characters` counts its text over all choices, `tokens` the chunks that brought some of it.

    `before`: the stream goes on from this text. It is the answer's beginning, and counts among `characters` alone.
    """

    def __init__(self, before: Said = NOTHING, *, chat: bool = True) -> None:
        self._before = before
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        if before.text:
            said = {"role": "assistant", "content": before.text}
            self._choices[0] = {"message": said} if chat else {"text": before.text}
        self.characters, self.tokens = len(before.text), 0
        self.usage: Usage | None = None

    def add(self, chunk: dict[str, Any]) -> None:
        """One chunk of the stream. Raises ValueError for one that can't be a chunk."""
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise ValueError("a chunk without a list of choices")  # noqa: TRY004 - one kind of bad chunk
        _merge(self._head, {name: value for name, value in chunk.items() if name != "choices"})
        self.usage = usage_from(chunk.get("usage")) or self.usage
        before = self.characters
        for choice in choices:
            self._add_choice(choice)
        self.tokens += any(_speaks(choice) for choice in choices) or self.characters > before

    @property
    def finish_reasons(self) -> dict[int, str | None]:
        """Why each choice that was seen ended; None: it hasn't."""
        return {index: choice.get("finish_reason") for index, choice in self._choices.items()}

    @property
    def said(self) -> Said:
        """The whole text so far, where it is one choice's text and nothing else, which hasn't ended; else nothing."""
        choice = self._choices.get(0, {}) if len(self._choices) == 1 else {}
        message = choice.get("message")
        fields = {name: value for name, value in (message or choice).items() if value and name not in _APART}
        text = fields.pop("content" if message else "text", None)
        if fields or not isinstance(text, str) or choice.get("finish_reason") or choice.get("logprobs"):
            return NOTHING
        counted = 0 if self.usage is None else self.usage.completion_tokens
        own = max(self.tokens, counted)  # some engines say in the first chunk alone that there are none yet
        return Said(text, self._before.tokens + own)

    def body(self) -> bytes:
        """The plain answer as JSON; empty when nothing came."""
        if not self._head and not self._choices:
            return b""
        whole = dict(self._head)
        if self._before.tokens and isinstance(whole.get("usage"), dict):
            whole["usage"] = reported_of_whole(whole["usage"], self._before.tokens)
        if whole.get("object") == _CHUNK:
            whole["object"] = _PLAIN
        whole["choices"] = [_plain(index, self._choices[index]) for index in sorted(self._choices)]
        return orjson.dumps(whole)

    def _add_choice(self, choice: object) -> None:
        if not isinstance(choice, dict) or not isinstance(choice.get("index", 0), int):
            raise ValueError("a choice that isn't an object with a number")  # noqa: TRY004 - one kind of bad chunk
        delta = choice.get("delta")
        said = {name: value for name, value in choice.items() if name not in {"delta", "index"}}
        if isinstance(delta, dict):
            said["message"] = delta
            self.characters += len(delta["content"]) if isinstance(delta.get("content"), str) else 0
        elif isinstance(choice.get("text"), str):
            self.characters += len(choice["text"])
        _merge(self._choices.setdefault(choice.get("index", 0), {}), said)


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        present = into.get(name)
        if value is None:
            into.setdefault(name, None)
        elif isinstance(value, dict):
            into[name] = present if isinstance(present, dict) else {}
            _merge(into[name], value)
        elif isinstance(value, list):
            into[name] = _joined(present if isinstance(present, list) else [], value)
        elif name in _GROWING and isinstance(present, str) and isinstance(value, str):
            into[name] = present + value
        else:
            into[name] = value


def _joined(present: list[Any], more: list[Any]) -> list[Any]:
    """Parts that carry an index (tool calls) grow each; others (log probabilities) follow one another."""
    for part in more:
        if not isinstance(part, dict) or not isinstance(part.get("index"), int):
            present.append(part)
            continue
        known = next((p for p in present if isinstance(p, dict) and p.get("index") == part["index"]), None)
        if known is None:
            present.append(known := {})
        _merge(known, part)
    return present


def _speaks(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    return isinstance(delta, dict) and bool(
        delta.get("tool_calls") or any(delta.get(name) for name in _SPOKEN)
    )


def _plain(index: int, choice: dict[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    if isinstance(message, dict) and isinstance(message.get("tool_calls"), list):
        calls = [
            {name: value for name, value in call.items() if name != "index"}
            if isinstance(call, dict)
            else call
            for call in message["tool_calls"]
        ]
        choice = {**choice, "message": {**message, "tool_calls": calls}}
    return {"index": index, **choice}
