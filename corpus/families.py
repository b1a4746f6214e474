"""The registry of families: every module of ``corpus.kernels`` that exports ``FAMILIES``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

import corpus.kernels
from corpus.spec import Family


def families() -> Mapping[str, Family]:
    """All families by name, sorted; importing them needs Triton."""
    found: dict[str, Family] = {}
    for module in pkgutil.iter_modules(corpus.kernels.__path__):
        for family in importlib.import_module(f"corpus.kernels.{module.name}").FAMILIES:
            if family.name in found:
                raise ValueError(f"two families are called {family.name}")
            found[family.name] = family
    return dict(sorted(found.items()))
