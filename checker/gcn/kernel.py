"""What a kernel gets at its start: arguments, ids, descriptor values.

In: a `Function` with its `.amdhsa_*` and metadata attributes. Out: `Kernel`, which places initial
register values and serves loads from the argument segment. Hidden arguments are launch facts.
Source: LLVM AMDGPUUsage (kernel descriptor, initial kernel execution state, implicit arguments).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checker.core import Const, Mem, Param, Source
from checker.gcn.emitter import Emitter
from checker.syntax import Function

__all__ = ["Kernel", "kernel_of"]

_DIMENSION = {"x": 0, "y": 1, "z": 2}


@dataclass(slots=True)
class Kernel:
    """Arguments and descriptor of one kernel."""

    name: str
    params: tuple[Param, ...]
    hidden: tuple[tuple[int, int, str], ...]
    values: dict[str, int]
    texts: dict[str, str]
    premises: set[str] = field(default_factory=set)
    members: dict[int, int] = field(default_factory=dict)  # waves that named barriers expect
    quiet_shared: bool = True  # no store put what may be a signalling f32 into shared memory

    def flag(self, name: str, default: int = 0) -> int:
        """A descriptor value by its name without `.amdhsa_`."""
        return self.values.get(".amdhsa_" + name, default)

    def meta(self, name: str) -> int | None:
        """A numeric metadata value such as `max_flat_workgroup_size`."""
        return self.values.get("." + name)

    def word(self, e: Emitter, offset: int) -> Source:
        """The 32-bit word at a byte offset of the argument segment."""
        for param in self.params:
            if param.offset_bytes <= offset and offset + 4 <= param.offset_bytes + param.size_bytes:
                return self._inside(e, param, offset)
        parts: list[Source] = []
        at = offset
        while at < offset + 4:
            part = self._piece(e, at, offset + 4 - at)
            parts.append(part)
            at += e.width(part) // 8
        return e.pack(*parts)

    def _inside(self, e: Emitter, param: Param, offset: int) -> Source:
        if param.size_bytes == 8:
            whole = _load(e, 64, param.offset_bytes)
            if param.pointer:
                e.pointers.add(whole)
            return e.extract(whole, 8 * (offset - param.offset_bytes), 32)
        return _load(e, 32, offset)

    def _piece(self, e: Emitter, at: int, room: int) -> Source:
        """The widest piece that starts at a byte: a small argument, a hidden one, or padding."""
        for param in self.params:
            if param.offset_bytes <= at < param.offset_bytes + param.size_bytes:
                left = param.offset_bytes + param.size_bytes - at
                width = next(w for w in (2, 1) if w <= min(left, room) and at % w == 0)
                return _load(e, 8 * width, at)
        for offset, size, kind in self.hidden:
            if offset <= at < offset + size:
                whole = self._hidden(e, offset, size, kind)
                left = min(offset + size - at, room)
                return e.extract(whole, 8 * (at - offset), 8 * left)
        padding = e.registers.temp(8)  # never written: nobody says what it holds
        e.uniform.add(padding)
        return padding

    def _hidden(self, e: Emitter, offset: int, size: int, kind: str) -> Source:
        name = kind.removeprefix("hidden_")
        width = 8 * size
        axis = name[-1]
        if name.startswith("block_count_"):
            return _fit(e, _special(e, f"nctaid.{axis}"), width)
        if name.startswith("group_size_"):
            return _fit(e, _special(e, f"ntid.{axis}"), width)
        if name.startswith("remainder_"):
            self.premises.add("whole-groups")
            return Const(0, width)
        if name.startswith("global_offset_"):
            self.premises.add("no-global-offset")
            return Const(0, width)
        if name == "none":
            return Const(0, width)
        value = e.pure("opaque", width, (), f"hidden argument {name}")
        e.uniform.add(value)
        return value

    def dispatch_word(self, e: Emitter, offset: int) -> Source | None:
        """A word of the dispatch packet: group sizes at 4, grid sizes at 12."""
        if offset == 4:
            return e.pack(_fit(e, _special(e, "ntid.x"), 16), _fit(e, _special(e, "ntid.y"), 16))
        if offset == 8:
            return e.zext(_fit(e, _special(e, "ntid.z"), 16), 32)
        if offset in (12, 16, 20):
            self.premises.add("whole-groups")
            axis = "xyz"[(offset - 12) // 4]
            return e.pure("imul", 32, (_special(e, f"nctaid.{axis}"), _special(e, f"ntid.{axis}")),
                          32)
        return None


def _load(e: Emitter, width: int, offset: int) -> Source:
    value = e.pure("load", width, (Const(0, 64),), Mem("param", width, 1, offset, width // 8))
    e.uniform.add(value)
    e.raw.add(value)
    return value


def _special(e: Emitter, name: str) -> Source:
    value = e.pure("special", 32, (), name)
    if name.startswith(("ntid", "nctaid", "ctaid")):
        e.uniform.add(value)
    return value


def _fit(e: Emitter, value: Source, width: int) -> Source:
    have = e.width(value)
    return e.extract(value, 0, width) if width < have else e.zext(value, width)


def kernel_of(function: Function) -> Kernel:
    """Collect what the text says about a kernel's start."""
    offsets = [int(o) for o in function.attributes.get(".arg_offsets", ())]
    params = tuple(Param(i, p.name, offsets[i], p.size_bytes, p.pointer)
                   for i, p in enumerate(function.params))
    hidden: list[tuple[int, int, str]] = []
    for text in function.attributes.get(".hidden_args", ()):
        offset, size, kind = text.split(":")
        hidden.append((int(offset), int(size), kind))
    values: dict[str, int] = {}
    texts: dict[str, str] = {}
    for name, value in function.attributes.items():
        if name in (".arg_offsets", ".hidden_args") or not value:
            continue
        texts[name] = value[0]
        if value[0].lstrip("-").isdigit():
            values[name] = int(value[0])
    return Kernel(function.name, params, tuple(hidden), values, texts)
