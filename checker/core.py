"""Core program: the one small language that both vendors' instructions are lowered to.

In: nothing (data and the operator table). Out: `Program`, which the walk and the replay run.
Registers are untyped bit vectors of a fixed width; predicates have width 1. An operation names its
meaning entirely: name + attribute. What no row understands is `opaque` with its full text.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from checker.errors import Span
from checker.record import record
from checker.syntax import SourceLoc

__all__ = [
    "GENERIC_LOCAL", "GENERIC_PARAM", "GENERIC_SHARED", "MODULE_BASE", "OPS", "Approx",
    "AsyncCopy", "Atomic",
    "Barrier",
    "BulkCopy", "Compare", "Const", "Conv", "DataBlock", "FloatMode", "Fragment", "Guard",
    "LdMatrix", "MatrixOperand", "Mem", "Mma", "Op", "OpInfo", "Param", "Program", "Site",
    "TensorMemory",
]

# Generic addresses: where the shared, local and module windows sit in the 64-bit generic space.
# Real windows are unknown at compile time; a kernel whose bits depend on them is not modelled.
GENERIC_SHARED = 0x7A00_0000_0000_0000
GENERIC_LOCAL = 0x7B00_0000_0000_0000
GENERIC_PARAM = 0x7D00_0000_0000_0000  # the kernel's argument block (`cvta.param`, tensor maps)
MODULE_BASE = 0x7C00_0000_0000_0000  # `.global`/`.const` variables of the module itself


@record
class Const:
    """A literal operand: `bits` is unsigned and below 2**width_bits."""

    bits: int
    width_bits: int


Source = int | Const  # a register's index, or a literal


@record
class Guard:
    """The operation acts only in lanes where predicate register `reg` is set (clear if `neg`).

    In the other lanes every destination keeps its old value.
    """

    reg: int
    neg: bool


# --- attributes -------------------------------------------------------------------------------


@record
class FloatMode:
    """How a float operation rounds.

    type: f16 bf16 f32 f64 (tf32 as a conversion target only).
    rnd: rn rz rm rp. denorm: keep | flush (inputs and result) | flush_in | flush_out; flushing
    keeps the sign. saturate: clamp to [0, 1], NaN to +0. relu: negative and NaN... per `nan`.
    nan (min/max only): "num" (the other operand wins over a NaN), "nan" (a NaN propagates).
    xorsign_abs: PTX `.xorsign.abs`.
    contract: the assembler below the text may fuse this with a neighbour (plain PTX `mul`/`add`).
    """

    type: str
    rnd: str = "rn"
    denorm: str = "keep"
    saturate: bool = False
    relu: bool = False
    nan: str = "num"
    xorsign_abs: bool = False
    contract: bool = False


@record
class Conv:
    """A conversion between number types, at least one of them a float type.

    src, dst: f16 bf16 f32 f64 tf32 e4m3 e5m2 e2m1 e2m3 e3m2 ue8m0, or u8..u64, s8..s64.
    rnd: rn rna rz rm rp (to float), rni rzi rmi rpi (to integer, or float to integral float),
    "" when exact. saturate: [0,1] clamp (`.sat`); satfinite: overflow to the largest finite.
    Float to integer clamps to the integer's range. A NaN gives 0, but 2**(width - 1) where the
    source is f64 or the destination has 64 bits, unless `nan_zero` says that it is 0 there too.
    """

    src: str
    dst: str
    rnd: str = ""
    denorm: str = "keep"
    saturate: bool = False
    satfinite: bool = False
    relu: bool = False
    nan_zero: bool = False


@record
class Approx:
    """An approximate function: equal only to itself on the same unit.

    fn: "ex2.approx", "rcp.approx", "div.full", "v_exp_f32", ...; unit: "sm_90", "gfx942", ...
    """

    fn: str
    unit: str
    mode: FloatMode


@record
class Compare:
    """cond: eq ne lt le gt ge (integers: plus `signed`; floats: ordered), and for floats also
    equ neu ltu leu gtu geu (true when unordered), num (neither is NaN), nan (one is).

    type: "u8".."u64", "s8".."s64", "b8".."b64" or a float type. reach: the range check of a buffer
    that spans all that 31 bits reach: where a mask chooses between an offset and one out of range,
    what it lets through is in range (premise buffer-reach).
    """

    cond: str
    type: str
    denorm: str = "keep"
    reach: bool = False


@record
class Mem:
    """A load or store of `count` elements of `width_bits` at address + offset_bytes + i * width.

    space: global shared local param const generic scratch. Alignment: `align_bytes` is what the
    instruction requires. `volatile` also marks relaxed/acquire/release forms. `constant`: the text
    promises that nobody writes there while the kernel runs (what was written may not be seen).
    """

    space: str
    width_bits: int
    count: int = 1
    offset_bytes: int = 0
    align_bytes: int = 1
    volatile: bool = False
    constant: bool = False


@record
class Atomic:
    """A read-modify-write: op add min max and or xor exch cas inc dec; type u32 s32 b32 f32 ..."""

    space: str
    op: str
    type: str
    offset_bytes: int = 0
    count: int = 1
    denorm: str = "keep"


@record
class Barrier:
    """kind: cta (all threads or `count` of barrier `id`), shared, warp, cluster.

    action: sync | arrive | red_and | red_or | red_popc; of a cluster: arrive | arrive_relaxed |
    wait. src: (id, count?, predicate?).
    shared: as cta, but accesses to memory that is not shared may be under way when threads come.
    aligned: the lanes of a warp come together (to all but the replay that is nothing).
    """

    kind: str
    action: str = "sync"
    has_count: bool = False
    aligned: bool = field(default=False, repr=False)

    @property
    def shared_only(self) -> bool:
        """Whether it orders shared memory only."""
        return self.kind == "shared"

    @property
    def scope(self) -> str:
        """Whose barrier it is: cta, warp, cluster."""
        return "cta" if self.shared_only else self.kind


@record
class AsyncCopy:
    """`cp.async`: `size_bytes` to shared; src = (shared address, global address, source bytes).

    Bytes beyond the source size are written as zero. Visible after acopy_wait and a barrier.
    """

    size_bytes: int


@record
class BulkCopy:
    """Bulk and tensor copies.

    kind: g2s s2g s2s g2c(prefetch) reduce; dims 0 (plain bytes) to 5; mode tile | im2col | ...;
    src order: dims 0: (dst, src, size_bytes, mbar?); dims > 0: g2s (shared dst, tensormap,
    coordinate..., mbar), s2g/reduce (tensormap, coordinate..., shared src).
    completion: mbar | group. reduce_op: add min max ... ; multicast: extra mask operand at the end.
    """

    kind: str
    dims: int
    mode: str = "tile"
    completion: str = "mbar"
    reduce_op: str = ""
    multicast: bool = False
    ctas: int = 1


@record
class LdMatrix:
    """`ldmatrix`/`stmatrix`: `num` 8x8 matrices of b16 (rows x cols given), trans or not."""

    num: int
    trans: bool
    rows: int = 8
    cols: int = 8
    elem_bits: int = 16


class Fragment:
    """Which matrix element each lane's register part holds: arrays `row`, `col` [lane][element].

    Element e of a lane sits in register e // p, part e % p (p = reg_bits // elem_bits; 0 lowest).
    Compared by identity; made once per shape by the front end that knows the manual's figure.
    """

    __slots__ = ("col", "elem_bits", "name", "reg_bits", "row")

    def __init__(self, name: str, row: Any, col: Any, elem_bits: int, reg_bits: int = 32) -> None:
        self.name, self.row, self.col = name, row, col
        self.elem_bits, self.reg_bits = elem_bits, reg_bits

    def __repr__(self) -> str:
        return f"Fragment({self.name})"


@record
class MatrixOperand:
    """Where one operand of a matrix step lives.

    source: regs (then `fragment`, `regs` registers in src), smem (one 64-bit descriptor register
    in src; `transposed`: the MN-major form), tmem (one address register in src).
    type: f16 bf16 tf32 e4m3 e5m2 f64 f32 s8 u8 s4 u4 b1 ...; neg: times -1 (wgmma imm-scale).
    """

    source: str
    type: str
    fragment: Fragment | None = None
    regs: int = 0
    transposed: bool = False
    neg: bool = False


@record
class Mma:
    """One matrix step D = A[m,k] * B[k,n] + C, over one warp (or four: wgmma; or one CTA).

    src = A's registers or descriptor, B's, C's registers, then scale_d (predicate) if has_scale_d
    (false: C is ignored and taken as +0), then `extra` operands. dst = D's registers (or none for
    tmem). unit: mma.sync wgmma tcgen05 mfma wmma; target: sm_90 ...; c and d share a fragment.
    satfinite: integer saturation. blocks: independent products (mfma 4x4x4 has 16).
    """

    unit: str
    target: str
    m: int
    n: int
    k: int
    a: MatrixOperand
    b: MatrixOperand
    c: MatrixOperand
    d_type: str
    has_scale_d: bool = False
    satfinite: bool = False
    blocks: int = 1
    lanes: int = 32
    denorm: str = "keep"
    extra: tuple[str, ...] = ()


@record
class TensorMemory:
    """tcgen05 data movement: shape, num, pack.

    action: alloc dealloc ld st wait_ld wait_st cp relinquish shift.
    """

    action: str
    shape: str = ""
    num: int = 1
    pack: bool = False
    ctas: int = 1


# --- the program ------------------------------------------------------------------------------


@record
class Op:
    """One core operation; `site` indexes Program.sites."""

    name: str
    dst: tuple[int, ...]
    src: tuple[Source, ...]
    attr: Any
    guard: Guard | None
    site: int

    @property
    def reads(self) -> list[int]:
        """The registers it reads, in order and as often as it does; its guard's is the last."""
        reads = [s for s in self.src if isinstance(s, int)]
        return reads if self.guard is None else [*reads, self.guard.reg]


@record
class Site:
    """The instruction an operation came from."""

    span: Span
    text: str
    loc: SourceLoc | None


@record
class Param:
    """A kernel parameter: position `index`, byte offset in the argument block, size in bytes."""

    index: int
    name: str
    offset_bytes: int
    size_bytes: int
    pointer: bool


@record
class DataBlock:
    """A module variable at a fixed address: MODULE_BASE + offset (global, const).

    outside: the text does not say what it holds (`.extern`, a texture, a function's address); then
    it is known by its name.
    """

    name: str
    space: str
    address: int
    size_bytes: int
    init: bytes | None
    outside: bool = False


@record
class Program:
    """A kernel as core operations.

    block: (x, y, z) where the text fixes it (`.reqntid`), else None; max_threads: the most
    that the text allows, max_block: the largest by dimension (`.maxntid`).
    Branch targets are operation indices; index len(ops) means the end. `calls` are inlined.
    static_shared_bytes: shared variables sit at [0, n); dynamic shared memory starts at
    `dynamic_shared_base`. premises: short codes that lowering already rests on.
    findings: defects seen in the text itself (a missing wait, say) as (site, message).
    powers_of_two: positions of parameters that are declared to hold such (`checker.assume`).
    lockstep: the lanes of a warp run each instruction together and reach memory in that order.
    """

    name: str
    isa: str
    target: str
    warp_size: int
    block: tuple[int, int, int] | None
    max_threads: int | None
    params: tuple[Param, ...]
    ops: tuple[Op, ...]
    reg_widths: tuple[int, ...]
    reg_names: tuple[str, ...]
    sites: tuple[Site, ...]
    data: tuple[DataBlock, ...] = ()
    static_shared_bytes: int = 0
    dynamic_shared_base: int | None = None
    local_bytes: int = 0
    premises: frozenset[str] = frozenset()
    findings: tuple[tuple[int, str], ...] = ()
    file: str = "<text>"
    powers_of_two: frozenset[int] = frozenset()
    lockstep: bool = False
    max_block: tuple[int, int, int] | None = None


# --- the operator table -----------------------------------------------------------------------


@record
class OpInfo:
    """What the engines may assume of an operation.

    kind: int pred float cvt move lane memory sync matrix control opaque.
    commutative: the first two sources may be swapped for every input (NaN payload aside).
    rounding: the result is rounded (False: exact).
    """

    kind: str
    sources: str
    attr: str
    commutative: bool = False
    rounding: bool = False
    doc: str = field(default="", compare=False)


def _table() -> dict[str, OpInfo]:
    """Rows: name, kind, sources, attribute, flags, meaning. w = width in bits (the attribute)."""
    ops: dict[str, OpInfo] = {}

    def row(names: str, kind: str, sources: str, attr: str, doc: str, comm: bool = False,
            rounding: bool = False) -> None:
        for name in names.split():
            ops[name] = OpInfo(kind, sources, attr, comm, rounding, doc)

    # moves and packing: exact, any type
    row("mov", "move", "a", "w", "d = a")
    row("pack", "move", "parts", "w", "d = parts joined, first lowest; w = the result's width")
    row("extract", "move", "a", "(lo, w)", "d = bits [lo, lo+w) of a")
    row("zext sext trunc", "move", "a", "(from, to)", "change of width")
    row("select", "move", "c a b", "w", "d = c ? a : b; c has width 1")
    row("prmt", "move", "a b sel", "mode",
        "byte permute of {b,a}; mode '' f4e b4e rc8 ecl ecr rc16")
    # integers modulo 2**w
    row("iadd imul iand ior ixor imin_u imin_s imax_u imax_s imulhi_u imulhi_s", "int", "a b", "w",
        "wrapping, bitwise, min/max, high half of the product", comm=True)
    row("isub", "int", "a b", "w", "a - b")
    row("imulwide_u imulwide_s", "int", "a b", "w", "2w-bit product of w-bit sources", comm=True)
    row("idiv_u idiv_s irem_u irem_s", "int", "a b", "w",
        "truncating division; b == 0 is undefined")
    row("ineg inot iabs popc clz brev bfind_u bfind_s", "int", "a", "w",
        "popc/clz/bfind give 32 bits")
    row("shl shr_u shr_s", "int", "a n", "w",
        "amounts >= w give 0 (shr_s: the sign); n is 32 bits")
    row("bfe_u bfe_s", "int", "a pos len", "w", "PTX bit field extract")
    row("bfi", "int", "f base pos len", "w", "PTX bit field insert of f into base")
    row("fshl fshr", "int", "lo hi n", "mode",
        "funnel shift of {hi,lo}; mode wrap | clamp; 32 bits")
    row("lop3", "int", "a b c", "lut", "bitwise function of three")
    row("isad_u isad_s", "int", "a b c", "w", "c + |a - b|")
    row("iadd_sat isub_sat", "int", "a b", "type", "saturating; type s32, u32, s16, ...")
    row("dp4a dp2a", "int", "a b c", "(atype, btype, hi)", "dot product of bytes, accumulate")
    row("icmp", "pred", "a b", "Compare", "integer compare")
    row("pand por pxor", "pred", "p q", "None", "logic on predicates", comm=True)
    row("pnot", "pred", "p", "None", "")
    row("carry", "int", "a b cin", "w", "carry out (width 1) of a + b + cin; cin has width 1")
    row("borrow", "int", "a b bin", "w", "borrow out (width 1) of a - b - bin")
    # floats
    row("fadd fmul", "float", "a b", "FloatMode", "", comm=True, rounding=True)
    row("fsub fdiv", "float", "a b", "FloatMode", "fdiv: correctly rounded", rounding=True)
    row("ffma", "float", "a b c", "FloatMode", "one rounding; a and b may be swapped", comm=True,
        rounding=True)
    row("fmin fmax", "float", "a b", "FloatMode", "+0 > -0", comm=True)
    row("fmin3 fmax3", "float", "a b c", "FloatMode", "", comm=True)
    row("fneg fabs", "float", "a", "FloatMode", "sign bit only (after input flush)")
    row("fcopysign", "float", "a b", "FloatMode", "magnitude of b, sign of a (PTX order)")
    row("fsqrt frcp", "float", "a", "FloatMode", "correctly rounded", rounding=True)
    row("fldexp", "float", "a n", "FloatMode", "a * 2**n, n s32", rounding=True)
    row("fapprox", "float", "args", "Approx", "a fixed, unit-specific approximation", rounding=True)
    row("fcmp", "pred", "a b", "Compare", "float compare")
    row("fclass", "pred", "a", "(test, type)", "finite infinite number notanumber normal subnormal")
    row("fcvt", "cvt", "a", "Conv", "", rounding=True)
    # lanes
    row("special", "lane", "", "name",
        "tid.x ctaid.y ntid.z nctaid.x laneid warpid nwarpid smid ...")
    row("gather", "lane", "value lane mask?", "w", "d = value of lane `lane` of the same warp; "
        "undefined where that is off, or a mask is given and does not name it")
    row("first", "lane", "value", "w", "d = value of the lowest active lane of the warp")
    row("ballot", "lane", "p", "w",
        "bit i = p in active lane i; w = 32 or 64; 0 for inactive lanes")
    row("lanebit", "lane", "mask", "None", "p = bit `laneid` of mask")
    row("match_any match_all", "lane", "value mask", "w", "")
    row("redux", "lane", "value mask", "(op, type)", "warp-wide integer (or f32 min/max) reduction")
    row("elect", "lane", "mask", "None",
        "dst = (leader lane u32, p): p in the lowest lane of mask")
    row("activemask", "lane", "", "w", "")
    # memory
    row("load", "memory", "address", "Mem", "dst = count registers")
    row("store", "memory", "address values", "Mem", "")
    row("atomic", "memory", "address values", "Atomic", "dst = old value(s) or none")
    row("acopy", "memory", "shared_addr global_addr src_bytes", "AsyncCopy", "cp.async")
    row("acopy_commit", "sync", "", "None", "")
    row("acopy_wait", "sync", "", "n",
        "at most n groups pending; None: all copies, committed or not")
    row("acopy_arrive", "sync", "mbar", "noinc", "cp.async.mbarrier.arrive")
    row("bulk", "memory", "see BulkCopy", "BulkCopy", "")
    row("bulk_commit", "sync", "", "None", "")
    row("bulk_wait", "sync", "", "(n, read)", "")
    row("tensormap_set", "memory", "map_addr value", "(field, ordinal)", "tensormap.replace")
    row("ldmatrix stmatrix", "memory", "address values", "LdMatrix", "")
    row("members", "lane", "mask", "None",
        "the lanes of mask, the acting one among them, run what follows together; no value")
    row("movmatrix", "lane", "value", "None", "8x8 b16 transpose across the warp")
    row("prefetch", "sync", "address", "text", "no effect on values")
    # synchronisation
    row("barrier", "sync", "id count? p?", "Barrier", "")
    row("fence", "sync", "", "text", "orders memory; no value")
    row("mbar_init", "sync", "addr count", "None", "")
    row("mbar_inval", "sync", "addr", "None", "")
    row("mbar_arrive", "sync", "addr count tx", "(drop, expect_tx)",
        "dst = state (64 bits) or none")
    row("mbar_expect", "sync", "addr tx", "None", "")
    row("mbar_test", "sync", "addr phase", "'parity' | 'state'",
        "dst = p; waiting forms loop on it")
    row("nop", "sync", "", "text", "listed as ignored with its reason by the row")
    # matrix
    row("mma", "matrix", "see Mma", "Mma", "", rounding=True)
    row("mma_fence mma_commit", "sync", "", "unit", "")
    row("mma_wait", "sync", "", "(unit, n)", "")
    row("tmem", "matrix", "see TensorMemory", "TensorMemory", "")
    row("mma_commit_mbar", "sync", "mbar", "(unit, generic address)", "tcgen05.commit")
    # control
    row("branch", "control", "", "target op index", "guarded: taken in lanes where the guard holds")
    row("switch", "control", "index", "(target op index, ...)", "brx.idx")
    row("exit", "control", "", "None", "")
    row("trap", "control", "", "None", "")
    # everything else
    row("opaque", "opaque", "all operands", "text",
        "not modelled; dst is unknown, memory may change")
    return ops


OPS: dict[str, OpInfo] = _table()
