"""What every test may ask for by name. Keep it tiny: the making of things lives in tests/support."""

from collections.abc import AsyncIterator, Iterator

import pytest

from headrace.devkit.engine import FakeEngine
from headrace.devkit.model import ModelServer
from tests.support.broker import shared_broker, topic_prefix


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Bootstrap address of the one broker of this run."""
    yield from shared_broker()


@pytest.fixture
def prefix() -> str:
    """A topic prefix of this test's own."""
    return topic_prefix()


@pytest.fixture
async def fake_engine() -> AsyncIterator[FakeEngine]:
    """A fast fake engine in this test's loop; `.url` is its root."""
    async with FakeEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def model() -> Iterator[str]:
    """Root URL of the one real model server of this run; model name `smollm2`."""
    with ModelServer() as server:
        yield server.url
