"""First schema: texts, answers, claims, jobs, items, baselines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "texts",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("lines", sa.Integer, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "answers",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("text_digest", sa.String(64), nullable=False),
        sa.Column("checker_version", sa.String(64), nullable=False),
        sa.Column("options", sa.Text, nullable=False),
        sa.Column("signature", sa.String(128)),
        sa.Column("outcome", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_index("answers_signature", "answers", ["signature"])
    op.create_index("answers_text", "answers", ["text_digest", "kind"])
    op.create_table(
        "claims",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("until", sa.Float, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(200)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("owner", sa.String(64)),
        sa.Column("lease", sa.Float),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("finished", sa.Float),
        sa.Column("error", sa.Text),
        sa.Column("result", sa.LargeBinary),
    )
    op.create_index("jobs_state", "jobs", ["state", "created"])
    op.create_table(
        "items",
        sa.Column("job", sa.String(32), sa.ForeignKey("jobs.id", ondelete="CASCADE"),
                  primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("answer", sa.String(64)),
        sa.Column("class_key", sa.String(128)),
        sa.Column("error", sa.Text),
    )
    op.create_index("items_digest", "items", ["digest"])
    op.create_table(
        "baselines",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("entries", sa.LargeBinary, nullable=False),
        sa.Column("checker_version", sa.String(64), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
    )


def downgrade() -> None:
    for name in ("baselines", "items", "jobs", "claims", "answers", "texts"):
        op.drop_table(name)
