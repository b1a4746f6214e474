"""Core operations to closures: one Python function per operation, made once per program.

In: a program. Out: a list of steps (None: control, which the machine runs itself). Values, guards
and destinations are handled here once; what an operation computes is a small function elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from checker.core import OPS, Const, Guard, Mem, Op, Program
from checker.replay import access, asynchronous, batch, lanes, matrix, sync
from checker.replay.facts import MNZ, OPQ, Mask
from checker.replay.hashing import combine_all, key
from checker.replay.intbits import BITS
from checker.replay.integers import DIVISIONS, int_op, result_width, select
from checker.replay.machine import EMPTY, Apart, Machine, Step
from checker.replay.matrix_runs import matrix_runs
from checker.replay.result import Unsupported
from checker.replay.schedule import Kind, runs
from checker.replay.speculate import always
from checker.replay.values import (
    Conc,
    Hash,
    V,
    const,
    hash_of,
    make_pack,
    resize,
    split,
    undefined,
)

__all__ = ["decode"]

Compute = Callable[[Machine, list[V], "Mask | None"], V]
_CONTROL = frozenset({"branch", "switch", "exit", "trap", "barrier", "mbar_test"})


def decode(program: Program, block_of: Sequence[int]) -> list[Step | None]:
    """Steps of a program; the first of a run of like float operations does all of them."""
    steps: list[Step | None] = [_nothing] * len(program.ops)
    once = dict.fromkeys(range(len(steps)))  # places of operations that are done one by one
    late = [*matrix_runs(program, block_of, operands), *_memory_runs(program, block_of)]
    for places in batch.runs(program, block_of, [places for places, _ in late]):
        ops = [program.ops[at] for at in places]
        for at in places:
            del once[at]
        steps[places[0]] = batch.step(program, ops, [operands(op) for op in ops],
                                      program.reg_widths[ops[0].dst[0]])
    for places, whole in late:
        for at in places:
            del once[at]
        steps[places[-1]] = _together(program, places, whole)
    for at in once:
        steps[at] = _step(program, program.ops[at])
    return steps


def _memory_runs(program: Program, block_of: Sequence[int]
                 ) -> Iterator[tuple[list[int], Callable[[Machine], bool]]]:
    """Runs of loads, of asynchronous copies and of matrix loads."""
    present = {op.name for op in program.ops}
    for name, like, every in (("load", _loaded, access.loads_together),
                              ("ldmatrix", _like, access.ldmatrix_together),
                              ("acopy", _like, asynchronous.together)):
        if name not in present:
            continue
        kind = Kind(partial(like, name), _registers_only)
        for places in runs(program, block_of, kind):
            ops = [program.ops[at] for at in places]
            yield places, partial(_all_of, every, ops, [operands(op) for op in ops])


def _all_of(every: Callable[[Machine, list[Op], list[list[V]]], bool], ops: list[Op],
            reads: list[Callable[[Machine], list[V]]], m: Machine) -> bool:
    return every(m, ops, [read(m) for read in reads])


def _like(name: str, op: Op) -> Hashable | None:
    if op.name != name or op.guard is not None:
        return None
    return (op.attr, len(op.dst), len(op.src))


def _loaded(name: str, op: Op) -> Hashable | None:
    """Equal for loads of one kind, wherever they load from."""
    if op.name != name or op.attr.volatile or op.attr.space not in ("global", "shared"):
        return None
    kind: Mem = replace(op.attr, offset_bytes=0)
    return kind


def _registers_only(op: Op) -> bool:
    """Whether an operation touches no memory and orders nothing."""
    if op.name not in OPS or op.name in _CONTROL:
        return False
    return OPS[op.name].kind in ("int", "pred", "float", "cvt", "move") or (
        op.name == "mma" and op.attr.unit == "mma.sync")


def _together(program: Program, places: list[int], whole: Callable[[Machine], bool]) -> Step:
    """A run at once; where something is to be reported or refused, one by one."""
    single: list[Step | None] = []

    def run(m: Machine) -> None:
        m.together = True
        try:
            if whole(m):
                return
        except (Apart, Unsupported):
            pass
        finally:
            m.together = False
        if not single:
            single.extend(_step(program, program.ops[at]) for at in places)
        for at, one in zip(places, single, strict=True):
            m.pc = at
            assert one is not None
            one(m)

    return run


@lru_cache(maxsize=4096)
def _literal(s: Const) -> V:
    """A literal's value, which is never written to."""
    return const(s.bits, s.width_bits)


_ANY = const(0, 1)  # stands where a register's value goes


def operands(op: Op) -> Callable[[Machine], list[V]]:
    """A function that reads an operation's sources."""
    fixed = [_ANY if isinstance(s, int) else _literal(s) for s in op.src]
    regs = [(i, s) for i, s in enumerate(op.src) if isinstance(s, int)]

    def read(m: Machine) -> list[V]:
        table, out = m.regs, fixed.copy()
        for i, r in regs:
            v = table[r]
            out[i] = undefined(m.program.reg_widths[r]) if v is None else v
        return out

    return read


def _step(program: Program, op: Op) -> Step | None:
    name = op.name
    if name in _CONTROL:
        return None
    if name not in OPS:
        return _missing(name)
    kind = OPS[name].kind
    if name in ("nop", "prefetch", "fence", "mma_fence"):
        return _nothing
    width = program.reg_widths[op.dst[0]] if op.dst else 0
    if kind in ("int", "pred") and name not in ("fcmp", "fclass"):
        return _pure(program, op, _integer(name, op.attr, result_width(name, op.attr, width)))
    if kind in ("float", "cvt") or name in ("fcmp", "fclass"):
        return _pure(program, op, _float(name, op.attr, width))
    if kind == "move":
        return _pure(program, op, _move(op, width))
    if kind == "lane":
        return _special(op) if name == "special" else lanes.step(program, op, operands(op))
    if kind == "opaque":
        return _opaque(program, op)
    makers = (access.step, asynchronous.step, sync.step, matrix.step)
    for make in makers:
        step = make(program, op, operands(op))
        if step is not None:
            return step
    return _missing(name)


def _missing(name: str) -> Step:
    def run(m: Machine) -> None:
        raise m.unsupported("operation", f"core operation {name} is not modelled")

    return run


def _nothing(m: Machine) -> None:
    return


def _pure(program: Program, op: Op, compute: Compute) -> Step:
    """An operation without effects but its one destination."""
    read, guard = operands(op), op.guard
    if not op.dst:
        return _nothing
    dst = op.dst[0]
    width = program.reg_widths[dst]
    if guard is None:
        def plain(m: Machine) -> None:
            mask = m.mask
            v = compute(m, read(m), mask)
            if v.w != width:
                v = resize(v, width)
            if mask is None or m.solo:
                m.regs[dst] = v
            else:
                m.put(dst, v, mask, False)

        return plain

    return _guarded(program, op, compute, guard)


def _guarded(program: Program, op: Op, compute: Compute, guard: Guard) -> Step:
    """Such an operation where a guard holds."""
    read, dst = operands(op), op.dst[0]
    width = program.reg_widths[dst]

    def run(m: Machine) -> None:
        on = m.guard(guard, always)
        if on is EMPTY:
            return
        if on is None or isinstance(on, np.ndarray):
            v = compute(m, read(m), on)
            m.put(dst, v if v.w == width else resize(v, width), on, on is not m.mask)
            return
        assert isinstance(on, Conc | Hash) or hasattr(on, "parts")
        v = compute(m, read(m), m.mask)
        v = v if v.w == width else resize(v, width)
        old = m.read(dst)
        both = select(on, old, v, m.mask) if guard.neg else select(on, v, old, m.mask)  # type: ignore[arg-type]
        m.put(dst, both, m.mask, False)

    return run


def _integer(name: str, attr: Any, width: int) -> Compute:
    bits = BITS[name]
    if name in DIVISIONS:
        return lambda m, values, mask: int_op(name, attr, values, mask, width)

    def run(m: Machine, values: list[V], mask: Mask | None) -> V:
        for v in values:
            if type(v) is not Conc or v.defined is not None:
                return int_op(name, attr, values, mask, width)
        return Conc(bits(*[v.bits for v in values], attr), width)  # type: ignore[union-attr]

    return run


def _float(name: str, attr: Any, width: int) -> Compute:
    def run(m: Machine, values: list[V], mask: Mask | None) -> V:
        return m.domain.float_op(name, attr, values, mask, width)

    return run


def _move(op: Op, width: int) -> Compute:
    name, attr = op.name, op.attr
    if name == "mov":
        return lambda m, v, mask: v[0]
    if name == "pack":
        return lambda m, v, mask: make_pack(v)
    if name == "extract":
        lo, w = attr
        return lambda m, v, mask: split(v[0], lo, w)
    if name == "trunc":
        return lambda m, v, mask: split(v[0], 0, attr[1])
    if name in ("zext", "sext"):
        start, end = attr

        def extend(m: Machine, v: list[V], mask: Mask | None) -> V:
            narrow = v[0] if v[0].w == start else split(v[0], 0, start)
            return int_op(name, attr, [narrow], mask, end)

        return extend
    if name == "select":
        return lambda m, v, mask: select(v[0], v[1], v[2], mask)
    if name == "prmt":
        return _integer("prmt", attr, 32)
    raise ValueError(name)


# --- special registers ----------------------------------------------------------------------------


def _special(op: Op) -> Step:
    name, dst, guard = str(op.attr), op.dst, op.guard

    def run(m: Machine) -> None:
        on = m.mask if guard is None else m.guard(guard)
        if on is EMPTY or not dst:
            return
        width = m.program.reg_widths[dst[0]]
        bits = special_value(m, name)
        if bits is None:
            raise m.unsupported("special", f"special register {name} is not modelled")
        m.put(dst[0], Conc(bits.astype(np.uint64), width), on, guard is not None)  # type: ignore[arg-type]

    return run


def special_value(m: Machine, name: str) -> Any:
    """Bits of a special register per lane."""
    name = name.lstrip("%")
    base, _, axis = name.partition(".")
    dim = "xyz".find(axis) if axis else -1
    lane, (bx, by, _) = m.lane_index, m.dims
    one = np.ones((1, 1), dtype=np.int64)
    if base == "tid" and dim >= 0:
        return (lane % bx, lane // bx % by, lane // (bx * by))[dim]
    if base == "ntid" and dim >= 0:
        return one * m.dims[dim]
    if base in ("ctaid", "clusterid") and dim >= 0:
        return m.blocks[:, dim].reshape(-1, 1)
    if base in ("nctaid", "nclusterid") and dim >= 0:
        return one * m.launch.grid[dim]
    if base in ("cluster_ctaid", "cluster_nctaid") and dim >= 0:
        return one * (base == "cluster_nctaid")
    if base in ("cluster_ctarank", "cluster_nctarank"):
        return one * (base == "cluster_nctarank")
    if base == "is_explicit_cluster":
        return one * 0
    if base == "laneid":
        return lane % m.width
    if base == "warpid":
        return lane // m.width
    if base == "nwarpid":
        return one * m.warps
    if base.startswith("lanemask_"):
        at = (lane % m.width).astype(np.uint64)
        bit = np.uint64(1) << at
        below, every = bit - np.uint64(1), np.uint64((1 << m.width) - 1)
        return {"eq": bit, "lt": below, "le": below | bit, "ge": every & ~below,
                "gt": every & ~(below | bit)}[base[9:]]
    if base == "cache_policy":  # a hint
        return one * 0
    if base in ("dynamic_smem_size", "total_smem_size"):
        return None if m.launch.shared_bytes is None else one * m.launch.shared_bytes
    return None


# --- opaque ---------------------------------------------------------------------------------------


def _opaque(program: Program, op: Op) -> Step:
    """Not modelled: every destination becomes a marked function of all lanes' operands."""
    read, text = operands(op), str(op.attr)
    site = op.site

    def run(m: Machine) -> None:
        on = m.mask if op.guard is None else m.guard(op.guard)
        if on is EMPTY:
            return
        if not op.dst or "[" in text:
            raise m.unsupported("opaque", f"an instruction that may change memory or control is "
                                          f"not modelled: {text}")
        m.memory.opaque_sites.add(site)
        mask = on if on is None or isinstance(on, np.ndarray) else m.mask
        children = [hash_of(v)[0] for v in read(m)]
        where = np.stack(np.broadcast_arrays(m.whole_warp.astype(np.uint64),
                                             m.lane_index.astype(np.uint64)))
        for i, d in enumerate(op.dst):
            w = m.program.reg_widths[d]
            h = combine_all(key(f"opaque {i} {text}"), [where, *children])
            m.put(d, Hash(h, MNZ | OPQ, w), mask, op.guard is not None)

    return run


