"""All written schedules by name. Run by tests/simulation/test_schedules.py, where nothing may be wrong, and by the mutants,
where something must be.

Invariant: theme by theme, and as they stand in their module, whoever imported what first.
"""

from tests.simulation.schedules import operators, owners, readers, reroutes, results, texts, times, workers
from tests.simulation.schedules.schedule import WRITTEN, Schedule

THEMES = (owners, workers, times, readers, results, operators, texts, reroutes)

SCHEDULES: dict[str, Schedule] = {
    name: written
    for theme in THEMES
    for name, written in WRITTEN.items()
    if written.__module__ == theme.__name__
}
