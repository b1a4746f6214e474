"""Domain `bytes`: every input is known bits, so that every operation is real arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.arith import ops
from checker.arrays import every
from checker.core import Approx
from checker.replay.facts import Mask
from checker.replay.trees import Trees
from checker.replay.values import Conc, V, bits_of

__all__ = ["Bytes"]


class Bytes(Trees):
    """Real bits; what has no bit-accurate arithmetic is listed in `inaccurate`."""

    name = "bytes"

    def leaf_bits(self) -> bool:
        """Input elements are known bits."""
        return True

    def float_op(self, name: str, attr: Any, values: list[V], mask: Mask | None, width: int) -> V:
        """Compute; approximate functions without a measured table are marked."""
        if isinstance(attr, Approx):
            bits = [bits_of(v, mask) for v in values]
            if all(b is not None for b in bits):
                shape = np.broadcast_shapes(*(b.shape for b in bits if b is not None))
                args = [np.broadcast_to(b, shape) for b in bits if b is not None]
                exact = np.asarray(ops.accurate(name, attr, *args))
                if mask is not None:
                    exact = exact | ~mask
                if not every(exact):
                    self.inaccurate.add(f"{attr.fn} {attr.unit}")
                try:
                    return Conc(np.asarray(ops.apply(name, attr, *args)).astype(np.uint64), width)
                except ops.UnsupportedArithmetic:
                    pass
        return super().float_op(name, attr, values, mask, width)
