"""The fixtures of the gate's tests serve the command line's as well."""

from tests.gate.conftest import run, toy, write

__all__ = ["run", "toy", "write"]
