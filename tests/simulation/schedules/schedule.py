"""What a written schedule is: a run without chance that steers the faults exactly. It returns what is wrong at its end.

Used by the modules beside this file, one for each theme. Invariant: a schedule is known by its name, and no two have one.
"""

from collections.abc import Callable

Schedule = Callable[[], list[str]]

WRITTEN: dict[str, Schedule] = {}
"""Every schedule of the modules that are imported so far; schedules.every has them all."""


def schedule(written: Schedule) -> Schedule:
    """Registers a schedule by its name. Raises ValueError where another has it already."""
    name = written.__name__
    if name in WRITTEN:
        raise ValueError(f"two schedules are called {name}")
    WRITTEN[name] = written
    return written


def wrong_if(condition: bool, sentence: str) -> list[str]:
    """The sentence, where it is so."""
    return [sentence] if condition else []
