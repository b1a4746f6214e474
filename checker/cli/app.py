"""The command line as a whole: one typer application, commands by file.

In: `sys.argv`. Out: an exit status. `main` is the console script.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from checker.cli import gate, kernels, serve, store, sweep
from checker.results import CHECKER_VERSION

__all__ = ["app", "main"]

app = typer.Typer(
    name="samebits", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
    help="Decide from assembly text whether compiled GPU kernels return the same bits.",
)


def _version(shown: bool) -> None:
    if shown:
        print(f"samebits {CHECKER_VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


for command in (kernels.sign, kernels.compare, kernels.tree, kernels.describe, kernels.coverage,
                sweep.partition):
    app.command()(command)
app.add_typer(gate.app, name="gate")
app.command()(serve.serve)
app.add_typer(store.app, name="store")


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        app()
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # nobody read on: 1 says `unequal`
            sys.exit(141)
        raise
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # `samebits sign ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
