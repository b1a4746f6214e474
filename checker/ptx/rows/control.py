"""Control flow (PTX ISA 9.7.12) and instructions without an effect on values."""

from __future__ import annotations

from checker.ptx.context import Line, Refuse, row
from checker.syntax import Name


def _label(x: Line, operand: int) -> object:
    item = x.operands[operand]
    if not isinstance(item, Name) or item.neg:
        raise Refuse("branch target")
    # A missing label is reported when branches are resolved.
    return x.builder.label(item.name)


@row("bra")
def bra(x: Line) -> None:
    """bra{.uni} label (.uni only promises that all lanes agree)."""
    x.count(1)
    x.ignore("uni")
    x.put("branch", (), (), _label(x, 0))


@row("brx.idx")
def brx(x: Line) -> None:
    """brx.idx{.uni} index, list (.branchtargets); an index out of range is undefined."""
    x.count(2)
    x.ignore("uni")
    item = x.operands[1]
    targets = x.builder.targets(item.name) if isinstance(item, Name) else None
    if not targets:
        raise Refuse("branch target list")
    x.put("switch", (), (x.source(0, "u32"),), targets)


@row("ret", "exit")
def ret(x: Line) -> None:
    """ret{.uni}, exit: the end of the thread (a device function's ret is handled by inlining)."""
    x.count(0)
    x.ignore("uni")
    x.put("exit", (), (), None)


@row("trap", "brkpt")
def trap(x: Line) -> None:
    """trap, brkpt: abort the kernel."""
    x.count(0)
    x.put("trap", (), (), None)


@row("nanosleep")
def nanosleep(x: Line) -> None:
    """nanosleep.u32 t: only time passes."""
    x.count(1)
    x.only(x.type(), "u32")
    x.put("nop", (), (), "nanosleep: timing only")


@row("griddepcontrol")
def griddepcontrol(x: Line) -> None:
    """griddepcontrol.{launch_dependents,wait}: orders whole grids; one kernel's bytes are its own.

    What an earlier grid wrote is this kernel's input, complete or not, as with any launch.
    """
    x.count(0)
    action = x.one_of("launch_dependents", "wait")
    x.put("nop", (), (), f"griddepcontrol.{action}: orders grids")


@row("setmaxnreg")
def setmaxnreg(x: Line) -> None:
    """setmaxnreg.{inc,dec}.sync.aligned.u32 n: register allotment, no value."""
    x.count(1)
    x.one_of("inc", "dec")
    x.ignore("sync", "aligned")
    x.only(x.type(), "u32")
    x.put("nop", (), (), "setmaxnreg: register allotment")


@row("pmevent")
def pmevent(x: Line) -> None:
    """pmevent{.mask} a: performance counters only."""
    x.mods.clear()
    x.put("nop", (), (), "pmevent: performance counters")
