"""Rows: atomics on global, flat, buffer and LDS memory.

`Atomic` values: compare first, then the new value, for cas. Source: CDNA3 ISA chapters 9 and 11.
"""

from __future__ import annotations

import re

from checker.core import Atomic, Source
from checker.gcn.context import Context
from checker.gcn.machine import Unmodelled
from checker.gcn.rows.buffer import buffer_address, buffer_offset, in_range
from checker.gcn.rows.lds import no_gds
from checker.gcn.rows.table import row
from checker.gcn.rows.transfer import address64
from checker.gcn.words import words

# --- atomics

_OPS = {"add": "add", "sub": "sub", "smin": "min", "min": "min", "umin": "min", "smax": "max",
        "max": "max", "umax": "max", "and": "and", "or": "or", "xor": "xor", "inc": "inc",
        "dec": "dec", "swap": "exch", "wrxchg": "exch", "storexchg": "exch", "cmpswap": "cas",
        "cmpst": "cas", "cmpstore": "cas", "fadd": "add", "fmin": "min", "fmax": "max",
        "min_num": "min", "max_num": "max"}
_TYPES = {"u32": "u32", "i32": "s32", "b32": "b32", "u64": "u64", "i64": "s64", "b64": "b64",
          "f32": "f32", "f64": "f64", "x2": "u64", "f16": "f16x2", "bf16": "bf16x2"}


def _atomic(text: str) -> tuple[str, str]:
    """(operation, type) of the part of the opcode after `atomic_` or `ds_`."""
    text = text.replace("_rtn", "").replace("clamp_", "")
    packed = text.startswith("pk_")
    words = text.removeprefix("pk_").split("_")
    type = _TYPES.get(words[-1], "") if len(words) > 1 else ""
    name = "_".join(words[:-1]) if type else "_".join(words)
    if name not in _OPS:
        raise Unmodelled(f"atomic {text}")
    op = _OPS[name]
    if words[-1] == "x2":
        type = "u64"
    if not type:
        type = "f32" if name.startswith("f") else "u32"
    if name in ("smin", "smax"):
        type = "s" + type[1:]
    if op in ("and", "or", "xor", "exch", "cas"):
        type = "b" + re.sub(r"\D", "", type)
    if packed and type not in ("f16x2", "bf16x2"):
        raise Unmodelled(f"atomic {text}")
    return op, type


def _atomic_values(c: Context, i: int, op: str, type: str) -> tuple[Source, ...]:
    """The values in the order of the core operation (compare first for cas)."""
    words = 2 if type.endswith("64") else 1
    if op == "cas":
        both = c.registers(i, 2 * words)
        new, compare = c.e.pack(*both[:words]), c.e.pack(*both[words:])
        return compare, new
    value = c.e.pack(*c.registers(i, words))
    return (value,)


def _emit_atomic(c: Context, space: str, address: Source, values: tuple[Source, ...], op: str,
                 type: str, offset: int, result: int | None, under: Source) -> None:
    e = c.e
    if space == "shared":
        c.m.kernel.quiet_shared = False
        c.m.order_lds("atomic")
    width = 64 if type.endswith("64") else 32
    if op == "sub":
        op, values = "add", (e.pure("ineg", width, values, width),)
    attr = Atomic(space, op, type, offset, 1,
                  c.mode("f32" if type == "f32" else "f64").denorm if "f" in type else "keep")
    dst: tuple[int, ...] = ()
    if result is not None:
        dst = (e.registers.temp(width),)
        e.defs[dst[0]] = ("atomic", (address, *values), attr)
    e.op("atomic", dst, (address, *values), attr, c.m.guard(under))
    if result is not None:
        c.put(dst[0], result)


_GLOBAL_ATOMICS = words(
    "add sub smin umin smax umax and or xor inc dec swap cmpswap add_x2 sub_x2 smin_x2 "
    "umin_x2 smax_x2 umax_x2 and_x2 or_x2 xor_x2 inc_x2 dec_x2 swap_x2 cmpswap_x2 add_f32 "
    "add_f64 min_f64 max_f64 pk_add_f16 pk_add_bf16 add_u32 sub_u32 min_i32 min_u32 max_i32 "
    "max_u32 and_b32 or_b32 xor_b32 inc_u32 dec_u32 swap_b32 cmpswap_b32 add_u64 sub_u64 "
    "min_i64 min_u64 max_i64 max_u64 and_b64 or_b64 xor_b64 swap_b64 cmpswap_b64 min_f32 "
    "max_f32 min_num_f32 max_num_f32")


@row(" ".join(f"{p}_atomic_{n}" for p in ("global", "flat") for n in _GLOBAL_ATOMICS), dsts=0)
def vector_atomic(c: Context) -> None:
    """Memory op= S; with glc (sc0, th:TH_ATOMIC_RETURN) D = the old value."""
    prefix, _, name = c.base.partition("_atomic_")
    op, type = _atomic(name)
    returns = c.flag("glc") or c.flag("sc0") or "RETURN" in c.mods.get("th", "")
    first = 1 if returns else 0
    address, offset = address64(c, first, first + 2 if prefix == "global" else 9)
    c.counter = ("vmem" if returns else "vmem_store") if prefix == "global" else "flat"
    _emit_atomic(c, "global" if prefix == "global" else "generic", address,
                 _atomic_values(c, first + 1, op, type), op, type, offset,
                 0 if returns else None, c.m.exec)


@row(" ".join(f"buffer_atomic_{n}" for n in _GLOBAL_ATOMICS), dsts=0)
def buffer_atomic(c: Context) -> None:
    """Memory of a buffer op= S; with glc (sc0) D = S's register = the old value."""
    op, type = _atomic(c.base[14:])
    returns = c.flag("glc") or c.flag("sc0") or "RETURN" in c.mods.get("th", "")
    if returns and op == "cas":
        raise Unmodelled("buffer compare-and-swap with a result")
    values = _atomic_values(c, 0, op, type)
    words = c.registers(2, 4)
    offset = buffer_offset(c, 1, 3)
    inside, near = in_range(c, words, offset, 8 if type.endswith("64") else 4)
    address = buffer_address(c, words, 2, near)
    c.counter = "vmem" if returns else "vmem_store"
    _emit_atomic(c, "global", address, values, op, type, 0, 0 if returns else None,
                 c.e.pand(inside, c.m.exec))


_DS_ATOMICS = words(
    "add_u32 sub_u32 inc_u32 dec_u32 min_i32 max_i32 min_u32 max_u32 and_b32 or_b32 xor_b32 "
    "add_f32 min_f32 max_f32 add_u64 min_i64 max_i64 min_u64 max_u64 and_b64 or_b64 xor_b64 "
    "add_f64")


@row(" ".join(f"ds_{n}" for n in _DS_ATOMICS), dsts=0)
def ds_atomic(c: Context) -> None:
    """LDS op= S."""
    no_gds(c)
    op, type = _atomic(c.base[3:])
    c.counter = "lds_store"
    _emit_atomic(c, "shared", c.src(0, "u32"), _atomic_values(c, 1, op, type), op, type,
                 c.number("offset"), None, c.m.exec)


@row(" ".join(f"ds_{n.replace('_', '_rtn_')}" for n in _DS_ATOMICS) + " ds_wrxchg_rtn_b32 "
     "ds_wrxchg_rtn_b64 ds_storexchg_rtn_b32 ds_storexchg_rtn_b64")
def ds_atomic_return(c: Context) -> None:
    """D = LDS; LDS op= S."""
    no_gds(c)
    op, type = _atomic(c.base[3:])
    c.counter = "lds"
    _emit_atomic(c, "shared", c.src(1, "u32"), _atomic_values(c, 2, op, type), op, type,
                 c.number("offset"), 0, c.m.exec)


@row("ds_cmpst_rtn_b32 ds_cmpstore_rtn_b32 ds_cmpst_b32 ds_cmpstore_b32", dsts=0)
def ds_cas(c: Context) -> None:
    """D = LDS; LDS = new if LDS == compare (cmpst: compare, new; cmpstore: new, compare)."""
    no_gds(c)
    returns = "rtn" in c.base
    first = 1 if returns else 0
    a, b = c.registers(first + 1, 1)[0], c.registers(first + 2, 1)[0]
    values = (a, b) if "cmpst_" in c.base else (b, a)
    c.counter = "lds" if returns else "lds_store"
    _emit_atomic(c, "shared", c.src(first, "u32"), values, "cas", "b32", c.number("offset"),
                 0 if returns else None, c.m.exec)
