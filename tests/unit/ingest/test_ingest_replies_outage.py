"""The reader of replies outlives an outage: it stands at the end again, however often that fails, and says so once."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import pytest

from headrace.bus.messages import Place, Received
from headrace.bus.ports import END, BusUnavailableError, PositionGoneError
from headrace.contracts.replies import Final
from headrace.ingest.adapters import replies_reader
from headrace.ingest.adapters.replies_reader import Listeners, RepliesReader
from headrace.ingest.ports import PassedOn, StoredResult
from headrace.runtime.clock import ManualClock
from headrace.runtime.health import Health
from tests.support.eventually import eventually_async

PLACE = Place("replies", 0)


class LostLog:
    """A log that lost our position, and whose broker is away for two more tries."""

    def __init__(self) -> None:
        self.assigned: list[int] = []
        self.reads_well = False

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def assign(self, positions: Mapping[Place, int]) -> None:
        self.assigned.append(positions[PLACE])
        if 1 < len(self.assigned) < 4:
            raise BusUnavailableError("no broker answers")
        self.reads_well = len(self.assigned) == 4

    async def read(self, limit: int, wait: timedelta) -> list[Received]:  # noqa: ARG002 - the port's signature
        if not self.reads_well:
            raise PositionGoneError(PLACE, 7, "the log begins later")
        await asyncio.sleep(0)
        return []

    async def position(self, place: Place) -> int:  # noqa: ARG002 - the port's signature
        return 0

    async def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        return dict.fromkeys(places, 0)

    async def at_time(self, place: Place, timestamp_ms: int) -> int:  # noqa: ARG002 - the port's signature
        return 0


class NoResults:
    async def find(self, request_id: str, tenant: str, *, body: bool) -> StoredResult | None:  # noqa: ARG002
        return None

    async def accepted(self, request_id: str, tenant: str) -> str | None:  # noqa: ARG002
        return None

    async def passed_on(self, request_id: str, tenant: str) -> PassedOn | None:  # noqa: ARG002
        return None

    async def ended(self, ids: Collection[str]) -> list[Final]:  # noqa: ARG002 - the port's signature
        return []


async def test_a_lost_position_is_mended_once_a_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies_reader, "_BACK_OFF_SECONDS", 0.001)
    health = Health(ManualClock())
    log = LostLog()
    reader = RepliesReader(log, PLACE, Listeners(), NoResults(), health.component("replies"))
    await reader.start()
    task = asyncio.create_task(reader.read_on())
    try:

        async def mended() -> bool:
            return log.reads_well and not health.verdict().not_ready

        await eventually_async(mended, "replies are read again")
    finally:
        task.cancel()
    assert log.assigned == [END] * 4
