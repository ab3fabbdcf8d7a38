"""What tests of the scheduler's core share."""

import pytest

from tests.support.scheduler.case import Case


@pytest.fixture
def case() -> Case:
    made = Case()
    made.run()
    made.report()
    made.run(100)
    return made
