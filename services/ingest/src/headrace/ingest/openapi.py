"""The API's description, OpenAPI 3.1. Rendered into schemas/openapi.json by `headrace dev schemas`, which a test checks."""

from typing import Any

import msgspec

from headrace.ingest.doors.app import described


def openapi() -> dict[str, Any]:
    """The document."""
    return described().openapi()


def render() -> str:
    """The document as text, its keys in a fixed order."""
    return msgspec.json.format(msgspec.json.encode(openapi(), order="sorted"), indent=2).decode() + "\n"
