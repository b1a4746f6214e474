"""Directives of a PTX function header: block size, limits, cluster shape, target.

In: `Function.attributes`. Out: plain values. `KNOWN` lists the directives that change no value.
"""

from __future__ import annotations

import re

from checker.ptx.plans import integer

__all__ = ["KNOWN", "block_size", "clustered", "max_block", "plain_target", "target_of"]

Block = tuple[int, int, int]

KNOWN = frozenset((
    ".visible", ".extern", ".weak", ".common", ".reqntid", ".maxntid", ".minnctapersm",
    ".maxnctapersm", ".maxnreg", ".noreturn", ".pragma", ".explicitcluster",
    ".reqnctapercluster", ".maxclusterrank", ".abi_preserve", ".abi_preserve_control", ".attribute",
))


def target_of(words: str) -> str:
    """Return the architecture of a `.target`: sm_90a -> sm_90 (suffixes only add features)."""
    match = re.match(r"sm_\d+", words)
    return match.group(0) if match else words


def plain_target(word: str) -> bool:
    """Whether a word of a `.target` leaves arithmetic as the rows have it.

    `map_f64_to_f32` does not, nor does sm_1x, where f32 operations flush (PTX ISA 9.7.3).
    """
    return re.fullmatch(r"sm_[2-9]\d[af]?|sm_1\d\d[af]?|compute_\w+", word) is not None \
        or word in ("debug", "texmode_unified", "texmode_independent")


def block_size(attributes: dict[str, tuple[str, ...]]) -> Block | None:
    """The block size that `.reqntid` fixes, or None."""
    return _block(attributes.get(".reqntid"))


def max_block(attributes: dict[str, tuple[str, ...]]) -> Block | None:
    """The largest block that the text allows (`.maxntid`, `.reqntid`), or None."""
    return _block(attributes.get(".maxntid") or attributes.get(".reqntid"))


def _block(sizes: tuple[str, ...] | None) -> Block | None:
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
