"""All mutants, and how one is judged. Used by `make mutants` and tests/simulation/test_mutants.py.

Invariant: each is caught by what it names, a seed, a written schedule or a test of the scheduler's unit tests; one that
nothing catches means that a rule isn't tested.
"""

from collections.abc import Callable
from importlib import import_module

from tests.simulation.mutants.answers import ANSWERS
from tests.simulation.mutants.backend_ceilings import BACKEND_CEILINGS
from tests.simulation.mutants.bulk import BULK
from tests.simulation.mutants.cached import CACHED
from tests.simulation.mutants.ceilings import CEILINGS
from tests.simulation.mutants.deaths import DEATHS
from tests.simulation.mutants.drains import DRAINS
from tests.simulation.mutants.endings import ENDINGS
from tests.simulation.mutants.ends import ENDS
from tests.simulation.mutants.headroom import HEADROOM
from tests.simulation.mutants.held_back import HELD_BACK
from tests.simulation.mutants.kept import KEPT
from tests.simulation.mutants.keys import KEYS
from tests.simulation.mutants.leases import LEASES
from tests.simulation.mutants.left import LEFT
from tests.simulation.mutants.limits import LIMITS
from tests.simulation.mutants.moves import MOVES
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.outcomes import OUTCOMES
from tests.simulation.mutants.ownership import OWNERSHIP
from tests.simulation.mutants.policies import POLICIES
from tests.simulation.mutants.priorities import PRIORITIES
from tests.simulation.mutants.reports import REPORTS
from tests.simulation.mutants.reroutes import REROUTES
from tests.simulation.mutants.retries import RETRIES
from tests.simulation.mutants.routing import ROUTING
from tests.simulation.mutants.spills import SPILLS
from tests.simulation.mutants.texts import TEXTS
from tests.simulation.mutants.too_late import TOO_LATE
from tests.simulation.mutants.turns import TURNS
from tests.simulation.mutants.waits import WAITS
from tests.simulation.schedules.every import SCHEDULES
from tests.simulation.world.run import run_seed, silent_logs

EVERY: tuple[Mutant, ...] = (
    *OWNERSHIP,
    *KEPT,
    *ENDS,
    *LEASES,
    *DRAINS,
    *OUTCOMES,
    *REPORTS,
    *LIMITS,
    *DEATHS,
    *RETRIES,
    *ENDINGS,
    *ANSWERS,
    *TURNS,
    *KEYS,
    *HEADROOM,
    *TEXTS,
    *TOO_LATE,
    *SPILLS,
    *BULK,
    *REROUTES,
    *HELD_BACK,
    *CEILINGS,
    *BACKEND_CEILINGS,
    *LEFT,
    *POLICIES,
    *PRIORITIES,
    *MOVES,
    *ROUTING,
    *CACHED,
    *WAITS,
)
_UNIT_TESTS = "tests.unit.scheduler"


def killed_by(killer: int | str) -> str | None:
    """What this seed, schedule or unit test finds wrong with the product as it is now; None: nothing."""
    try:
        if isinstance(killer, int):
            bad = run_seed(killer).bad
        elif "::" in killer:
            bad = []
            _unit_test(killer)()
        else:
            with silent_logs():
                bad = SCHEDULES[killer]()
    except Exception as error:  # noqa: BLE001 - a mutant that can't go on at all is caught, too
        return f"{type(error).__name__}: {error}"
    return bad[0] if bad else None


def _unit_test(name: str) -> Callable[[], None]:
    """`module::test`, imported only now: pytest must be the first to import what it collects."""
    module, _, test = name.partition("::")
    found: Callable[[], None] = getattr(import_module(f"{_UNIT_TESTS}.{module}"), test)
    return found


def judged(mutant: Mutant) -> str | None:
    """How it was caught; None: it survived."""
    with mutant.at_work():
        return killed_by(mutant.killed_by)
