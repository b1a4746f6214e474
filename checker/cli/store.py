"""`samebits store`: maintenance of the service's database.

In: a database URL. Out: what was done, as text or JSON. Imports the service only when it runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from checker.cli.serve import DATABASE, Database

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Maintain the service's database.",
)


@app.callback()
def _group() -> None:
    pass


@app.command()
def prune(
    older_than: Annotated[float, typer.Option(
        "--older-than", min=2, metavar="DAYS", help="Forget what was not used for so long.")],
    database: Database = DATABASE,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Count what would go; delete nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Delete finished jobs, answers and texts that nobody used for DAYS days.

    Baselines, their texts and unfinished jobs stay. Servers may run meanwhile.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    from server.prune import prune as run
    from server.store import Store

    try:
        url = make_url(database)
        if url.get_backend_name() == "sqlite" and not _is_file(url.database):
            raise typer.BadParameter(f"no such file: {url.database}", param_hint="--database")
        store = Store(database)
        try:
            found = run(store, older_than, dry_run=dry_run)
        finally:
            store.close()
    except SQLAlchemyError as error:
        reason = str(error).splitlines()[0]
        typer.echo(f"samebits: cannot use the database: {reason}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, **asdict(found)}, indent=2))
        return
    typer.echo(f"{'would delete' if dry_run else 'deleted'} {found.jobs} jobs, {found.answers} "
               f"answers, {found.texts} texts ({found.text_bytes / 2**20:.1f} MiB)")


def _is_file(path: str | None) -> bool:
    return path is not None and Path(path).is_file()
