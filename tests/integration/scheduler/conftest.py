"""One pool on both buses."""

from collections.abc import Iterator

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.memory import MemoryBus
from headrace.bus.ports import Bus
from tests.support.scheduler.live import Pool
from tests.support.scheduler.pure import policy


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def bus(request: pytest.FixtureRequest) -> Bus:
    """Each bus."""
    if request.param == "memory":
        return MemoryBus()
    return KafkaBus(KafkaConnection(request.getfixturevalue("kafka")))


@pytest.fixture
def pool(bus: Bus, prefix: str) -> Iterator[Pool]:
    """A pool that nobody owns yet."""
    made = Pool(bus, prefix, policy())
    yield made
    made.close()
