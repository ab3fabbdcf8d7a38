from pathlib import Path

import pytest

from tests.simulation.mutants.every import killed_by
from tests.simulation.schedules import schedule as registry
from tests.simulation.schedules.every import SCHEDULES, THEMES

_NO_THEMES = {"schedule", "every"}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_written_schedule_finds_nothing_wrong(name: str) -> None:
    assert killed_by(name) is None


def test_every_module_of_schedules_is_a_theme() -> None:
    modules = {path.stem for path in Path(registry.__file__).parent.glob("*.py")} - _NO_THEMES
    assert {theme.__name__.rpartition(".")[2] for theme in THEMES} == modules


def test_a_second_schedule_of_one_name_is_refused() -> None:
    def a_fence_is_lost() -> list[str]:
        return []

    before = dict(registry.WRITTEN)
    with pytest.raises(ValueError, match="two schedules are called a_fence_is_lost"):
        registry.schedule(a_fence_is_lost)
    assert before == registry.WRITTEN
