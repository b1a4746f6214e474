"""When a text or an answer was last used, and the signature of an answer at its launches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("texts", "answers"):
        with op.batch_alter_table(name) as table:
            table.add_column(sa.Column("seen", sa.Float, nullable=False, server_default="0"))
        op.execute(f"update {name} set seen = created")
        with op.batch_alter_table(name) as table:
            table.alter_column("seen", server_default=None)
    op.add_column("answers", sa.Column("launch_signature", sa.String(128)))
    op.create_index("answers_launch_signature", "answers", ["launch_signature"])


def downgrade() -> None:
    op.drop_index("answers_launch_signature", "answers")
    with op.batch_alter_table("answers") as table:
        table.drop_column("launch_signature")
    for name in ("texts", "answers"):
        with op.batch_alter_table(name) as table:
            table.drop_column("seen")
