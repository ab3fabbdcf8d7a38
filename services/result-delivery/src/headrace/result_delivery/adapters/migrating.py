"""Brings the tables to this version at start, with alembic. Called by the store's `prepare`.

Invariant: of several that start at once one migrates and the others wait: SQLite by its write lock, PostgreSQL by an
advisory lock; all of it is one transaction.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from headrace.result_delivery.ports import WrongSchemaError

VERSION_TABLE = "headrace_delivery_version"
_FOLDER = Path(__file__).parent.parent / "migrations"
_LOCK = 7_305_804_400_215_265_089
"""Any number that nobody else takes in this database."""


def migrate(connection: Connection) -> None:
    """Applies what is missing, in the connection's open transaction. Raises WrongSchemaError for newer tables."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    _refuse_newer(connection)
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check(connection: Connection) -> None:
    """Raises WrongSchemaError unless the tables are of this version."""
    _refuse_newer(connection)
    if _current(connection) != ScriptDirectory.from_config(_config()).get_current_head():
        raise WrongSchemaError(
            "the database's tables are older than this version of headrace: start result-delivery once with "
            "HEADRACE_RESULT_DELIVERY_MIGRATE=true"
        )


def _refuse_newer(connection: Connection) -> None:
    current = _current(connection)
    try:
        ScriptDirectory.from_config(_config()).get_revision(current or "base")
    except CommandError:
        raise WrongSchemaError(
            f"the database's tables are of version {current}, which this version of headrace doesn't know: "
            f"use the newer headrace that made them"
        ) from None


def _current(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
