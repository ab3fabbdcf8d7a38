"""The same reads on PostgreSQL, where it is installed: before the table exists, with a row, and with the server gone."""

from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from headrace.contracts.lifecycle import Status
from headrace.contracts.seal import Unsealed
from headrace.ingest.adapters.results_sql import SqlResults, open_results
from headrace.ingest.ports import PassedOn, ResultsUnavailableError
from headrace.result_delivery.adapters.tables import METADATA, REQUESTS, RESULTS
from tests.support.postgres import MISSING, new_database, postgres, programs

FOLDER = programs()
ROW = {
    "id": "req_1", "tenant": "atlas", "pool": "main", "tier": "standard", "status": "succeeded", "http_status": 200,
    "model": "small", "route": "/v1/completions", "stream": False, "partial": False, "attempts": 1, "attempt_epoch": 3,
    "attempt_sequence": 4, "gateway": 0, "prompt_tokens": 1, "cached_tokens": 0, "completion_tokens": 2,
    "usage_estimated": False, "accepted_ms": 1_700_000_000_000, "committed_ms": 1_700_000_000_001,
    "content_type": "application/json", "encoding": "none", "body": b"{}",
}  # fmt: skip
NOTED = {
    "id": "req_1", "tenant": "atlas", "pool": "away", "tier": "standard", "model": "small", "route": "/v1/completions",
    "stream": False, "accepted_ms": 1_700_000_000_000, "origin_topic": "t", "origin_partition": 0, "origin_offset": 0,
    "hop": 2,
}  # fmt: skip


@pytest.mark.skipif(FOLDER is None, reason=MISSING)
async def test_results_are_read_from_postgresql() -> None:
    with postgres(FOLDER or Path()) as socket_folder:
        url = new_database(socket_folder, "results")
        results = SqlResults(open_results(url), Unsealed())
        assert await results.find("req_1", "atlas", body=True) is None
        engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
        METADATA.create_all(engine)
        with engine.begin() as connection:
            connection.execute(RESULTS.insert(), ROW)
            connection.execute(REQUESTS.insert(), NOTED)
        engine.dispose()
        found = await results.find("req_1", "atlas", body=True)
        assert found is not None
        assert (found.ended.status, found.ended.body, found.ended.attempt) == (
            Status.SUCCEEDED,
            b"{}",
            (3, 4),
        )
        assert await results.find("req_1", "birch", body=True) is None
        assert await results.passed_on("req_1", "atlas") == PassedOn("away", 2)
        assert await results.passed_on("req_1", "birch") is None
        assert [final.id for final in await results.ended(["req_1", "req_2"])] == ["req_1"]
        await results.close()
    gone = SqlResults(open_results(url), Unsealed())
    with pytest.raises(ResultsUnavailableError):
        await gone.find("req_1", "atlas", body=False)
    await gone.close()
