"""What a mutant is: a wrong version of the product's code, made by replacing attributes of imported modules while it runs.

Used by the lists beside this file. Invariant: nothing on disk changes, and everything is put back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class Patches:
    """Replaces attributes, and puts them back."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Let `owner.name` be this for a while. The name must be there already: a mutant of nothing is none."""
        self._before.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    def undo(self) -> None:
        """All as it was."""
        for owner, name, value in reversed(self._before):
            setattr(owner, name, value)
        self._before = []


@dataclass(frozen=True, slots=True)
class Mutant:
    """`breaks`: the rule of the protocol that is broken. `killed_by`: a seed, the name of a written schedule, or a unit test
    of the scheduler, as `module::test`.
    """

    name: str
    breaks: str
    patch: Callable[[Patches], None]
    killed_by: int | str

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While this lasts, the product is wrong."""
        patches = Patches()
        try:
            self.patch(patches)
            yield
        finally:
            patches.undo()
