"""Initial register values of a kernel, from its descriptor.

In: `Kernel`, `Target`. Out: facts and operations of the first block. Values that have no meaning
at this level (queue pointers, scratch descriptors) are opaque. Source: LLVM AMDGPUUsage, initial
kernel execution state.
"""

from __future__ import annotations

from checker.core import Const, Source
from checker.gcn.emitter import TRUE
from checker.gcn.kernel import Kernel
from checker.gcn.machine import EXEC, Facts, Machine
from checker.gcn.target import Target

__all__ = ["emit_entry", "entry_facts"]

_USER = (("private_segment_buffer", 4, "private"), ("dispatch_ptr", 2, "dispatch"),
         ("queue_ptr", 2, "queue"), ("kernarg_segment_ptr", 2, "kernarg"),
         ("dispatch_id", 2, "id"), ("flat_scratch_init", 2, "flat"),
         ("private_segment_size", 1, "size"))


def entry_facts(kernel: Kernel, target: Target, wave: int) -> Facts:
    """Facts that hold at the first instruction."""
    facts: Facts = {("full", EXEC): True, ("mask", EXEC): True}
    modes: dict[str, int | None] = {"round32": kernel.flag("float_round_mode_32"),
             "round64": kernel.flag("float_round_mode_16_64"),
             "denorm32": kernel.flag("float_denorm_mode_32"),
             "denorm64": kernel.flag("float_denorm_mode_16_64", 3),
             "dx10_clamp": kernel.flag("dx10_clamp", 1),
             "ieee": kernel.flag("ieee_mode", 1 if target.major < 12 else 0),
             "fp16_ovfl": kernel.flag("fp16_overflow")}
    for name, value in modes.items():
        facts["mode", name] = value
    n = 0
    for name, count, symbol in _USER:
        if not kernel.flag("user_sgpr_" + name):
            continue
        for k in range(count):
            facts["symbol", ("s", n + k)] = ("low" if k == 0 else "high", symbol, 0)
        n += count
    return facts


def emit_entry(m: Machine) -> None:
    """Emit the initial values."""
    m.write_mask(EXEC, TRUE)
    kernel, n = m.kernel, 0
    for name, count, symbol in _USER:
        if not kernel.flag("user_sgpr_" + name):
            continue
        for k in range(count):
            _scalar(m, n + k, _unknown(m, f"{symbol} word {k}"),
                    ("low" if k == 0 else "high", symbol, 0))
        n += count
    first = kernel.flag("user_sgpr_kernarg_preload_offset")
    for k in range(kernel.flag("user_sgpr_kernarg_preload_length")):
        word = kernel.word(m.e, 4 * (first + k))
        m.e.uniform.add(word)
        _scalar(m, n, word)
        n += 1
    _group_ids(m, max(n, kernel.flag("user_sgpr_count", n)))
    _item_ids(m)


def _scalar(m: Machine, n: int, value: Source, symbol: object = None) -> None:
    m.write("s", n, value)
    if symbol is not None:
        m.symbols["s", n] = symbol


def _unknown(m: Machine, what: str) -> Source:
    value = m.e.pure("opaque", 32, (), f"initial value: {what}")
    m.e.uniform.add(value)
    return value


def _special(m: Machine, name: str) -> Source:
    value = m.e.pure("special", 32, (), name)
    if name.startswith("ctaid"):
        m.e.uniform.add(value)
    return value


def _group_ids(m: Machine, n: int) -> None:
    """Work-group ids: scalar registers after the user ones, or ttmp9 and ttmp7 (gfx12)."""
    e, kernel = m.e, m.kernel
    if m.target.architected_ids:
        y, z = _special(m, "ctaid.y"), _special(m, "ctaid.z")
        m.write("t", 9, _special(m, "ctaid.x"))
        high = e.shift("shl", z, Const(16, 32), 32)
        m.write("t", 7, e.or_(e.and_(y, Const(0xFFFF, 32)), high))
        wave = _special(m, "warpid")
        e.uniform.add(wave)
        low, top = (e.value("opaque", w, (), "dispatch index") for w in (25, 2))
        m.write("t", 8, e.pack(low, e.extract(wave, 0, 5), top))
        return
    for axis in "xyz":
        if kernel.flag(f"system_sgpr_workgroup_id_{axis}", 1 if axis == "x" else 0):
            _scalar(m, n, _special(m, f"ctaid.{axis}"))
            n += 1
    if kernel.flag("system_sgpr_workgroup_info"):
        _scalar(m, n, _unknown(m, "work-group info"))
        n += 1
    if kernel.flag("enable_private_segment") or \
            kernel.flag("system_sgpr_private_segment_wavefront_offset"):
        _scalar(m, n, Const(0, 32), ("low", "private", 0))


def _item_ids(m: Machine) -> None:
    """Work-item ids: three registers, or ten bits each in v0."""
    e, count = m.e, m.kernel.flag("system_vgpr_workitem_id")
    ids = [_special(m, f"tid.{axis}") for axis in "xyz"[: count + 1]]
    if not m.target.packed_tid:
        for k, value in enumerate(ids):
            m.write("v", k, value)
        return
    packed: Source = ids[0]
    for k, value in enumerate(ids[1:], 1):
        packed = e.or_(packed, e.shift("shl", value, Const(10 * k, 32), 32))
    m.write("v", 0, packed)
