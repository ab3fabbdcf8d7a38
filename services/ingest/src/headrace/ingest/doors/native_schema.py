"""The description of the native submission's body, for openapi.json. Read by doors/native.py.

The body isn't parsed by a model, since every byte that isn't ours goes to the backend; so its schema is made here, from the
struct that reads our part.
"""

from typing import Any

import msgspec

from headrace.ingest.decisions.read_submission import SubmitOptions


def submit_body() -> dict[str, Any]:
    """The `requestBody` of `POST /v1/requests`."""
    options = msgspec.json.schema(SubmitOptions)["$defs"]["SubmitOptions"]
    options["description"] = (
        "What is said to the queue alone; not sent to the backend. Durations such as 30s."
    )
    schema = {
        "type": "object",
        "required": ["model"],
        "properties": {
            "model": {"type": "string"},
            "messages": {"type": "array", "description": "a chat; or else prompt"},
            "prompt": {"description": "a text completion; or else messages"},
            "headrace": options,
        },
        "additionalProperties": True,
        "description": "OpenAI's body of a chat or a completion; unknown fields go to the backend unchanged.",
    }
    example = {
        "model": "small",
        "messages": [{"role": "user", "content": "Hello"}],
        "headrace": {"tier": "batch", "deadline": "1h", "metadata": {"job": "42"}},
    }
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema, "example": example}},
        }
    }
