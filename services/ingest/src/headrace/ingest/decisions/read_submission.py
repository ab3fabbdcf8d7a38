"""What of a body a decision needs, and nothing more. Called by the service with the caller's bytes.

The whole text is checked to be one JSON object in UTF-8; only the members named here are decoded. Of a repeated member the
last counts, as in the backends' parsers. Invariant: whatever bytes come in, the outcome is a Submission or a Refusal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from headrace.ingest.decisions.estimate_tokens import estimate_chat, estimate_prompt
from headrace.ingest.decisions.how_much_media import how_much_media
from headrace.ingest.decisions.is_plain_text import is_plain_text
from headrace.ingest.decisions.which_answer import which_answer
from headrace.ingest.refusal import Refusal

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_BEGINS = {CHAT: ("tools", "messages"), COMPLETIONS: ("prompt",)}
_MAX_METADATA = 16
_MOST_TOKENS = 2**53
T = TypeVar("T")
Fields = Mapping[str, msgspec.Raw]

_NO_MESSAGES, _NONE = msgspec.Raw(b"[]"), msgspec.Raw(b"0")
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_Tokens = Annotated[int, Meta(ge=0, le=2**31)]
_Choices = Annotated[int, Meta(ge=1, le=128)]
_Key = Annotated[str, Meta(max_length=64)]
_Value = Annotated[str, Meta(max_length=512)]
_Model = Annotated[str, Meta(min_length=1, max_length=128)]


class SubmitOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The native body's `headrace` member: what is said to us and not to the backend. Durations such as `30s`."""

    tier: str | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    deadline: str | None = None
    queue_timeout: str | None = None
    fairness_key: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    fallback: bool | None = None
    session: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    metadata: dict[_Key, _Value] = {}
    route: str | None = None


class QuoteOptions(SubmitOptions, frozen=True, forbid_unknown_fields=True):
    """The same in the body of a quote, where the prompt itself may be missing and `prompt_tokens` says how long it is."""

    prompt_tokens: Annotated[int, Meta(ge=0, le=2**31)] | None = None


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """What a body asks for. `max_tokens` is the caller's cap over all choices; `prompt_tokens` an estimate; `end_user` for
    whom the caller asks, as OpenAI's clients say it; `cache_key` what they say of prompts that begin alike. `sequences` and
    `media` as in the record. `prompt`: the JSON of what an engine puts together first, in its order.
    """

    route: str
    model: str
    stream: bool
    sends_usage: bool
    plain_text: bool
    answer: str
    prompt_tokens: int
    max_tokens: int | None
    choices: int
    sequences: int
    media: int
    service_tier: str | None
    end_user: str | None
    cache_key: str | None
    prompt: tuple[memoryview, ...]
    options: SubmitOptions


def read_submission(body: bytes, route: str | None) -> Submission:
    """Reads a body for this backend route; None: the native door, where the body itself says which. Raises Refusal."""
    fields = _fields(body)
    options = _read(fields, "headrace", SubmitOptions) if route is None else None
    return _submission(fields, options or SubmitOptions(), route)


def read_quote(body: bytes) -> Submission:
    """Reads the body of a quote: that of a native submission, or one without a prompt but with its length. Raises Refusal."""
    fields = _fields(body)
    options = _read(fields, "headrace", QuoteOptions) or QuoteOptions()
    if options.prompt_tokens is None:
        return _submission(fields, options, None)
    if "messages" in fields or "prompt" in fields:
        sentence = "Either the prompt itself or its prompt_tokens: which of both counts?"
        raise Refusal(422, "invalid_body", sentence, pointer="/headrace/prompt_tokens")
    read = _submission({**fields, "messages": _NO_MESSAGES}, options, CHAT)
    return replace(read, prompt_tokens=options.prompt_tokens)


def _submission(fields: Fields, options: SubmitOptions, route: str | None) -> Submission:
    route = route or _route(fields, options)
    prompt_tokens, prompts = _prompt(fields, route)
    choices = (_read(fields, "n", _Choices | None) or 1) * prompts
    stream = bool(_read(fields, "stream", bool | None))
    cap = _max_tokens(fields)
    usage = _read(fields, "stream_options", _StreamOptions | None)
    return Submission(
        route=route,
        model=_required(fields, "model", _Model),
        stream=stream,
        sends_usage=stream and usage is not None and bool(usage.include_usage),
        plain_text=is_plain_text(fields, choices=choices),
        answer=which_answer(fields),
        prompt_tokens=prompt_tokens,
        max_tokens=None if cap is None else min(cap * choices, _MOST_TOKENS),
        choices=choices,
        sequences=_sequences(fields, choices, prompts),
        media=how_much_media(fields),
        service_tier=_read(fields, "service_tier", str | None),
        end_user=_text(fields, "safety_identifier") or _text(fields, "user"),
        cache_key=_text(fields, "prompt_cache_key"),
        prompt=tuple(memoryview(fields[name]) for name in _BEGINS[route] if name in fields),
        options=_bounded(options),
    )


def _fields(body: bytes) -> Fields:
    try:
        body.decode()
        return _OBJECT.decode(body)
    except UnicodeDecodeError:
        raise Refusal(400, "invalid_json", "The body is not valid UTF-8.") from None
    except RecursionError:
        raise Refusal(400, "invalid_json", "The body is nested too deeply.") from None
    except msgspec.ValidationError:
        raise Refusal(422, "invalid_body", "The body must be a JSON object.", pointer="") from None
    except msgspec.DecodeError as error:
        raise Refusal(400, "invalid_json", f"The body is not valid JSON: {error}.") from None


def _route(fields: Fields, options: SubmitOptions) -> str:
    found = [route for name, route in (("messages", CHAT), ("prompt", COMPLETIONS)) if name in fields]
    if options.route in (CHAT, COMPLETIONS):
        return options.route
    if options.route is not None:
        sentence = f"route takes {CHAT} or {COMPLETIONS}."
        raise Refusal(422, "unknown_route", sentence, pointer="/headrace/route")
    if len(found) != 1:
        sentence = "The body needs either messages (a chat) or prompt (a completion)."
        raise Refusal(422, "invalid_body", sentence, pointer="/messages")
    return found[0]


def _prompt(fields: Fields, route: str) -> tuple[int, int]:
    if route == CHAT:
        _required(fields, "messages", list[msgspec.Raw])
        return estimate_chat(fields["messages"]), 1
    _required(fields, "prompt", str | list[Any])
    return estimate_prompt(fields["prompt"])


def _max_tokens(fields: Fields) -> int | None:
    newer: int | None = _read(fields, "max_completion_tokens", _Tokens | None)
    older: int | None = _read(fields, "max_tokens", _Tokens | None)
    return older if newer is None else newer


def _sequences(fields: Fields, choices: int, prompts: int) -> int:
    """How many answers are made to choose from, if more than are asked for; 0: no more, or a word for the backend alone."""
    try:
        best_of = msgspec.json.decode(fields.get("best_of", _NONE), type=int)
    except msgspec.DecodeError:
        return 0
    made = min(best_of * prompts, _MOST_TOKENS)
    return made if made > choices else 0


def _bounded(options: SubmitOptions) -> SubmitOptions:
    """Metadata travels in a record's header, so it stays as small as OpenAI's."""
    if len(options.metadata) > _MAX_METADATA:
        sentence = f"metadata takes at most {_MAX_METADATA} pairs."
        raise Refusal(422, "invalid_body", sentence, pointer="/headrace/metadata")
    return options


def _text(fields: Fields, name: str) -> str | None:
    """A member that is text; None for anything else, which is between the caller and the backend."""
    try:
        return None if name not in fields else msgspec.json.decode(fields[name], type=str)
    except msgspec.DecodeError:
        return None


def _required(fields: Fields, name: str, kind: type[T] | Any) -> Any:  # noqa: ANN401 - what `kind` says
    if name not in fields:
        raise Refusal(422, "missing_field", f"The body needs {name}.", pointer=f"/{name}")
    return _read(fields, name, kind)


def _read(fields: Fields, name: str, kind: type[T] | Any) -> Any:  # noqa: ANN401 - what `kind` says
    """The member decoded, or None when it isn't there. Raises Refusal (422) with its pointer."""
    if name not in fields:
        return None
    try:
        return msgspec.json.decode(fields[name], type=kind)
    except RecursionError:
        raise Refusal(400, "invalid_json", "The body is nested too deeply.") from None
    except msgspec.DecodeError as error:
        what, _, where = str(error).partition(" - at `$")
        pointer = f"/{name}" + _pointer(where.rstrip("`"))
        raise Refusal(422, "invalid_body", f"{pointer[1:]}: {what}.", pointer=pointer) from None


def _pointer(path: str) -> str:
    """`.a[3].b` as `/a/3/b`."""
    return path.replace("[...]", "").replace("[", "/").replace("]", "").replace(".", "/")
