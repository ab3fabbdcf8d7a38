"""Is this stream a whole answer? Called when a backend's stream has ended.

Invariant: success is a finish_reason for every choice and no error object; `[DONE]` alone is no success.
"""

from collections.abc import Mapping

_BROKEN_OFF = frozenset({"abort", "error"})


def is_done(finish_reasons: Mapping[int, str | None], *, expected: int, done_seen: bool) -> bool:
    """`finish_reasons` of the choices seen; `expected` choices unless the stream said `[DONE]` with fewer."""
    if not finish_reasons or any(reason is None for reason in finish_reasons.values()):
        return False
    if any(reason in _BROKEN_OFF for reason in finish_reasons.values()):
        return False
    return done_seen or len(finish_reasons) >= expected


def is_broken_off(choices: object) -> bool:
    """Whether a plain answer says of a choice that the engine gave it up."""
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") in _BROKEN_OFF for choice in choices
    )
