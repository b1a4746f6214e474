"""Hooks: where samebits plugs into autotuners and test runs.

`keep_equal` is the plain predicate that every adapter shares; `triton`, `inductor` and
`pytest_plugin` are thin adapters, imported only where their host is.
"""
