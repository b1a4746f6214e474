"""Bulk and tensor copies (PTX ISA 9.7.9.25.4 to .5.7) and tensor map edits (9.7.9.26).

A tensor map is named by its generic address (`cvta.param` of a parameter, or global memory).
Ignored: cache hints with their policy operand.
"""

from __future__ import annotations

import re

from checker.core import GENERIC_PARAM, GENERIC_SHARED, BulkCopy, Const, Mem, Source
from checker.ptx.context import Line, Refuse, row
from checker.ptx.rows.memory import cache_hints
from checker.syntax import Address, Operand, Vector

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
MODES = ("tile", "im2col", "im2col::w", "im2col::w::128", "im2col_no_offs", "tile::gather4",
         "tile::scatter4")


def _tensor_map(x: Line, operand: Address) -> Source:
    base, offset, space = x.address(operand)
    if space == "param":
        return x.plus(Const(GENERIC_PARAM + _bits(base), 64), offset)
    if space not in ("", "global", "const"):
        raise Refuse("tensor map space")
    return x.plus(base, offset)


def _bits(source: Source) -> int:
    assert isinstance(source, Const)
    return source.bits


def _map_and_coordinates(x: Line, operand: int, dims: int) -> tuple[Source, ...]:
    """`[map, {c0, c1}]`, the coordinates innermost first."""
    item = x.operands[operand]
    if not isinstance(item, Address) or len(item.rest) != 1:
        raise Refuse("tensor operand")
    coordinates: Operand = item.rest[0]
    items = coordinates.items if isinstance(coordinates, Vector) else (coordinates,)
    if len(items) != dims:
        raise Refuse("coordinate count")
    plain = Address(item.base, item.offset)
    return (_tensor_map(x, plain), *[x.source(c, "s32") for c in items])


def _dims(x: Line) -> int:
    for mod in x.mods:
        match = re.fullmatch(r"([1-5])d", mod)
        if match:
            x.mods.remove(mod)
            return int(match[1])
    raise Refuse("dimensions")


def _shared(x: Line, operand: int) -> Source:
    return x.flat(operand, "shared")


def _ctas(x: Line) -> int:
    return 2 if x.one_of("cta_group::1", "cta_group::2", default="") == "cta_group::2" else 1


@row("cp.async.bulk.tensor")
def tensor(x: Line) -> None:
    """cp.async.bulk.tensor.Nd.{shared.global{.mbarrier}, global.shared.bulk_group}{.mode}..."""
    dims = _dims(x)
    mode = x.one_of(*MODES, default="tile")
    if mode != "tile":
        raise Refuse(f".{mode}")
    policy = cache_hints(x)
    if x.has("mbarrier::complete_tx::bytes"):
        multicast = x.has("multicast::cluster")
        ctas = _ctas(x)
        x.one_of("shared::cta", "shared::cluster", "shared")
        if not x.has("global"):
            raise Refuse("direction")
        x.count(3 + policy + multicast)
        dst = _shared(x, 0)
        src = (dst, *_map_and_coordinates(x, 1, dims), _shared(x, 2))
        if multicast:
            src = (*src, x.source(3, "u16"))
        x.put("bulk", (), src, BulkCopy("g2s", dims, multicast=multicast, ctas=ctas))
        return
    _store(x, dims, policy, "")


def _store(x: Line, dims: int, policy: int, op: str) -> None:
    """Shared to global, plain or as a reduction."""
    if not x.has("bulk_group"):
        raise Refuse("completion")
    if not x.has("global"):
        raise Refuse("direction")
    x.one_of("shared::cta", "shared")
    x.count(2 + policy)
    src = (*_map_and_coordinates(x, 0, dims), _shared(x, 1))
    x.put("bulk", (), src, BulkCopy("reduce" if op else "s2g", dims, completion="group",
                                    reduce_op=op))


@row("cp.reduce.async.bulk")
def reduce(x: Line) -> None:
    """cp.reduce.async.bulk.tensor.Nd.global.shared.op.bulk_group; the untyped forms: opaque."""
    if not x.has("tensor"):
        raise Refuse("plain bulk reduction")
    dims = _dims(x)
    mode = x.one_of(*MODES, default="tile")
    if mode != "tile":
        raise Refuse(f".{mode}")
    policy = cache_hints(x)
    _store(x, dims, policy, x.one_of(*REDUCTIONS))


@row("cp.async.bulk")
def bulk(x: Line) -> None:
    """cp.async.bulk.dst.src.completion [dst], [src], size{, [mbar]}{, mask}{, policy}."""
    policy = cache_hints(x)
    if x.has("bulk_group"):
        if not (x.has("global") and x.one_of("shared::cta", "shared")):
            raise Refuse("direction")
        x.count(3 + policy)
        src = (x.flat(0, "global"), _shared(x, 1), x.source(2, "u32"))
        x.put("bulk", (), src, BulkCopy("s2g", 0, completion="group"))
        return
    if not x.has("mbarrier::complete_tx::bytes"):
        raise Refuse("completion")
    multicast = x.has("multicast::cluster")
    if not x.has("global"):
        raise Refuse("copy to another block's shared memory")
    x.one_of("shared::cluster", "shared::cta", "shared")
    x.count(4 + policy + multicast)
    sources: tuple[Source, ...] = (_shared(x, 0), x.flat(1, "global"), x.source(2, "u32"),
                                   _shared(x, 3))
    if multicast:
        sources = (*sources, x.source(4, "u16"))
    x.put("bulk", (), sources, BulkCopy("g2s", 0, multicast=multicast))


@row("cp.async.bulk.prefetch")
def bulk_prefetch(x: Line) -> None:
    """cp.async.bulk.prefetch{.tensor}...: into L2, no value."""
    text = ".".join(x.mods)
    x.mods.clear()
    x.put("nop", (), (), f"cp.async.bulk.prefetch.{text}: cache only")


@row("cp.async.bulk.commit_group")
def bulk_commit(x: Line) -> None:
    """cp.async.bulk.commit_group."""
    x.count(0)
    x.put("bulk_commit", (), (), None)


@row("cp.async.bulk.wait_group")
def bulk_wait(x: Line) -> None:
    """cp.async.bulk.wait_group{.read} N."""
    x.count(1)
    read = x.has("read")
    x.put("bulk_wait", (), (), (x.literal(0), read))


# --- tensor maps (9.7.9.26) ---

_FIELDS = {"global_address": "b64", "global_stride": "b64", "rank": "b32", "box_dim": "b32",
           "global_dim": "b32", "element_stride": "b32", "elemtype": "b32",
           "interleave_layout": "b32", "swizzle_mode": "b32", "swizzle_atomicity": "b32",
           "fill_mode": "b32"}
_ORDINAL = ("box_dim", "global_dim", "global_stride", "element_stride")


def _generic(x: Line, operand: int, space: str) -> Source:
    """An address operand as a generic address."""
    base, offset, own = x.address(operand)
    if space != "shared" and own != "shared":
        return x.plus(base, offset)
    if x.width(base) == 32:
        base = x.emit("zext", 64, (base,), (32, 64))
    return x.plus(base, offset + GENERIC_SHARED)


@row("tensormap.replace")
def tensormap_replace(x: Line) -> None:
    """tensormap.replace.tile.field{.space}.b1024.type [addr], {ordinal,} value."""
    if not (x.has("tile") and x.has("b1024")):
        raise Refuse("tensormap form")
    space = x.one_of("shared::cta", "shared", "global", default="generic").split("::")[0]
    field = x.one_of(*_FIELDS)
    type_ = x.type()
    x.only(type_, "b32", "b64")
    ordinal = x.literal(1) if field in _ORDINAL else -1
    x.count(3 if field in _ORDINAL else 2)
    value = x.source(len(x.operands) - 1, type_)
    x.put("tensormap_set", (), (_generic(x, 0, space), value), (field, ordinal))


@row("tensormap.cp_fenceproxy")
def tensormap_copy(x: Line) -> None:
    """tensormap.cp_fenceproxy.global.shared...: copy 128 bytes to global memory, then fence.

    Every lane of the warp names the same addresses; each is taken to copy all of it.
    """
    x.count(3)
    if not (x.has("global") and x.has("shared::cta")) or x.literal(2) != 128:
        raise Refuse("tensormap copy form")
    x.ignore("tensormap::generic", "release", "acquire", "gpu", "cta", "cluster", "sys", "sync",
             "aligned")
    dst, dst_offset, _ = x.address(0)
    src, src_offset, _ = x.address(1)
    for k in range(0, 128, 16):
        halves = tuple(x.builder.temporary(64) for _ in range(2))
        x.put("load", halves, (src,), Mem("shared", 64, 2, src_offset + k, 16))
        x.put("store", (), (dst, *halves), Mem("global", 64, 2, dst_offset + k, 16))
    x.put("fence", (), (), x.ins.opcode)
