"""Lower a PTX kernel to the core program: layout of memory, control flow, inlined calls.

In: Module, kernel name. Out: Program. Each instruction goes through its row (checker.ptx.rows);
what no row accepts is one `opaque` operation with all its operands. Direct calls are inlined;
recursion, indirect calls and functions without a body are opaque. Refuses (InputError) a branch
to a label that does not exist.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import xxhash

from checker.core import (
    Const,
    Guard,
    Mem,
    Op,
    Param,
    Program,
    Site,
    Source,
)
from checker.errors import Diagnostic, InputError, Span
from checker.ptx.attributes import (
    KNOWN,
    block_size,
    clustered,
    max_block,
    plain_target,
    target_of,
)
from checker.ptx.calls import call_parts, reachable, whole_accesses
from checker.ptx.context import Line, Refuse, Row, find_row
from checker.ptx.layout import align_up, lay_out
from checker.ptx.rows import register_all
from checker.syntax import (
    Address,
    Directive,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Operand,
    Pair,
    Parameter,
    Vector,
)

__all__ = ["lower_ptx"]

MAX_CALL_DEPTH = 32
MAX_OPS = 300_000
# Words that write their first operand only, and nothing but registers ...
_PURE = frozenset((
    "add", "sub", "mul", "mad", "fma", "div", "rem", "abs", "neg", "min", "max", "sad", "mul24",
    "mad24", "popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk", "dp4a",
    "dp2a", "addc", "subc", "madc", "testp", "copysign", "rcp", "sqrt", "rsqrt", "sin", "cos",
    "lg2", "ex2", "tanh", "set", "setp", "selp", "slct", "and", "or", "xor", "not", "cnot",
    "lop3", "shf", "shl", "shr", "mov", "shfl", "prmt", "cvta", "cvt", "mapa", "isspacep",
    "createpolicy", "vote", "match", "activemask", "redux", "elect", "movmatrix", "mma",
))
# ... and words that write their first operand, but memory or control too.
_WRITES_FIRST = _PURE | {
    "ld", "ldu", "st", "atom", "red", "call", "wmma", "ldmatrix", "stmatrix", "wgmma", "tex",
    "tld4", "suld", "sust", "sured", "bar", "barrier", "mbarrier", "cp", "prefetch",
}
register_all()


# A register, a literal, or ("local", address); None: no place that this lowering can copy.
_Place = int | Const | tuple[str, int] | None


@dataclass(slots=True, eq=False)
class _Label:
    """A branch target; `index` is the operation it stands before, once known."""

    name: str
    span: Span
    index: int = -1


@dataclass(slots=True)
class _Frame:
    """One function instance: the kernel itself, or one inlined call."""

    function: Function
    registers: dict[str, int] = field(default_factory=dict)
    labels: dict[str, _Label] = field(default_factory=dict)
    symbols: dict[str, tuple[str, int]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    branch_lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    end: _Label | None = None


@lru_cache(maxsize=8192)
def _row_of(opcode: str) -> tuple[Row | None, tuple[str, ...]]:
    words = opcode.split(".")
    found, count = find_row(words)
    return found, tuple(words[count:])


def lower_ptx(module: Module, kernel: str, *, file: str = "<text>") -> Program:
    """Return the Program of kernel `kernel`.

    Raises InputError for a branch to a missing label.
    """
    return _Lowering(module, kernel, file).run()


class _Lowering:
    """The program under construction (see context.Builder)."""

    def __init__(self, module: Module, kernel: str, file: str) -> None:
        self.module, self.file = module, file
        self.functions = module.bodies
        self.kernel = self.functions[kernel]
        self.target = target_of(module.target)
        self.widths: list[int] = []
        self.names: list[str] = []
        self.ops: list[Op] = []
        self.sites: list[Site] = []
        self.patches: list[tuple[int, Any]] = []
        self.carry: int | None = None
        self.local_bytes = 0
        self.premises: set[str] = set()
        self.targets_named = [d for d in module.directives if d.name == ".target"]
        if any("debug" in d.args for d in self.targets_named):
            self.premises.add("debug-target")
        self.diagnostics: list[Diagnostic] = []
        self.active: list[str] = []
        self.accesses: dict[str, dict[str, int]] = {}
        self.block = block_size(self.kernel.attributes)
        self.clustered = clustered(self.kernel.attributes)
        self.alone = not self.clustered and (".reqnctapercluster" in self.kernel.attributes
                                             or ".maxclusterrank" in self.kernel.attributes)
        self.frame = _Frame(self.kernel)

    def run(self) -> Program:
        """Lower the kernel and everything it calls."""
        self.layout = lay_out(self.module, reachable(self.kernel, self.functions))
        if self.layout.data:
            self.premises.add("module-data")
        params = self._kernel_params()
        self._function(self.frame)
        self._resolve()
        self._drop_policies()
        if self.diagnostics:
            raise InputError(self.diagnostics)
        largest = max_block(self.kernel.attributes)
        if any(op.name == "tmem" and op.attr.action in ("ld", "st") for op in self.ops):
            self.premises.add("tmem-fences")  # no text of Triton's has them
        if any(op.name == "mma_commit_mbar" and op.attr[1] for op in self.ops):
            self.premises.add("commit-address")
        if any(op.name == "elect" for op in self.ops):
            self.premises.add("elect-lowest")
        if _stored_for_units(self.ops):
            self.premises.add("proxy-fences")
        return Program(
            name=self.kernel.name, isa="ptx", target=self.target, warp_size=32, block=self.block,
            max_threads=None if largest is None else math.prod(largest), max_block=largest,
            params=params, ops=tuple(self.ops),
            reg_widths=tuple(self.widths), reg_names=tuple(self.names), sites=tuple(self.sites),
            data=self.layout.data, static_shared_bytes=self.layout.static_shared_bytes,
            dynamic_shared_base=self.layout.dynamic_shared_base, local_bytes=self.local_bytes,
            premises=frozenset(self.premises), file=self.file,
        )

    def _kernel_params(self) -> tuple[Param, ...]:
        out: list[Param] = []
        offset = 0
        for index, p in enumerate(self.kernel.params):
            offset = align_up(offset, p.align)
            out.append(Param(index, p.name, offset, p.size_bytes, p.pointer))
            self.frame.symbols[p.name] = ("param", offset)
            offset += p.size_bytes
        return tuple(out)

    # --- context.Builder ---

    def register(self, name: str) -> int | None:
        """Index of a declared register of the current function, or None."""
        found = self.frame.registers.get(name)
        if found is None and name in self.frame.function.registers:
            found = self.temporary(self.frame.function.registers[name], name)
            self.frame.registers[name] = found
        return found

    def width(self, reg: int) -> int:
        """Width of a register in bits."""
        return self.widths[reg]

    def temporary(self, width_bits: int, name: str = "") -> int:
        """Make a register."""
        self.widths.append(width_bits)
        self.names.append(name or f"t{len(self.names)}")
        return len(self.widths) - 1

    def symbol(self, name: str) -> tuple[str, int] | None:
        """State space and address of a variable or parameter."""
        found = self.frame.symbols.get(name)
        if found is None:
            found = self.layout.addresses.get(f"{self.frame.function.name}:{name}")
        return found if found is not None else self.layout.addresses.get(name)

    def parameter_slot(self, name: str) -> int | None:
        """Register that stands for a scalar parameter of a device function or a call."""
        return self.frame.slots.get(name)

    def carry_register(self) -> int:
        """The condition code CC.CF; one for the whole program, as on the machine."""
        if self.carry is None:
            self.carry = self.temporary(1, "%cc")
        return self.carry

    def in_kernel_without_calls(self) -> bool:
        """Whether `.param` can only mean the kernel's own parameters here."""
        function = self.frame.function
        return function is self.kernel and all(v.space != "param" for v in function.variables)

    def label(self, name: str) -> Any:
        """The label, resolved when the program is complete."""
        return self.frame.labels.get(name)

    def targets(self, name: str) -> tuple[Any, ...] | None:
        """The labels of a `.branchtargets` list."""
        names = self.frame.branch_lists.get(name)
        return None if names is None else tuple(self.frame.labels.get(n) for n in names)

    # --- functions ---

    def _function(self, frame: _Frame) -> None:
        """Append the operations of one function instance."""
        function = frame.function
        self.active.append(function.name)
        for item in function.items:
            if isinstance(item, Label):
                frame.labels[item.name] = _Label(item.name, item.span)
            elif isinstance(item, Directive) and item.name == ".branchtargets":
                frame.branch_lists[item.args[0]] = item.args[1:]
        self._local_variables(frame)
        self._unknown_attributes(function)
        for item in function.items:
            if isinstance(item, Label):
                frame.labels[item.name].index = len(self.ops)
            elif isinstance(item, Instruction):
                self._instruction(item)
            elif item.name == ".unknown":
                self._unknown(item.span, " ".join(item.args))
        self.active.pop()

    def _unknown_attributes(self, function: Function) -> None:
        """A directive without a meaning here may change anything: one opaque operation."""
        for name, args in function.attributes.items():
            if name not in KNOWN:
                self._unknown(function.span, " ".join((name, *args)))
        if function is self.kernel:
            for directive in self.targets_named:
                if not all(map(plain_target, directive.args)):
                    self._unknown(directive.span, " ".join((".target", *directive.args)))
            for directive in self.module.directives:
                if directive.name == ".unknown":
                    self._unknown(directive.span, " ".join(directive.args))

    def _unknown(self, span: Span, text: str) -> None:
        self.sites.append(Site(span, text, None))
        self._emit(Op("opaque", (), (), text, None, len(self.sites) - 1))

    def _local_variables(self, frame: _Frame) -> None:
        """Local variables get addresses; `.param` ones a register or, as arrays, an address."""
        for v in frame.function.variables:
            if v.space == "param" and self._is_scalar(frame.function, v.name, v.size_bytes):
                frame.slots[v.name] = self.temporary(8 * v.size_bytes, v.name)
            elif v.space in ("local", "param"):
                frame.symbols[v.name] = ("local", self._local(v.size_bytes, v.align))

    def _is_scalar(self, function: Function, name: str, size: int) -> bool:
        """Whether a register will do for a `.param` variable."""
        if function.name not in self.accesses:
            self.accesses[function.name] = whole_accesses(function)
        return size in (1, 2, 4, 8) and self.accesses[function.name].get(name, size) == size

    def _local(self, size_bytes: int, align: int) -> int:
        offset = align_up(self.local_bytes, align)
        self.local_bytes = offset + size_bytes
        return offset

    def _instruction(self, ins: Instruction) -> None:
        site = len(self.sites)
        self.sites.append(Site(ins.span, ins.text, ins.loc))
        guard = None
        if ins.guard is not None:
            reg = self.register(ins.guard.name)
            if reg is None or self.widths[reg] != 1:
                self._error(ins.span, f"guard `{ins.guard.name}` is no declared predicate")
                return
            guard = Guard(reg, ins.guard.neg)
        if ins.opcode in ("ret", "ret.uni") and self.frame.end is not None:
            self._emit(Op("branch", (), (), self.frame.end, guard, site))
            return
        if ins.opcode in ("call", "call.uni") and self._call(ins, guard, site):
            return
        function, words = _row_of(ins.opcode)
        if function is not None and len(self.ops) < MAX_OPS:
            line = Line(self, ins, list(words))
            before = len(self.widths)
            try:
                function(line)
                if not line.mods:
                    for op in line.finish(guard, site):
                        self._emit(op)
                    return
            except Refuse:
                pass
            self._drop_registers(before)
        self._opaque(ins, guard, site)

    def _drop_registers(self, before: int) -> None:
        """Forget the fresh registers of a refused row (named ones stay)."""
        while len(self.names) > before and re.fullmatch(r"t\d+", self.names[-1]):
            self.names.pop()
            self.widths.pop()

    def _emit(self, op: Op) -> None:
        if op.name in ("branch", "switch"):
            self.patches.append((len(self.ops), op.attr))
        self.ops.append(op)

    def _resolve(self) -> None:
        """Put operation indices in the place of labels."""
        for at, label in self.patches:
            op = self.ops[at]
            labels = label if isinstance(label, tuple) else (label,)
            for one in labels:
                if not isinstance(one, _Label) or one.index < 0:
                    site = self.sites[op.site]
                    self._error(site.span, f"the branch target of `{site.text}` does not exist")
                    return
            indices = tuple(one.index for one in labels)
            attr: Any = indices if op.name == "switch" else indices[0]
            self.ops[at] = Op(op.name, op.dst, op.src, attr, op.guard, op.site)

    def _drop_policies(self) -> None:
        """Cache policies that only steer caches (their uses are gone by now) make no value."""
        policies = {op.dst[0] for op in self.ops
                    if op.name == "special" and op.attr == "cache_policy"}
        if not policies:
            return
        grown = True
        while grown:  # copies of policies are policies
            moved = {op.dst[0] for op in self.ops if op.name == "mov" and op.src[0] in policies}
            grown = not moved <= policies
            policies |= moved
        makers = [i for i, op in enumerate(self.ops) if policies.intersection(op.dst)]
        # Triton starts a policy's register at zero.
        copies = {i for i in makers if self.ops[i].name == "mov"
                  and (self.ops[i].src[0] in policies or isinstance(self.ops[i].src[0], Const))}
        read = any(policies.intersection(op.src) for i, op in enumerate(self.ops)
                   if i not in copies)
        kept = any(i not in copies and self.ops[i].attr != "cache_policy" for i in makers)
        if not read and not kept:
            for i in makers:
                self.ops[i] = Op("nop", (), (), "cache policy: steers caches only", None,
                                 self.ops[i].site)

    def _error(self, span: Span, message: str) -> None:
        self.diagnostics.append(Diagnostic(message, span, file=self.file))

    # --- opaque ---

    def _opaque(self, ins: Instruction, guard: Guard | None, site: int) -> None:
        """One operation for the whole instruction, with its full text and every register.

        An unknown word may write every register outside an address.
        """
        written, read, shape = self._operand_registers(ins)
        if ins.opcode.split(".")[0] == "call":
            callee = call_parts(ins.operands)[1]
            if not callee or callee in self.functions:  # one of those whose text is here
                shape += f" among {self._bodies()}"
        self._emit(Op("opaque", tuple(written), tuple(read), shape, guard, site))

    def _bodies(self) -> str:
        """Name what a call that is not inlined may run: the module's functions and variables."""
        functions = [f for f in self.functions.values() if not f.is_entry]
        lines = [f"{v.name} {v.space} {v.size_bytes} {v.init!r}"
                 for v in (*self.module.variables, *(v for f in functions for v in f.variables))]
        for function in functions:
            lines += [function.name, *(
                item.text if isinstance(item, Instruction) else
                item.name if isinstance(item, Label) else f"{item.name} {item.args}"
                for item in function.items)]
        return xxhash.xxh3_128_hexdigest("\n".join(lines).encode())

    def _operand_registers(self, ins: Instruction) -> tuple[list[int], list[Source], str]:
        """Registers written and read, and the text with registers numbered by first use."""
        numbers: dict[int, int] = {}
        read: list[Source] = []
        written: list[int] = []

        def show(item: Operand, writes: bool) -> str:
            if isinstance(item, Name):
                reg = self.register(item.name + item.sub)
                if reg is None and item.name in self.frame.slots:
                    reg = self.frame.slots[item.name]
                if reg is None:
                    found = self.symbol(item.name)
                    return f"{found[0]}+{found[1]}" if found else item.name + item.sub
                if reg not in numbers:
                    numbers[reg] = len(numbers)
                    read.append(reg)
                if writes and reg not in written:
                    written.append(reg)
                return ("!" if item.neg else "") + f"${numbers[reg]}"
            if isinstance(item, Immediate):
                return item.text
            if isinstance(item, Address):
                inner = ", ".join([show(item.base, False) + (f"+{item.offset}" if item.offset
                                                             else ""),
                                   *[show(r, False) for r in item.rest]])
                return f"[{inner}]"
            if isinstance(item, Vector):
                return "{" + ", ".join([show(i, writes) for i in item.items]) + "}"
            if isinstance(item, Pair):
                return show(item.first, True) + "|" + show(item.second, True)
            return str(item)

        # In the instructions the rows know by name only the first operand is written (a braced
        # or paired one entirely); in a word nobody knows, any register outside an address may be.
        known = ins.opcode.split(".")[0] in _WRITES_FIRST
        shown = [show(item, not isinstance(item, Address) and (k == 0 or not known))
                 for k, item in enumerate(ins.operands)]
        words = ins.opcode.split(".")
        if "cc" in words or words[0] in ("addc", "subc", "madc"):
            read.append(self.carry_register())
            written.append(self.carry_register())
        text = f"{ins.opcode} {', '.join(shown)}".strip()
        # The engines take an opaque operation whose text has a bracket as one with effects.
        plain = words[0] in _PURE or "[" in text
        return written, read, text if plain else text + " [effects]"

    # --- calls ---

    def _call(self, ins: Instruction, guard: Guard | None, site: int) -> bool:
        """Inline a direct call; False when it has to be opaque."""
        results, callee, arguments = call_parts(ins.operands)
        function = self.functions.get(callee) if callee else None
        if function is None and callee == "__assertfail":  # CUDA's assert: it ends the kernel
            self._emit(Op("trap", (), (), None, guard, site))
            return True
        if (function is None or callee in self.active or len(self.active) > MAX_CALL_DEPTH
                or len(self.ops) > MAX_OPS or len(results) != len(function.results)
                or len(arguments) != len(function.params)):
            return False
        caller, frame = self.frame, _Frame(function)
        frame.end = _Label("end", ins.span)
        moves_in = [(self._actual(a, p.size_bytes), self._formal(frame, p), p.size_bytes)
                    for p, a in zip(function.params, arguments, strict=True)]
        moves_out = [(self._formal(frame, p), self._actual(r, p.size_bytes), p.size_bytes)
                     for p, r in zip(function.results, results, strict=True)]
        if any(x is None or y is None for x, y, _ in (*moves_in, *moves_out)):
            return False
        after = _Label("after", ins.span)
        if guard is not None:
            skip = Guard(guard.reg, not guard.neg)
            self._emit(Op("branch", (), (), after, skip, site))
        self._emit(Op("nop", (), (), "call", None, site))  # marks the place for contract
        for source, dest, size in moves_in:
            self._move(source, dest, size, site)
        self.frame = frame
        self._function(frame)
        frame.end.index = len(self.ops)
        self.frame = caller
        for source, dest, size in moves_out:
            self._move(source, dest, size, site)
        after.index = len(self.ops)
        return True

    def _formal(self, frame: _Frame, formal: Parameter) -> _Place:
        """Where a parameter or result of an inlined function lives."""
        size = formal.size_bytes
        if formal.name in frame.function.registers:  # a .reg parameter
            reg = self.temporary(frame.function.registers[formal.name], formal.name)
            frame.registers[formal.name] = reg
            return reg if self.widths[reg] == 8 * size else None
        if self._is_scalar(frame.function, formal.name, size):
            slot = self.temporary(8 * size, formal.name)
            frame.slots[formal.name] = slot
            return slot
        place = ("local", self._local(size, max(formal.align, 1)))
        frame.symbols[formal.name] = place
        return place

    def _actual(self, actual: Operand, size: int) -> _Place:
        """Where an argument or the receiver of a result lives in the caller."""
        if isinstance(actual, Immediate) and actual.kind == "int":
            return Const(actual.value & ((1 << 8 * size) - 1), 8 * size)
        if not isinstance(actual, Name) or actual.neg:
            return None
        reg = self.frame.slots.get(actual.name)
        if reg is None:
            reg = self.register(actual.name + actual.sub)
        if reg is not None:
            return reg if self.widths[reg] == 8 * size else None
        found = self.frame.symbols.get(actual.name)
        return found if found is not None and found[0] == "local" else None

    def _move(self, source: _Place, dest: _Place, size: int, site: int) -> None:
        """Move `size` bytes between registers and local memory."""
        width = 8 * size
        if isinstance(dest, int) and isinstance(source, (int, Const)):
            self._emit(Op("mov", (dest,), (source,), width, None, site))
        elif isinstance(dest, int) and isinstance(source, tuple):
            self._load(dest, source[1], size, site)
        elif isinstance(dest, tuple) and isinstance(source, (int, Const)):
            self._store(source, dest[1], size, site)
        elif isinstance(dest, tuple) and isinstance(source, tuple):
            step = 4 if size % 4 == 0 and source[1] % 4 == 0 and dest[1] % 4 == 0 else 1
            for offset in range(0, size, step):
                part = self.temporary(8 * step)
                self._load(part, source[1] + offset, step, site)
                self._store(part, dest[1] + offset, step, site)

    def _load(self, reg: int, address: int, size: int, site: int) -> None:
        mem = Mem("local", 8 * size, 1, 0, size)
        self._emit(Op("load", (reg,), (Const(address, 64),), mem, None, site))

    def _store(self, value: Source, address: int, size: int, site: int) -> None:
        mem = Mem("local", 8 * size, 1, 0, size)
        self._emit(Op("store", (), (Const(address, 64), value), mem, None, site))


def _stored_for_units(ops: list[Op]) -> bool:
    """Whether threads store to shared memory and a matrix unit or a bulk copy reads from there."""
    stored = any(op.name in ("acopy", "stmatrix") or (
        op.name == "store" and op.attr.space == "shared")
        for op in ops)
    return stored and any(
        (op.name == "mma" and "smem" in (op.attr.a.source, op.attr.b.source))
        or (op.name == "bulk" and op.attr.kind in ("s2g", "s2s", "reduce")) for op in ops)
