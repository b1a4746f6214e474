"""Interned nodes, exact identities, canonical form and signature."""

from checker.tree.result import WalkResult
from checker.tree.signature import same, signature

__all__ = ["WalkResult", "same", "signature"]
