"""May another pool's model answer a request? Asked once for each submission, as its caller says it.

Invariant: who says nothing leaves it to the policy; nobody's wish is guessed from a word that isn't true or false.
"""

from headrace.ingest.refusal import Refusal

_WORDS = {"true": True, "false": False}


def may_fall_back(header: str | None, field: bool | None) -> bool:
    """By the header, then by the native body's field. Raises Refusal (422) for a header that says neither."""
    if header is None:
        return field is not False
    if header.strip().lower() not in _WORDS:
        raise Refusal(422, "invalid_header", "X-Headrace-Fallback takes true or false.")
    return _WORDS[header.strip().lower()]
