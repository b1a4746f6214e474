"""The toy engine serves the hooks' tests as well."""

from tests.gate.conftest import run, toy, write

__all__ = ["run", "toy", "write"]
