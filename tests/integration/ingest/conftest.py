"""The gateway that most tests of ingest talk to; those that need another one say so."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.ingest import BreakableBus, Replica, running


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with running(BreakableBus(), tmp_path, lost_final_poll=timedelta(milliseconds=100)) as replica:
        yield replica
