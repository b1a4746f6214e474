"""What a kernel configuration is, before any compiler has seen it.

A ``Family`` yields ``Case``s: one Triton function, its constexprs and compiler options (together
the knobs), and the launches it is run at. A ``Launch`` names every run-time argument: buffers with
type, length and role, or scalars. Launch facts are rendered to JSON by ``corpus.compile``.
Refuses nothing by itself; ``Case.check`` reports inconsistent launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: dtype -> (bytes an element, Triton's spelling)
DTYPES: Mapping[str, tuple[int, str]] = {
    "f16": (2, "fp16"),
    "bf16": (2, "bf16"),
    "f32": (4, "fp32"),
    "f64": (8, "fp64"),
    "e4m3": (1, "fp8e4nv"),
    "e5m2": (1, "fp8e5"),
    "i8": (1, "i8"),
    "u8": (1, "u8"),
    "i16": (2, "i16"),
    "i32": (4, "i32"),
    "u32": (4, "u32"),
    "i64": (8, "i64"),
}


@dataclass(frozen=True, slots=True)
class Buf:
    """One pointer argument.

    ``axis`` is the view (outer, reduced, inner) along which a cancelling draw mirrors its first
    half; ``mirror`` is the sign of the mirror image (-1 for the operand that changes sign, +1 for
    the one that only repeats). ``values`` fixes index data for every draw. ``positive`` keeps the
    draws positive, normal and moderate (scales, variances); ``zero`` starts it at zero each time.
    """

    dtype: str
    elements: int
    role: str = "in"
    axis: tuple[int, int, int] | None = None
    mirror: int = -1
    values: tuple[int, ...] | None = None
    positive: bool = False
    zero: bool = False
    desc: TensorMap | None = None


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A host-built TMA descriptor over the whole buffer: row-major ``shape``, tile ``box``."""

    shape: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """A grid and the run-time arguments by parameter name."""

    grid: tuple[int, int, int]
    args: Mapping[str, Buf | int | float]


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration: what is compiled, with which knobs, and where it is launched.

    ``launches`` share one specialisation (the same integers divisible by 16 or equal to 1).
    ``isa`` limits the case to one vendor's text (``"ptx"``, ``"gcn"``; empty means any). ``below``
    are knobs below the text (assembler options), used by the truth only.
    """

    family: str
    fn: Any
    constexprs: Mapping[str, Any]
    options: Mapping[str, Any]
    launches: tuple[Launch, ...]
    variant: str = ""
    i64: frozenset[str] = frozenset()
    nondeterministic: bool = False
    isa: str = ""
    below: Mapping[str, Any] = field(default_factory=dict)

    @property
    def knobs(self) -> dict[str, Any]:
        """Constexprs and options as plain JSON values, sorted by name."""
        both = {**self.constexprs, **self.options}
        return {k: both[k] if isinstance(both[k], int | float | str | bool | None) else str(both[k])
                for k in sorted(both)}

    @property
    def name(self) -> str:
        """A readable name, unique inside a target: family, variant and knobs."""
        knobs = "_".join(f"{_short(k)}{_short(v)}" for k, v in self.knobs.items())
        head = f"{self.family}.{self.variant}" if self.variant else self.family
        return f"{head}-{knobs}"

    def specialisation(self, launch: Launch) -> dict[str, str]:
        """Which integer arguments Triton would specialise: ``"1"``, ``"16"`` or ``""``."""
        found = {}
        for name, value in launch.args.items():
            if isinstance(value, int) and not isinstance(value, bool):
                found[name] = "1" if value == 1 else "16" if value % 16 == 0 else ""
        return found

    def check(self) -> None:
        """Raise ``ValueError`` when launches would be specialised differently."""
        first = self.specialisation(self.launches[0])
        for launch in self.launches[1:]:
            if self.specialisation(launch) != first:
                raise ValueError(f"{self.name}: launches do not share one specialisation")


@dataclass(frozen=True, slots=True)
class Family:
    """A named generator of cases; ``cases(full)`` yields the whole knob space or a modest part.

    ``isas`` says where the family makes sense (TMA and fp8 tensor cores do not on every target).
    """

    name: str
    cases: Callable[[bool], Iterator[Case]]
    about: str = ""
    targets: Callable[[str], bool] = lambda target: True


_SHORT = {"num_warps": "w", "num_stages": "s", "enable_fp_fusion": "fuse", True: "1", False: "0"}


def _short(word: Any) -> str:
    """Knob names and values as short as they stay readable: BLOCK_M 64 is BM64."""
    if isinstance(word, bool) or word in _SHORT:
        return _SHORT[word]
    return str(word).replace("BLOCK", "B").replace("GROUP", "G").replace("_", "")


def cdiv(a: int, b: int) -> int:
    """Ceiling division."""
    return -(-a // b)
