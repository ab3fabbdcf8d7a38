"""The first tables: results, positions, outbox. Never edited once released: a change is a new revision."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates them."""
    _results()
    op.create_table(
        "positions",
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("topic", "partition"),
    )
    sequence = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "outbox",
        sa.Column("sequence", sequence, sa.Identity(), primary_key=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("record_key", sa.LargeBinary),
        sa.Column("headers", sa.LargeBinary, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    """There is nothing before them, and results aren't thrown away by a command."""
    raise RuntimeError("the first tables hold the results: drop them by hand if you mean it")


def _results() -> None:
    op.create_table(
        "results",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("tenant", "pool", "tier", "status")),
        sa.Column("http_status", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("model", "route")),
        *(sa.Column(name, sa.Boolean, nullable=False) for name in ("stream", "partial")),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("attempts", "attempt_epoch", "attempt_sequence")
        ),
        sa.Column("gateway", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Text) for name in ("worker", "failure_kind", "failure_message")),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("prompt_tokens", "cached_tokens", "completion_tokens")
        ),
        sa.Column("usage_estimated", sa.Boolean, nullable=False),
        sa.Column("accepted_ms", sa.BigInteger, nullable=False),
        *(
            sa.Column(name, sa.BigInteger)
            for name in ("dispatched_ms", "started_ms", "first_token_ms", "finished_ms")
        ),
        sa.Column("committed_ms", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("content_type", "encoding")),
        sa.Column("reference", sa.Text),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
