"""The tables: made at start by whoever comes first, as the code has them, and never taken for what they aren't."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from headrace.result_delivery.adapters.database import DatabaseUrlError, driver_url, open_engine
from headrace.result_delivery.adapters.migrating import VERSION_TABLE, _config
from headrace.result_delivery.adapters.sql_store import SqlStore
from headrace.result_delivery.adapters.tables import METADATA
from headrace.result_delivery.ports import StoreUnavailableError, WrongSchemaError
from headrace.result_delivery.settings import DeliverySettings
from headrace.runtime.settings_loading import SettingsError, load
from tests.support.delivery import rows
from tests.support.eventually import eventually


def prepare(database: str, *, migrate: bool = True) -> None:
    store = SqlStore(open_engine(database), migrate=migrate)
    try:
        store.prepare()
    finally:
        store.close()


def prepare_in_the_end(database: str) -> bool:
    def prepared() -> bool:
        try:
            prepare(database)
        except StoreUnavailableError:  # locked: the service tries again too
            return False
        return True

    return eventually(prepared, "the tables are there")


def test_starters_at_the_same_time_make_the_tables_once_and_as_the_code_has_them(database: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(prepare_in_the_end, [database] * 4)) == [True] * 4
    assert rows(database, "SELECT version_num FROM headrace_delivery_version") == [("0004",)]
    prepare(database, migrate=False)
    engine = open_engine(database)
    with engine.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"version_table": VERSION_TABLE, "compare_type": True}
        )
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_the_ledger_is_kept_when_its_key_changes(database: str) -> None:
    columns = "id, attempt_epoch, attempt_sequence, attempts, tenant, tier, pool, verdict, started, charge"
    columns += ", prompt_tokens, cached_tokens, completion_tokens, usage_estimated, committed_ms"
    values = "1, 2, 1, 'acme', 'batch', 'main', 'done', true, 25, 11, 3, 7, false, 1767225600000"
    engine = open_engine(database)
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
        for name in ("r1", "r2"):
            connection.exec_driver_sql(f"INSERT INTO ledger ({columns}) VALUES ('{name}', {values})")  # noqa: S608
    engine.dispose()
    before = rows(database, "SELECT * FROM ledger ORDER BY id")
    prepare(database)
    assert rows(database, "SELECT * FROM ledger ORDER BY id") == before
    assert len(before) == 2


def test_tables_that_are_older_or_newer_are_refused_with_a_sentence(database: str) -> None:
    with pytest.raises(WrongSchemaError, match="HEADRACE_RESULT_DELIVERY_MIGRATE"):
        prepare(database, migrate=False)
    prepare(database)
    engine = open_engine(database)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE headrace_delivery_version SET version_num = '9999'")
    engine.dispose()
    for migrate in (True, False):
        with pytest.raises(WrongSchemaError, match="9999, which this version of headrace doesn't know"):
            prepare(database, migrate=migrate)


def test_a_committed_result_on_sqlite_is_on_the_disk(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'results.db'}"
    pragmas = [rows(url, f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")]
    assert pragmas == [[("wal",)], [(2,)], [(1,)]]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("results.db", "isn't a URL"),
        ("mysql://host/name", "use sqlite or postgresql"),
        ("sqlite://", "must outlive the process"),
        ("sqlite:////no/such/folder/results.db", "create /no/such/folder"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_before_the_start(url: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        load(DeliverySettings, {"HEADRACE_RESULT_DELIVERY_DATABASE": url})


def test_a_url_gets_the_driver_that_comes_with_headrace() -> None:
    assert driver_url("postgresql://a:b@host/name").drivername == "postgresql+psycopg"
    assert driver_url("sqlite:///results.db").drivername == "sqlite+pysqlite"
    with pytest.raises(DatabaseUrlError, match="isn't a URL") as told:
        driver_url("postgres//user:hunter2@host")
    assert "hunter2" not in str(told.value)
