"""Is this attempt billed to whom its request belongs? Asked by committing, in its transaction: SQL may know the request.

Invariant: an attempt that names another tenant than its request did is refused: nobody pays for somebody else.
Its dead letter is ours to write: the pool's owner knows a request only while it holds it, SQL as long as results are kept.
"""

from collections.abc import Iterable, Mapping

from headrace.contracts.failures import FailureKind
from headrace.result_delivery.decisions.is_it_a_request import Accepted
from headrace.result_delivery.decisions.is_it_an_attempt import Attempted
from headrace.result_delivery.decisions.what_to_commit import Found
from headrace.result_delivery.decisions.why_refused import Refused

_DETAIL = "an attempt names another tenant than its request does"


def attempts_at(found: Iterable[Found]) -> list[str]:
    """Ids of the requests that were tried."""
    return list(dict.fromkeys(each.record.id for each in found if isinstance(each, Attempted)))


def strangers(found: Iterable[Found], noted: Mapping[str, str]) -> dict[int, Refused]:
    """The attempts of these that are refused, by their place in the order. `noted`: request id -> tenant, as SQL has it.

    An attempt at a request that isn't known yet is taken at its word.
    """
    found = list(found)
    tenants = {each.record.id: each.record.tenant for each in found if isinstance(each, Accepted)} | dict(
        noted
    )
    return {
        number: Refused(FailureKind.FOREIGN_TENANT, _DETAIL, each.record.id, each.record.tenant)
        for number, each in enumerate(found)
        if isinstance(each, Attempted)
        and tenants.get(each.record.id, each.record.tenant) != each.record.tenant
    }
