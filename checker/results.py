"""What the checker answers with: signatures, verdicts, partitions; data only.

In: nothing. Out: frozen records shared by the engines, the command line, the service and the hooks.
Every record has `to_json` for the `--json` output and the HTTP answers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from checker.errors import Span
from checker.syntax import SourceLoc

__all__ = [
    "CHECKER_VERSION", "EqualClass", "KernelInput", "Opaque", "Partition", "Reason", "Signature",
    "Verdict", "Witness",
]

CHECKER_VERSION = "0.9.0"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A construct that was not modelled: opcode, full text, place; does an output need it?"""

    opcode: str
    text: str
    span: Span
    loc: SourceLoc | None = None
    reaches_output: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pair is not proved equal.

    code: tree-differs, coverage-differs, opaque, nondeterministic, finding, fuel,
    parameters-differ, target-differs, ...; line_a, line_b: assembly lines on both sides, if known.
    """

    code: str
    message: str
    line_a: int | None = None
    line_b: int | None = None
    loc_a: SourceLoc | None = None
    loc_b: SourceLoc | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """A concrete input on which two kernels return different bytes.

    The input is the draw of `kind` and `seed` (`checker.witness.draw_inputs`), but for the bits in
    `inputs`, by buffer and element.
    """

    seed: int
    kind: str
    buffer: str
    element: int
    bits_a: int
    bits_b: int
    dtype: str
    inputs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signature:
    """The static signature of one kernel.

    text: `sb1-<32 hex>`. modelled: no opaque construct reached an output and nothing in the kernel
    is nondeterministic or a finding. Only two modelled signatures can make an `equal`
    (identical normalised texts apart). premises: short codes, sorted.
    """

    text: str
    kernel: str
    isa: str
    target: str
    modelled: bool
    opaque: tuple[Opaque, ...] = ()
    premises: tuple[str, ...] = ()
    findings: tuple[Reason, ...] = ()
    nondeterministic: bool = False
    summary: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for a pair.

    kind: equal | unequal | unproved. basis: static | launch | witness | "" (unproved).
    """

    kind: str
    basis: str
    premises: tuple[str, ...]
    reasons: tuple[Reason, ...]
    signature_a: Signature
    signature_b: Signature
    witness: Witness | None = None

    @property
    def equal(self) -> bool:
        """True for a proved `equal` only."""
        return self.kind == "equal"

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON; `equal` is a plain boolean."""
        data = asdict(self)
        return {"equal": self.equal, "verdict": data.pop("kind"), **data}


@dataclass(frozen=True, slots=True)
class KernelInput:
    """One kernel of a sweep: a name, its text, its knobs and, optionally, its launches.

    launches: launch facts as JSON data (see `checker.launch`), one for each shape bucket.
    """

    name: str
    text: str
    isa: str | None = None
    kernel: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    launches: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class EqualClass:
    """Kernels proved bitwise equal: basis static (every launch) or launch (the given ones).

    knobs: the values that each knob takes in the class, as the kernels' `config` has them.
    """

    signature: str
    basis: str
    members: tuple[str, ...]
    knobs: dict[str, Any]
    premises: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """The classes of a sweep.

    unproved: (name, reasons) of kernels that belong to no class but their own; errors: (name,
    message) of kernels that could not be read; separating_knobs: the knobs whose values tell the
    classes apart.
    """

    classes: tuple[EqualClass, ...]
    unproved: tuple[tuple[str, tuple[Reason, ...]], ...]
    errors: tuple[tuple[str, str], ...]
    separating_knobs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)
