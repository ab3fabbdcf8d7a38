"""Which text does a request go on from after an attempt that came to no end? Asked by core.returning.

Invariant: an attempt's failure that may be due to what it was asked, or went on from, leaves no text; what was lost is only
worked for again.
"""

from typing import NamedTuple

from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.kept_text import KeptText
from headrace.contracts.values import Origin


class Text(NamedTuple):
    """What is told of a text, and where in `attempts` it stands."""

    told: KeptText
    at: Origin


def is_text_blameless(kind: FailureKind | None, *, started: bool) -> bool:
    """Whether a failure says nothing against the text that its attempt went on from: it never started, headrace stopped it,
    or it was an outage.
    """
    return not started or (kind is not None and not rule_of(kind).uses_attempt)


def has_gained(before: Text | None, left: Text | None) -> bool:
    """Whether a stopped attempt left more than it had found: who gains each time may be stopped as often as is needed."""
    return left is not None and left.told.tokens > (0 if before is None else before.told.tokens)
