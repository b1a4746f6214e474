"""Tensor memory and its matrix unit: tcgen05 (PTX ISA 9.7.16).

M, N and the operand types of `tcgen05.mma` stand in the instruction descriptor, a register: the
Mma attribute has m = n = 0, the kind's K, `a.type` the kind, and `extra` names the descriptor.
"""

from __future__ import annotations

import re

from checker.core import Const, MatrixOperand, Mma, Source, TensorMemory
from checker.ptx.context import Line, Refuse, row
from checker.syntax import Address, Immediate, Name

_KINDS = {"kind::f16": 16, "kind::tf32": 8, "kind::f8f6f4": 32, "kind::i8": 32}


def _ctas(x: Line) -> int:
    return 2 if x.one_of("cta_group::1", "cta_group::2", default="") == "cta_group::2" else 1


def _address(x: Line, operand: int) -> Source:
    """`[taddr + offset]` in tensor memory (32 bits)."""
    base, offset, space = x.address(operand)
    if space or x.width(base) != 32:
        raise Refuse("tensor memory address")
    return x.plus(base, offset)


@row("tcgen05.alloc")
def alloc(x: Line) -> None:
    """tcgen05.alloc.cta_group.sync.aligned{.shared::cta}.b32 [dst], columns."""
    x.count(2)
    ctas = _ctas(x)
    x.ignore("sync", "aligned")
    space = x.one_of("shared::cta", "shared", default="").split("::")[0]
    x.only(x.type(), "b32")
    x.put("tmem", (), (x.flat(0, space), x.source(1, "u32")), TensorMemory("alloc", ctas=ctas))


@row("tcgen05.dealloc")
def dealloc(x: Line) -> None:
    """tcgen05.dealloc.cta_group.sync.aligned.b32 taddr, columns."""
    x.count(2)
    ctas = _ctas(x)
    x.ignore("sync", "aligned")
    x.only(x.type(), "b32")
    x.put("tmem", (), (x.source(0, "b32"), x.source(1, "u32")),
          TensorMemory("dealloc", ctas=ctas))


@row("tcgen05.relinquish_alloc_permit")
def relinquish(x: Line) -> None:
    """tcgen05.relinquish_alloc_permit.cta_group.sync.aligned."""
    x.count(0)
    ctas = _ctas(x)
    x.ignore("sync", "aligned")
    x.put("tmem", (), (), TensorMemory("relinquish", ctas=ctas))


def _shape(x: Line) -> tuple[str, int]:
    shape = x.one_of("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")
    for mod in x.mods:
        match = re.fullmatch(r"x(\d+)", mod)
        if match:
            x.mods.remove(mod)
            return shape, int(match[1])
    raise Refuse("repeat count")


_WORDS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


@row("tcgen05.ld")
def ld(x: Line) -> None:
    """tcgen05.ld.sync.aligned.shape.xN{.pack::16b}.b32 {r..}, [taddr]{, half split}."""
    x.ignore("sync", "aligned")
    shape, num = _shape(x)
    pack = x.has("pack::16b")
    x.only(x.type(), "b32")
    split = shape == "16x32bx2"
    x.count(3 if split else 2)
    items = x.vector(0)
    if len(items) != num * _WORDS[shape]:
        raise Refuse("register count")
    extra = (Const(x.literal(2), 32),) if split else ()
    x.put("tmem", tuple(x.dest(i, 32) for i in items), (_address(x, 1), *extra),
          TensorMemory("ld", shape, num, pack))


@row("tcgen05.st")
def st(x: Line) -> None:
    """tcgen05.st.sync.aligned.shape.xN{.unpack::16b}.b32 [taddr]{, half split}, {r..}."""
    x.ignore("sync", "aligned")
    shape, num = _shape(x)
    pack = x.has("unpack::16b")
    x.only(x.type(), "b32")
    split = shape == "16x32bx2"
    count = x.count(3 if split else 2)
    items = x.vector(count - 1)
    if len(items) != num * _WORDS[shape]:
        raise Refuse("register count")
    extra = (Const(x.literal(1), 32),) if split else ()
    src = (_address(x, 0), *extra, *[x.source(i, "b32") for i in items])
    x.put("tmem", (), src, TensorMemory("st", shape, num, pack))


@row("tcgen05.wait::ld", "tcgen05.wait::st")
def wait(x: Line) -> None:
    """tcgen05.wait::{ld,st}.sync.aligned: the thread's own moves so far are over."""
    x.count(0)
    if not x.has("sync"):
        raise Refuse("wait form")
    x.ignore("aligned")
    x.put("tmem", (), (), TensorMemory("wait_" + x.ins.opcode.split("::")[1][:2]))


@row("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(x: Line) -> None:
    """tcgen05.fence::...: orders tensor memory accesses of different threads."""
    x.count(0)
    x.put("fence", (), (), x.ins.opcode)


@row("tcgen05.cp")
def cp(x: Line) -> None:
    """tcgen05.cp.cta_group.shape{.multicast} [taddr], s-desc; converting forms are refused."""
    x.count(2)
    ctas = _ctas(x)
    shape = x.one_of("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
    shape += x.one_of("warpx2::02_13", "warpx2::01_23", "warpx4", default="")
    x.put("tmem", (), (_address(x, 0), x.source(1, "b64")), TensorMemory("cp", shape, ctas=ctas))


@row("tcgen05.shift")
def shift(x: Line) -> None:
    """tcgen05.shift.cta_group.down [taddr]."""
    x.count(1)
    ctas = _ctas(x)
    if not x.has("down"):
        raise Refuse("shift direction")
    x.put("tmem", (), (_address(x, 0),), TensorMemory("shift", ctas=ctas))


@row("tcgen05.mma")
def mma(x: Line) -> None:
    """tcgen05.mma.cta_group.kind [d], a-desc | [a], b-desc, idesc, enable-input-d.

    Refused: .ws, block scaling, sparse, disable-output-lane, scale-input-d, .ashift, a collector
    that is read (.use, .lastuse); the other collector words only say what may be kept.
    """
    x.count(5)
    ctas = _ctas(x)
    kind = x.one_of(*_KINDS)
    x.ignore("collector::a::fill", "collector::a::discard")
    d = _address(x, 0)
    item = x.operands[1]
    if isinstance(item, Address):
        a = MatrixOperand("tmem", kind)
        a_src = _address(x, 1)
    else:
        a = MatrixOperand("smem", kind)
        a_src = x.source(1, "b64")
    b, idesc = x.source(2, "b64"), x.source(3, "b32")
    enable: Source
    flag = x.operands[4]
    if isinstance(flag, Immediate):
        enable = Const(int(flag.value != 0), 1)
    elif isinstance(flag, Name):
        enable = x.predicate(4)
    else:
        raise Refuse("enable-input-d")
    x.put("mma", (), (a_src, b, d, enable, idesc), Mma(
        "tcgen05", x.builder.target, 0, 0, _KINDS[kind], a, MatrixOperand("smem", kind),
        MatrixOperand("tmem", kind), "", has_scale_d=True, lanes=1, extra=("idesc",) if ctas == 1
        else ("idesc", "cta_group::2")))


@row("tcgen05.commit")
def commit(x: Line) -> None:
    """tcgen05.commit.cta_group.mbarrier::arrive::one{.shared::cluster}{.multicast}.b64 [mbar].

    Without a space the address is generic by the manual. Triton 3.6 gives a shared one, widened
    with zeros: the low word is the address in shared memory of both (premise `commit-address`).
    """
    _ctas(x)
    if not x.has("mbarrier::arrive::one"):
        raise Refuse("commit form")
    multicast = x.has("multicast::cluster")
    if multicast:
        raise Refuse("multicast commit")
    x.count(1)
    space = x.one_of("shared::cluster", "shared::cta", "shared", default="").split("::")[0]
    x.only(x.type(), "b64")
    base, offset, own = x.address(0)
    generic = not space and not own
    if generic:
        if x.width(base) != 64:
            raise Refuse("a generic address has 64 bits")
        at: Source = x.emit("extract", 32, (x.plus(base, offset),), (0, 32))
    else:
        at = x.flat(0, space)
    x.put("mma_commit_mbar", (), (at,), ("tcgen05", generic))
