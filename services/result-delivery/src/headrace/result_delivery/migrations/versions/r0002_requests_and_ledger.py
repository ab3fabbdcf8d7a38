"""What was accepted, what each attempt used, and of which topic a position is. Never edited once released."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates `requests` and `ledger`, both empty: they are filled from the logs. Positions get their topic's id."""
    op.add_column("positions", sa.Column("topic_id", sa.Text))
    op.create_table(
        "requests",
        sa.Column("id", sa.Text, primary_key=True),
        *(_text(name) for name in ("tenant", "pool", "tier", "model", "route")),
        sa.Column("stream", sa.Boolean, nullable=False),
        _number("accepted_ms"),
        _text("origin_topic"),
        sa.Column("origin_partition", sa.Integer, nullable=False),
        _number("origin_offset"),
        sqlite_with_rowid=False,
    )
    _ledger()


def downgrade() -> None:
    """The ledger is what is billed by: it isn't thrown away by a command."""
    raise RuntimeError("the ledger is what is billed by: drop its tables by hand if you mean it")


def _ledger() -> None:
    op.create_table(
        "ledger",
        _text("id"),
        *(_number(name) for name in ("attempt_epoch", "attempt_sequence", "attempts")),
        *(_text(name) for name in ("tenant", "tier", "pool")),
        sa.Column("model", sa.Text),
        _text("verdict"),
        sa.Column("status", sa.Text),
        sa.Column("failure_kind", sa.Text),
        sa.Column("started", sa.Boolean, nullable=False),
        *(_number(name) for name in ("charge", "prompt_tokens", "cached_tokens", "completion_tokens")),
        sa.Column("usage_estimated", sa.Boolean, nullable=False),
        *(
            sa.Column(name, sa.BigInteger)
            for name in ("dispatched_ms", "started_ms", "first_token_ms", "finished_ms")
        ),
        sa.Column("worker", sa.Text),
        sa.Column("boot", sa.Text),
        _number("committed_ms"),
        sa.PrimaryKeyConstraint("id", "attempt_epoch", "attempt_sequence"),
        sqlite_with_rowid=False,
    )


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=False)
