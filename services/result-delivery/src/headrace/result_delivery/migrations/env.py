"""Run by alembic, as the module `env_py`, for each upgrade that adapters.migrating asks for. Does nothing when imported."""

from alembic import context

from headrace.result_delivery.adapters.migrating import VERSION_TABLE
from headrace.result_delivery.adapters.tables import METADATA


def run() -> None:
    """Migrates on the connection, and in the transaction, that the caller has opened."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=METADATA,
        transactional_ddl=True,
        version_table=VERSION_TABLE,
    )
    context.run_migrations()


if __name__ == "env_py":
    run()
