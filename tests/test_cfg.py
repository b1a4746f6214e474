"""Control flow: order, post-dominators, loops of small programs."""

from __future__ import annotations

from checker.cfg import build_cfg
from checker.core import Guard, Op, Program, Site
from checker.errors import Span

G = Guard(0, False)


def program(*ops: tuple[str, object, Guard | None]) -> Program:
    """A program of bare operations."""
    return Program("k", "ptx", "sm_90", 32, (32, 1, 1), None, (),
                   tuple(Op(name, (), (), attr, guard, 0) for name, attr, guard in ops), (1,),
                   ("p",), (Site(Span(1, 1), "", None),))


def nop() -> tuple[str, object, Guard | None]:
    return ("nop", "", None)


def test_else_far_away_still_comes_before_the_join() -> None:
    cfg = build_cfg(program(("branch", 4, G), nop(), nop(), ("exit", None, None), nop(),
                            ("branch", 2, None)))
    assert [b.start for b in cfg.blocks] == [0, 1, 2, 4]
    assert cfg.order[3] < cfg.order[2]
    assert cfg.postdom[0] == 2


def test_loops_nest_and_are_contiguous() -> None:
    cfg = build_cfg(program(nop(), nop(), nop(), ("branch", 2, G), ("branch", 1, G), nop()))
    assert [(loop.header, loop.depth) for loop in cfg.loops] == [(1, 1), (2, 2)]
    assert cfg.loops[1].body < cfg.loops[0].body
    assert list(cfg.order) == sorted(cfg.order)


def test_a_loop_that_never_ends_has_the_end_as_post_dominator() -> None:
    cfg = build_cfg(program(nop(), ("branch", 0, None)))
    assert cfg.postdom[0] == cfg.end


def test_guarded_exit_falls_through() -> None:
    cfg = build_cfg(program(("exit", None, G), nop()))
    assert cfg.blocks[0].successors == (1, 2) or cfg.blocks[0].successors == (1,)
    assert cfg.postdom[0] == cfg.end
