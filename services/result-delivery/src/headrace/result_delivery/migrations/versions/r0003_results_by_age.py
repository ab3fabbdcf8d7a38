"""Results by age, so that old ones are found without a look at all. Never edited once released."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the index."""
    op.create_index("results_committed_ms", "results", ["committed_ms"])


def downgrade() -> None:
    """Drops it."""
    op.drop_index("results_committed_ms", "results")
