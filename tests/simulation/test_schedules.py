import pytest

from tests.simulation.mutants.every import killed_by
from tests.simulation.schedules import SCHEDULES


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_written_schedule_finds_nothing_wrong(name: str) -> None:
    assert killed_by(name) is None
