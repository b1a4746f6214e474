"""Products with arguments that are declared to hold powers of two, over tree hashes.

In: a program under `checker.assume`, launch facts. Out: `Scales`, which multiplies as
`checker.replay.arithmetic` does except where a factor is an element of a declared buffer or a
product of such: there a product is the multiset of its factors. Its hash is the sum over scales,
plus the other factor where there is one. `checker.tree.scales` says why this is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checker.arrays import some
from checker.core import FloatMode, Program
from checker.launch import Buffer, Launch
from checker.replay.arithmetic import fma, multiply
from checker.replay.facts import (
    CONC,
    FORM_SHIFT,
    HF,
    MNZ,
    form_id,
    form_key,
    pop_forms,
    push_form,
)
from checker.replay.hashing import U64, combine, flip, key, leaf_table, representative
from checker.replay.operands import ONE, choose, is_const, mode_key, plain, poison

__all__ = ["Scales"]

_TYPE = "f32"
_SIGN = 1 << 31
#: known factors of which the identities make something else than a product
_OWN = (0, _SIGN, ONE[_TYPE], ONE[_TYPE] | _SIGN, ONE[_TYPE] + (1 << 23))


class Scales:
    """The elements of declared buffers at one launch, by hash."""

    def __init__(self, program: Program, launch: Launch) -> None:
        declared = [launch.args[i] for i in sorted(program.powers_of_two) if i < len(launch.args)]
        tables = [leaf_table(arg.name, arg.elements, 4) for arg in declared
                  if isinstance(arg, Buffer) and arg.dtype in ("f32", "fp32")
                  and arg.values is None and not arg.alias and not arg.init]
        leaves = np.concatenate([np.zeros((2, 0), np.uint64), *tables], axis=1)
        self.leaves = leaves[:, np.argsort(leaves[0])]

    def _leaf(self, h: U64) -> Any:
        """Lanes that hold an element of a declared buffer as it was at the launch."""
        if not self.leaves.shape[1]:
            return np.zeros(h.shape[1:], dtype=bool)
        at = np.searchsorted(self.leaves[0], h[0]).clip(max=self.leaves.shape[1] - 1)
        return (self.leaves[0][at] == h[0]) & (self.leaves[1][at] == h[1])

    def _pure(self, mode: FloatMode, x: HF) -> tuple[Any, U64]:
        """Lanes made of scales alone, and the sum over these."""
        h, f = x
        lanes = self._leaf(h) & ((np.asarray(f) & CONC) == 0)
        total = combine(key("scale"), h)
        for _, here, (inner, _f) in pop_forms(x, f"scales {mode_key(mode)}"):
            lanes, total = lanes | here, np.where(here, inner, total)
        return lanes, total

    def _scaled(self, mode: FloatMode, x: HF, total: U64, low: Any) -> HF:
        """x times scales: the sign outside, factors that x has already joined."""
        name, minus = f"scaled {mode_key(mode)}", f"minus scaled {mode_key(mode)}"
        rep, negative = representative(x[0])
        inner = combine(key(name), rep)
        for _, here, (old, _f) in pop_forms(x, name):
            inner, negative = np.where(here, old, inner), negative & ~here
        for _, here, (old, _f) in pop_forms(x, minus):
            old = flip(old + form_key(minus)) - form_key(name)
            inner, negative = np.where(here, old, inner), negative | here
        h, facts = push_form((inner + total, 0), name, low)
        if not some(negative):
            return h, facts
        return choose(negative, (flip(h), low | form_id(minus) << FORM_SHIFT), (h, facts))

    def multiply(self, mode: FloatMode, a: HF, b: HF) -> HF:
        """a * b; a multiset of factors where one of them is a scale."""
        return self._product(mode, a, b)[0]

    def _product(self, mode: FloatMode, a: HF, b: HF) -> tuple[HF, Any]:
        """The product, and the lanes in which it is exact by declaration."""
        out = multiply(mode, a, b)
        if mode.type != _TYPE or mode.rnd not in ("rn", "rz") or not plain(mode):
            return out, False
        (pure_a, sum_a), (pure_b, sum_b) = self._pure(mode, a), self._pure(mode, b)
        exact = pure_a | pure_b
        if not some(exact):
            return out, False
        for x in (a, b):
            for bits in _OWN:
                exact = exact & ~np.asarray(is_const(x, bits))
        low = poison(a[1], b[1]) | MNZ
        made = choose(pure_b, self._scaled(mode, a, sum_b, low), self._scaled(mode, b, sum_a, low))
        both = pure_a & pure_b
        if some(both):
            joined = push_form((sum_a + sum_b, 0), f"scales {mode_key(mode)}", low)
            made = choose(both, joined, made)
        return choose(exact, made, out), exact

    def fma(self, mode: FloatMode, a: HF, b: HF, c: HF) -> HF:
        """a * b + c, rounded once; the product is a multiset of factors as in `multiply`."""
        out = fma(mode, a, b, c)
        product, exact = self._product(mode, a, b)
        if exact is False or not some(exact):
            return out
        made: HF = (combine(key(f"fexactadd {mode_key(mode)}"), product[0], c[0]),
                    poison(a[1], b[1], c[1]) | MNZ)
        minus_zero = is_const(c, _SIGN)
        if minus_zero is not False:
            made = choose(minus_zero, product, made)
        return choose(exact, made, out)
