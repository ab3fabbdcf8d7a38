"""Which requests have answers of about the same length? Asked by core.estimating and state.answer_lengths.

Invariant: it goes by what the record says of itself, so that another owner sorts it alike.
"""

from msgspec import Struct

from headrace.contracts.requests import RequestRecord
from headrace.scheduler.decisions.estimate_cost import cap_of


class Alike(Struct, frozen=True):
    """Requests whose answers are about as long. `cap`: bits of the caller's cap on one choice; 0: none was given."""

    tenant: str
    model: str
    kind: str
    cap: int


def alike(record: RequestRecord) -> Alike:
    """What it is like. Records of writers that don't tell the kind of answer say at least whether it is plain."""
    kind = record.answer or ("plain" if record.plain_text else "other")
    cap = cap_of(record)
    return Alike(record.tenant, record.model, kind, 0 if cap is None else (cap + 1).bit_length())
