"""Rows: branches, barriers, the mode register, waits and hints.

`IGNORED` lists what is read and has no effect on values, with the reason. Waits are among them: the
pass in `checker.gcn.waits` checks that they are there. Source: CDNA3 ISA chapter 4 and 5.
"""

from __future__ import annotations

from checker.core import Barrier, Const
from checker.gcn.context import Context
from checker.gcn.machine import EXEC, M0, VCC, Unmodelled
from checker.gcn.rows.table import row
from checker.gcn.words import words
from checker.syntax import Immediate, Name

#: opcode -> why it may be skipped
IGNORED: dict[str, str] = dict.fromkeys(
    words(
        "s_waitcnt s_waitcnt_vscnt s_waitcnt_vmcnt s_waitcnt_expcnt s_waitcnt_lgkmcnt "
        "s_wait_loadcnt s_wait_storecnt s_wait_dscnt s_wait_kmcnt s_wait_samplecnt "
        "s_wait_bvhcnt s_wait_expcnt s_wait_loadcnt_dscnt s_wait_storecnt_dscnt "
        "s_wait_asynccnt s_wait_tensorcnt s_wait_xcnt s_wait_idle"),
    "a wait; the wait checker sees it")
IGNORED |= dict.fromkeys(
    words(
        "s_nop v_nop s_delay_alu s_clause s_setprio s_sleep s_sleep_var s_waitcnt_depctr "
        "s_wait_alu s_inst_prefetch s_set_inst_prefetch_distance s_code_end "
        "s_sethalt s_ttracedata s_ttracedata_imm s_version s_decperflevel s_incperflevel "
        "s_wait_event s_prefetch_inst s_prefetch_inst_pc_rel s_prefetch_data "
        "s_prefetch_data_pc_rel s_buffer_prefetch_data "
        "s_icache_inv s_setprio_inc_wg s_monitor_sleep"),
    "timing only")
IGNORED |= dict.fromkeys(
    words(
        "buffer_gl0_inv buffer_gl1_inv buffer_inv buffer_wbl2 buffer_wbinvl1 "
        "buffer_wbinvl1_vol buffer_invl2 global_inv global_wb global_wbinv "
        "s_dcache_inv s_dcache_wb s_dcache_inv_vol s_dcache_wb_vol s_gl1_inv"),
    "cache maintenance: orders memory between groups, changes no value within one")


@row(" ".join(IGNORED), dsts=0)
def ignored(c: Context) -> None:
    """No effect on values; see `IGNORED`."""
    c.used |= set(c.mods)


@row("s_sendmsg s_sendmsghalt", dsts=0)
def s_sendmsg(c: Context) -> None:
    """Messages to the command processor; releasing registers at the end changes no value."""
    if "DEALLOC_VGPRS" not in c.mods.get("sendmsg", ""):
        raise Unmodelled("message")
    c.used.add("sendmsg")


# --- control flow


def _target(c: Context) -> str:
    op = c.operand(0)
    if not isinstance(op, Name):
        raise Unmodelled("branch target")
    return op.name


@row("s_branch", dsts=0)
def s_branch(c: Context) -> None:
    """Go to the label."""
    c.m.flow = ("jump", _target(c), None)


@row("s_cbranch_scc0 s_cbranch_scc1 s_cbranch_vccz s_cbranch_vccnz s_cbranch_execz "
     "s_cbranch_execnz", dsts=0)
def s_cbranch(c: Context) -> None:
    """Go to the label if the condition holds; conditions are the same for the whole wave."""
    kind = c.base[10:]
    if kind.startswith("scc"):
        cond = c.m.read_scc()
    else:
        n = VCC if kind.startswith("vcc") else EXEC
        c.reads |= {("s", n + k) for k in range(c.wave // 32)}
        cond = c.e.any(c.m.mask(n), c.wave)
    if kind in ("scc0", "vccz", "execz"):
        cond = c.e.pnot(cond)
    c.m.flow = ("branch", _target(c), cond)


@row("s_endpgm s_endpgm_saved", dsts=0)
def s_endpgm(c: Context) -> None:
    """End of the wave."""
    c.m.flow = ("exit", "", None)


@row("s_trap", dsts=0)
def s_trap(c: Context) -> None:
    """Stop with an error."""
    c.m.flow = ("trap", "", None)


@row("s_setpc_b64 s_swappc_b64 s_call_b64 s_rfe_b64 "
     "", dsts=0)
def s_setpc(c: Context) -> None:
    """Calls and computed jumps."""
    c.m.flow = ("lost", "", None)
    raise Unmodelled("call or computed jump")


# --- barriers

_MOST_NAMED = 16


@row("s_barrier", dsts=0)
def s_barrier(c: Context) -> None:
    """All waves of the group meet."""
    c.m.last_lds = "barrier"
    c.e.op("barrier", (), (Const(0, 32),), Barrier("cta"))


@row("s_barrier_signal", dsts=0)
def s_barrier_signal(c: Context) -> None:
    """Arrive at a barrier (-1: the group's); its wait must follow with no access between."""
    number, members = _barrier(c, -1)
    if not c.m.wait_follows or c.m.signalled:
        raise Unmodelled("a signal without its own wait in the same block")
    _note_members(c, number, members)
    c.m.signalled = number
    c.m.memory_since_signal = False


@row("s_barrier_wait", dsts=0)
def s_barrier_wait(c: Context) -> None:
    """Wait for the group's barrier (-1) or the named one joined (1): with its signal, a barrier."""
    kind = c.operand(0)
    named = isinstance(kind, Immediate) and kind.value == 1
    number = c.m.modes.get("joined") or 0 if named else _barrier(c, -1)[0]
    if number == 0:
        raise Unmodelled("named barrier that is not joined on every path")
    if c.m.signalled != number or c.m.memory_since_signal:
        raise Unmodelled("split barrier with memory accesses between signal and wait")
    c.m.signalled = 0
    c.m.last_lds = "barrier"
    if not named:
        c.e.op("barrier", (), (Const(0, 32),), Barrier("cta"))
        return
    members = c.m.modes.get(f"members {number}")
    if not members:
        raise Unmodelled("named barrier whose member count is not known on every path")
    c.e.op("barrier", (), (Const(number, 32), Const(members * c.wave, 32)),
           Barrier("cta", has_count=True))


@row("s_barrier_init", dsts=0)
def s_barrier_init(c: Context) -> None:
    """The named barrier M0[5:0] expects M0[21:16] waves."""
    number, members = _barrier(c)
    if not members:
        raise Unmodelled("named barrier whose member count is not known")
    _note_members(c, number, members)


@row("s_barrier_join", dsts=0)
def s_barrier_join(c: Context) -> None:
    """The wave takes part in a named barrier: its waits are for that one."""
    c.m.modes["joined"] = _barrier(c)[0]


@row("s_barrier_signal_isfirst s_get_barrier_state s_barrier_leave s_wakeup_barrier")
def s_barrier_state(c: Context) -> None:
    """What depends on who came first, or lets waves out of a barrier, has no fixed order."""
    raise Unmodelled("a barrier's state, which depends on the order in which waves arrive")


def _barrier(c: Context, group: int = 0) -> tuple[int, int]:
    """Number and member count (0: as it was) of a barrier operand: a literal, or M0."""
    op = c.operand(0)
    if isinstance(op, Immediate):
        if group and op.value in (-1, 0xFFFF):
            return group, 0
        if 0 < op.value <= _MOST_NAMED:
            return op.value, 0
        raise Unmodelled("barrier of a trap handler or a cluster")
    found = c.m.read("s", M0) if c.is_register(0) and c.index(0)[:2] == ("s", M0) else None
    if not isinstance(found, Const) or not 0 < found.bits & 63 <= _MOST_NAMED:
        raise Unmodelled("named barrier whose number is not known")
    return found.bits & 63, found.bits >> 16 & 63


def _note_members(c: Context, number: int, members: int) -> None:
    """A barrier expects so many waves from here on; all of the text must say the same."""
    if members and c.m.kernel.members.setdefault(number, members) != members:
        raise Unmodelled("named barrier whose member count changes")
    if members:
        c.m.modes[f"members {number}"] = members


# --- mode register

_MODE_BITS = {"round32": (0, 2), "round64": (2, 2), "denorm32": (4, 2), "denorm64": (6, 2),
              "dx10_clamp": (8, 1), "ieee": (9, 1), "fp16_ovfl": (23, 1)}
#: up to gfx9: registers by index, vector instructions skipped
_MODE_REFUSED = (27, 28)


def _set_mode(c: Context, offset: int, size: int, value: int | None) -> None:
    if c.target.major <= 9 and any(
            offset <= at < offset + size and (value is None or value >> (at - offset) & 1)
            for at in _MODE_REFUSED):
        raise Unmodelled("indexing or skipping by the mode register")
    for name, (at, width) in _MODE_BITS.items():
        if at + width <= offset or at >= offset + size:
            continue
        whole = offset <= at and at + width <= offset + size
        new = None if value is None or not whole else value >> (at - offset) & ((1 << width) - 1)
        if name == "ieee" and new != c.m.modes[name]:
            new = None  # which NaNs are quiet hangs on all that came before
        c.m.modes[name] = new


def _hwreg(c: Context) -> tuple[str, int, int]:
    """(register, offset, size) of `hwreg(HW_REG_MODE, 4, 4)`."""
    c.used.add("hwreg")
    text = c.mods.get("hwreg")
    if text is None:
        op = c.operand(0)
        if isinstance(op, Immediate):
            return ("HW_REG_MODE" if op.value & 63 == 1 else str(op.value & 63),
                    op.value >> 6 & 31, (op.value >> 11 & 31) + 1)
        raise Unmodelled("hardware register")
    parts = text.split(",")
    name = "HW_REG_MODE" if parts[0] in ("1", "HW_REG_MODE", "HW_REG_WAVE_MODE") else parts[0]
    return name, int(parts[1]) if len(parts) > 1 else 0, int(parts[2]) if len(parts) > 2 else 32


@row("s_setreg_b32 s_setreg_imm32_b32", dsts=0)
def s_setreg(c: Context) -> None:
    """Write part of a hardware register; only the float mode matters to values."""
    name, offset, size = _hwreg(c)
    source = c.operands[-1]
    value = c.m.constant(c.raw32(source))
    if name == "HW_REG_MODE":
        _set_mode(c, offset, size, value)
    elif name not in ("HW_REG_FLAT_SCR_LO", "HW_REG_FLAT_SCR_HI", "HW_REG_XNACK_MASK",
                      "HW_REG_TRAPSTS", "HW_REG_SCHED_MODE", "HW_REG_WAVE_SCHED_MODE", "26"):
        raise Unmodelled(f"hardware register {name}")


@row("s_round_mode", dsts=0)
def s_round_mode(c: Context) -> None:
    """Set the rounding bits of the mode register."""
    _set_mode(c, 0, 4, c.m.constant(c.src(0, "u32")))


@row("s_denorm_mode", dsts=0)
def s_denorm_mode(c: Context) -> None:
    """Set the denormal bits of the mode register."""
    _set_mode(c, 4, 4, c.m.constant(c.src(0, "u32")))


@row("s_getreg_b32")
def s_getreg(c: Context) -> None:
    """D = part of a hardware register: only constants of the mode register are known."""
    raise Unmodelled("hardware register read")

