"""Moves: mov with packing and unpacking, cvta, isspacep, mapa, getctarank (PTX ISA 9.7.9)."""

from __future__ import annotations

from checker.core import GENERIC_LOCAL, GENERIC_PARAM, GENERIC_SHARED, Compare, Const, Source
from checker.ptx.context import Line, Refuse, row, width_of
from checker.syntax import Name, Operand, Vector

WINDOWS = {"shared": GENERIC_SHARED, "shared::cta": GENERIC_SHARED, "local": GENERIC_LOCAL,
           "param": GENERIC_PARAM, "global": 0, "const": 0}


@row("mov")
def mov(x: Line) -> None:
    """mov.type d, a; mov.bN d, {parts}; mov.bN {parts}, a; mov.type {..}, {..} (vector move)."""
    x.count(2)
    vector = x.one_of("v2", "v4", default="")
    type_ = x.type()
    into, out_of = x.operands
    if vector or (isinstance(into, Vector) and isinstance(out_of, Vector)):
        return _vector_move(x, type_)
    if isinstance(into, Vector):
        return _unpack(x, into.items, type_)
    width = width_of(type_)
    if isinstance(out_of, Vector):
        return _pack(x, out_of.items, width)
    source = x.predicate(1) if type_ == "pred" else x.source(1, type_)
    last = x.ops[-1] if x.ops else None
    if last is not None and last[1] == (source,):  # a special register: write it directly
        x.ops[-1] = (last[0], (x.dest(0, width),), last[2], last[3])
    else:
        x.put("mov", (x.dest(0, width),), (source,), width)


def _vector_move(x: Line, type_: str) -> None:
    """All sources are read before the first destination is written."""
    width = width_of(type_)
    into, out_of = x.vector(0), x.vector(1)
    if len(into) != len(out_of):
        raise Refuse("vector lengths")
    values = [x.emit("mov", width, (x.source(o, type_),), width) for o in out_of]
    for item, value in zip(into, values, strict=True):
        x.put("mov", (x.dest(item, width),), (value,), width)


def _pack(x: Line, items: tuple[Operand, ...], width: int) -> None:
    part = width // len(items)
    parts: list[Source] = [x.source(i, f"b{part}") for i in items]
    x.put("pack", (x.dest(0, width),), tuple(parts), width)


def _unpack(x: Line, items: tuple[Operand, ...], type_: str) -> None:
    width = width_of(type_)
    part = width // len(items)
    source = x.source(1, type_)
    if isinstance(source, int) and source in [x.dest(i, part) for i in items if part == width]:
        raise Refuse("unpack onto itself")
    for k, item in enumerate(items):
        if isinstance(item, Name) and item.name == "_":
            continue
        x.put("extract", (x.dest(item, part),), (source,), (k * part, part))


@row("cvta")
def cvta(x: Line) -> None:
    """cvta{.to}.space.u64 d, a: add (or subtract) the space's generic window."""
    x.count(2)
    to = x.has("to")
    type_ = x.type()
    x.only(type_, "u64", "b64", "s64")
    space = x.one_of(*WINDOWS)
    window = WINDOWS[space]
    source = x.source(1, "u64")
    if window == 0:
        x.put("mov", (x.dest(0, 64),), (source,), 64)
    elif isinstance(source, Const):
        moved = source.bits - window if to else source.bits + window
        x.put("mov", (x.dest(0, 64),), (Const(moved & (2**64 - 1), 64),), 64)
    else:
        name = "isub" if to else "iadd"
        x.put(name, (x.dest(0, 64),), (source, Const(window, 64)), 64)


@row("isspacep")
def isspacep(x: Line) -> None:
    """isspacep.space p, a: whether a generic address lies in the space's window."""
    x.count(2)
    space = x.one_of("shared::cta", "shared", "local", "global")
    top = x.emit("shr_u", 64, (x.source(1, "u64"), Const(56, 32)), 64)
    shared, local = GENERIC_SHARED >> 56, GENERIC_LOCAL >> 56
    if space != "global":
        wanted = Const(local if space == "local" else shared, 64)
        x.put("icmp", (x.dest(0, 1),), (top, wanted), Compare("eq", "b64"))
        return
    parts = [x.emit("icmp", 1, (top, Const(w, 64)), Compare("ne", "b64"))
             for w in (shared, local, GENERIC_PARAM >> 56)]
    both = x.emit("pand", 1, (parts[0], parts[1]), None)
    x.put("pand", (x.dest(0, 1),), (both, parts[2]), None)


@row("mapa")
def mapa(x: Line) -> None:
    """mapa{.space}.type d, a, b: the address that a has in block b of the cluster.

    That is a itself where b is the own rank; another block's lies outside of every window.
    """
    x.count(3)
    x.has("shared::cluster")
    type_ = x.type()
    x.only(type_, "u32", "u64")
    if x.builder.clustered:
        raise Refuse("an address in a cluster of several blocks")
    width = int(type_[1:])
    rank = x.source(2, "u32")
    if not x.builder.alone:
        rank = x.emit("isub", 32, (rank, x.special("cluster_ctarank")[0]), 32)
    if width == 64:
        rank = x.emit("zext", 64, (rank,), (32, 64))
    far = x.emit("shl", width, (rank, Const(24, 32)), width)
    x.put("iadd", (x.dest(0, width),), (x.source(1, type_), far), width)


@row("getctarank")
def getctarank(x: Line) -> None:
    """getctarank{.space}.type d, a: the rank of the block that a lies in."""
    x.count(2)
    x.has("shared::cluster")
    type_ = x.type()
    x.only(type_, "u32", "u64")
    x.source(1, type_)
    if x.builder.clustered:
        raise Refuse("an address in a cluster of several blocks")
    rank = Const(0, 32) if x.builder.alone else x.special("cluster_ctarank")[0]
    x.put("mov", (x.dest(0, 32),), (rank,), 32)
