"""Does an operator mean this request? Called by core.walking and state.bulk_cancels.

Invariant: what is asked stays true as long as the request isn't finished, but for its stage: so an order that is read again
after a change of owner means the same requests.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.contracts.selections import Selection, Stage
from headrace.contracts.values import Origin


class Facts(NamedTuple):
    """What a selection may speak of. `stage` None: its end is under way. `origin`: where it stands in the log.
    `priority`: inside its tenant, as it is now; no selection speaks of it.
    """

    id: str
    tenant: str
    tier: str
    model: str
    accepted_ms: int
    stage: Stage | None
    origin: Origin
    priority: int = 0


def does_it_fit(selection: Selection, facts: Facts) -> bool:
    """Whether it fits every field that is given. What is accepted at the very instant is not before it; whose end is under
    way fits any stage, since it was in one of them.
    """
    asked = (
        (selection.tier, facts.tier),
        (selection.tenant, facts.tenant),
        (selection.model, facts.model),
        (selection.stage if facts.stage else None, facts.stage),
    )
    if any(wanted is not None and wanted != actual for wanted, actual in asked):
        return False
    if selection.id_prefix is not None and not facts.id.startswith(selection.id_prefix):
        return False
    if selection.accepted_before_ms is not None and facts.accepted_ms >= selection.accepted_before_ms:
        return False
    if selection.stands_before is None:
        return True
    origin = facts.origin
    return origin.offset < end_in(selection.stands_before, origin.topic, origin.partition)


def end_in(stands_before: Mapping[str, Mapping[int, int]], topic: str, partition: int) -> int:
    """Before which offset of this partition requests are meant; 0: none of them."""
    return stands_before.get(topic, {}).get(partition, 0)
