"""For tests of result-delivery: a bus in memory that fails when told to; SQLite always, PostgreSQL where it is installed."""

import secrets
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.result_delivery.adapters import database as database_adapter
from tests.support.delivery import FaultyBus, apply
from tests.support.postgres import MISSING, new_database, postgres, programs


@pytest.fixture
def bus() -> FaultyBus:
    bus = FaultyBus()
    apply(bus)
    return bus


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[str]:
    found = programs()
    if found is None:
        pytest.skip(MISSING)
    with postgres(found) as folder:
        yield folder


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty database. Locks are waited for shortly, so that tests of them are short."""
    monkeypatch.setattr(database_adapter, "PATIENCE", timedelta(milliseconds=200))
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'results.db'}"
    folder: str = request.getfixturevalue("postgres_folder")
    return new_database(folder, f"t{secrets.token_hex(4)}")
