"""The SIMT machine: all threads of all chosen blocks at once, lanes diverging and reconverging.

In: a program, launch facts, a float domain. Out: memories at the end and findings. Lanes are arrays
(blocks | 1, threads | 1). Lanes that diverge become fragments; the one that is earliest in the loop
nest's topological order runs next, and fragments that meet are merged, which reconverges at
post-dominators. Refuses, with a reason, whatever it would have to guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from checker.arrays import every, some
from checker.cfg import Cfg
from checker.core import Guard, Op, Program
from checker.launch import Launch
from checker.premises import PREMISES
from checker.replay import speculate
from checker.replay.buffers import Globals
from checker.replay.facts import OPQ, PENDING, UNDEF, Mask, conc_mask
from checker.replay.memory import Cells
from checker.replay.order import Order
from checker.replay.result import Unsupported
from checker.replay.trees import Domain
from checker.replay.values import Conc, V, bits_of, hash_of, merge, pred_bits, undefined
from checker.results import Reason

__all__ = ["EMPTY", "Apart", "Fragment", "Machine", "Step"]

Step = Callable[["Machine"], None]


class Apart(Exception):
    """There is something to report: the operations of a run are to be done one by one."""


class _Empty:
    """No lane at all."""


EMPTY = _Empty()


@dataclass(slots=True)
class Fragment:
    """Lanes that stand at one operation."""

    pc: int
    mask: Mask


class Machine:
    """State of one chunk of blocks; global memory and findings are shared between chunks."""

    def __init__(self, program: Program, cfg: Cfg, code: Sequence[Step | None], launch: Launch,
                 domain: Domain, memory: Globals, blocks: NDArray[np.int64], first_block: int,
                 fuel: int) -> None:
        self.program, self.cfg, self.code, self.launch = program, cfg, code, launch
        self.domain, self.memory, self.fuel = domain, memory, fuel
        self.dims = launch.block_for(program)
        self.threads = self.dims[0] * self.dims[1] * self.dims[2]
        self.width = program.warp_size
        self.warps = -(-self.threads // self.width)
        self.T, self.B = self.warps * self.width, len(blocks)
        self.lanes = self.B * self.T
        self.blocks = blocks
        self.first_block = first_block
        lane = np.arange(self.T, dtype=np.int64)
        self.lane_index = lane.reshape(1, -1)
        self.warp_base = (lane // self.width * self.width).reshape(1, -1)
        self.block_index = np.arange(self.B, dtype=np.int64).reshape(-1, 1)
        self.live: Mask = np.broadcast_to(lane < self.threads, (self.B, self.T)).copy()
        self.group = 1 if program.lockstep else self.width  # strands of a warp
        self.order = Order(self.B, self.warps * self.group, self.group, first_block, memory.now)
        # what barriers order in memory that outlives the block, where some of them order less there
        less = any(op.name == "barrier" and op.attr.shared_only for op in program.ops)
        self.outer_order = self.order if not less else Order(
            self.B, self.warps * self.group, self.group, first_block, memory.now)
        self.who = np.repeat(self.order.codes(), self.width // self.group, axis=1)
        self.whole_warp = self.order.whole_warp(self.who)
        self.regs: list[V | None] = [None] * len(program.reg_widths)
        self.mask: Mask | None = None
        self.solo = True
        self.pc = 0
        self.steps = 0
        self.ready: list[Fragment] = []
        self.parked: list[tuple[Any, Fragment]] = []
        self.shared = self._shared()
        self.local: Cells | None = None
        self.extra: dict[str, Any] = {}
        self.speculative = False  # running a path that may not be taken
        self.together = False  # several operations at once: none of them may be to blame
        memory.report.machine = ref(self)

    def _shared(self) -> Cells:
        size = self.program.static_shared_bytes
        if self.program.dynamic_shared_base is not None:
            size = max(size, self.program.dynamic_shared_base + (self.launch.shared_bytes or 0))
            if self.launch.shared_bytes is None:
                size = max(size, 232448)
        elif self.launch.shared_bytes:
            size = max(size, self.launch.shared_bytes)
        cells = Cells("shared memory", max(size, 4), 4, self.memory.report, self.B)
        cells.track(self.order, True)
        return cells

    # --- messages ------------------------------------------------------------------------------

    def report(self, code: str, message: str) -> None:
        """Record a finding at the current operation, once for each; or a premise."""
        if self.speculative and code == "out-of-bounds":
            return
        if code in PREMISES:
            self.memory.premises.add(code)
            return
        if self.together:
            raise Apart
        self.memory.report_at(code, message, self.program.ops[self.pc].site)

    def unsupported(self, code: str, message: str) -> Unsupported:
        """An exception for the current operation."""
        return Unsupported(code, message, self.program.ops[self.pc].site)

    # --- registers -----------------------------------------------------------------------------

    def read(self, reg: int) -> V:
        """A register's value."""
        v = self.regs[reg]
        return undefined(self.program.reg_widths[reg]) if v is None else v

    def put(self, reg: int, v: V, mask: Mask | None, guarded: bool) -> None:
        """Write a register in the lanes of `mask`."""
        if mask is None or (self.solo and not guarded):
            self.regs[reg] = v
        else:
            self.regs[reg] = merge(mask, v, self.regs[reg])

    def known(self, v: V, mask: Mask | None, what: str) -> NDArray[Any]:
        """Bits that must be known: an undefined value is a finding, a tree is unsupported."""
        bits = bits_of(v, mask)
        if bits is not None:
            return bits
        _, f = hash_of(v)
        early = np.asarray((f & PENDING) != 0) & (True if mask is None else mask)
        if some(early):
            self.memory.premises.add("wgmma-serialized")
        undef = np.asarray((f & UNDEF) != 0) & (True if mask is None else mask)
        if some(undef):
            self.report("undefined", f"a register that was never written reaches {what}")
            raise self.unsupported("undefined", f"a register that was never written reaches {what}")
        strange = np.asarray((f & OPQ) != 0) & (True if mask is None else mask)
        if some(strange):
            which = self.program.sites[min(self.memory.opaque_sites)].text
            raise self.unsupported("opaque", f"{what} comes out of an instruction that is not "
                                             f"modelled: {which}")
        raise self.unsupported("data-dependent", f"{what} depends on data the launch facts do not "
                                                 "give (`values` of the buffer it comes from)")

    def guard(self, g: Guard, pure: Callable[[], bool] = lambda: False) -> Mask | _Empty | V | None:
        """Active lanes under a guard: a mask, None (all), EMPTY, or the unknown predicate.

        pure: says whether all that the guard decides is what registers hold. Then a predicate that
        nobody wrote makes those undefined; else it is a finding.
        """
        p = self.read(g.reg)
        on = pred_bits(p, self.mask)
        if on is None:
            h, f = hash_of(p)
            undef = np.asarray((f & UNDEF) != 0) & (True if self.mask is None else self.mask)
            if not some(undef) or pure():
                return p
            self.report("undefined", "a predicate that was never written decides whether an "
                                     "operation runs")
            on = np.asarray(conc_mask(f)) & ((h[1] == 0) if g.neg else (h[1] != 0))
        elif g.neg:
            on = ~on
        if on.size == 1:
            return self.mask if on.flat[0] else EMPTY
        if every(on):
            return self.mask
        on = on if self.mask is None else on & self.mask
        return on if some(on) else EMPTY

    def strands(self, lanes: Mask) -> Mask:
        """Whether any lane of each strand is among these."""
        each = self.width // self.group
        return np.asarray(lanes.reshape(self.B, -1, each).any(axis=2))

    def strand_of(self, threads: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the strands of threads of a block."""
        return np.asarray(threads, dtype=np.int64) // (self.width // self.group)

    def full(self, mask: Mask | None) -> Mask:
        """The mask as a (B, T) array."""
        if mask is None:
            return np.ones((self.B, self.T), dtype=bool)
        return np.broadcast_to(mask, (self.B, self.T))

    # --- running -------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all blocks to the end."""
        self.ready = [Fragment(0, self.live.copy())]
        while True:
            fragment = self._next()
            if fragment is None:
                if not self._unblock():
                    break
                continue
            self._run_fragment(fragment)
        if self.parked:
            what = self.parked[0][0]
            self.pc = min(self.parked[0][1].pc, len(self.program.ops) - 1)
            self.report("deadlock", f"threads wait forever at a {what[0]}")
            raise self.unsupported("deadlock", f"threads wait forever at a {what[0]}")
        self.memory.now = max(self.order.now, self.outer_order.now) + 1

    def _rank(self, pc: int) -> tuple[int, int]:
        if pc >= len(self.cfg.block_of):
            return (self.cfg.order[self.cfg.end], pc)
        return (self.cfg.order[self.cfg.block_of[pc]], pc)

    def _next(self) -> Fragment | None:
        if not self.ready:
            return None
        best = min(self.ready, key=lambda f: self._rank(f.pc))
        same = [f for f in self.ready if f.pc == best.pc]
        self.ready = [f for f in self.ready if f.pc != best.pc]
        if len(same) == 1:
            return best
        mask = same[0].mask.copy()
        for f in same[1:]:
            mask |= f.mask
        return Fragment(best.pc, mask)

    def push(self, pc: int, mask: Mask) -> None:
        """Make lanes ready at an operation."""
        if some(mask):
            self.ready.append(Fragment(pc, mask))

    def _must_yield(self, pc: int) -> bool:
        mine = self._rank(pc)
        return any(self._rank(f.pc) <= mine for f in self.ready)

    def set_mask(self, mask: Mask) -> None:
        """Make these lanes the active ones."""
        self.mask = None if every(mask) else mask
        self.solo = self.mask is None or not some(self.live & ~mask)

    def _run_fragment(self, fragment: Fragment) -> None:
        self.set_mask(fragment.mask)
        pc, code, n = fragment.pc, self.code, len(self.code)
        block_of = self.cfg.block_of
        budget = self.fuel - self.steps
        while True:
            if pc >= n:
                self._exit(self.full(self.mask))
                return
            step = code[pc]
            budget -= 1
            if budget < 0:
                raise self.unsupported("fuel", f"more than {self.fuel} operations")
            self.pc = pc
            if step is not None:
                step(self)
                pc += 1
                if self.ready and (pc >= n or block_of[pc] != block_of[pc - 1]) and (
                        self._must_yield(pc)):
                    self.push(pc, self.full(self.mask).copy())
                    break
                continue
            after = self._control(self.program.ops[pc], pc)
            if after is None:
                break
            pc = after
            if self.ready and self._must_yield(pc):
                self.push(pc, self.full(self.mask).copy())
                break
        self.steps = self.fuel - budget

    def _control(self, op: Op, pc: int) -> int | None:
        """Branch, exit, wait: the next operation, or None where the fragment ends here."""
        if op.name == "switch":
            return self._switch(op, pc)
        on: Any = self.mask if op.guard is None else self.guard(
            op.guard, lambda: op.name == "branch" and speculate.possible(self, pc))
        if on is EMPTY:
            return pc + 1
        if not (on is None or isinstance(on, np.ndarray)):
            if op.name == "branch":
                return speculate.both_paths(self, op, pc)
            raise self.unsupported("data-dependent", "control flow depends on data the launch "
                                                     "facts do not give")
        if op.name == "branch":
            if on is self.mask:
                return int(op.attr)
            full = self.full(on)
            self.push(int(op.attr), full.copy())
            self.push(pc + 1, self.full(self.mask) & ~full)
            return None
        if op.name in ("exit", "trap"):
            if op.name == "trap":
                self.report("trap", "a trap is reached")
            return self._leave(on, pc)
        wait = self.extra["waits"][op.name]
        done = wait(self, op, on)
        return self._park(op, pc, on, done)

    def _leave(self, on: Mask | None, pc: int) -> int | None:
        full = self.full(on)
        rest = self.full(self.mask) & ~full
        self._exit(full)
        if not some(rest):
            return None
        self.set_mask(rest)
        return pc + 1

    def _exit(self, lanes: Mask) -> None:
        self.live = self.live & ~lanes
        if self.parked:
            self._unblock()

    def _park(self, op: Op, pc: int, on: Mask | None, done: Mask | None) -> int | None:
        """`done`: lanes that need not wait (None: all of them)."""
        if done is None:
            return pc + 1
        full = self.full(on)
        go = (full & done) | (self.full(self.mask) & ~full)
        stay = full & ~done
        if some(stay):
            self.parked.append(((op.name, op), Fragment(pc, stay)))
        if not some(go):
            self._unblock()
            return None
        self.set_mask(go)
        self.solo = self.solo and not some(stay)
        if not some(stay):
            return pc + 1
        self.push(pc + 1, go)
        self._unblock()
        return None

    def _unblock(self) -> bool:
        """Wake parked lanes whose condition holds by now; whether there were any."""
        woken = False
        for key, fragment in list(self.parked):
            release: Mask = self.extra["wakes"][key[0]](self, key[1], fragment)
            if some(release):
                woken = True
                self.parked = [p for p in self.parked if p[1] is not fragment]
                rest = fragment.mask & ~release
                if some(rest):
                    self.parked.append((key, Fragment(fragment.pc, rest)))
                self.push(fragment.pc + 1, release)
        return woken

    def _switch(self, op: Op, pc: int) -> int | None:
        src = op.src[0]
        v = self.read(src) if isinstance(src, int) else Conc(
            np.array([[src.bits]], dtype=np.uint64), 32)
        index = self.known(v, self.mask, "a branch")
        if index.size == 1:
            at = int(index.flat[0])
            if at >= len(op.attr):
                raise self.unsupported("switch", "an indexed branch leaves its table")
            return int(op.attr[at])
        full = self.full(self.mask)
        wide = np.broadcast_to(index, full.shape)
        for value in np.unique(wide[full]):
            if int(value) >= len(op.attr):
                raise self.unsupported("switch", "an indexed branch leaves its table")
            self.push(int(op.attr[int(value)]), full & (wide == value))
        return None


def finding(code: str, message: str, program: Program, site: int | None) -> Reason:
    """A reason with its place."""
    if site is None or site >= len(program.sites):
        return Reason(code, message)
    where = program.sites[site]
    return Reason(code, message, where.span.line, None, where.loc)
