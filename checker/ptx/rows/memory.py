"""Loads, stores, atomics, non-bulk asynchronous copies (PTX ISA 9.7.9, 9.7.13).

Ignored words, because they steer caches and never a value: cache operators, eviction priorities,
prefetch sizes, cache policies (with their operand), `.unified`, memory-order scopes.
"""

from __future__ import annotations

from dataclasses import replace

from checker.core import AsyncCopy, Atomic, Const, Mem, Source
from checker.ptx.context import Line, Refuse, row, width_of
from checker.syntax import Address, Name, Operand

SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry",
          "param::func", "const")
CACHE = ("ca", "cg", "cs", "lu", "wb", "wt", "unified")
SCOPES = ("cta", "cluster", "gpu", "sys")


def space_of(x: Line) -> str:
    """Consume the state space; none is generic.

    `.shared::cluster` is read as the own block's shared memory: only `mapa` can make the address
    of another block, and that is opaque.
    """
    space = x.one_of(*SPACES, default="generic")
    return space.split("::")[0]


def cache_hints(x: Line) -> int:
    """Consume cache words; return 1 if a policy operand follows at the end, else 0."""
    x.ignore(*CACHE)
    for mod in list(x.mods):
        if mod.startswith(("L1::", "L2::evict", "level::")) or mod in (
                "L2::64B", "L2::128B", "L2::256B"):
            x.mods.remove(mod)
    return int(x.has("L2::cache_hint"))


def memory_order(x: Line) -> bool:
    """Consume ordering words; return whether the access is strong (volatile for the engines)."""
    strong = x.one_of("volatile", "relaxed", "acquire", "release", "mmio", default="") != ""
    strong |= x.has("cv")
    if x.has("weak") and strong:
        raise Refuse("weak and strong")
    x.ignore("mmio", *SCOPES)
    return strong


def _access(x: Line) -> tuple[str, str, int, bool, int]:
    """Consume what ld and st share: space, type, vector length, strength, policy operands."""
    type_ = x.type()
    count = int(x.one_of("v2", "v4", "v8", default="v1")[1:])
    strong = memory_order(x)
    policy = cache_hints(x)
    return space_of(x), type_, count, strong, policy


def slot(x: Line, operand: Operand) -> int | None:
    """The register that stands for a device function's parameter in `[name]`, if it is one."""
    if isinstance(operand, Address) and isinstance(operand.base, Name) and not operand.offset:
        return x.builder.parameter_slot(operand.base.name)
    return None


def place(x: Line, operand: Operand, space: str, width: int, count: int,
          strong: bool) -> tuple[Source, Mem]:
    """Address operand and attribute of one access; a symbol's own space must fit."""
    base, offset, own = x.address(operand)
    if own:
        if space == "generic" or (own != space and not (own == "local" and space == "param")):
            raise Refuse(f"{own} symbol in a {space} access")
        space = own
    elif space == "param" and not x.builder.in_kernel_without_calls():
        raise Refuse("parameter address in a register")
    align = width * count // 8
    return base, Mem(space, width, count, offset, align, strong)


@row("ld", "ldu")
def ld(x: Line) -> None:
    """ld{.order}{.space}{.hints}{.vec}.type d, [a]{, policy}; narrow types extend into d.

    `.nc` and `ldu`: through a cache that does not see what the kernel writes.
    """
    constant = x.has("nc") or x.ins.opcode.split(".")[0] == "ldu"
    space, type_, count, strong, policy = _access(x)
    x.count(2 + policy)
    width = width_of(type_)
    items = x.vector(0)
    if len(items) != count or width % 8:
        raise Refuse("vector length")
    own = slot(x, x.operands[1])
    if own is not None:
        _load_slot(x, own, type_, items)
        return
    base, mem = place(x, x.operands[1], space, width, count, strong)
    mem = replace(mem, constant=constant)
    registers, extensions = [], []
    for item in items:
        there = x.dest_width(item)
        if there in (0, width):
            registers.append(x.dest(item, width))
            continue
        if there < width or type_ in ("f32", "f64"):
            raise Refuse("destination width")
        narrow = x.builder.temporary(width)
        registers.append(narrow)
        extensions.append((item, there, narrow))
    x.put("load", tuple(registers), (base,), mem)
    name = "sext" if type_[0] == "s" else "zext"
    for item, there, narrow in extensions:
        x.put(name, (x.dest(item, there),), (narrow,), (width, there))


def _load_slot(x: Line, own: int, type_: str, items: tuple[Operand, ...]) -> None:
    width = width_of(type_)
    if x.builder.width(own) != width or len(items) != 1:
        raise Refuse("parameter access")
    there = x.dest_width(items[0]) or width
    if there == width:
        x.put("mov", (x.dest(items[0], width),), (own,), width)
    else:
        name = "sext" if type_[0] == "s" else "zext"
        x.put(name, (x.dest(items[0], there),), (own,), (width, there))


@row("st")
def st(x: Line) -> None:
    """st{.order}{.space}{.hints}{.vec}.type [a], b{, policy}; a wider b gives its low bits."""
    space, type_, count, strong, policy = _access(x)
    x.count(2 + policy)
    width = width_of(type_)
    items = x.vector(1)
    if len(items) != count or width % 8:
        raise Refuse("vector length")
    values = tuple(x.source(i, type_, wider=True) for i in items)
    own = slot(x, x.operands[0])
    if own is not None:
        if x.builder.width(own) != width or count != 1:
            raise Refuse("parameter access")
        x.put("mov", (own,), values, width)
        return
    base, mem = place(x, x.operands[0], space, width, count, strong)
    if mem.space == "param":
        raise Refuse("store to a kernel parameter")
    x.put("store", (), (base, *values), mem)


# --- atomics (9.7.13) ---


_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
_ALLOWED = {
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32"),
    "max": ("u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32"),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128", "u32", "u64", "s32", "f32"),
    "cas": ("b16", "b32", "b64", "b128", "u32", "u64", "s32"),
    "inc": ("u32",), "dec": ("u32",),
}


@row("atom")
def atom(x: Line) -> None:
    """atom{.order}{.scope}{.space}.op{.noftz}{.vec}.type d, [a], b{, c}{, policy}."""
    _atomic(x, returns=True)


@row("red")
def red(x: Line) -> None:
    """red{.order}{.scope}{.space}.op{.noftz}{.vec}.type [a], b{, policy}."""
    _atomic(x, returns=False)


def _atomic(x: Line, *, returns: bool) -> None:
    if x.has("async"):
        raise Refuse("red.async")
    type_ = x.type()
    noftz = x.has("noftz")
    count = int(x.one_of("v2", "v4", "v8", default="v1")[1:])
    x.one_of("relaxed", "acquire", "release", "acq_rel", default="")
    x.ignore(*SCOPES)
    policy = cache_hints(x)
    space = space_of(x)
    op = x.one_of(*_OPERATIONS)
    x.only(type_, *_ALLOWED[op])
    if count > 1 and (op not in ("add", "min", "max") or type_ not in (
            "f32", "f16", "bf16", "f16x2", "bf16x2")):
        raise Refuse("vector atomic")
    first = int(returns)
    values = 2 if op == "cas" else 1
    x.count(first + 1 + values + policy)
    width = width_of(type_)
    base, offset, own = x.address(first)
    if own and own != space:
        raise Refuse("symbol space")
    sources: list[Source] = [base]
    for k in range(values):
        items = x.vector(first + 1 + k)
        if len(items) != count:
            raise Refuse("vector length")
        sources += [x.source(i, type_) for i in items]
    dst: tuple[int, ...] = ()
    if returns:
        items = x.vector(0)
        if len(items) != count:
            raise Refuse("vector length")
        dst = tuple(x.dest(i, width) for i in items)
    # Measured: f32 additions flush subnormals in global memory, not in shared (FACTS 8).
    flushes = type_ == "f32" and op == "add" and space != "shared" and not noftz
    denorm = "flush" if flushes else "keep"
    x.put("atomic", dst, tuple(sources), Atomic(space, op, type_, offset, count, denorm))


# --- cp.async (9.7.9.25.3) ---


@row("cp.async")
def cp_async(x: Line) -> None:
    """cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size | ignore-src}{, policy}."""
    x.one_of("ca", "cg")
    policy = cache_hints(x)
    x.one_of("shared", "shared::cta")
    if not x.has("global"):
        raise Refuse("cp.async space")
    count = x.count(3 + policy, 4 + policy) - policy
    size = x.literal(2)
    if size not in (4, 8, 16):
        raise Refuse("cp.async size")
    amount: Source = Const(size, 32)
    if count == 4:
        amount = _source_bytes(x, size)
    dst, src = x.flat(0, "shared"), x.flat(1, "global")
    x.put("acopy", (), (dst, src, amount), AsyncCopy(size))


def _source_bytes(x: Line, size: int) -> Source:
    """The fourth operand: bytes to read, or a predicate that says to read none."""
    item = x.operands[3]
    if isinstance(item, Name):
        reg = x.builder.register(item.name)
        if reg is not None and x.builder.width(reg) == 1:
            ignore = x.predicate(3)
            return x.emit("select", 32, (ignore, Const(0, 32), Const(size, 32)), 32)
    return x.source(3, "u32")


@row("cp.async.commit_group")
def cp_async_commit(x: Line) -> None:
    """cp.async.commit_group."""
    x.count(0)
    x.put("acopy_commit", (), (), None)


@row("cp.async.wait_group")
def cp_async_wait(x: Line) -> None:
    """cp.async.wait_group N."""
    x.count(1)
    x.put("acopy_wait", (), (), x.literal(0))


@row("cp.async.wait_all")
def cp_async_wait_all(x: Line) -> None:
    """cp.async.wait_all: every copy, committed or not."""
    x.count(0)
    x.put("acopy_wait", (), (), None)


@row("cp.async.mbarrier.arrive")
def cp_async_arrive(x: Line) -> None:
    """cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [addr]."""
    x.count(1)
    noinc = x.has("noinc")
    space = x.one_of("shared", "shared::cta", default="").split("::")[0]
    x.only(x.type(), "b64")
    x.put("acopy_arrive", (), (x.flat(0, space),), noinc)


# --- prefetch and friends: no value ---


@row("prefetch", "prefetchu", "applypriority")
def prefetch(x: Line) -> None:
    """prefetch{.space}.level [a]: fetches into a cache (or the descriptor cache); no value."""
    text = ".".join(x.mods)
    x.mods.clear()
    base, offset, _ = x.address(0)
    x.put("prefetch", (), (x.plus(base, offset),), text)


@row("createpolicy")
def createpolicy(x: Line) -> None:
    """createpolicy...: a cache policy, used by cache hints only (which are ignored)."""
    x.mods.clear()
    x.put("special", (x.dest(0, 64),), (), "cache_policy")
