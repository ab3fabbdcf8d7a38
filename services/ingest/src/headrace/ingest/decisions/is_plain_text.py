"""Whether an answer is text alone, so that it may be streamed upstream, assembled, resumed. Called by read_submission.

Invariant: what isn't known here could change the answer's shape, so an unknown field makes it not plain.
"""

from collections.abc import Mapping

import msgspec

_HARMLESS = frozenset(
    {
        "model", "messages", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature",
        "top_p", "stop", "seed", "user", "presence_penalty", "frequency_penalty", "logit_bias", "service_tier", "store",
        "metadata", "safety_identifier", "prompt_cache_key", "headrace",
    }
)  # fmt: skip
"""Fields of OpenAI's API that change what the text says or who pays, but not that it is text alone."""

_FORMAT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_plain_text(fields: Mapping[str, msgspec.Raw], *, choices: int) -> bool:
    """One choice, no tools, no schema, no logprobs, no vendor fields."""
    return choices == 1 and all(name in _HARMLESS or is_off(name, raw) for name, raw in fields.items())


def is_off(name: str, raw: msgspec.Raw) -> bool:
    """Whether a field stands there but asks for nothing."""
    value = bytes(raw)
    if value in (b"null", b"false", b"[]"):
        return True
    if name == "n":
        return value == b"1"
    return name == "response_format" and _is_text_format(value)


def _is_text_format(value: bytes) -> bool:
    try:
        return bytes(_FORMAT.decode(value).get("type", b"")) == b'"text"'
    except (msgspec.DecodeError, RecursionError):
        return False
