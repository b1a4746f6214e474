"""Memory layout of a PTX kernel: where its variables live, what module data hold.

In: Module, the functions a kernel reaches. Out: `Layout`. Variables that nobody names take no
room, so that other kernels of a file change no address; dynamic shared memory follows the static.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from checker.core import MODULE_BASE, DataBlock
from checker.ptx.calls import used_names
from checker.syntax import Directive, Function, Module, Variable

__all__ = ["Layout", "align_up", "lay_out"]

_GENERIC_ALIGN = 16


@dataclass(slots=True)
class Layout:
    """`addresses`: state space and address by name (`function:name` for a function's own)."""

    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)
    static_shared_bytes: int = 0
    dynamic_shared_base: int | None = None
    data: tuple[DataBlock, ...] = ()


def align_up(offset: int, align: int) -> int:
    """Round up to a multiple."""
    return -(-offset // align) * align if align > 1 else offset


def lay_out(module: Module, reached: list[Function]) -> Layout:
    """Give every variable that the reached functions can name an address in its space."""
    relocations = [d for d in module.directives if d.name == ".init_address"]
    used = _with_pointed(used_names(reached), relocations) if module.variables else set()
    out = Layout()
    blocks: list[tuple[Variable, int]] = []
    dynamic: list[tuple[Variable, str]] = []
    shared = offset = 0
    variables = [(v, v.name) for v in module.variables if v.name in used]
    variables += [(v, f"{f.name}:{v.name}") for f in reached for v in f.variables]
    for variable, key in variables:
        if variable.space == "shared" and variable.external:
            dynamic.append((variable, key))
        elif variable.space == "shared":
            shared = align_up(shared, variable.align)
            out.addresses[key] = ("shared", shared)
            shared += variable.size_bytes
        elif variable.space in ("global", "const"):
            offset = align_up(offset, max(variable.align, _GENERIC_ALIGN))
            out.addresses[key] = (variable.space, MODULE_BASE + offset)
            blocks.append((variable, MODULE_BASE + offset))
            offset += max(variable.size_bytes, 1)
    out.static_shared_bytes = shared
    if dynamic:
        out.dynamic_shared_base = align_up(shared, max(v.align for v, _ in dynamic))
        for _, key in dynamic:
            out.addresses[key] = ("shared", out.dynamic_shared_base)
    out.data = tuple(_data(v, address, relocations, out.addresses) for v, address in blocks)
    return out


def _with_pointed(used: set[str], relocations: list[Directive]) -> set[str]:
    """Add the variables whose addresses are initial values of used ones."""
    pending = sorted(used) if relocations else []
    while pending:
        name = pending.pop()
        for r in relocations:
            if r.args[0] == name and r.args[3] not in used:
                used.add(r.args[3])
                pending.append(r.args[3])
    return used


def _data(variable: Variable, address: int, relocations: list[Directive],
          addresses: dict[str, tuple[str, int]]) -> DataBlock:
    """The variable's block, with the addresses among its initial values put in."""
    init = variable.init
    if init is not None:
        buffer = bytearray(init)
        for r in relocations:
            if r.args[0] != variable.name:
                continue
            at, width, symbol, addend, _, shift = r.args[1:]
            if symbol not in addresses:  # a function's address: unknown, so is the variable
                return DataBlock(variable.name, variable.space, address, variable.size_bytes, None,
                                 outside=True)
            value = (addresses[symbol][1] + int(addend)) >> int(shift)
            value &= (1 << 8 * int(width)) - 1
            buffer[int(at) : int(at) + int(width)] = value.to_bytes(int(width), "little")
        init = bytes(buffer)
    return DataBlock(variable.name, variable.space, address, variable.size_bytes, init,
                     variable.external)
