"""A program as normalised text: what a kernel signs that the walk had to give up on.

In: `core.Program`. Out: text without names of registers, labels and places in the file.
"""

from __future__ import annotations

from checker.core import Program

__all__ = ["normalised_text"]


def normalised_text(program: Program) -> str:
    """Return the program as text without names of registers and places in the file."""
    numbers: dict[int, int] = {}

    def reg(r: int) -> str:
        return f"r{numbers.setdefault(r, len(numbers))}:{program.reg_widths[r]}"

    lines = [f"text {program.isa} {program.target} {program.block} {program.warp_size} "
             f"{program.static_shared_bytes}"]
    lines += [f"param {p.index} {p.offset_bytes} {p.size_bytes}" for p in program.params]
    for op in program.ops:
        guard = f"@{'!' if op.guard.neg else ''}{reg(op.guard.reg)} " if op.guard else ""
        src = ",".join(reg(s) if isinstance(s, int) else f"{s.bits}:{s.width_bits}"
                       for s in op.src)
        dst = ",".join(reg(d) for d in op.dst)
        lines.append(f"{guard}{dst}={op.name}[{op.attr!r}]({src})")
    for block in program.data:
        name = f" {block.name}" if block.outside else ""
        lines.append(f"data {block.address} {block.size_bytes} {block.init!r}{name}")
    return "\n".join(lines)
