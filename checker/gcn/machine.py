"""Architectural state while one basic block is lowered: registers, masks, exec, modes.

In: reads and writes from the rows. Out: core operations through the `Emitter`, and facts for the
next block. A vector write happens under exec; inside the block a value is also kept unmerged, so
that operations under the same (or a narrower) exec read what was computed, not the merge.

Register files: "s" holds the scalar registers (vcc 106:107, exec 126:127, m0 124), "t" ttmp.
A pair read as one 64-bit value and a mask read as a predicate have shadow registers that are
brought up to date at the end of each block; dead ones are removed afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from checker.core import Barrier, Const, Guard, Op, Source
from checker.gcn.emitter import FALSE, TRUE, Emitter, Registers, fits
from checker.gcn.idioms import reciprocal
from checker.gcn.kernel import Kernel
from checker.gcn.target import Target

__all__ = ["EXEC", "M0", "NULL", "VCC", "Facts", "Machine", "Unmodelled", "Wanted"]

VCC, EXEC, M0, NULL = 106, 126, 124, 125

Facts = dict[Any, Any]


class Unmodelled(Exception):
    """This instruction is not modelled; it becomes an opaque operation (the reason is kept)."""


@dataclass(frozen=True, slots=True)
class Written:
    """A value of this block and the predicate under which it was written."""

    value: Source
    guard: Source


@dataclass(slots=True)
class Wanted:
    """Shadows that some block reads at its start: pairs as 64 bits, masks as predicates."""

    pairs: set[tuple[str, int]] = field(default_factory=set)
    masks: set[int] = field(default_factory=set)


class Machine:
    """State of one block; `facts` at the start come from all predecessors."""

    def __init__(self, emitter: Emitter, target: Target, wave: int, facts: Facts,
                 wanted: Wanted, kernel: Kernel) -> None:
        self.e, self.target, self.wave = emitter, target, wave
        self.entry = facts
        self.wanted = wanted
        self.regs: Registers = emitter.registers
        self.now: dict[tuple[str, int], Written] = {}
        self.now64: dict[tuple[str, int], Written] = {}
        self.joined: dict[tuple[str, int], Written] = {}
        self.whole: dict[tuple[str, int], tuple[Written, Source]] = {}
        self.masks: dict[int, Source] = {}
        self.touched: set[tuple[str, int]] = set()
        self.bits: dict[tuple[str, int], bool] = {}  # registers written: is it raw in all lanes?
        self.stale: set[Any] = set()  # shadows behind their registers: (file, n), ("mask", n)
        self.live_in: dict[tuple[str, int], Source] = {}
        self.live_in64: dict[tuple[str, int], Source] = {}
        self.live_in_mask: dict[int, Source] = {}
        self.slots: dict[tuple[int, int], Source] = {}
        self.kept_slots: set[tuple[int, int]] = {
            (k[1], k[2]) for k in facts if k[0] == "slot"}
        self.scc: Source | None = None
        self.scc_written = False
        self.modes: dict[str, Any] = {k[1]: v for k, v in facts.items() if k[0] == "mode"}
        self.symbols: dict[Any, Any] = {
            k[1]: v for k, v in facts.items() if k[0] == "symbol"}
        self.carry: Any = None
        self.flow: tuple[str, str, Source | None] = ("fall", "", None)
        self.signalled = 0  # the barrier signalled but not waited for: -1 the group's, 0 none
        self.memory_since_signal = self.wait_follows = False
        self.last_lds = ""  # what touched LDS last: load, store, barrier; "" is not known
        self.deferred: list[tuple[str, int, Source, Source]] | None = None
        self.kernel: Kernel = kernel
        self.synced_pairs: set[tuple[str, int]] = set()
        self.synced_masks: set[int] = set()
        self.places: dict[Source, tuple[str, int]] = {}
        self.entered: dict[tuple[str, int], Source] = {}
        emitter.entry_pair = self._entry_pair
        if facts.get(("full", EXEC)):
            self.masks[EXEC] = TRUE

    # -- names

    def arch(self, file: str, n: int) -> int:
        """Core register of an architectural 32-bit register."""
        return self.regs.arch(f"{file}{n}", 32)

    def arch64(self, file: str, n: int) -> int:
        """Shadow of a pair."""
        return self.regs.arch(f"{file}{n}:{n + 1}", 64)

    def arch_mask(self, n: int) -> int:
        """Shadow predicate of a mask."""
        return self.regs.arch(f"p{n}", 1)

    # -- exec

    @property
    def exec(self) -> Source:
        """The predicate of exec."""
        return self.mask(EXEC)

    @property
    def full(self) -> bool:
        """True if exec is known to hold all lanes of the wave."""
        return self.masks.get(EXEC) == TRUE

    def guard(self, predicate: Source) -> Guard | None:
        """A guard for a predicate; None if it always holds."""
        if predicate == TRUE:
            return None
        if isinstance(predicate, Const):
            reg = self.e.registers.temp(1)
            self.e.op("mov", (reg,), (predicate,), 1)
            return Guard(reg, False)
        found = self.e.definition(predicate)
        if found is not None and found[0] == "pnot" and isinstance(found[1][0], int):
            return Guard(found[1][0], True)
        return Guard(predicate, False)

    # -- 32-bit registers

    def read(self, file: str, n: int, under: Source | None = None) -> Source:
        """A register's value; `under`: the reader's predicate (None: it reads other lanes)."""
        if file == "s" and n == NULL:
            return Const(0, 32)
        found = self.now.get((file, n))
        if found is not None:
            inside = found.guard == TRUE if under is None else self.e.implies(under, found.guard)
            if file == "s" or inside:
                return found.value
            joined = self.joined.get((file, n))
            if joined is not None and (joined.guard == TRUE if under is None else
                                       self.e.implies(under, joined.guard)):
                return joined.value
            return self.merged(file, n)
        known = self.entry.get(("const", file, n))
        if known is not None:
            return Const(known, 32)
        if (file, n) not in self.live_in:
            self.live_in[file, n] = self.copy(self.arch(file, n), 32)
            self.places[self.live_in[file, n]] = (file, n)
            if self.entry.get(("quiet", file, n)):
                self.e.quiet.add(self.live_in[file, n])
            if self.entry.get(("raw", file, n)):
                self.e.raw.add(self.live_in[file, n])
            if self.entry.get(("pointer", file, n)):
                self.e.pointers.add(self.live_in[file, n])
            if self.entry.get(("short", file, n)):
                self.e.short.add(self.live_in[file, n])
            if file == "s" or self.entry.get(("same", file, n)):
                self.e.uniform.add(self.live_in[file, n])
            divisor = self.entry.get(("reciprocal", file, n))
            if divisor is not None and (file, n) not in self.touched and \
                    divisor not in self.touched:
                self.e.reciprocals[self.live_in[file, n]] = self.read(*divisor)
        return self.live_in[file, n]

    def copy(self, reg: int, width: int) -> Source:
        """A fresh copy of an architectural register as it is now."""
        return self.e.value("mov", width, (reg,), width)

    def merged(self, file: str, n: int) -> Source:
        """The register with the lanes that exec left alone, for readers across lanes.

        Readers between two writes read one value.
        """
        written, kept = self.now.get((file, n)), self.whole.get((file, n))
        if kept is not None and kept[0] is written:
            return kept[1]
        value = self.copy(self.arch(file, n), 32)
        if written is not None:
            self.whole[file, n] = written, value
        return value

    def write(self, file: str, n: int, value: Source, under: Source = TRUE) -> None:
        """Write a 32-bit register in the lanes of `under` (scalar registers: everywhere)."""
        if file == "s" and n == NULL:
            return
        if self.deferred is not None:
            self.deferred.append((file, n, value, under))
            return
        if file == "s" and n in (EXEC, EXEC + 1):
            raise Unmodelled("half of exec written alone")
        self._assign(file, n, value, under)
        for at in (n - 1, n):
            self._drop_pair(file, at)
        if file == "s":
            self._drop_mask(n)
            if self.wave == 64:
                self._drop_mask(n - 1)

    def _drop_pair(self, file: str, n: int) -> None:
        self.now64.pop((file, n), None)
        self.live_in64.pop((file, n), None)
        self.stale.add((file, n))

    def _drop_mask(self, n: int) -> None:
        self.masks.pop(n, None)
        self.live_in_mask.pop(n, None)
        self.touched.add(("mask", n))
        self.stale.add(("mask", n))

    def _assign(self, file: str, n: int, value: Source, under: Source) -> None:
        if file == "v":
            self._drop_slots(n)
        self.e.op("mov", (self.arch(file, n),), (value,), 32, self.guard(under))
        if under != TRUE:
            self._join(file, n, value, under)
        else:
            self.joined.pop((file, n), None)
        before = self.bits.get((file, n), bool(self.entry.get(("raw", file, n)))
                               or ("const", file, n) in self.entry)
        self.bits[file, n] = self.e.is_raw(value) and (under == TRUE or before)
        self.now[file, n] = Written(value, under)
        self.touched.add((file, n))
        self.symbols.pop((file, n), None)

    # -- lanes of vector registers that hold spilled scalars

    def _drop_slots(self, n: int) -> None:
        if self.kept_slots or self.slots:
            self.kept_slots = {k for k in self.kept_slots if k[0] != n}
            self.slots = {k: v for k, v in self.slots.items() if k[0] != n}

    def write_lane(self, n: int, lane: int, value: Source, chosen: Source) -> None:
        """v_writelane with a known lane: the scalar is also kept by itself."""
        kept = {k for k in self.kept_slots if k != (n, lane)}
        slots = {k: v for k, v in self.slots.items() if k != (n, lane)}
        self.write("v", n, value, chosen)
        self.kept_slots, self.slots = kept, slots
        self.e.op("mov", (self.regs.arch(f"v{n}.lane{lane}", 32),), (value,), 32)
        self.slots[n, lane] = value

    def read_lane(self, n: int, lane: int) -> Source | None:
        """The scalar last written to a lane, if nothing else wrote the register since."""
        if (n, lane) in self.slots:
            return self.slots[n, lane]
        if (n, lane) in self.kept_slots:
            value = self.copy(self.regs.arch(f"v{n}.lane{lane}", 32), 32)
            self.e.uniform.add(value)
            self.slots[n, lane] = value
            return value
        return None

    def _join(self, file: str, n: int, value: Source, under: Source) -> None:
        """Two writes under disjoint predicates (then, else) make one value for both."""
        joined, before = self.joined.pop((file, n), None), self.now.get((file, n))
        if joined is None and (before is None or before.guard == TRUE or
                               self.e.implies(before.guard, under)):
            return
        base = joined or before
        assert base is not None
        whole = self.e.por(base.guard, under)
        self.joined[file, n] = Written(self.e.select(under, value, base.value, 32), whole)

    # -- pairs

    def read64(self, file: str, n: int, under: Source | None = None) -> Source:
        """A pair as one 64-bit value."""
        if file == "s" and n == NULL:
            return Const(0, 64)
        found = self.now64.get((file, n))
        if found is not None and (file == "s" or (
                found.guard == TRUE if under is None else self.e.implies(under, found.guard))):
            return found.value
        lo_new, hi_new = ((file, n) in self.now), ((file, n + 1) in self.now)
        if not lo_new and not hi_new and ("const", file, n) not in self.entry and \
                ("const", file, n + 1) not in self.entry:
            if (file, n) not in self.live_in64:
                self.wanted.pairs.add((file, n))
                whole = self.copy(self.arch64(file, n), 64)
                if file == "s":
                    self.e.uniform.add(whole)
                if self.entry.get(("pointer", file, n + 1)):
                    self.e.pointers.add(whole)
                self.live_in64[file, n] = whole
            return self.live_in64[file, n]
        return self.e.pack(self.read(file, n, under), self.read(file, n + 1, under))

    def _entry_pair(self, lo: Source, hi: Source) -> Source | None:
        """The shadow of a pair as it was at the block's start, for two of its halves."""
        place = self.places.get(lo)
        if place is None or self.places.get(hi) != (place[0], place[1] + 1):
            return None
        if place not in self.entered:
            file, n = place
            self.wanted.pairs.add(place)
            whole = self.regs.temp(64)
            shadow = self.arch64(file, n)
            self.e.prologue.append(Op("mov", (whole,), (shadow,), 64, None, self.e.site))
            self.e.defs[whole] = ("mov", (shadow,), 64)
            if file == "s":
                self.e.uniform.add(whole)
            if self.entry.get(("pointer", file, n + 1)):
                self.e.pointers.add(whole)
            self.entered[place] = whole
        return self.entered[place]

    def write64(self, file: str, n: int, value: Source, under: Source = TRUE) -> None:
        """Write a pair."""
        if file == "s" and n == NULL:
            return
        if file == "s" and n == EXEC:
            self.write_mask(EXEC, self.e.lanebit(value), value)
            return
        if under != TRUE and (file, n) in self.stale:
            whole = self.e.pack(self.read(file, n), self.read(file, n + 1))
            self.e.op("mov", (self.arch64(file, n),), (whole,), 64)
        self.write(file, n, self.e.extract(value, 0, 32), under)
        self.write(file, n + 1, self.e.extract(value, 32, 32), under)
        self.now64[file, n] = Written(value, under)
        self.e.op("mov", (self.arch64(file, n),), (value,), 64, self.guard(under))
        self.stale.discard((file, n))

    # -- masks

    def mask_width(self) -> int:
        """32 or 64 bits."""
        return self.wave

    def read_mask(self, n: int) -> Source:
        """A mask as an integer of the wave's width."""
        if n == EXEC and EXEC in self.masks:
            return self.e.ballot(self.masks[EXEC], self.wave)
        if self.wave == 64:
            return self.read64("s", n)
        return self.read("s", n)

    def is_mask(self, n: int) -> bool:
        """True if the register is known to hold a mask rather than a number."""
        return n in self.masks or n == EXEC or (
            ("mask", n) not in self.touched and bool(self.entry.get(("mask", n))))

    def mask(self, n: int) -> Source:
        """A mask as this lane's predicate."""
        if n in self.masks:
            return self.masks[n]
        if ("mask", n) in self.touched or n == NULL:
            predicate = self.e.lanebit(self.read_mask(n))
        elif self._constant_mask(n) is not None:
            predicate = self._constant_mask(n) or FALSE
        else:
            if n not in self.live_in_mask:
                self.wanted.masks.add(n)
                reg = self.copy(self.arch_mask(n), 1)
                self.live_in_mask[n] = reg
                if self.entry.get(("uniform", n)):
                    self.e.uniform.add(reg)
                self._cover(n, reg)
            predicate = self.live_in_mask[n]
        self.masks[n] = predicate
        return predicate

    def _cover(self, n: int, reg: Source) -> None:
        """At the block's start exec and this mask together hold all lanes, if the facts say so."""
        if n == EXEC:
            for other, mask in self.live_in_mask.items():
                if self.entry.get(("cover", other)):
                    self.e.covering.add(frozenset((reg, mask)))
        elif self.entry.get(("cover", n)) and ("mask", EXEC) not in self.touched:
            self.e.covering.add(frozenset((reg, self.mask(EXEC))))

    def _constant_mask(self, n: int) -> Source | None:
        """A mask whose registers are constants at the block's start."""
        halves = [self.entry.get(("const", "s", n + i)) for i in range(self.wave // 32)]
        if any(h is None for h in halves):
            return None
        if all(h == 0xFFFFFFFF for h in halves):
            return TRUE
        return FALSE if all(h == 0 for h in halves) else None

    def write_mask(self, n: int, predicate: Source, value: Source | None = None) -> None:
        """Write a mask given as a predicate (and, where it is at hand, as an integer)."""
        if n == NULL:
            return
        if value is None:
            value = self.e.ballot(predicate, self.wave)
        parts = [value] if self.wave == 32 else [self.e.extract(value, 0, 32),
                                                 self.e.extract(value, 32, 32)]
        for i, part in enumerate(parts):
            self._assign("s", n + i, part, TRUE)
        for at in (n - 1, n, n + 1) if self.wave == 64 else (n - 1, n):
            self._drop_pair("s", at)
        for at in (n - 1, n, n + 1) if self.wave == 64 else (n,):
            self._drop_mask(at)
        if self.wave == 64:
            self.now64["s", n] = Written(value, TRUE)
            self.e.op("mov", (self.arch64("s", n),), (value,), 64)
            self.stale.discard(("s", n))
        self.e.op("mov", (self.arch_mask(n),), (predicate,), 1)
        self.masks[n] = predicate
        self.stale.discard(("mask", n))

    # -- LDS

    def order_lds(self, kind: str) -> None:
        """A wave's LDS accesses happen in program order: say so between loads and stores."""
        if self.last_lds not in (kind, "barrier"):
            self.e.op("barrier", (), (), Barrier("warp"))
        self.last_lds = kind

    # -- scc

    def read_scc(self) -> Source:
        """The scalar condition code."""
        if self.scc is None:
            known = self.entry.get(("const", "scc", 0))
            self.scc = Const(known, 1) if known is not None else \
                self.copy(self.regs.arch("scc", 1), 1)
            self.e.uniform.add(self.scc)
        return self.scc

    def write_scc(self, value: Source) -> None:
        """Set the scalar condition code; it is the same in all lanes of a wave."""
        self.scc, self.scc_written = value, True
        self.e.uniform.add(value)
        self.e.op("mov", (self.regs.arch("scc", 1),), (value,), 1)

    # -- facts

    def constant(self, value: Source) -> int | None:
        """The bits of a constant value."""
        return value.bits if isinstance(value, Const) else None

    def finish(self) -> None:
        """Bring the shadows up to date that other blocks want, each once."""
        for file, n in sorted(self.wanted.pairs - self.synced_pairs):
            self.synced_pairs.add((file, n))
            if (file, n) in self.stale:
                whole = self.e.pack(self.read(file, n), self.read(file, n + 1))
                self.e.op("mov", (self.arch64(file, n),), (whole,), 64)
        for n in sorted(self.wanted.masks - self.synced_masks):
            self.synced_masks.add(n)
            if ("mask", n) in self.stale:
                self.e.op("mov", (self.arch_mask(n),), (self.mask(n),), 1)

    def exit_facts(self) -> Facts:
        """What the next blocks may rely on."""
        out: Facts = {}
        for key, value in self.entry.items():
            kind = key[0]
            if kind in ("const", "quiet", "raw", "same", "short", "pointer"):
                kept = (key[1], key[2]) not in self.touched and not (
                    key[1] == "scc" and self.scc_written)
            else:
                kept = kind in ("mask", "full", "uniform") and \
                    ("mask", key[1]) not in self.touched and not (
                        key[1] == EXEC and EXEC in self.masks)
            if kept:
                out[key] = value
        for (file, n), written in self.now.items():
            if isinstance(written.value, Const) and (file == "s" or written.guard == TRUE):
                out["const", file, n] = written.value.bits
                if written.value.bits & 0x7FC00000 != 0x7F800000 or \
                        not written.value.bits & 0x3FFFFF:
                    out["quiet", file, n] = True  # no signalling NaN of single precision
            if file == "s" and self.e.is_pointer_high(written.value):
                out["pointer", file, n] = True
            if file == "s" and self.e.is_short(written.value):
                out["short", file, n] = True
            if file != "s" and written.guard == TRUE and self.e.is_uniform(written.value):
                out["same", file, n] = True
            if written.value in self.e.quiet and (file == "s" or written.guard == TRUE):
                out["quiet", file, n] = True
            if self.bits[file, n]:
                out["raw", file, n] = True
        for n, predicate in self.masks.items():
            self._mask_facts(out, n, predicate)
        self._cover_facts(out)
        self._reciprocal_facts(out)
        for key, symbol in self.symbols.items():
            out["symbol", key] = symbol
        for n, lane in (*self.kept_slots, *self.slots):
            out["slot", n, lane] = True
        for name, mode in self.modes.items():
            out["mode", name] = mode
        return out

    def _cover_facts(self, out: Facts) -> None:
        if self.full:
            return
        now = self.mask(EXEC)
        for n, predicate in list(self.masks.items()):
            if n != EXEC and self.e.covers(now, predicate):
                out["cover", n] = True
        if ("mask", EXEC) in self.touched:
            return
        for key in self.entry:
            if key[0] == "cover" and ("mask", key[1]) not in self.touched:
                out[key] = True

    def _reciprocal_facts(self, out: Facts) -> None:
        """Registers that hold the integer reciprocal of what another register holds."""
        for key, divisor in self.entry.items():
            if key[0] == "reciprocal" and key[1:] not in self.touched and \
                    divisor not in self.touched:
                out[key] = divisor
        found = [(place, reciprocal(self.e, w.value)) for place, w in self.now.items()
                 if w.guard == TRUE or place[0] == "s"]
        for place, y in found:
            if y is not None:
                for holder in self._holders(y):
                    out["reciprocal", *place] = holder
                    break

    def _holders(self, value: Source) -> list[tuple[str, int]]:
        """Registers that hold a value at the end of the block."""
        out = [p for p, w in self.now.items() if w.value == value and (
            w.guard == TRUE or p[0] == "s")]
        return out + [p for p, v in self.live_in.items() if v == value and p not in self.touched]

    def _mask_facts(self, out: Facts, n: int, predicate: Source) -> None:
        out["mask", n] = True
        if predicate == TRUE:
            out["full", n] = True
        else:
            out.pop(("full", n), None)
        if predicate in self.e.uniform:
            out["uniform", n] = True
        else:
            out.pop(("uniform", n), None)

    def fits(self, value: int, width: int = 32) -> Const:
        """Shorthand for a constant."""
        return fits(value, width)
