"""What a row sees of one instruction: operands by type, modifiers, results under exec.

In: an `Instruction` and the block's `Machine`. Out: core operations; the registers read and
written, for the wait checker. Every modifier must be consumed by the row or by the operand
fetch; one that is left over makes the instruction opaque (`Unmodelled`).
Sources: CDNA3 and RDNA3 ISA manuals, chapters on VOP encodings, DPP, SDWA, VOP3P.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from checker.core import Const, FloatMode, Source
from checker.gcn.emitter import TRUE, Emitter, fits
from checker.gcn.machine import EXEC, M0, NULL, VCC, Machine, Unmodelled
from checker.gcn.words import words
from checker.syntax import Address, Immediate, Instruction, Modifier, Name, Operand, Range, Vector

__all__ = ["FLAGS", "IGNORED_MODIFIERS", "Context", "bare", "scalar_register"]

#: words after the operands that are modifiers, not operands
FLAGS = frozenset(words(
    "glc slc dlc nt sc0 sc1 lds offen idxen addr64 gds clamp tfe lwe nv scc"))

#: modifiers without effect on values, and why
IGNORED_MODIFIERS = {
    "slc": "cache policy", "dlc": "cache policy", "nt": "cache policy", "th": "cache policy",
    "scope": "coherence scope; ordering is checked by waits and barriers", "glc": "cache policy "
    "(atomics: return the old value, read by their rows)", "sc0": "as glc", "sc1": "scope",
    "nv": "cache policy", "scale_offset": "",
}
del IGNORED_MODIFIERS["scale_offset"]

_SPECIAL_SCALARS = {"vcc_lo": VCC, "vcc_hi": VCC + 1, "exec_lo": EXEC, "exec_hi": EXEC + 1,
                    "m0": M0, "null": NULL, "vcc": VCC, "exec": EXEC}
_ENUM_FLOATS = {0.15915494: {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}}
_MIRRORS = ("row_mirror", "row_half_mirror")
_WIDTH = {"f16": 16, "bf16": 16, "u16": 16, "f32": 32, "u32": 32, "f64": 64, "u64": 64}
_DPP = ("quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_shr", "wave_rol",
        "wave_ror", "row_mirror", "row_half_mirror", "row_bcast", "row_newbcast", "row_share",
        "row_xmask", "dpp8")


def bare(op: Operand) -> Operand:
    """An operand without what is applied to it: `-v1`, `|v1|`, `sext(v1)`."""
    if isinstance(op, Vector) and len(op.items) == 2 and isinstance(op.items[0], Name):
        return bare(op.items[1])
    return replace(op, neg=False, absolute=False) if isinstance(op, (Name, Range)) else op


def scalar_register(name: str) -> int | None:
    """Index in the scalar file of `s5`, `vcc_lo`, `exec`, `m0`, `null`; None for other names."""
    if name in _SPECIAL_SCALARS:
        return _SPECIAL_SCALARS[name]
    if name[:1] == "s" and name[1:].isdigit():
        return int(name[1:])
    return None


def _flatten(operands: tuple[Operand, ...]) -> list[Operand]:
    out: list[Operand] = []
    for operand in operands:
        if isinstance(operand, Vector) and operand.items and \
                all(isinstance(i, Modifier) for i in operand.items):
            out += operand.items
        else:
            out.append(operand)
    return out


class Context:
    """One instruction being lowered."""

    def __init__(self, machine: Machine, inst: Instruction, base: str, suffix: str,
                 operands: tuple[Operand, ...] | None = None, dsts: int = 1) -> None:
        self.m, self.inst, self.base, self.suffix = machine, inst, base, suffix
        self.e: Emitter = machine.e
        self.target = machine.target
        self.wave = machine.wave
        self.operands: list[Operand] = []
        self.mods: dict[str, str] = {}
        self.used: set[str] = set()
        self.dsts = dsts
        self.reads: set[tuple[str, int]] = set()
        self.writes: set[tuple[str, int]] = set()
        self.dpp_reads: set[tuple[str, int]] = set()
        self.lane_reads: set[tuple[str, int]] = set()
        self.counter = ""
        self.deferred: list[tuple[int, Source]] | None = None
        self._dpp_enabled: Source | None = None
        for operand in _flatten(inst.operands if operands is None else operands):
            if isinstance(operand, Modifier):
                self.mods[operand.name] = operand.value
            elif isinstance(operand, Name) and (
                    (operand.name in FLAGS and self.operands) or operand.name in _MIRRORS):
                self.mods[operand.name] = "1"
            else:
                self.operands.append(operand)

    # -- modifiers

    def flag(self, name: str) -> bool:
        """Consume a modifier; True if it is set."""
        self.used.add(name)
        return self.mods.get(name, "0") not in ("0", "")

    def number(self, name: str, default: int = 0) -> int:
        """Consume a numeric modifier."""
        self.used.add(name)
        text = self.mods.get(name)
        if text is None:
            return default
        try:
            return int(text, 0)
        except ValueError:
            raise Unmodelled(f"modifier {name}:{text}") from None

    def bits(self, name: str, count: int, default: int = 0) -> list[int]:
        """Consume a list modifier such as `op_sel:[0,1]`, padded with the default."""
        self.used.add(name)
        text = self.mods.get(name)
        if text is None:
            return [default] * count
        try:
            found = [int(x, 0) for x in text.strip("[]").split(",")]
        except ValueError:
            raise Unmodelled(f"modifier {name}:{text}") from None
        if any(x not in (0, default) for x in found[count:]):
            raise Unmodelled(f"modifier {name}:{text}")
        return (found + [default] * count)[:count]

    def check_modifiers(self) -> None:
        """Refuse modifiers that nothing consumed."""
        for name in self.mods:
            if name not in self.used and name not in IGNORED_MODIFIERS:
                raise Unmodelled(f"modifier {name}")

    # -- predicates

    @property
    def under(self) -> Source:
        """The predicate of this instruction's vector results."""
        base = self.m.exec
        if self._dpp_enabled is not None:
            return self.e.pand(base, self._dpp_enabled)
        return base

    # -- reading registers

    def index(self, i: int) -> tuple[str, int, int]:
        """File, first register and count of a register operand."""
        return self.located(self.operand(i))

    def operand(self, i: int) -> Operand:
        """Operand i; refuses an instruction that has too few."""
        if i >= len(self.operands):
            raise Unmodelled(f"operand {i} is missing")
        return self.operands[i]

    def located(self, op: Operand) -> tuple[str, int, int]:
        """File, first register and count of a register operand without modifiers."""
        if isinstance(op, (Name, Range)) and (op.neg or op.absolute):
            raise Unmodelled("sign modifier on an operand that takes none")
        if isinstance(op, Range):
            return ("t" if op.file == "ttmp" else op.file), op.first, op.last - op.first + 1
        if isinstance(op, Name):
            if op.name in ("vcc", "exec"):
                return "s", _SPECIAL_SCALARS[op.name], 2
            scalar = scalar_register(op.name)
            if scalar is not None:
                return "s", scalar, 1
            if op.name[:1] in "va" and op.name[1:].isdigit():
                return op.name[0], int(op.name[1:]), 1
            if op.name.startswith("ttmp") and op.name[4:].isdigit():
                return "t", int(op.name[4:]), 1
        raise Unmodelled("operand is not a register")

    def is_register(self, i: int) -> bool:
        """True if operand i is a register or a range."""
        try:
            self.index(i)
        except Unmodelled:
            return False
        return True

    def fetch(self, file: str, n: int, across: bool = False) -> Source:
        """One 32-bit register; `across`: other lanes' values are wanted too."""
        self.reads.add((file, n))
        if across:
            self.lane_reads.add((file, n))
        return self.m.read(file, n, None if across else self.m.exec)

    def raw32(self, op: Operand, first: bool = False) -> Source:
        """32 bits of an operand without modifiers; `first`: DPP applies."""
        if isinstance(op, Immediate):
            return self.literal(op, "u32")
        if isinstance(op, Name) and op.name.startswith("src_"):
            return self.special(op.name)
        if isinstance(op, Name) and op.name in ("scc", "vccz", "execz"):
            return self.special("src_" + op.name)
        if isinstance(op, Address):
            return self.symbol(op)
        file, n, count = self.located(op)
        if count != 1:
            raise Unmodelled("a register pair where one register is expected")
        if first and any(name in self.mods for name in _DPP):
            return self.dpp(file, n)
        return self.fetch(file, n)

    def special(self, name: str) -> Source:
        """Apertures and condition codes as operands."""
        e = self.e
        if name == "src_scc":
            return e.zext(self.m.read_scc(), 32)
        if name in ("src_vccz", "src_execz"):
            mask = self.m.mask(VCC if name == "src_vccz" else EXEC)
            return e.zext(e.pnot(e.any(mask, self.wave)), 32)
        raise Unmodelled(f"operand {name}")

    def symbol(self, op: Address) -> Source:
        raise Unmodelled(f"symbol {op.base}")

    def literal(self, op: Immediate, kind: str) -> Const:
        """An inline constant or literal as an operand of a type (`u32`, `f16`, `f64`, ...)."""
        width = _WIDTH[kind]
        if op.kind == "f64":
            if kind == "u16":  # the bits of the half, or of the word: not one answer for all units
                raise Unmodelled("a float as a 16-bit integer")
            value = struct.unpack("<d", struct.pack("<Q", op.value))[0]
            return Const(_float_bits(value, kind), width)
        if op.kind != "int":
            raise Unmodelled("string operand")
        if kind == "f64" and not -16 <= op.value <= 64:
            return Const((op.value & 0xFFFFFFFF) << 32, 64)  # a literal is the high half
        return fits(op.value, width)

    # -- typed sources

    def src(self, i: int, kind: str) -> Source:
        """Operand i as `u32 f32 u16 f16 bf16 u64 f64`, with its sign modifiers, SDWA and DPP.

        The first source is operand `dsts`; op_sel and SDWA count from there.
        """
        return self.typed(self.operand(i), kind, i - self.dsts)

    def typed(self, op: Operand, kind: str, position: int) -> Source:
        """As `src`, for an operand and its position among the sources."""
        width = _WIDTH[kind]
        if isinstance(op, Vector) and len(op.items) == 2 and isinstance(op.items[0], Name):
            return self._wrapped(op, kind, position)
        negative = isinstance(op, (Name, Range)) and op.neg
        absolute = isinstance(op, (Name, Range)) and op.absolute
        op = bare(op) if negative or absolute else op
        if isinstance(op, Immediate):
            value: Source = self.literal(op, kind)
        elif width == 64:
            value = self.pair(op)
        else:
            value = self.raw32(op, position == 0)
            selected = self._sdwa(value, position, False)
            if selected is None and width == 16:
                value = self._half(op, value, position)
            elif selected is not None:
                value = self.e.extract(selected, 0, width)
        if (negative or absolute) and kind[0] == "u":
            raise Unmodelled("sign modifier on an integer operand")
        if absolute:
            value = self.e.fabs(value, kind, width)
        return self.e.fneg(value, kind, width) if negative else value

    def _wrapped(self, op: Vector, kind: str, position: int) -> Source:
        """`neg(0)`, `abs(1.0)`, `sext(v1)`."""
        name = op.items[0]
        assert isinstance(name, Name)
        if name.name == "sext" and kind in ("u32", "u16"):
            value = self.raw32(op.items[1], position == 0)
            selected = self._sdwa(value, position, True)
            if selected is not None:
                return self.e.extract(selected, 0, _WIDTH[kind])
        if name.name in ("neg", "abs") and kind[0] != "u":
            value = self.typed(op.items[1], kind, position)
            make = self.e.fneg if name.name == "neg" else self.e.fabs
            return make(value, kind, _WIDTH[kind])
        raise Unmodelled(f"operand function {name.name}")

    def _half(self, op: Operand, value: Source, position: int) -> Source:
        """The 16 bits of a register that op_sel or a `.h` suffix chooses."""
        high = isinstance(op, Name) and op.sub == "h"
        if "op_sel" in self.mods and not high:
            high = bool(self.bits("op_sel", 4)[position])
        return self.e.extract(value, 16 if high else 0, 16)

    def _sdwa(self, value: Source, position: int, signed: bool) -> Source | None:
        """The part that `srcN_sel` chooses, extended to 32 bits; None without SDWA."""
        if self.suffix != "sdwa":
            return None
        name = f"src{position}_sel"
        self.used.add(name)
        choice = self.mods.get(name, "DWORD")
        if choice == "DWORD":
            return value
        lo, width = _sub_word(choice)
        part = self.e.extract(value, lo, width)
        return self.e.sext(part, 32) if signed else self.e.zext(part, 32)

    def pair(self, op: Operand) -> Source:
        """A 64-bit operand: register pair, constant, aperture."""
        if isinstance(op, Immediate):
            return self.literal(op, "u64")
        if isinstance(op, Name) and op.name.startswith("src_"):
            raise Unmodelled(f"operand {op.name}")
        file, n, count = self.located(op)
        if count != 2 and not (file == "s" and n == NULL):
            raise Unmodelled("a 64-bit operand needs two registers")
        if file == "s" and n == EXEC:
            return self.m.read_mask(EXEC) if self.wave == 64 else self.e.zext(
                self.m.read_mask(EXEC), 64)
        self.reads |= {(file, n), (file, n + 1)}
        return self.m.read64(file, n, self.m.exec)

    def registers(self, i: int, count: int) -> list[Source]:
        """Operand i as `count` 32-bit values; a constant is repeated."""
        op = self.operand(i)
        if isinstance(op, Immediate):
            return [self.literal(op, "u32")] * count
        file, n, found = self.located(op)
        if found != count:
            raise Unmodelled(f"operand {i} has {found} registers, {count} expected")
        return [self.fetch(file, n + k) for k in range(count)]

    def unknown(self) -> Source:
        """32 bits that nobody can name: those of a register that nobody writes."""
        return self.m.copy(self.m.regs.arch("unknown", 32), 32)

    # -- masks

    def mask_at(self, i: int) -> int:
        """The scalar register where mask operand i starts."""
        file, n, count = self.index(i)
        if file != "s" or count not in (self.wave // 32, 1 if n == NULL else 0):
            raise Unmodelled("operand is not a lane mask")
        return n

    def mask_source(self, i: int) -> Source:
        """Operand i, a lane mask, as this lane's predicate."""
        op = self.operand(i)
        if isinstance(op, Immediate):
            if op.kind == "int" and op.value in (0, -1):
                return TRUE if op.value else Const(0, 1)
            return self.e.lanebit(self.literal(op, f"u{self.wave}"))
        n = self.mask_at(i)
        self.reads |= {("s", n + k) for k in range(self.wave // 32)}
        return self.m.mask(n)

    def put_mask(self, i: int, predicate: Source) -> None:
        """Write operand i, a lane mask."""
        n = self.mask_at(i)
        if self.disables_lanes:  # nobody says what becomes of their bits
            assert self._dpp_enabled is not None
            nobody = self.m.copy(self.m.regs.arch("unknown.bit", 1), 1)
            predicate = self.e.select(self._dpp_enabled, predicate, nobody, 1)
        for k in range(self.wave // 32):
            self.writes.add(("s", n + k))
        self.m.write_mask(n, predicate)

    # -- DPP

    @property
    def disables_lanes(self) -> bool:
        """Whether DPP disables lanes that exec enables."""
        return self._dpp_enabled not in (None, TRUE)

    def dpp(self, file: str, n: int) -> Source:
        """The first source through its lane pattern; sets which lanes are written."""
        e = self.e
        self.dpp_reads.add((file, n))
        value = self.fetch(file, n, across=True)
        lane, valid = self._pattern()
        enabled = self._rows_and_banks()
        bound = self._bound_control()
        if not self.m.full and not self.flag("fi"):
            valid = e.pand(valid, e.gather(self.m.exec, lane))
        self.used.add("fi")
        moved = e.gather(value, lane)
        if bound:
            moved = e.select(valid, moved, Const(0, 32), 32)
        else:
            enabled = e.pand(enabled, valid)
        if enabled != TRUE:
            self._dpp_enabled = enabled
        return moved

    def _bound_control(self) -> bool:
        text = self.mods.get("bound_ctrl")
        self.used.add("bound_ctrl")
        if text is None:
            return False
        return text == "1" or (text == "0" and self.target.bound_ctrl_zero_sets)

    def _rows_and_banks(self) -> Source:
        e = self.e
        rows, banks = self.number("row_mask", 15), self.number("bank_mask", 15)
        lane = e.laneid()
        enabled: Source = TRUE
        for mask, shift, count in ((rows, 4, 3), (banks, 2, 3)):
            if mask != 15:
                field = e.and_(e.shift("shr_u", lane, Const(shift, 32), 32), Const(count, 32))
                bit = e.and_(e.int2("shr_u", Const(mask, 32), field, 32), Const(1, 32))
                enabled = e.pand(enabled, e.icmp("ne", bit, Const(0, 32), "u32"))
        return enabled

    def _pattern(self) -> tuple[Source, Source]:
        """(source lane, whether it exists) of the DPP control."""
        names = [n for n in _DPP if n in self.mods]
        if len(names) != 1:
            raise Unmodelled("DPP control")
        name = names[0]
        if name in ("quad_perm", "dpp8"):
            return self._table(name), TRUE
        return dpp_pattern(self.e, name, 0 if self.mods[name] == "1" and "mirror" in name
                           else self.number(name), self.used, self.wave)

    def _table(self, name: str) -> Source:
        e = self.e
        size, bits = (4, 2) if name == "quad_perm" else (8, 3)
        table = self.bits(name, size)
        if self.mods[name].count(",") != size - 1 or any(not 0 <= t < size for t in table):
            raise Unmodelled(f"modifier {name}")
        packed = sum(t << (bits * i) for i, t in enumerate(table))
        inside = e.and_(e.laneid(), Const(size - 1, 32))
        amount = e.pure("imul", 32, (inside, Const(bits, 32)), 32)
        chosen = e.and_(e.int2("shr_u", Const(packed, 32), amount, 32), Const(size - 1, 32))
        return e.or_(e.and_(e.laneid(), fits(-size, 32)), chosen)

    # -- results

    def put(self, value: Source, i: int = 0, keep_high: bool = True) -> None:
        """Write operand i with 16, 32 or 64 bits, vector registers under exec.

        16 bits: `keep_high` tells whether the other half of the register keeps its value.
        """
        width = self.e.width(value)
        file, n, count = self.index(i)
        if width == 64:
            if count != 2 and not (file == "s" and n in (NULL, EXEC)):
                raise Unmodelled("a 64-bit result needs two registers")
            self.writes |= {(file, n), (file, n + 1)}
            self.m.write64(file, n, value, TRUE if file == "s" else self.under)
            return
        if count != 1 and not (n == EXEC and self.wave == 32):
            raise Unmodelled("a 32-bit result needs one register")
        self.writes.add((file, n))
        if file == "s":
            self._put_scalar(n, value)
            return
        if self.suffix == "sdwa" and i == 0:
            value = self._sdwa_result(file, n, value)
        elif width == 16:
            value = self._half_result(file, n, value, i, keep_high)
        self.m.write(file, n, value, self.under)

    def _put_scalar(self, n: int, value: Source) -> None:
        if n == EXEC and self.wave == 32:
            self.m.write_mask(EXEC, self.e.lanebit(value), value)
        else:
            self.m.write("s", n, self.e.zext(value, 32))

    def put_at(self, file: str, n: int, value: Source) -> None:
        """Write one 32-bit register by place, under exec."""
        self.writes.add((file, n))
        self.m.write(file, n, value, TRUE if file == "s" else self.under)

    def _half_result(self, file: str, n: int, value: Source, i: int, keep_high: bool) -> Source:
        op = self.operands[i]
        high = isinstance(op, Name) and op.sub == "h"
        if "op_sel" in self.mods and not high:
            sources = len(self.operands) - self.dsts
            selects = self.bits("op_sel", 4)
            high = bool(selects[sources]) if sources < len(selects) else False
        halved = isinstance(op, Name) and op.sub != ""
        if not high and not keep_high and not halved:
            return self.e.zext(value, 32)
        old = self.m.read(file, n, self.under)
        self.reads.add((file, n))
        if high:
            return self.e.pack(self.e.extract(old, 0, 16), value)
        return self.e.pack(value, self.e.extract(old, 16, 16))

    def _sdwa_result(self, file: str, n: int, value: Source) -> Source:
        e = self.e
        self.used |= {"dst_sel", "dst_unused"}
        choice = self.mods.get("dst_sel", "DWORD")
        value = e.zext(value, 32)
        if choice == "DWORD":
            return value
        lo, width = _sub_word(choice)
        part = e.extract(value, 0, width)
        unused = self.mods.get("dst_unused", "UNUSED_PAD")
        if unused == "UNUSED_SEXT" and lo + width <= 32:
            wide = e.sext(part, 32 - lo)
            return e.pack(Const(0, lo), wide) if lo else wide
        if unused == "UNUSED_PRESERVE":
            rest = self.m.read(file, n, self.under)
            self.reads.add((file, n))
        elif unused == "UNUSED_PAD":
            rest = Const(0, 32)
        else:
            raise Unmodelled(f"modifier dst_unused:{unused}")
        parts: list[Source] = [e.extract(rest, 0, lo)] if lo else []
        parts.append(part)
        if lo + width < 32:
            parts.append(e.extract(rest, lo + width, 32 - lo - width))
        return e.pack(*parts)

    # -- float modes

    def mode(self, kind: str, **extra: Any) -> FloatMode:
        """The rounding and denormal mode of an operation of a type, from the mode register."""
        field = "32" if kind == "f32" else "64"
        rounding, denorm = self.m.modes.get("round" + field), self.m.modes.get("denorm" + field)
        if rounding is None or denorm is None:
            raise Unmodelled("the mode register is not known here")
        if kind == "f16" and self.m.modes.get("fp16_ovfl") != 0:
            raise Unmodelled("halves that overflow to the largest number (fp16_ovfl)")
        return FloatMode(kind, ("rn", "rp", "rm", "rz")[rounding],
                         ("flush", "flush_in", "flush_out", "keep")[
                             {0: 0, 1: 2, 2: 1, 3: 3}[denorm]], **extra)

    def result_mode(self, kind: str) -> FloatMode:
        """As `mode`, with clamp; output modifiers are ignored in IEEE mode, else refused."""
        saturate = self.flag("clamp")
        if saturate and self.m.modes.get("dx10_clamp") != 1:
            raise Unmodelled("clamp without dx10_clamp")
        for name in ("mul", "div"):
            if name in self.mods:
                self.used.add(name)
                if self.m.modes.get("ieee") != 1 or self.target.major >= 12:
                    raise Unmodelled(f"output modifier {name}")
        return self.mode(kind, saturate=saturate)


def _float_bits(value: float, kind: str) -> int:
    for constant, table in _ENUM_FLOATS.items():
        if abs(abs(value) - constant) < 1e-7:
            bits = table[_WIDTH[kind]] if kind != "bf16" else 0x3E23
            return bits | (1 << (_WIDTH[kind] - 1) if value < 0 else 0)
    if kind in ("f16",):
        return int.from_bytes(struct.pack("<e", value), "little")
    if kind in ("f64",):
        return int.from_bytes(struct.pack("<d", value), "little")
    bits32 = int.from_bytes(struct.pack("<f", value), "little")
    if kind == "bf16":
        return bits32 >> 16
    if kind == "u64":
        return int.from_bytes(struct.pack("<d", value), "little")
    return bits32


def _sub_word(choice: str) -> tuple[int, int]:
    table = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8),
             "WORD_0": (0, 16), "WORD_1": (16, 16)}
    if choice not in table:
        raise Unmodelled(f"SDWA selection {choice}")
    return table[choice]


def dpp_pattern(e: Emitter, name: str, n: int, used: set[str], wave: int) -> tuple[Source, Source]:
    """Source lane and validity of a shift, rotation, mirror or broadcast."""
    lane = e.laneid()
    used.add(name)
    row, inside = e.and_(lane, fits(-16, 32)), e.and_(lane, Const(15, 32))

    def in_row(at: Source) -> Source:
        return e.or_(row, e.and_(at, Const(15, 32)))

    if name == "row_shl":
        moved = e.add(lane, Const(n, 32))
        return in_row(moved), e.icmp("lt", inside, Const(16 - n, 32), "u32")
    if name == "row_shr":
        moved = e.sub(lane, Const(n, 32))
        return in_row(moved), e.icmp("ge", inside, Const(n, 32), "u32")
    if name == "row_ror":
        return in_row(e.sub(lane, Const(n, 32))), TRUE
    if name == "row_mirror":
        return e.xor(lane, Const(15, 32)), TRUE
    if name == "row_half_mirror":
        return e.xor(lane, Const(7, 32)), TRUE
    if name in ("row_newbcast", "row_share"):
        return e.or_(row, Const(n & 15, 32)), TRUE
    if name == "row_xmask":
        return e.xor(lane, Const(n & 15, 32)), TRUE
    if name == "row_bcast" and n == 15 and wave == 64:
        before = e.and_(e.sub(row, Const(1, 32)), Const(63, 32))
        return before, e.icmp("ge", lane, Const(16, 32), "u32")
    if name == "row_bcast" and n == 31 and wave == 64:
        return Const(31, 32), e.icmp("ge", lane, Const(32, 32), "u32")
    if name in ("wave_shl", "wave_rol", "wave_shr", "wave_ror") and n == 1:
        step = e.add(lane, Const(1, 32)) if name[5:] in ("shl", "rol") else \
            e.sub(lane, Const(1, 32))
        valid = TRUE if name[5:7] == "ro" else e.icmp(
            "ne", lane, Const(wave - 1 if name == "wave_shl" else 0, 32), "u32")
        return e.and_(step, Const(wave - 1, 32)), valid
    raise Unmodelled(f"DPP control {name}:{n}")
