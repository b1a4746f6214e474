"""Barriers, fences, mbarrier (PTX ISA 9.7.13)."""

from __future__ import annotations

from checker.core import Barrier, Const, Source
from checker.ptx.context import Line, Refuse, row
from checker.ptx.rows.lanes import meet
from checker.syntax import Name


@row("bar", "barrier", "barrier.cta", "bar.cta")
def bar(x: Line) -> None:
    """bar{.cta}.sync a{, b}; .arrive a, b; .red.popc.u32 d, a{, b}, {!}c; .red.{and,or}.pred.

    `bar` is `barrier.aligned`: all lanes of a warp run it together.
    """
    action = x.one_of("sync", "arrive", "red")
    aligned = x.has("aligned") or x.ins.opcode.startswith("bar.")
    if action != "red":
        count = x.count(1, 2)
        src = tuple(x.source(k, "u32") for k in range(count))
        x.put("barrier", (), src, Barrier("cta", action, count == 2, aligned))
        return
    op = x.one_of("popc", "and", "or")
    type_ = x.type()
    x.only(type_, "u32" if op == "popc" else "pred")
    count = x.count(3, 4)
    numbers = tuple(x.source(k, "u32") for k in range(1, count - 1))
    width = 32 if op == "popc" else 1
    x.put("barrier", (x.dest(0, width),), (*numbers, x.predicate(count - 1)),
          Barrier("cta", f"red_{op}", count == 4, aligned))


@row("bar.warp")
def bar_warp(x: Line) -> None:
    """bar.warp.sync mask."""
    x.count(1)
    if not x.has("sync"):
        raise Refuse("bar.warp form")
    meet(x, 0)
    x.put("barrier", (), (x.source(0, "b32"),), Barrier("warp"))


@row("barrier.cluster")
def barrier_cluster(x: Line) -> None:
    """barrier.cluster.{arrive{.release,.relaxed},wait{.acquire}}{.aligned}."""
    x.count(0)
    action = x.one_of("arrive", "wait")
    if action == "arrive" and x.has("relaxed"):
        action = "arrive_relaxed"  # orders nothing
    x.ignore("release" if action == "arrive" else "acquire", "aligned")
    x.put("barrier", (), (), Barrier("cluster", action))


@row("membar", "fence")
def fence(x: Line) -> None:
    """membar, fence and their proxy forms: order memory, make no value (text kept)."""
    text = x.ins.opcode
    x.mods.clear()
    src: tuple[Source, ...] = ()
    if x.operands:  # fence.proxy.tensormap::generic.acquire [addr], size
        src = (x.flat(0, "global"),)
    x.put("fence", (), src, text)


# --- mbarrier (9.7.13.15) ---


def _shared(x: Line, operand: int) -> Source:
    """The address of an mbarrier object in shared memory."""
    space = x.one_of("shared", "shared::cta", "shared::cluster", default="")
    return x.flat(operand, space.split("::")[0])


def _order(x: Line) -> None:
    """Memory order and scope: the wait orders, whatever they say."""
    x.ignore("release", "relaxed", "acquire", "cta", "cluster")


@row("mbarrier.init")
def mbarrier_init(x: Line) -> None:
    """mbarrier.init{.shared}.b64 [addr], count."""
    x.count(2)
    x.only(x.type(), "b64")
    x.put("mbar_init", (), (_shared(x, 0), x.source(1, "u32")), None)


@row("mbarrier.inval")
def mbarrier_inval(x: Line) -> None:
    """mbarrier.inval{.shared}.b64 [addr]."""
    x.count(1)
    x.only(x.type(), "b64")
    x.put("mbar_inval", (), (_shared(x, 0),), None)


@row("mbarrier.arrive", "mbarrier.arrive_drop")
def mbarrier_arrive(x: Line) -> None:
    """mbarrier.arrive{_drop}{.expect_tx}{.noComplete}{.shared}.b64 state, [addr]{, count | tx}.

    Without a result the address is the first operand (`_` drops the state).
    """
    drop = "arrive_drop" in x.ins.opcode
    expect = x.has("expect_tx")
    if x.has("noComplete"):
        raise Refuse(".noComplete")
    _order(x)
    x.only(x.type(), "b64")
    first = 0 if not isinstance(x.operands[0], Name) else 1
    count = x.count(first + 1, first + 2) - first
    address = _shared(x, first)
    extra: Source = x.source(first + 1, "u32") if count == 2 else Const(1, 32)
    if expect and count != 2:
        raise Refuse("expect_tx without a count")
    arrivals, tx = (Const(1, 32), extra) if expect else (extra, Const(0, 32))
    state: tuple[int, ...] = ()
    item = x.operands[0]
    if first and isinstance(item, Name) and item.name != "_":
        state = (x.dest(0, 64),)
    x.put("mbar_arrive", state, (address, arrivals, tx), (drop, expect))


@row("mbarrier.expect_tx")
def mbarrier_expect(x: Line) -> None:
    """mbarrier.expect_tx{.relaxed}{.shared}.b64 [addr], tx."""
    x.count(2)
    _order(x)
    x.only(x.type(), "b64")
    x.put("mbar_expect", (), (_shared(x, 0), x.source(1, "u32")), None)


@row("mbarrier.test_wait", "mbarrier.try_wait")
def mbarrier_wait(x: Line) -> None:
    """mbarrier.{test,try}_wait{.parity}{.shared}.b64 p, [addr], state | parity{, time}."""
    count = x.count(3, 4)
    if count == 4 and "try_wait" not in x.ins.opcode:
        raise Refuse("time limit")
    parity = x.has("parity")
    _order(x)
    x.only(x.type(), "b64")
    phase = x.source(2, "u32" if parity else "b64")
    attr = "parity" if parity else "state"
    x.put("mbar_test", (x.dest(0, 1),), (_shared(x, 1), phase), attr)
