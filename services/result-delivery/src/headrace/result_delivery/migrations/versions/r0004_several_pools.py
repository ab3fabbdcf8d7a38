"""Requests that were passed on: in which pool they are now, and attempts by pool. Never edited once released."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NAME = "ledger_pkey"
_OLD = ("id", "attempt_epoch", "attempt_sequence")


def upgrade() -> None:
    """`requests` says through how many pools one came; attempts are told apart by pool, too: each pool counts its own."""
    op.add_column("requests", sa.Column("hop", sa.Integer, nullable=False, server_default="0"))
    _key((*_OLD, "pool"))


def downgrade() -> None:
    """The ledger is what is billed by: two pools' attempts of one number can't be made one."""
    raise RuntimeError(
        "attempts of several pools have no place in the older table: restore a copy if you mean it"
    )


def _key(columns: tuple[str, ...]) -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(_NAME, "ledger", type_="primary")
        op.create_primary_key(_NAME, "ledger", list(columns))
        return
    # SQLite can't change a key: the table is made anew beside the old one, in this transaction
    old = sa.Table("ledger", sa.MetaData(), autoload_with=op.get_bind())
    copied = [sa.Column(each.name, each.type, nullable=each.nullable) for each in old.columns]
    op.create_table("ledger_anew", *copied, sa.PrimaryKeyConstraint(*columns), sqlite_with_rowid=False)
    names = ", ".join(each.name for each in old.columns)
    op.execute(sa.text(f"INSERT INTO ledger_anew ({names}) SELECT {names} FROM ledger"))  # noqa: S608 our own names
    op.drop_table("ledger")
    op.rename_table("ledger_anew", "ledger")
