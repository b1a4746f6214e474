"""Matrix steps: fragments, shared-memory descriptors, and D = A * B + C by the step model.

In: core `mma` operations. Out: steps. Element hashes are multiplied and summed modulo 2**64 in both
words, so that the products of one rounding step are an unordered multiset; the accumulator is
chained step by step. An instruction without a step model equals only the identical instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker.arith import matrix as arith_matrix
from checker.arith.formats import UnsupportedArithmetic
from checker.arith.steps import StepModel, step_model
from checker.arrays import every, some
from checker.core import FloatMode, Fragment, MatrixOperand, Mma, Op, Program
from checker.replay import descriptors, inflight, tensor
from checker.replay import identities as ids
from checker.replay.facts import (
    CONC,
    EXCH,
    FORM_SHIFT,
    HF,
    MNZ,
    OPQ,
    PENDING,
    POISON,
    UNDEF,
    Facts,
    Mask,
    form_key,
    seen,
)
from checker.replay.hashing import U64, combine, combine_all, const_hash, key
from checker.replay.integers import bounded_form, form, magnitude_bound, sum_terms
from checker.replay.machine import EMPTY, Machine, Step
from checker.replay.rounding import (
    ZERO_SQUARE,
    Opened,
    Tile,
    all_null,
    flat,
    opened_step,
    prepared,
    products,
    signless_zeros,
    unflat,
    unmoved_by_zeros,
    where_null,
)
from checker.replay.values import Conc, Hash, V, hash_of, make_pack, pred_bits, split

__all__ = ["Prepared", "StepSum", "element_stack", "integer_step", "integer_words", "inverse",
           "keep_result", "last_result", "multiply", "operand_poison", "step", "step_sums", "tiles",
           "to_fragment", "write"]

Read = Callable[[Machine], list[V]]


def step(program: Program, op: Op, read: Read) -> Step | None:
    """The step of a matrix operation, None if it is not one."""
    if op.name == "tmem":
        return tensor.step(program, op, read)
    if op.name in ("mma_commit", "mma_wait"):
        return _group(op)
    if op.name == "mma_commit_mbar":
        return tensor.commit(program, op, read)
    if op.name != "mma":
        return None
    attr: Mma = op.attr
    model = None if attr.unit == "tcgen05" else step_model(attr)

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            raise m.unsupported("data-dependent", "whether a matrix step runs depends on data")
        if attr.unit == "tcgen05" or attr.c.source == "tmem":
            tensor.mma(m, op, read(m), on, model)
            return
        _registers(m, op, attr, model, read(m), on)

    return run


def _group(op: Op) -> Step:
    """wgmma's commit and wait."""

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not (on is None or isinstance(on, np.ndarray)):
            raise m.unsupported("data-dependent", "which matrix steps are over depends on data")
        if op.name == "mma_commit":
            inflight.commit(m, on)
        else:
            inflight.wait(m, on, int(op.attr[1]))

    return run


# --- operands -----------------------------------------------------------------------------------


def element_stack(m: Machine, regs: list[V], fragment: Fragment) -> tuple[U64, Facts]:
    """All elements of all lanes: hashes (2, E, B, T), facts int or (E, B, T)."""
    return _stack(_element_pairs(regs, fragment), (m.B, m.T))


def _stack(pairs: list[HF], lanes: tuple[int, int]) -> HF:
    """Values one after the other: hashes (2, n, *lanes), facts int or (n, *lanes)."""
    h = np.empty((2, len(pairs), *lanes), dtype=np.uint64)
    for e, (one, _) in enumerate(pairs):
        h[:, e] = one
    facts = [f for _, f in pairs]
    if all(isinstance(f, int) for f in facts) and len(set(facts)) == 1:
        return h, facts[0]
    f = np.empty((len(pairs), *lanes), dtype=np.uint32)
    for e, one_f in enumerate(facts):
        f[e] = one_f
    return h, f


def _element_pairs(regs: list[V], fragment: Fragment) -> list[HF]:
    """Hash and facts of each element of a fragment's registers."""
    per, width = fragment.reg_bits // fragment.elem_bits, fragment.elem_bits
    if per == 1:
        return [hash_of(v) for v in regs[: fragment.row.shape[1]]]
    return [hash_of(split(regs[e // per], width * (e % per), width))
            for e in range(int(fragment.row.shape[1]))]


_INVERSE: dict[tuple[int, int, int], NDArray[np.int64]] = {}


def inverse(fragment: Fragment, rows: int, cols: int) -> NDArray[np.int64]:
    """For each matrix element, its place in (element, lane) order: (rows, cols)."""
    known = (id(fragment), rows, cols)
    found = _INVERSE.get(known)
    if found is None:
        lanes = fragment.row.shape[0]
        found = np.full((rows, cols), -1, dtype=np.int64)
        place = np.arange(fragment.row.shape[1])[None, :] * lanes + np.arange(lanes)[:, None]
        found[fragment.row, fragment.col] = place
        if some(found < 0):
            raise ValueError(f"{fragment!r} does not cover {rows}x{cols}")
        _INVERSE[known] = found
        _KEEP.append(fragment)
    return found


_KEEP: list[Fragment] = []  # fragments in _INVERSE stay alive, so that their ids stay theirs


def tiles(m: Machine, several: list[list[V]], fragment: Fragment, rows: int, cols: int) -> Tile:
    """Register operands of several steps as matrices (2, steps * B, G, rows, cols)."""
    pairs = [pair for regs in several for pair in _element_pairs(regs, fragment)]
    h, f = _stack(pairs, (m.B, m.T))
    lanes = fragment.row.shape[0]
    steps, groups = len(several), m.T // lanes
    # an element's place in a step of a block: (B, G, rows, cols)
    element, lane = np.divmod(inverse(fragment, rows, cols), lanes)
    place = element * (m.B * m.T) + lane + (
        np.arange(m.B)[:, None] * m.T + np.arange(groups) * lanes)[..., None, None]
    shape = (steps * m.B, groups, rows, cols)
    out = h.reshape(2, steps, -1).take(place, axis=-1).reshape(2, *shape)
    return out, f if isinstance(f, int) else f.reshape(steps, -1).take(place, axis=-1).reshape(
        shape)


def _kept_tile(m: Machine, regs: list[V], fragment: Fragment, rows: int, cols: int) -> Tile:
    """The tile of registers that a few steps in a row share: made once."""
    known: dict[tuple[int, ...], tuple[list[V], Tile]] = m.extra.setdefault("tiles", {})
    name = (id(fragment), *map(id, regs))
    if name not in known:
        if len(known) >= _TILES:
            known.clear()
        known[name] = regs, tiles(m, [regs], fragment, rows, cols)
    return known[name][1]


_TILES = 64


def operand_tile(m: Machine, operand: MatrixOperand, regs: list[V], rows: int, cols: int,
                 is_b: bool, on: Mask | None, lanes: int, unit: str) -> Tile:
    """Operand A as (rows = m, cols = k) or B as (rows = k, cols = n)."""
    if operand.source == "regs":
        assert operand.fragment is not None
        tile = _kept_tile(m, regs, operand.fragment, rows, cols)
    elif operand.source == "smem":
        tile = descriptors.read(m, operand, regs[0], rows, cols, is_b, on, lanes, unit)
    else:
        raise m.unsupported("tensor-memory", "this matrix operand's source is not modelled")
    if operand.neg:
        shape = tile[0].shape[1:]
        return unflat(ids.negate(flat(tile, shape), ids.FLOAT_BITS.get(operand.type, 16)), shape)
    return tile


# --- one instruction ----------------------------------------------------------------------------


def _registers(m: Machine, op: Op, attr: Mma, model: StepModel | None, values: list[V],
               on: Mask | None) -> None:
    if attr.blocks != 1:
        raise m.unsupported("mma", "a matrix step of several blocks is not modelled")
    fragment = attr.c.fragment
    assert fragment is not None
    lanes = fragment.row.shape[0]
    if m.T % lanes:
        raise m.unsupported("mma", "a matrix step needs whole warps")
    if on is not None:
        cut = m.full(on).reshape(m.B, m.T // lanes, lanes)
        if some(cut.any(axis=2) & ~cut.all(axis=2)):
            raise m.unsupported("partial-warp", "a matrix step runs in part of its warps")
    na = attr.a.regs if attr.a.source == "regs" else 1
    nb = attr.b.regs if attr.b.source == "regs" else 1
    a = operand_tile(m, attr.a, values[:na], attr.m, attr.k, False, on, lanes, attr.unit)
    b = operand_tile(m, attr.b, values[na : na + nb], attr.k, attr.n, True, on, lanes, attr.unit)
    c_regs = values[na + nb : na + nb + attr.c.regs]
    if attr.unit == "wgmma":
        c_regs = [inflight.landed_value(m, r, on) if isinstance(r, int) else v for r, v in zip(
            op.src[na + nb : na + nb + attr.c.regs], c_regs, strict=True)]
    acc, opened = last_result(m, "lanes", [c_regs]) or (
        element_stack(m, c_regs, fragment) if c_regs else _zero(), UNKNOWN)
    at = na + nb + attr.c.regs
    if attr.has_scale_d:
        scale = pred_bits(values[at], on)
        if scale is None:
            raise m.unsupported("data-dependent", "a matrix step's scale depends on data")
        at += 1
        if not every(scale):
            opened = UNKNOWN
            acc = np.where(scale, acc[0], const_hash(np.zeros((1, 1, 1), dtype=np.uint64))), (
                np.where(scale, np.uint32(acc[1]) if isinstance(acc[1], int) else acc[1],
                         np.uint32(CONC)))
    if len(values) > at and model is None:
        raise m.unsupported("mma", "a matrix step with sparsity metadata or scales is not modelled")
    out, opened = multiply(m, attr, model, a, b, acc, fragment, opened)
    write(m, op, out, fragment, on)
    keep_result(m, "lanes", [op], out, opened)
    if attr.unit == "wgmma":
        reads = m.extra.pop("reads", [])
        for watch, rows, number in reads:
            watch.begin_reading(rows, number)
        inflight.issue(m, op, on, reads)


def _zero() -> tuple[U64, Facts]:
    return const_hash(np.zeros((1, 1, 1), dtype=np.uint64)), CONC


UNKNOWN: Any = "where it holds a null is not known"


def keep_result(m: Machine, layout: str, ops: list[Op], out: HF, opened: Opened | None) -> None:
    """Remember what some steps wrote: later ones to the same registers often go on from just that.

    layout: of `out` and `opened`, lane elements (E, B, T) or matrices (steps * B, G, rows, cols).
    """
    results: dict[tuple[int, ...], Any] = m.extra.setdefault("accumulated", {})
    name = tuple(op.dst[0] for op in ops)
    results.pop(name, None)
    if len(results) >= _RESULTS:
        del results[next(iter(results))]
    results[name] = layout, [[m.regs[d] for d in op.dst] for op in ops], out, opened


_RESULTS = 4  # accumulators that are worked on by turns


def last_result(m: Machine, layout: str, values: list[list[V]]) -> tuple[HF, Opened | None] | None:
    """The elements of these registers, and where they hold a null, if just that was written."""
    for kept, known, out, opened in m.extra.get("accumulated", {}).values():
        if kept == layout and len(known) == len(values) and all(
                len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
                for a, b in zip(known, values, strict=True)):
            return out, opened
    return None


def write(m: Machine, op: Op, out: tuple[U64, Facts], fragment: Fragment,
           on: Mask | None) -> None:
    per = fragment.reg_bits // fragment.elem_bits
    h, f = out
    known = isinstance(f, int) and bool(f & CONC)
    if not isinstance(f, int) and len(f) != h.shape[1]:  # facts may be shared by all elements
        f = np.broadcast_to(f, (h.shape[1], *f.shape[1:]))
    for r, d in enumerate(op.dst):
        parts: list[V] = []
        for e in range(r * per, (r + 1) * per):
            if known:
                parts.append(Conc(h[1, e], fragment.elem_bits))
            else:
                parts.append(Hash(h[:, e], f if isinstance(f, int) else f[e], fragment.elem_bits))
        m.put(d, make_pack(parts) if per > 1 else parts[0], on, op.guard is not None)


def to_fragment(tile: NDArray[Any], fragment: Fragment) -> NDArray[Any]:
    """Matrices (..., B, G, rows, cols) as lane elements (..., E, B, T)."""
    *lead, blocks, groups, rows, cols = tile.shape
    lanes, count = fragment.row.shape
    name = (id(fragment), blocks * groups, rows, cols)
    at = _PLACES.get(name)
    if at is None:
        if len(_PLACES) > 64:
            _PLACES.clear()
        place = (fragment.row * cols + fragment.col).T[:, None, :]
        at = _PLACES[name] = np.arange(blocks * groups).reshape(-1, 1) * (rows * cols) + place
        _KEEP.append(fragment)
    out = tile.reshape(*lead, -1).take(at, axis=-1)
    return out.reshape(*lead, count, blocks, groups * lanes)


_PLACES: dict[tuple[int, int, int, int], NDArray[np.int64]] = {}  # element, group, lane


def multiply(m: Machine, attr: Mma, model: StepModel | None, a: Tile, b: Tile,
             acc: tuple[U64, Facts], fragment: Fragment, opened: Opened | None = UNKNOWN
             ) -> tuple[HF, Opened | None]:
    """D in the accumulator's layout, hashes (2, E, B, T), and where it holds a null."""
    if model is not None:
        known = _known_bits(m, attr, model, a, b, acc, fragment)
        if known is not None:
            return known, UNKNOWN
    if model is None:
        return _unknown(attr, a, b, acc, fragment, m), UNKNOWN
    if model.kind == "fma":
        return _sequential(m, model, a, b, acc, fragment), UNKNOWN
    if model.kind in ("int", "int_sat"):
        return _integer(m, model, a, b, acc, fragment), UNKNOWN
    poison = _dealt_poison(a, b, fragment) | acc[1] & POISON
    signless = signless_zeros(model, _zero() if model.chain == "add" else acc)
    start = acc
    if model.chain == "add":
        acc, opened = _zero(), None
    elif opened is UNKNOWN:
        opened = where_null(acc)
    for one in step_sums(model, prepared(model, a, model.a_type, signless),
                         prepared(model, b, model.b_type, signless)):
        if one.zero and unmoved_by_zeros(model, acc):
            continue
        none, null = (None if x is None else to_fragment(x, fragment) for x in (one.none, one.null))
        acc, opened = opened_step(model, acc, opened, to_fragment(one.total, fragment), none, null)
    if model.chain == "add":
        opened = UNKNOWN
        mode = FloatMode(model.acc_type)
        shape = (fragment.row.shape[1], m.B, m.T)
        acc = unflat(ids.add(mode, flat(start, shape), flat(acc, shape)), shape)
    h, f = acc
    return (np.broadcast_to(h, (2, fragment.row.shape[1], m.B, m.T)), f | poison), opened


Prepared = tuple[U64, Any, Any]


class StepSum:
    """The sum of a rounding step's products, and where all of them are zeros, or nulls.

    As matrices (2, B, G, rows, cols), (B, G, rows, cols). zero: all are +0 * +0 everywhere, so that
    few steps ask for the sum.
    """

    def __init__(self, model: StepModel, a: Prepared, b: Prepared, part: list[int]) -> None:
        (self._a, za, na), (self._b, zb, nb) = a, b
        self._model, self._part = model, part
        rows = None if za is None else za[..., part]
        cols = None if zb is None else zb[..., part, :]
        self._both = None if rows is None or cols is None or not some(
            rows.any(axis=(0, 1, 2)) & cols.any(axis=(0, 1, 3))) else np.matmul(
                rows.astype(np.float32), cols.astype(np.float32))
        self.none = None if self._both is None else self._both == len(part)
        self.zero = self.none is not None and every(self.none)
        shape = (*self._a.shape[1:-1], self._b.shape[-1])
        self.null = None if na is None and nb is None else np.broadcast_to(
            all_null(na, nb, part), shape)

    @cached_property
    def total(self) -> U64:
        """The sum of products."""
        out = products(self._a, self._b, self._part, self._model.symmetric)
        if self._both is not None and self._model.symmetric:
            out = out - ZERO_SQUARE * self._both.astype(np.uint64)
        return out


def step_sums(model: StepModel, a: Prepared, b: Prepared) -> list[StepSum]:
    """For each rounding step its sum of products."""
    return [StepSum(model, a, b, list(ks)) for ks in model.steps]


def operand_poison(a: Tile, b: Tile) -> Facts:
    """Undefined or unmodelled operands reach the rows and columns they belong to: as matrices."""
    out: Facts = 0
    found = seen(a[1]) | seen(b[1])
    for bit in (UNDEF, OPQ, PENDING, EXCH):
        if not found & bit:
            continue
        fa, fb = a[1] & bit, b[1] & bit
        if isinstance(fa, int) and isinstance(fb, int):
            out = out | fa | fb
            continue
        rows = np.asarray(np.broadcast_to(np.asarray(fa != 0), a[0].shape[1:]).any(axis=-1))
        cols = np.asarray(np.broadcast_to(np.asarray(fb != 0), b[0].shape[1:]).any(axis=-2))
        if some(rows) or some(cols):
            out = out | np.where(rows[..., :, None] | cols[..., None, :], np.uint32(bit),
                                 np.uint32(0))
    return out


def _dealt_poison(a: Tile, b: Tile, fragment: Fragment) -> Facts:
    """The same for lane elements (E, B, T)."""
    found = operand_poison(a, b)
    return found if isinstance(found, int) else to_fragment(found, fragment)


_WIDEST = {"s8": 128, "u8": 255, "s4": 8, "u4": 15}


def _integer(m: Machine, model: StepModel, a: Tile, b: Tile, acc: tuple[U64, Facts],
             fragment: Fragment) -> tuple[U64, Facts]:
    """Exact products onto an accumulator."""
    total = np.matmul(integer_words(a, model.a_type), integer_words(b, model.b_type))
    return integer_step(model, acc, to_fragment(total, fragment), a[0].shape[-1],
                        _dealt_poison(a, b, fragment))


def integer_words(tile: Tile, type_name: str) -> U64:
    """What stands for each integer in products: zero where it is known to be that."""
    h, f = tile
    out = combine(key(f"int element {type_name}"), h)
    if isinstance(f, int) and not f & CONC:
        return out
    return np.where((np.asarray(f & CONC) != 0) & (h[1] == 0), np.uint64(0), out)


def integer_step(model: StepModel, acc: HF, total: U64, products: int, poison: Facts) -> HF:
    """Sums of exact products added modulo 2**32, the accumulator's terms included; in any layout.

    A sum that provably stays in range is the same with and without saturation.
    """
    poison = poison | acc[1] & POISON
    shape = total.shape[1:]
    h, f = flat(acc, shape)
    bound = magnitude_bound(32, h, f)
    most = _WIDEST.get(model.a_type, 1 << 31) * _WIDEST.get(model.b_type, 1 << 31)
    if bound is not None:
        bound = bound + products * most if model.acc_type == "s32" else None
    if model.kind == "int_sat" and (bound is None or bound >= 1 << 31):
        return combine(key(f"mma step {model.id}"), acc[0], total), poison | MNZ
    terms = sum_terms(32, Hash(h, f, 32)).reshape(2, *shape)
    return terms + total + form_key(form(32)).reshape(2, *(1,) * len(shape)), (
        poison | MNZ | bounded_form(32, bound) << FORM_SHIFT)


def _sequential(m: Machine, model: StepModel, a: Tile, b: Tile, acc: tuple[U64, Facts],
                fragment: Fragment) -> tuple[U64, Facts]:
    """One fma a product, in the order of k."""
    mode = FloatMode(model.acc_type)
    shape4 = (fragment.row.shape[1], m.B, m.T)
    out = flat(acc, shape4)
    for (k,) in model.steps:
        pair = []
        for (h, f), is_a in ((a, True), (b, False)):
            cut = h[..., :, k : k + 1] if is_a else h[..., k : k + 1, :]
            shape = (*h.shape[:3], a[0].shape[3], b[0].shape[4])
            wide = to_fragment(np.broadcast_to(cut, shape), fragment)
            if not isinstance(f, int):
                fcut = f[..., :, k : k + 1] if is_a else f[..., k : k + 1, :]
                f = to_fragment(np.broadcast_to(fcut, shape[1:]), fragment)
            pair.append(flat((wide, f), shape4))
        out = ids.fma(mode, pair[0], pair[1], out)
    return unflat(out, shape4)


def _unknown(attr: Mma, a: Tile, b: Tile, acc: tuple[U64, Facts], fragment: Fragment,
             m: Machine) -> tuple[U64, Facts]:
    """No step model: a function of the whole row, column and accumulator under the full text."""
    text = (f"mma {attr.unit} {attr.target} {attr.m} {attr.n} {attr.k} {attr.a.type} "
            f"{attr.b.type} {attr.c.type} {attr.d_type} {attr.satfinite} {attr.denorm} "
            f"{attr.extra}")
    place = np.arange(1, 2 * attr.k, 2, dtype=np.uint64) * key("place").reshape(2)[0]
    x = combine(key("unknown element"), a[0]) * (place | np.uint64(1))
    y = combine(key("unknown element"), b[0])
    total = to_fragment(np.matmul(x, y), fragment)
    h = combine_all(key(text), [np.broadcast_to(acc[0], total.shape), total])
    return h, (_dealt_poison(a, b, fragment) | acc[1] & POISON) | MNZ


def _known_bits(m: Machine, attr: Mma, model: StepModel, a: Tile, b: Tile,
                acc: tuple[U64, Facts], fragment: Fragment) -> tuple[U64, Facts] | None:
    """Everything is known bits: the real arithmetic (domain `bytes`, constants)."""
    for _, f in (a, b, acc):
        if isinstance(f, int):
            if not f & CONC:
                return None
        elif not every((f & CONC) != 0):
            return None
    if not m.domain.leaf_bits():
        return None
    count = fragment.row.shape[1]
    lanes = fragment.row.shape[0]
    groups = m.T // lanes
    c = np.broadcast_to(acc[0][1], (count, m.B, m.T)).reshape(count, m.B, groups, lanes)
    at = inverse(fragment, attr.m, attr.n)
    flat = c.transpose(1, 2, 0, 3).reshape(m.B, groups, count * lanes)[..., at]
    try:
        out = arith_matrix.mma(model, a[0][1], b[0][1], flat)
    except UnsupportedArithmetic:
        return None
    return const_hash(to_fragment(np.asarray(out).astype(np.uint64), fragment)), CONC


