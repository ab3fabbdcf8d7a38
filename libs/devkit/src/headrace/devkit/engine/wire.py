"""Answers in vLLM's shapes, as bytes. Called by server. Pure; a streamed token costs one small join."""

from dataclasses import dataclass
from typing import Any

import orjson

from headrace.devkit.engine.asks import Ask
from headrace.devkit.engine.words import TOKENS

DONE = b"data: [DONE]\n\n"
ENCODED = {token: orjson.dumps(token) for token in TOKENS}


def event(value: object) -> bytes:
    """One data line of a stream."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


@dataclass(frozen=True)
class EngineAnswer:
    """What all bytes of one answer share. `created` in seconds since 1970."""

    ask: Ask
    id: str
    created: int

    def usage(self, so_far: int | None = None) -> dict[str, Any]:
        """vLLM's usage object, at the end or after `so_far` tokens; cached tokens are told where there are any, as with
        --enable-prompt-tokens-details.
        """
        prompt_tokens, cached = self.ask.prompt_tokens, self.ask.cached_tokens
        completion_tokens = len(self.ask.tokens) if so_far is None else so_far
        return {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached} if cached else None,
        }

    def whole(self, *, usage: bool = True) -> bytes:
        """The body of a plain answer."""
        return orjson.dumps(
            {
                **self._head("chat.completion" if self.ask.chat else "text_completion"),
                "choices": [self._whole_choice("".join(self.ask.tokens))],
                "service_tier": None,
                "system_fingerprint": None,
                "usage": self.usage() if usage else None,
                "prompt_logprobs": None,
                "kv_transfer_params": None,
            }
        )

    def _whole_choice(self, text: str) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "tool_calls": [],
            "reasoning": None,
        }
        said = {"message": message} if self.ask.chat else {"text": text}
        end = {"logprobs": None, "finish_reason": self.ask.finish_reason, "stop_reason": None}
        return {"index": 0, **said, **end}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.ask.model}

    def _chunk(self, choices: list[dict[str, Any]], **more: object) -> bytes:
        kind = "chat.completion.chunk" if self.ask.chat else "text_completion"
        return event({**self._head(kind), "choices": choices, **more})

    def opening(self) -> bytes:
        """The role chunk; nothing for a completion."""
        delta = {"role": "assistant", "content": ""}
        return (
            self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}])
            if self.ask.chat
            else b""
        )

    def counted(self, token: str, number: int) -> bytes:
        """A token's chunk for a caller who wants to know with each how many there are."""
        said: dict[str, Any] = {"delta": {"content": token}} if self.ask.chat else {"text": token}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": None}
        return self._chunk([choice], usage=self.usage(number))

    def token_frame(self) -> tuple[bytes, bytes]:
        """What stands before and after a token's JSON string in its chunk."""
        place = "\0"
        said: dict[str, Any] = {"delta": {"content": place}} if self.ask.chat else {"text": place}
        chunk = self._chunk([{"index": 0, **said, "logprobs": None, "finish_reason": None}])
        before, _, after = chunk.partition(orjson.dumps(place))
        return before, after

    def finish(self) -> bytes:
        """The chunk that says why it ends."""
        said: dict[str, Any] = {"delta": {}} if self.ask.chat else {"text": ""}
        end = {"logprobs": None, "finish_reason": self.ask.finish_reason, "stop_reason": None}
        return self._chunk([{"index": 0, **said, **end}])

    def usage_chunk(self) -> bytes:
        """The chunk behind it for a caller who asked for it, else nothing."""
        return self._chunk([], usage=self.usage()) if self.ask.include_usage else b""


def encoded(token: str) -> bytes:
    """A token as a JSON string."""
    return ENCODED.get(token) or orjson.dumps(token)
