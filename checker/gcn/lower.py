"""AMDGCN functions -> core programs.

In: a Module, a kernel's name. Out: `core.Program`. Blocks are lowered in single-assignment form
with facts from all predecessors, again and again until the facts stand; regions that
`s_cbranch_execz` skips are run through instead where that is the same (all effects are under
exec). What no row models becomes `opaque` with its text and operands.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import checker.gcn.rows  # noqa: F401  (registers the rows)
from checker.core import OPS, Barrier, Const, Guard, Op, Program, Site, Source
from checker.errors import UsageError
from checker.gcn.context import Context, bare
from checker.gcn.emitter import TRUE, Emitter, Registers
from checker.gcn.kernel import Kernel, kernel_of
from checker.gcn.machine import EXEC, VCC, Facts, Machine, Unmodelled, Wanted
from checker.gcn.passes import CoreBlock, clean, live_in
from checker.gcn.rows.table import find
from checker.gcn.start import emit_entry, entry_facts
from checker.gcn.straight import ends, straighten
from checker.gcn.target import Target, target_of
from checker.gcn.waits import LDS, Effect, check_waits
from checker.syntax import Function, Immediate, Instruction, Label, Module, Name, Operand, Vector

__all__ = ["lower_gcn"]

MAX_ROUNDS = 60


@dataclass(slots=True)
class Block:
    """Instructions between two places where control may come or go."""

    labels: list[str]
    insts: list[tuple[int, Instruction]] = field(default_factory=list)


@dataclass(slots=True)
class Lowered:
    """One block's operations, where it goes, and what it leaves behind."""

    emitter: Emitter
    machine: Machine
    facts: Facts
    exec_in: Source
    core: CoreBlock = field(default_factory=lambda: CoreBlock([]))

    def whole(self) -> CoreBlock:
        """The block with the copies at its start."""
        return CoreBlock(self.emitter.prologue + self.core.ops, self.core.succs)


class Lowering:
    """One kernel on its way to a program."""

    def __init__(self, module: Module, function: Function, file: str) -> None:
        self.module, self.function, self.file = module, function, file
        self.items = straighten(function.items)
        target = target_of(module.target)
        self.target: Target = target if target is not None else Target(
            module.target or "unknown", 9, 0, 64)
        self.kernel: Kernel = kernel_of(function)
        self.wave = self._wave()
        self.registers = Registers()
        self.wanted = Wanted()
        self.sites: list[Site] = []
        self.insts: list[tuple[int, Instruction]] = []
        self.elided: set[int] = set()
        self.effects: dict[int, Effect] = {}
        self.opaque: dict[int, str] = {}
        self.premises: set[str] = set()
        self.known_target = target is not None

    def _wave(self) -> int:
        size = self.kernel.flag("wavefront_size32", -1)
        if size >= 0:
            return 32 if size else 64
        known = self.kernel.meta("wavefront_size")
        return known if known in (32, 64) else self.target.wave

    # -- blocks

    def blocks(self) -> list[Block]:
        """Cut the items at labels that are jumped to and after control instructions."""
        targets = self._targets()
        out = [Block([])]
        site = 0
        for item in self.items:
            if isinstance(item, Label):
                if item.name in targets:
                    if out[-1].insts:
                        out.append(Block([]))
                    out[-1].labels.append(item.name)
                continue
            if not isinstance(item, Instruction):
                continue
            out[-1].insts.append((site, item))
            if ends(item) and site not in self.elided:
                out.append(Block([]))
            site += 1
        if not out[-1].insts and not out[-1].labels:
            out.pop()
        return out

    def _targets(self) -> set[str]:
        found: set[str] = set()
        site = 0
        for item in self.items:
            if not isinstance(item, Instruction):
                continue
            if item.opcode.startswith(("s_branch", "s_cbranch")) and site not in self.elided:
                found |= {o.name for o in item.operands if isinstance(o, Name)}
            site += 1
        return found

    # -- the fixpoint

    def run(self) -> tuple[list[Block], list[Lowered]]:
        """Lower all blocks; again if what is stored in shared memory is not what was supposed."""
        supposed = self.kernel.quiet_shared
        found = self._converge()
        return found if self.kernel.quiet_shared == supposed else self._converge()

    def _converge(self) -> tuple[list[Block], list[Lowered]]:
        """Lower all blocks until the facts at their starts no longer change."""
        blocks = self.blocks()
        labels = {label: i for i, block in enumerate(blocks) for label in block.labels}
        entry: list[Facts | None] = [None] * len(blocks)
        if blocks:
            entry[0] = entry_facts(self.kernel, self.target, self.wave)
        done: list[Lowered | None] = [None] * len(blocks)
        work = [0] if blocks else []
        rounds = 0
        while work and rounds < MAX_ROUNDS * max(1, len(blocks)):
            rounds += 1
            i = min(work)
            work.remove(i)
            facts = entry[i]
            assert facts is not None
            result = self.block(blocks, i, facts, labels)
            done[i] = result
            for s in result.core.succs:
                known = entry[s]
                merged = result.facts if known is None else _meet(known, result.facts)
                if known is None or merged != known:
                    entry[s] = merged
                    if s not in work:
                        work.append(s)
        for i, block in enumerate(blocks):  # code that nothing reaches
            if done[i] is None:
                done[i] = self.block([Block([])] * len(blocks), i, {}, {})
                del block.insts[:]
        return blocks, [d for d in done if d is not None]

    def block(self, blocks: list[Block], i: int, facts: Facts, labels: dict[str, int]) -> Lowered:
        """Lower one block from given facts."""
        emitter = Emitter(self.registers)
        machine = Machine(emitter, self.target, self.wave, facts, self.wanted, self.kernel)
        if i == 0:
            emit_entry(machine)
        exec_in = machine.exec
        waits = [site for site, inst in blocks[i].insts if inst.opcode == "s_barrier_wait"]
        for site, inst in blocks[i].insts:
            emitter.site = site
            machine.wait_follows = bool(waits) and site < waits[-1]
            machine.flow = ("fall", "", None)
            self.instruction(machine, site, inst)
        flow = machine.flow
        if blocks[i].insts and blocks[i].insts[-1][0] in self.elided:
            flow = ("fall", "", None)
        result = Lowered(emitter, machine, {}, exec_in)
        succs = self._successors(flow, i, len(blocks), labels)
        result.core = CoreBlock(emitter.ops, succs)
        machine.flow = flow
        result.facts = machine.exit_facts()
        self.premises |= emitter.premises
        return result

    def _successors(self, flow: tuple[str, str, Source | None], i: int, count: int,
                    labels: dict[str, int]) -> list[int]:
        kind, label, cond = flow
        following = [i + 1] if i + 1 < count else []
        if kind in ("exit", "trap", "lost"):
            return []
        if kind == "fall":
            return following
        target = [labels[label]] if label in labels else []
        if kind == "jump" or cond == TRUE:
            return target
        if cond == Const(0, 1):
            return following
        return following + [t for t in target if t not in following]

    def flow_graph(self) -> list[tuple[list[tuple[int, Instruction]], list[int]]]:
        """Blocks as the text has them, skipping branches included, with their successors."""
        elided, self.elided = self.elided, set()
        blocks = self.blocks()
        self.elided = elided
        labels = {label: i for i, block in enumerate(blocks) for label in block.labels}
        out: list[tuple[list[tuple[int, Instruction]], list[int]]] = []
        for i, block in enumerate(blocks):
            last = block.insts[-1][1] if block.insts else None
            names = [o.name for o in last.operands if isinstance(o, Name)] if last else []
            opcode = last.opcode if last else ""
            succs = [labels[n] for n in names if n in labels and opcode.startswith(
                ("s_branch", "s_cbranch"))]
            ends = opcode.startswith(("s_branch", "s_endpgm", "s_setpc", "s_trap"))
            if not ends and i + 1 < len(blocks):
                succs.append(i + 1)
            out.append((block.insts, succs))
        return out

    # -- instructions

    def instruction(self, m: Machine, site: int, inst: Instruction) -> None:
        """Lower one instruction, or make it opaque."""
        if "::" in inst.opcode:
            self._dual(m, site, inst)
            return
        self._single(m, site, inst, inst.opcode, inst.operands)

    def _dual(self, m: Machine, site: int, inst: Instruction) -> None:
        """Two operations that both read before either writes."""
        pending: list[tuple[str, int, Source, Source]] = []
        effects: list[Effect] = []
        for opcode, operands in zip(inst.opcode.split("::"), inst.operands, strict=True):
            assert isinstance(operands, Vector)
            m.deferred = []
            self._single(m, site, inst, opcode.strip().replace("v_dual_", "v_"), operands.items)
            pending += m.deferred or []
            m.deferred = None
            effects.append(self.effects[site])
        for write in pending:
            m.write(*write)
        self.effects[site] = Effect(
            effects[0].reads | effects[1].reads, effects[0].writes | effects[1].writes,
            effects[0].dpp_reads | effects[1].dpp_reads,
            effects[0].lane_reads | effects[1].lane_reads, "")

    def _single(self, m: Machine, site: int, inst: Instruction, opcode: str,
                operands: tuple[Operand, ...]) -> None:
        row, base, suffix = find(opcode)
        mark, first_temp = len(m.e.ops), len(m.regs.widths)
        context = Context(m, inst, base, suffix, operands, row.dsts if row is not None else 1)
        try:
            if row is None:
                raise Unmodelled(f"no row for `{base}`")
            row.function(context)
            context.check_modifiers()
            self.opaque.pop(site, None)
        except Unmodelled as why:
            self.opaque[site] = str(why)
            _roll_back(m, mark, first_temp)
            _opaque(m, context, inst, base)
        except RecursionError:
            self.opaque[site] = "too deep"
            _roll_back(m, mark, first_temp)
            _opaque(m, context, inst, base)
        if context.counter not in ("", "smem") and any(
                OPS[op.name].kind in ("memory", "opaque") for op in m.e.ops[mark:]):
            m.memory_since_signal = True  # an exchange between lanes is none
        self.effects[site] = Effect(context.reads, context.writes, context.dpp_reads,
                                    context.lane_reads, context.counter)

    # -- skipped regions

    def elide(self, blocks: list[Block], done: list[Lowered]) -> bool:
        """Find `s_cbranch_execz` over a block that does nothing when exec is 0; drop the branch."""
        live = live_in([d.whole() for d in done], self.registers)
        predecessors: dict[int, set[int]] = {}
        for i, lowered in enumerate(done):
            for s in lowered.core.succs:
                predecessors.setdefault(s, set()).add(i)
        found = False
        for i, lowered in enumerate(done[:-1]):
            kind, label, _ = lowered.machine.flow
            if kind != "branch" or not blocks[i].insts:
                continue
            site, inst = blocks[i].insts[-1]
            if not inst.opcode.startswith("s_cbranch_execz") or site in self.elided:
                continue
            body = done[i + 1]
            if predecessors.get(i + 1) != {i} or len(body.core.succs) != 1:
                continue
            target = body.core.succs[0]
            if label not in blocks[target].labels or body.machine.flow[0] not in ("fall", "jump"):
                continue
            if self._harmless(body, live[target]):
                self.elided.add(site)
                found = True
        return found

    def _harmless(self, body: Lowered, live: set[int]) -> bool:
        """True if the block changes nothing that is read later when no lane is active."""
        inside, e = body.exec_in, body.emitter
        if inside == TRUE:
            return False
        restored = body.machine.masks.get(EXEC) == inside
        final: dict[int, Source] = {}
        for op in e.ops:
            guarded = op.guard is not None and not op.guard.neg and \
                e.implies(op.guard.reg, inside)
            if op.name in ("store", "atomic", "load", "acopy") and not guarded and not (
                    op.name == "load" and op.attr.space == "param"):
                return False
            if op.name in ("opaque", "mma", "branch", "switch") or (
                    op.name == "barrier" and op.attr.kind != "warp"):
                return False
            for reg in op.dst:
                if self.registers.names[reg] and not guarded:
                    final[reg] = op.src[0]
        for reg, value in final.items():
            name = self.registers.names[reg]
            if reg not in live or (name[0] in "va" and ":" in name):
                continue
            if restored and name in (f"p{EXEC}", f"s{EXEC}", f"s{EXEC + 1}", f"s{EXEC}:{EXEC + 1}"):
                continue
            made = e.definition(value)
            if made is not None and made[0] == "mov" and made[1] == (reg,):
                continue
            return False
        return True

    # -- the program

    def program(self) -> Program:
        """Lower, drop branches, clean up, number."""
        for item in self.items:
            if isinstance(item, Instruction):
                self.sites.append(Site(item.span, item.text, item.loc))
        blocks, done = self.stable()
        while self.elide(blocks, done):
            blocks, done = self.stable()
        labels = {label: i for i, block in enumerate(blocks) for label in block.labels}
        for block, lowered in zip(blocks, done, strict=True):
            _emit_flow(block, lowered, labels)
        core = [d.whole() for d in done]
        clean(core, self.registers)
        return self._assemble(core)

    def stable(self) -> tuple[list[Block], list[Lowered]]:
        """Repeat until every shadow that is read is also kept up to date."""
        blocks, done = self.run()
        before = (-1, -1)
        while (len(self.wanted.pairs), len(self.wanted.masks)) != before:
            before = (len(self.wanted.pairs), len(self.wanted.masks))
            for lowered in done:
                lowered.machine.finish()
        return blocks, done

    def _assemble(self, core: list[CoreBlock]) -> Program:
        starts: list[int] = []
        total = 0
        for block in core:
            starts.append(total)
            total += len(block.ops)
        numbers: dict[int, int] = {}
        widths: list[int] = []
        names: list[str] = []

        def number(reg: int) -> int:
            found = numbers.get(reg)
            if found is None:
                found = numbers[reg] = len(widths)
                widths.append(self.registers.widths[reg])
                names.append(self.registers.names[reg] or f"t{found}")
            return found

        ops: list[Op] = []
        for block in core:
            for op in block.ops:
                attr = op.attr
                if op.name == "branch":
                    attr = starts[attr] if attr < len(starts) else total
                guard = Guard(number(op.guard.reg), op.guard.neg) if op.guard else None
                src = tuple(number(s) if isinstance(s, int) else s for s in op.src)
                ops.append(Op(op.name, tuple(number(d) for d in op.dst), src, attr, guard, op.site))
        return self._finished(ops, widths, names)

    def _finished(self, ops: list[Op], widths: list[int], names: list[str]) -> Program:
        kernel = self.kernel
        maximum = kernel.meta("max_flat_workgroup_size")
        block = _block(kernel, maximum)
        findings, early = check_waits(self.flow_graph(), self.effects, self.target,
                                      self.wave)
        ops = [_barrier(op, early[op.site]) if op.name == "barrier" and op.site in early else op
               for op in ops]
        if not self.known_target:
            findings.insert(0, (0, f"the rules of target {self.module.target!r} are not known"))
        if not self.target.watched:
            findings.insert(0, (0, f"the wait states of {self.target.name} are not modelled"))
        if block is None or (block[0] * block[1] * block[2]) % self.wave:
            self.premises.add("whole-waves")
        static = kernel.flag("group_segment_fixed_size")
        return Program(
            self.function.name, "gcn", self.target.name, self.wave, block,
            None if block is not None else maximum, kernel.params, tuple(ops), tuple(widths),
            tuple(names), tuple(self.sites), (), static, static,
            kernel.flag("private_segment_fixed_size"),
            frozenset(self.premises | kernel.premises), tuple(findings), self.file,
            lockstep=True)


def _barrier(op: Op, under_way: frozenset[str]) -> Op:
    """A barrier, with what it does not order."""
    if LDS in under_way:
        return replace(op, attr=Barrier("warp"), src=())
    return replace(op, attr=replace(op.attr, kind="shared")) if op.attr.kind == "cta" else op


def _block(kernel: Kernel, maximum: int | None) -> tuple[int, int, int] | None:
    """The block size where the text fixes it: required, or one-dimensional and maximal (Triton)."""
    required = kernel.texts.get(".reqd_workgroup_size")
    if required is not None:
        sizes = [int(x) for x in required.replace("[", " ").replace("]", " ").replace(",", " ")
                 .split() if x.isdigit()]
        if len(sizes) == 3:
            return sizes[0], sizes[1], sizes[2]
    one_dimensional = kernel.flag("system_vgpr_workitem_id") == 0
    if maximum is not None and one_dimensional and kernel.meta("uniform_work_group_size") == 1 \
            and not kernel.hidden and maximum != 1024:
        kernel.premises.add("full-block")
        return maximum, 1, 1
    return None


def _meet(a: Facts, b: Facts) -> Facts:
    """What holds on both ways; a full exec covers all lanes with any mask."""
    out = {k: v for k, v in a.items() if k in b and b[k] == v}
    full = ("full", EXEC)
    for x, y in ((a, b), (b, a)):
        if x.get(full) and not y.get(full):
            out |= {k: v for k, v in y.items() if k[0] == "cover"}
    return out


def _emit_flow(block: Block, lowered: Lowered, labels: dict[str, int]) -> None:
    """Append the block's branch; its attribute is a block number until assembly."""
    kind, label, cond = lowered.machine.flow
    m = lowered.machine
    m.e.site = block.insts[-1][0] if block.insts else 0
    if kind == "exit":
        m.e.op("exit", (), ())
    elif kind == "trap":
        m.e.op("trap", (), ())
    elif kind == "lost":
        m.e.op("opaque", (), (), "control leaves the function")
        m.e.op("exit", (), ())
    elif kind in ("jump", "branch"):
        if label not in labels:
            m.e.op("opaque", (), (), f"jump to unknown label {label}")
            m.e.op("exit", (), ())
            return
        if kind == "jump" or cond == TRUE:
            m.e.op("branch", (), (), labels[label])
        elif cond != Const(0, 1):
            assert cond is not None
            m.e.op("branch", (), (), labels[label], m.guard(cond))


def _roll_back(m: Machine, mark: int, first_temp: int) -> None:
    """Forget the operations of a failed row; its register writes are overwritten next."""
    del m.e.ops[mark:]
    e = m.e
    e.memo = {k: v for k, v in e.memo.items() if not isinstance(v, int) or v < first_temp}
    e.pairs = {k: v for k, v in e.pairs.items()
               if all(not isinstance(x, int) or x < first_temp for x in (*k, v))}
    m.live_in = {k: v for k, v in m.live_in.items() if not isinstance(v, int) or v < first_temp}
    e.prologue = [op for op in e.prologue if op.dst[0] < first_temp]
    m.entered = {k: v for k, v in m.entered.items() if not isinstance(v, int) or v < first_temp}
    m.live_in64 = {k: v for k, v in m.live_in64.items() if not isinstance(v, int) or v < first_temp}
    gone = [n for n, v in m.live_in_mask.items() if isinstance(v, int) and v >= first_temp]
    for n in gone:
        del m.live_in_mask[n]
    m.masks = {n: v for n, v in m.masks.items() if not isinstance(v, int) or v < first_temp}
    m.now = {k: w for k, w in m.now.items() if not isinstance(w.value, int)
             or w.value < first_temp}
    m.whole = {k: w for k, w in m.whole.items() if not isinstance(w[1], int) or w[1] < first_temp}
    m.joined = {k: w for k, w in m.joined.items() if not isinstance(w.value, int)
                or w.value < first_temp}
    m.now64 = {k: w for k, w in m.now64.items() if not isinstance(w.value, int)
               or w.value < first_temp}
    if isinstance(m.scc, int) and m.scc >= first_temp:
        m.scc = None


def _opaque(m: Machine, c: Context, inst: Instruction, base: str) -> None:
    """One operation that overwrites every register the instruction names, and the flags."""
    places: list[tuple[str, int]] = []
    constants: list[Source] = []
    for op in c.operands:
        try:
            file, n, count = c.located(bare(op))
        except Unmodelled:
            if isinstance(op, Immediate) and op.kind == "int":
                constants.append(Const(op.value & 0xFFFFFFFF, 32))
            continue
        places += [(file, n + k) for k in range(count) if (file, n + k) not in places]
    mask = list(dict.fromkeys(n for f, n in places if f == "s" and n in (EXEC, EXEC + 1)))
    src: list[Source] = [m.read(f, n) for f, n in places if (f, n) not in (
        ("s", EXEC), ("s", EXEC + 1))]
    written = [p for p in places if p[0] != "s" or p[1] not in (EXEC, EXEC + 1)]
    if not c.counter:
        c.counter = _counter(base)
    dst = tuple(m.regs.temp(32) for _ in written)
    flags = (m.regs.temp(1), m.regs.temp(m.wave), m.regs.temp(m.wave))
    everything = (*dst, *flags) if base.startswith(("s_", "v_cmpx")) or mask else \
        (*dst, *flags[:2])
    m.e.op("opaque", everything, (*src, *constants), inst.text)
    for reg in everything:
        m.e.defs[reg] = ("opaque", (), inst.text)
    first = _places(c, 0)
    saved, m.deferred = m.deferred, None
    for (file, n), reg in zip(written, dst, strict=True):
        c.reads.add((file, n))
        if not c.counter or (file, n) in first:
            c.writes.add((file, n))
        m.write(file, n, reg, TRUE)
    m.write_scc(flags[0])
    if not any(f == "s" and n in (VCC, VCC + 1) for f, n in written):
        m.write_mask(VCC, m.e.lanebit(flags[1]), flags[1])
    if mask or base.startswith("v_cmpx") or "exec" in base:
        m.write_mask(EXEC, m.e.lanebit(flags[2]), flags[2])
    if "setreg" in base or "_mode" in base:
        m.modes = dict.fromkeys(m.modes)
    m.deferred = saved


def _places(c: Context, i: int) -> list[tuple[str, int]]:
    """The registers of operand i."""
    if i >= len(c.operands) or not c.is_register(i):
        return []
    file, n, count = c.index(i)
    return [(file, n + k) for k in range(count)]


def _counter(base: str) -> str:
    """The counter of a memory instruction that no row models, by its name."""
    stores = "_store" in base or "_write" in base
    for prefix, kind in (("ds_", "lds"), ("flat_", "flat"), ("global_", "vmem"),
                         ("buffer_", "vmem"), ("scratch_", "vmem"), ("image_", "vmem")):
        if base.startswith(prefix):
            return f"{kind}_store" if stores else kind
    return "smem" if base.startswith(("s_load", "s_buffer_load", "s_mem", "s_sendmsg_rtn")) else ""


def lower_gcn(module: Module, kernel: str | None = None, *, file: str = "<text>") -> Program:
    """Lower one kernel; the only one if `kernel` is None.

    Raises UsageError if the kernel does not exist or the choice is open.
    """
    if kernel is not None and kernel in module.bodies:
        return Lowering(module, module.bodies[kernel], file).program()
    entries = [f for f in module.functions if f.is_entry] or list(module.functions)
    names = ", ".join(f.name for f in entries)
    if kernel is not None:
        raise UsageError(f"no kernel `{kernel}` in the text; it has: {names}")
    if len(entries) != 1:
        raise UsageError(f"the text has {len(entries)} kernels; choose one of: {names}")
    return Lowering(module, entries[0], file).program()
