"""Rows: one small function per PTX instruction, by the manual's chapters (9.7.x).

`register_all` loads every row module, which fills checker.ptx.context.ROWS.
"""

from importlib import import_module

__all__ = ["MODULES", "register_all"]

MODULES = ("integer", "floating", "compare", "logic", "move", "convert", "memory", "lanes", "sync",
           "control", "matrix", "bulk", "tensor")


def register_all() -> None:
    """Import every module of rows (their decorators register them); harmless when repeated."""
    for name in MODULES:
        import_module(f"checker.ptx.rows.{name}")
