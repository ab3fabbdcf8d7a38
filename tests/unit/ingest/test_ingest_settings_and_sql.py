"""What is told at start, and that ingest and result-delivery mean the same table."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from headrace.contracts.seal import Unsealed
from headrace.ingest.adapters import results_sql
from headrace.ingest.adapters.results_sql import COLUMNS, NOTED, SqlResults, open_results
from headrace.ingest.openapi import openapi, render
from headrace.ingest.settings import IngestSettings
from headrace.result_delivery.adapters.tables import REQUESTS, RESULTS
from headrace.runtime.clock import ManualClock

KEY = "ab" * 32


def test_every_column_that_is_read_is_one_that_is_written() -> None:
    assert set(COLUMNS) <= set(RESULTS.columns.keys())
    assert set(NOTED) <= set(REQUESTS.columns.keys())


def test_a_short_or_odd_id_key_is_refused_with_how_to_make_one() -> None:
    for key in ("", "ab" * 31, "xy" * 32):
        with pytest.raises(ValidationError, match="openssl rand -hex 32"):
            IngestSettings(id_key=key)


@pytest.mark.parametrize("url", ["mysql://somebody:secret@host/name", "results.db", ""])
def test_a_database_of_another_kind_is_refused_with_what_it_may_be_and_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError, match=r"sqlite:///folder/file\.db or postgresql://") as refused:
        IngestSettings(id_key=KEY, database=url)
    assert "secret" not in str(refused.value.errors()[0]["msg"])


def test_a_replica_reads_the_partition_it_is_told_or_one_that_its_name_decides() -> None:
    assert IngestSettings(id_key=KEY, gateway=6).gateway_of(4) == 2
    named = [IngestSettings(id_key=KEY, name="one").gateway_of(4) for _ in range(2)]
    assert named[0] == named[1]
    assert 0 <= named[0] < 4


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:///relative.db", "sqlite+aiosqlite"),
        ("sqlite:////abs/path.db", "sqlite+aiosqlite"),
        ("postgresql://u:p@host/db", "postgresql+psycopg"),
    ],
)
def test_each_url_picks_its_driver(url: str, driver: str) -> None:
    assert open_results(url).url.drivername == driver


def test_the_api_describes_itself_the_same_way_each_time() -> None:
    document = openapi()
    assert render() == render()
    submit = document["paths"]["/v1/requests"]["post"]
    assert "headrace" in submit["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert {"202", "400", "401", "404", "413", "422", "503"} <= set(submit["responses"])
    assert set(document["paths"]) >= {
        "/v1/chat/completions",
        "/v1/models",
        "/v1/requests/{request_id}/events",
    }


async def test_a_database_file_that_was_replaced_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_sql, "_REOPEN_SECONDS", 0)
    database = tmp_path / "results.db"
    engine = open_results(f"sqlite:///{database}")
    for answer in (1, 2):
        database.unlink(missing_ok=True)
        with closing(sqlite3.connect(database)) as made:
            made.execute(f"CREATE VIEW said AS SELECT {answer} AS answer")
        await asyncio.sleep(0.01)
        async with engine.connect() as connection:
            assert (await connection.exec_driver_sql("SELECT answer FROM said")).scalar_one() == answer
    await engine.dispose()


async def test_a_database_without_tables_is_told_with_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sqlite3.connect("empty one.db").close()
    clock = ManualClock()
    with capture_logs() as lines:
        results = SqlResults(open_results("sqlite:///empty one.db"), Unsealed(), clock)
        assert await results.accepted("req_x", "a") is None
        assert await results.ended(["req_x"]) == []
        assert [line["event"] for line in lines] == ["the database has no results yet"]
        assert f"no tables in {tmp_path}/empty one.db: HEADRACE_DATABASE" in lines[0]["reason"]
        clock.advance(timedelta(minutes=1))
        assert await results.find("req_x", "a", body=True) is None
        assert len(lines) == 2, "once a minute, as long as it lasts"
        await results.close()
