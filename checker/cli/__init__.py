"""The `samebits` command."""

from checker.cli.app import main

__all__ = ["main"]
