"""Should a request that waits go to another pool, and to which? Asked by core.falling_back, as it arrives and each second.

The first fallback of which a condition holds, in the operator's order. Invariant: nobody goes to a pool that is frozen, full,
silent or without backends, nor to where it would wait as long; only what this pool can't serve at all, since it is too long
for it, goes wherever it fits.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.contracts.durations import ms
from headrace.contracts.fallbacks import Fallback
from headrace.contracts.policy import SERVICE_UNIT
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.decisions.estimate_cost import cap_of

PASSING_MS = 1_500
"""What passing a request on costs: a checkpoint that says so, and the other pool's log."""


class Here(NamedTuple):
    """How a request stands in its own pool. `waited_ms` so far, `wait_ms` still to come (None: nobody knows), `without_ms`:
    how long there has been no backend (0: there is one); `answer_ms`: how long it takes once it runs; `cost` in micro units;
    `paced`: its tenant is over a ceiling of its own, and would only get round it elsewhere.
    """

    waited_ms: int
    wait_ms: int | None
    without_ms: int
    answer_ms: int | None
    cost: int
    context_length: int | None
    paced: bool = False


class There(NamedTuple):
    """How another pool stands. `wait_ms` of who comes last now (None: nobody knows); `takes`: it lets anybody in."""

    wait_ms: int | None
    takes: bool
    context_length: int | None


def which_fallback(
    record: RequestRecord,
    fallbacks: Iterable[Fallback],
    here: Here,
    there: Mapping[str, There],
    wall_ms: int,
) -> Fallback | None:
    """None: it stays. `there`: by pool, those that are known."""
    for fallback in fallbacks:
        pool = there.get(fallback.pool)
        if pool is None or not _fits(record, pool.context_length):
            continue
        if fallback.too_long and not _fits(record, here.context_length):
            return fallback
        if (
            pool.takes
            and not here.paced
            and (
                _costs_too_much(fallback, here)
                or _waits_too_long(fallback, here, pool)
                or (fallback.deadline and _is_late_here_alone(record, here, pool, wall_ms))
            )
        ):
            return fallback
    return None


def _fits(record: RequestRecord, context_length: int | None) -> bool:
    return context_length is None or record.prompt_tokens + (cap_of(record) or 1) <= context_length


def _costs_too_much(fallback: Fallback, here: Here) -> bool:
    return fallback.cost_above is not None and here.cost > fallback.cost_above * SERVICE_UNIT


def _waits_too_long(fallback: Fallback, here: Here, pool: There) -> bool:
    if fallback.wait_above is None or pool.wait_ms is None:
        return False
    patience_ms = ms(fallback.wait_above)
    if here.without_ms:
        return here.without_ms > patience_ms
    if here.wait_ms is None:
        return here.waited_ms > patience_ms
    return here.waited_ms + here.wait_ms > patience_ms and pool.wait_ms + PASSING_MS < here.wait_ms


def _is_late_here_alone(record: RequestRecord, here: Here, pool: There, wall_ms: int) -> bool:
    if record.finish_by_ms is None or pool.wait_ms is None:
        return False
    left_ms = record.finish_by_ms - wall_ms - (here.answer_ms or 0)
    late_here = here.without_ms > 0 or (here.wait_ms is not None and here.wait_ms > left_ms)
    return late_here and pool.wait_ms + PASSING_MS <= left_ms
