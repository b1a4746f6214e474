"""The rows of the partition table: which configurations, at which shapes, and the ratio asked for.

A row takes a family's whole knob space, widened by compiler options where the family has too few,
in a fixed pseudo-random order (so that the first ``n`` are an even sample), and gives every
configuration the same three launches: two of the largest tiles and a remainder in each direction,
and sizes at which no two tiles make the same number of loop trips. Shapes never follow the tile, so
that all configurations of a row have one domain and their output maps can be compared.
Importing needs nothing; ``cases`` needs Triton.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from corpus.spec import Buf, Case, Launch, TensorMap, cdiv

Resize = Callable[[Case], tuple[Launch, ...]]

#: bytes of shared memory that one block can have: a configuration over it cannot be launched
SHARED = {"sm_80": 166_912, "sm_90": 232_448, "sm_100": 232_448, "gfx942": 65_536}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: ``most`` configurations by target, the ratio asked for by ISA, further options.

    ``least`` is how many were asked for. ``resize`` gives the launches; without it the family's own
    are taken. ``options`` are tried in every combination on top of each case.
    """

    family: str
    least: Mapping[str, int]
    most: Mapping[str, int]
    asked: Mapping[str, float]
    resize: Resize | None = None
    options: Mapping[str, Mapping[str, tuple[Any, ...]]] = field(default_factory=dict)

    def cases(self, target: str) -> list[Case]:
        """The configurations of this row for a target, in the order in which they are sampled."""
        from corpus.compile import TARGETS
        from corpus.families import families

        isa = TARGETS[target][3]
        found: dict[str, Case] = {}
        for case in families()[self.family].cases(True):
            if case.isa in ("", isa):
                for more in _combinations(self.options.get(isa, {})):
                    one = replace(case, options={**case.options, **more})
                    found[one.name] = one
        chosen = sorted(found.values(), key=lambda c: order(c.name))[: self.most[target]]
        if self.resize is not None:
            chosen = [replace(c, launches=self.resize(c)) for c in chosen]
        return chosen


def order(name: str) -> bytes:
    """The place of a configuration in its row's sample."""
    return hashlib.sha256(name.encode()).digest()


def _combinations(options: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(options, values, strict=True)) for values in product(*options.values())]


def _sized(case: Case, grid: Sequence[int], ints: Mapping[str, int],
           shapes: Mapping[str, tuple[int, ...]]) -> Launch:
    """The case's launch at another size: integers and buffers by parameter name."""
    args: dict[str, Buf | int | float] = {}
    for name, value in case.launches[0].args.items():
        if isinstance(value, Buf):
            shape = shapes[name]
            desc = value.desc and TensorMap(shape, value.desc.box)
            args[name] = replace(value, elements=math.prod(shape), axis=None, desc=desc)
        else:
            args[name] = ints.get(name, value)
    x, y, z = (*grid, 1, 1)[:3]
    return Launch((x, y, z), args)


def _gemm(*sizes: tuple[int, int, int]) -> Resize:
    """Products: one program a tile."""
    def resize(case: Case) -> tuple[Launch, ...]:
        bm, bn = case.constexprs["BLOCK_M"], case.constexprs["BLOCK_N"]
        return tuple(
            _sized(case, [cdiv(m, bm) * cdiv(n, bn)], {"m": m, "n": n, "k": k},
                   {"a_ptr": (m, k), "b_ptr": (k, n), "c_ptr": (m, n), "bias_ptr": (n,)})
            for m, n, k in sizes)
    return resize


def _tma(*sizes: tuple[int, int, int]) -> Resize:
    """Products through tensor maps."""
    def resize(case: Case) -> tuple[Launch, ...]:
        bm, bn = case.constexprs["BLOCK_M"], case.constexprs["BLOCK_N"]
        return tuple(
            _sized(case, [cdiv(m, bm), cdiv(n, bn)], {"k": k},
                   {"a_desc": (m, k), "b_desc": (k, n), "c_desc": (m, n)})
            for m, n, k in sizes)
    return resize


def _norm(*sizes: tuple[int, int]) -> Resize:
    """Row kernels with an output like their input."""
    def resize(case: Case) -> tuple[Launch, ...]:
        bm = case.constexprs["BLOCK_M"]
        return tuple(
            _sized(case, [cdiv(m, bm)], {"m": m, "n": n},
                   {"x_ptr": (m, n), "y_ptr": (m, n), "w_ptr": (n,), "b_ptr": (n,)})
            for m, n in sizes)
    return resize


def _attention(*sizes: tuple[int, int, int]) -> Resize:
    """Heads, queries, keys."""
    def resize(case: Case) -> tuple[Launch, ...]:
        d = case.constexprs["D"]
        return tuple(
            _sized(case, [cdiv(q, case.constexprs["BLOCK_M"]), h], {"n_q": q, "n_kv": kv},
                   {"q_ptr": (h, q, d), "o_ptr": (h, q, d), "k_ptr": (h, kv, d),
                    "v_ptr": (h, kv, d), "lse_ptr": (h, q)})
            for h, q, kv in sizes)
    return resize


def _reduction(case: Case) -> tuple[Launch, ...]:
    """Matrices longer than any tile; tensors whose tile spans the summed axis keep their size.

    A kernel whose block holds the whole axis then sums the part that its block covers: that is what
    tells a block of 256 from one of 512, and what a static class must not merge.
    """
    kind = case.fn.fn.__name__.split("_")[0]
    bm, bn = case.constexprs["BLOCK_M"], case.constexprs["BLOCK_N"]
    rows, cols = ((37, 603), (19, 251), (5, 2124)), ((603, 37), (251, 67), (1100, 19))
    if kind == "row":
        return tuple(_sized(case, [cdiv(m, bm)], {"m": m, "n": n},
                            {"x_ptr": (m, n), "y_ptr": (m,)}) for m, n in rows)
    if kind == "col":
        return tuple(_sized(case, [cdiv(n, bn)], {"m": m, "n": n},
                            {"x_ptr": (m, n), "y_ptr": (n,)}) for m, n in cols)
    if kind == "full":
        return tuple(_sized(case, [1], {"m": m, "n": n}, {"x_ptr": (m, n), "y_ptr": (1,)})
                     for m, n in ((29, 61), (45, 203), (131, 261)))
    if kind == "mid":
        return tuple(_sized(case, [cdiv(n, bn), b], {"b": b, "m": m, "n": n},
                            {"x_ptr": (b, m, n), "y_ptr": (b, n)})
                     for b, m, n in ((3, 61, 37), (2, 139, 19), (3, 261, 67)))
    return case.launches


_WAVES = {"gcn": {"waves_per_eu": (0, 2)}}
_MATRIX = {"gcn": {"matrix_instr_nonkdim": (0, 16, 32), "kpack": (1, 2), "waves_per_eu": (0, 2)}}
_GEMM_SIZES = _gemm((272, 48, 176), (48, 272, 304), (80, 80, 80))
_NORM_SIZES = _norm((19, 603), (13, 251), (21, 1100))


def _row(family: str, least: Mapping[str, int], ratios: tuple[float, ...],
         resize: Resize | None = None, options: Mapping[str, Any] | None = None,
         most: Mapping[str, int] | None = None) -> Row:
    """A row; without ``most`` it takes a twentieth more than asked, for those that fail."""
    taken = {target: count + count // 20 for target, count in least.items()} | dict(most or {})
    return Row(family, least, taken, dict(zip(("ptx", "gcn"), ratios, strict=False)), resize,
               options or {})


def _on(sm_90: int, others: int = 0, gfx942: int = 0, sm_80: int | None = None) -> dict[str, int]:
    """How many were asked for on each target; ``others`` are sm_100 and, unless given, sm_80."""
    found = {"sm_90": sm_90, "sm_80": others if sm_80 is None else sm_80, "sm_100": others,
             "gfx942": gfx942}
    return {target: count for target, count in found.items() if count}


ROWS: tuple[Row, ...] = (
    _row("reductions", _on(1500, gfx942=1920), (1.3, 1.3), _reduction, _WAVES, {"gfx942": 1920}),
    _row("softmax", _on(100, gfx942=120), (1.3, 1.5), _NORM_SIZES, _WAVES),
    _row("layernorm", _on(100, gfx942=120), (1.3, 1.5), _NORM_SIZES, _WAVES),
    _row("rmsnorm", _on(100, gfx942=120), (1.3, 1.5), _NORM_SIZES, _WAVES),
    _row("gemm", _on(2000, 2000, 72), (1.0, 1.0), _GEMM_SIZES, _MATRIX, {"gfx942": 80}),
    _row("gemm_bias_relu", _on(150, 150, 24), (1.0, 1.0), _GEMM_SIZES, _MATRIX),
    _row("gemm_kgroup", _on(500, 500, 132), (1.5, 1.0),
         _gemm((144, 48, 304), (48, 272, 592), (48, 48, 1072)), _MATRIX),
    _row("gemm_reduce_sum", _on(200, 200), (1.5,)),
    _row("gemm_softmax", _on(200, 200), (1.5,)),
    _row("gemm_tma_store", _on(18, 18, 12, sm_80=0), (1.0, 1.0),
         _tma((272, 80, 176), (80, 272, 304), (80, 80, 80)), _MATRIX, {"sm_90": 32, "sm_100": 32}),
    _row("inductor_sum_loop", _on(20), (1.0,), most={"sm_90": 36}),
    _row("inductor_splitk_gemm", _on(4, 4), (1.0,), most={"sm_90": 8, "sm_80": 8, "sm_100": 8}),
    _row("flash_attention", _on(500), (1.5,), _attention((1, 272, 272), (2, 144, 208), (1, 80, 80)),
         {"ptx": {"num_stages": (1, 2, 3, 4)}}),
)


def rows_of(target: str, names: Sequence[str] = ()) -> list[Row]:
    """The rows that a target has, all or the named ones."""
    return [r for r in ROWS if target in r.most and (not names or r.family in names)]
