"""Directives of a PTX function header: block size, limits, cluster shape, target.

In: `Function.attributes`. Out: plain values. `KNOWN` lists the directives that change no value.
"""

from __future__ import annotations

import re

from checker.ptx.plans import integer

__all__ = ["KNOWN", "block_size", "clustered", "max_threads", "target_of"]

KNOWN = frozenset((
    ".visible", ".extern", ".weak", ".common", ".reqntid", ".maxntid", ".minnctapersm",
    ".maxnctapersm", ".maxnreg", ".noreturn", ".pragma", ".explicitcluster",
    ".reqnctapercluster", ".maxclusterrank", ".abi_preserve", ".abi_preserve_control", ".attribute",
))


def target_of(words: str) -> str:
    """Return the architecture of a `.target`: sm_90a -> sm_90 (suffixes only add features)."""
    match = re.match(r"sm_\d+", words)
    return match.group(0) if match else words


def block_size(attributes: dict[str, tuple[str, ...]]) -> tuple[int, int, int] | None:
    """The block size that `.reqntid` fixes, or None."""
    sizes = attributes.get(".reqntid")
    if not sizes:
        return None
    x, y, z = (*(integer(s) for s in sizes[:3]), 1, 1)[:3]
    return x, y, z


def clustered(attributes: dict[str, tuple[str, ...]]) -> bool:
    """Whether the text asks for clusters of more than one block (or leaves their size open)."""
    sizes = attributes.get(".reqnctapercluster") or attributes.get(".maxclusterrank")
    if sizes is None:
        return ".explicitcluster" in attributes
    return any(integer(s) != 1 for s in sizes)


def max_threads(attributes: dict[str, tuple[str, ...]]) -> int | None:
    """The most threads a block may have (`.maxntid`, `.reqntid`), or None."""
    sizes = attributes.get(".maxntid") or attributes.get(".reqntid")
    if not sizes:
        return None
    product = 1
    for size in sizes:
        product *= integer(size)
    return product
