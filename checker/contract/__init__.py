"""What the assembler below PTX makes of plain float operations: fused pairs, constant divisors.

In: Program. Out: Program whose float operations round as the machine code does, where that is
certain. Refuses nothing; a program without such operations is returned as it is.

Read off the machine code of the assemblers of CUDA 12.9, 13.0 and 13.4 for sm_80, 90 and 100
(tests/ptx/device/contraction.py), fusion itself also measured on an H200:
- A product is a plain `mul` (f32 f64 f16 bf16, packed or not), `div.full` or `div.approx` (they
  end in a multiply), or `rcp.approx` without `.ftz`. A sum is a plain `add` or `sub`.
- A product is fused into its uses if ALL of them are sums of its type and `.ftz`, in its block
  (blocks joined by plain jumps are one), behind moves and sign changes at most; otherwise into
  none: a second use, an `add.rn`, a branch between, `.sat` or a guard on the product, another
  `.ftz`, x + x, a packed product read in part, a packed bf16 sign change. A guard or `.sat` on
  the sum does not matter.
- If both operands of a sum are such products, each with that one use, the first one is fused;
  none if they are one product written twice.
- Dead uses do not count. A product of two literals is a literal.
- `div.{full,approx}` by a literal c is a multiply by 1/c rounded to nearest (for |c| in
  [2**-126, 2**126]), `rcp.approx` of it that literal; another approximation of literals is
  computed by the assembler, not by the unit (`...@literal` here). A reciprocal of a reciprocal
  disappears where both stand together (`...@reciprocal` here); one of a value that follows from
  literals by more than moves may be folded (`...@folded`).
- A plain product, all uses of which multiply by a small power of two, is scaled before it is
  rounded: `scaled.py`.
- Fences of asynchronous matrix steps are looked for: `fences.py`.
- A minimum with 1 and a maximum with 0 are one saturating operation: `clamps.py` says when.
Premises: `contraction:measured` where a rule above decided; `contraction` where a pair is left as
it stands because no rule covers it (a sum before its product in a loop, equal products in one
sum, shared products on both sides, moves under a guard, a call between, `debug`, other targets).
"""

from __future__ import annotations

from checker.contract.clamps import saturate
from checker.contract.fences import with_fences_checked
from checker.contract.fusion import fuse
from checker.contract.literals import resolve_literals
from checker.contract.scaled import scale
from checker.contract.words import MEASURED, UNCERTAIN, is_product, is_sum
from checker.core import Program

__all__ = ["MEASURED", "UNCERTAIN", "contract"]


def contract(program: Program) -> Program:
    """Return the program as the assembler rounds it, its premises extended."""
    if program.isa != "ptx":
        return program
    program = saturate(with_fences_checked(program))
    if not any(is_product(op) or op.name == "fapprox" for op in program.ops):
        return program
    program = resolve_literals(program)
    if not any(map(is_product, program.ops)):
        return program
    return scale(fuse(program) if any(map(is_sum, program.ops)) else program)
