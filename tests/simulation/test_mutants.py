"""Wrong versions of the product's code, each caught by the seed or the schedule that it names: a judge that never finds
anything proves nothing.
"""

from pathlib import Path

import pytest

from tests.simulation.mutants import every
from tests.simulation.mutants.every import EVERY, judged
from tests.simulation.mutants.mutant import Mutant

_NO_LISTS = {"mutant", "every", "__main__"}


@pytest.mark.parametrize("mutant", EVERY, ids=lambda mutant: mutant.name)
def test_a_wrong_protocol_is_caught(mutant: Mutant) -> None:
    assert judged(mutant) is not None, f"{mutant.name}: {mutant.breaks}, and nobody noticed"


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.name for mutant in EVERY}) == len(EVERY)


def test_every_module_of_mutants_is_listed() -> None:
    modules = {path.stem for path in Path(every.__file__).parent.glob("*.py")} - _NO_LISTS
    assert {mutant.patch.__module__.rpartition(".")[2] for mutant in EVERY} == modules
