"""Reads a request body as vLLM would: what to answer, to how many tokens, how. Called by generating and pages. Pure.

Errors are EngineRefusal: a status and vLLM's error body.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from headrace.devkit.engine.refusals import bad, no_such_model, too_long
from headrace.devkit.engine.sequences import SLICE, Sequence, block_keys
from headrace.devkit.engine.words import Text, chat_text, completion_text, natural_length, salt_of

CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the engine brings to every request. `lengths`: of answers whose callers set no limit, in tokens.

    `ends_early`: such a length also ends an answer before the caller's max_tokens, as a model does.
    """

    models: tuple[str, ...]
    max_model_len: int
    by_priority: bool = False
    seed: int = 0
    lengths: tuple[int, int] = (16, 16)
    ends_early: bool = False


@dataclass(slots=True, kw_only=True)
class Ask:
    """One request, understood. `max_tokens` of the answer are still to come, and end it with `finish_reason`."""

    chat: bool
    model: str
    text: Text
    prompt_tokens: int
    max_tokens: int
    finish_reason: str
    stream: bool
    include_usage: bool
    usage_all_along: bool
    priority: int
    salt: int
    cached_tokens: int = 0
    tokens: list[str] = field(default_factory=list)

    def sequence(self) -> Sequence:
        """As the stepper takes it."""
        prompt = self.text.prompt
        return Sequence(
            self.prompt_tokens,
            self.max_tokens,
            keys=block_keys(prompt, self.salt) if len(prompt) >= SLICE else (),
            answer_key=hash((self.salt, prompt)),
            priority=self.priority,
        )


def tokens_in(text: str) -> int:
    """How many tokens a text counts as."""
    return 1 + len(text) // CHARACTERS_A_TOKEN


def read_fields(body: bytes, models: tuple[str, ...]) -> dict[str, Any]:
    """The JSON object of any call. Raises EngineRefusal."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad(f"JSON decode error: {error}") from error
    if not isinstance(fields, dict):
        raise bad("1 validation error:\n  the body must be an object")
    if fields.get("model") not in models:
        raise no_such_model(fields.get("model"))
    return fields


def read_ask(body: bytes, reading: Reading, *, chat: bool, priority: str | None = None) -> Ask:
    """`priority`: the header's, which is stronger than the body's. Raises EngineRefusal for what vLLM refuses."""
    fields = read_fields(body, reading.models)
    salt = _seed(fields, reading.seed) if "seed" in fields else reading.seed
    seed = salt_of(salt)
    text = chat_text(*chat_prompt(fields), seed) if chat else completion_text(_prompt(fields), seed)
    prompt_tokens = tokens_in(text.prompt) + text.said
    if prompt_tokens >= reading.max_model_len:
        raise too_long(prompt_tokens, reading.max_model_len)
    natural = max(0, natural_length(text.prompt, seed, *reading.lengths) - text.said)
    max_tokens, reason = _length(fields, natural, ends_early=reading.ends_early)
    if max_tokens > (room := reading.max_model_len - prompt_tokens):
        max_tokens, reason = room, "length"
    options = fields.get("stream_options") or {}
    return Ask(
        chat=chat, model=fields["model"], text=text, prompt_tokens=prompt_tokens, max_tokens=max_tokens,
        finish_reason=reason, stream=bool(fields.get("stream")), include_usage=bool(options.get("include_usage")),
        usage_all_along=bool(options.get("continuous_usage_stats")),
        priority=_priority(fields, priority, reading), salt=salt, tokens=list(islice(text.rest, max_tokens)),
    )  # fmt: skip


def chat_prompt(fields: dict[str, Any]) -> tuple[str, str]:
    """Prompt, and the partial answer that the caller wants gone on with."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise bad("1 validation error:\n  messages: a list of objects", "messages")
    partial = ""
    if fields.get("continue_final_message"):
        if fields.get("add_generation_prompt"):
            raise bad("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
        if messages[-1].get("role") == "assistant":
            partial, messages = _content(messages[-1].get("content")), messages[:-1]
    return "\n".join(f"{one.get('role')}: {_content(one.get('content'))}" for one in messages), partial


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    return "" if content is None else orjson.dumps(content).decode()


def _prompt(fields: dict[str, Any]) -> str:
    prompt = fields.get("prompt")
    if not isinstance(prompt, str):
        raise bad("this engine takes one prompt, a string", "prompt")
    return prompt


def _whole(fields: dict[str, Any], name: str, lowest: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
        raise bad(f"{name} must be at least {lowest}, got {value}.", name)
    return value


def _length(fields: dict[str, Any], natural: int, *, ends_early: bool) -> tuple[int, str]:
    """Tokens to come, and why they end."""
    wanted = _whole(fields, "max_completion_tokens", 1) or _whole(fields, "max_tokens", 1)
    if "min_tokens" in fields:
        natural = max(natural, _whole(fields, "min_tokens", 0) or 0)
    if wanted is None:
        return natural, "stop"
    if ends_early and natural <= wanted and not fields.get("ignore_eos"):
        return natural, "stop"
    return wanted, "length"


def _seed(fields: dict[str, Any], engine: int) -> int:
    seed = fields.get("seed")
    return engine if seed is None else hash((engine, seed if isinstance(seed, int) else 0))


def _priority(fields: dict[str, Any], header: str | None, reading: Reading) -> int:
    try:
        priority = int(header if header is not None else fields.get("priority") or 0)
    except (ValueError, TypeError) as error:
        raise bad("priority must be an integer", "priority") from error
    if priority and not reading.by_priority:
        raise bad("Got priority but priority scheduling is not enabled.", "priority")
    return priority
