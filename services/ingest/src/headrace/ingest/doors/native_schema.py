"""The description of the native submission's body, for openapi.json. Read by doors/native.py.

The body isn't parsed by a model, since every byte that isn't ours goes to the backend; so its schema is made here, from the
struct that reads our part.
"""

from typing import Any

import msgspec

from headrace.ingest.decisions.read_submission import QuoteOptions, SubmitOptions


def submit_body() -> dict[str, Any]:
    """The `requestBody` of `POST /v1/requests`."""
    example = {
        "model": "small",
        "messages": [{"role": "user", "content": "Hello"}],
        "headrace": {"tier": "batch", "deadline": "1h", "metadata": {"job": "42"}},
    }
    return _body(SubmitOptions, "a chat; or else prompt", "a text completion; or else messages", example)


def quote_body() -> dict[str, Any]:
    """The `requestBody` of `POST /v1/quote`."""
    example = {
        "model": "small",
        "max_tokens": 400,
        "headrace": {"tier": "standard", "deadline": "1m", "prompt_tokens": 1200},
    }
    chat = "a chat; or else prompt, or prompt_tokens in headrace"
    return _body(QuoteOptions, chat, "a text completion; or else as said of messages", example)


def _body(
    struct: type[msgspec.Struct], chat: str, completion: str, example: dict[str, Any]
) -> dict[str, Any]:
    options = msgspec.json.schema(struct)["$defs"][struct.__name__]
    options["description"] = (
        "What is said to the queue alone; not sent to the backend. Durations such as 30s."
    )
    schema = {
        "type": "object",
        "required": ["model"],
        "properties": {
            "model": {"type": "string"},
            "messages": {"type": "array", "description": chat},
            "prompt": {"description": completion},
            "headrace": options,
        },
        "additionalProperties": True,
        "description": "OpenAI's body of a chat or a completion; unknown fields go to the backend unchanged.",
    }
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": example}},
        }
    }
