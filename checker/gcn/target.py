"""AMD targets: what differs between generations, by the name LLVM gives them.

In: `gfx942`, ... Out: a `Target` record. Unknown names get the newest record of their generation
and the premise-free default: whatever depends on an unknown feature is refused by the rows.
Source: LLVM AMDGPUUsage (processors, code object, initial register state).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Target", "target_of"]

_CORRECTED = re.compile("gfx9(06|08|0a|4.|5.|-4)|gfx125")


@dataclass(frozen=True, slots=True)
class Target:
    """One processor: `major` 9..12, wave size by default, and features used by the rows."""

    name: str
    major: int
    minor: int
    wave: int
    ecc: bool = False  # memory may be corrected, where nothing says that it is not

    @property
    def packed_tid(self) -> bool:
        """Work-item ids share v0, ten bits each (gfx90a, gfx94x, gfx95x, gfx11 and later)."""
        return self.major >= 11 or self.cdna >= 2

    @property
    def cdna(self) -> int:
        """CDNA generation: 1 gfx908, 2 gfx90a, 3 gfx94x, 4 gfx95x; 0 otherwise."""
        if self.name.startswith("gfx908"):
            return 1
        if self.name.startswith("gfx90a"):
            return 2
        if self.name.startswith("gfx94") or self.name.startswith("gfx9-4"):
            return 3
        return 4 if self.name.startswith("gfx95") else 0

    @property
    def wide_permute(self) -> bool:
        """ds_bpermute reaches all lanes of a wave; on gfx10 and gfx11 32 of them."""
        return self.major not in (10, 11)

    @property
    def watched(self) -> bool:
        """What it does not wait for by itself is known here; of gfx10.1 and gfx12.5 it is not."""
        return (self.major, self.minor) not in ((10, 1), (12, 5))

    @property
    def slow_results(self) -> bool:
        """Vector operations do not wait for transcendental ones (gfx11.0)."""
        return (self.major, self.minor) == (11, 0)

    @property
    def unit(self) -> str:
        """The name under which approximate functions are told apart."""
        return self.name

    @property
    def bound_ctrl_zero_sets(self) -> bool:
        """`bound_ctrl:0` sets the bit before gfx11 and clears it from gfx11 on."""
        return self.major < 11

    @property
    def architected_ids(self) -> bool:
        """Work-group ids come in ttmp9 and ttmp7 (gfx12)."""
        return self.major >= 12


def target_of(name: str) -> Target | None:
    """Return the record of `gfx...`; None for a name without a known generation."""
    match = re.match(r"gfx(\d+)([0-9a-f]{2})?$", name.split(":")[0])
    generic = re.match(r"gfx(\d+)(?:-(\d+))?-generic$", name.split(":")[0])
    if generic is not None:
        major, minor = int(generic[1]), int(generic[2] or 0)
    elif match is not None:
        digits = name.split(":")[0][3:]
        major, minor = int(digits[:-2] or "0"), int(digits[-2], 16)
    else:
        return None
    if not 8 <= major <= 12:
        return None
    bare = name.split(":")[0]
    ecc = _CORRECTED.match(bare) is not None and ":sramecc-" not in name
    return Target(bare, major, minor, 64 if major < 10 else 32, ecc)
