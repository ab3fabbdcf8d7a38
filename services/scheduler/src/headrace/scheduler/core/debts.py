"""What is owed of ceilings, as checkpoints say it. Used by core.pacing and core.backend_pacing.

Invariant: whatever the clocks of two owners say, nobody is paced for longer than what was owed.
"""

from collections.abc import Mapping

from headrace.contracts.checkpoints import Debt
from headrace.contracts.clock import Now
from headrace.scheduler.decisions.when_to_retry import left_to_wait_ms
from headrace.scheduler.state.ceilings import Ceilings, Owed, Whose

_LONGEST_MS = 366 * 86_400_000
"""Nobody is paced for longer by what a checkpoint says."""


def debts_of(ceilings: Ceilings, whose: Whose, now: Now) -> dict[str, Debt]:
    """By ceiling, for the next owner."""
    found = {}
    for key, (owed_ms, amount) in ceilings.debts(whose, now.boot_ms).items():
        capped_ms = min(_LONGEST_MS, owed_ms)
        found[key] = Debt(due_ms=now.wall_ms + capped_ms, owed_ms=capped_ms, amount=amount)
    return found


def left_of(debts: Mapping[str, Debt], wall_ms: int) -> dict[str, Owed]:
    """By ceiling: what is left of it now."""
    return {
        key: Owed(left_to_wait_ms(debt.due_ms, debt.owed_ms, wall_ms), debt.amount)
        for key, debt in debts.items()
    }
