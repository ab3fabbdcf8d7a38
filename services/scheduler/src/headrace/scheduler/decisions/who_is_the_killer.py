"""Whether a request is what killed its workers or engines. Called by core.suspicion at each death.

Invariant: only a death while it ran alone convicts, and a death that somebody else was found to be the cause of speaks
against nobody; where workers die anyway (an operator, a preemption, a broken machine), one death alone isn't enough.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from headrace.contracts.deaths import Death
from headrace.contracts.durations import ms

WINDOW = timedelta(minutes=10)
ENOUGH, MORE_FOR_EACH = 3, 8


def is_killer(own: Sequence[Death], recent: Iterable[Death], *, did_well: bool, wall_ms: int) -> bool:
    """`own`: the deaths that it is a suspect of, the last one now; `recent`: those of the pool, its own among them.

    It must be in three deaths that nobody else explains, and have died alone more often than workers have died lately
    without it and for no known reason; where the backend did well between its deaths (`did_well`), three times alone are
    enough, and once more for every 8 others.
    """
    if not own or not _alone(own[-1]):
        return False
    unexplained = [death for death in own if not death.killer]
    if len(unexplained) < ENOUGH:
        return False
    mine, since = {death.key for death in own}, wall_ms - ms(WINDOW)
    others = sum(1 for death in recent if death.key not in mine and not death.killer and death.at_ms >= since)
    enough = ENOUGH + others // MORE_FOR_EACH
    needed = min(1 + others, enough) if did_well else 1 + others
    return sum(1 for death in unexplained if _alone(death)) >= needed


def _alone(death: Death) -> bool:
    return death.trial == 1 and death.held == 1
