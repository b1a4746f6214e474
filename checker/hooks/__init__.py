"""Hooks: where samebits plugs into autotuners and test runs.

`keep_equal` is the plain predicate that every adapter shares; `checker.hooks.triton`,
`checker.hooks.inductor` and `checker.hooks.pytest_plugin` are thin adapters, imported only where
their host is.
"""

from checker.hooks.keep import Baseline, Kept, keep_equal

__all__ = ["Baseline", "Kept", "keep_equal"]
