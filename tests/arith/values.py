"""Edge and random bit patterns of every format, seeds fixed."""

from __future__ import annotations

import numpy as np

from checker.arith.formats import FORMATS, bits_dtype


def edges(kind: str) -> np.ndarray:
    """Zeros, subnormals, neighbours of powers of two, the largest values, infinities, NaN."""
    fmt = FORMATS[kind]
    man, top = fmt.man_bits, (1 << fmt.exp_bits) - 1
    exps = {0, 1, 2, fmt.bias - man - 1, fmt.bias - 1, fmt.bias, fmt.bias + 1, fmt.bias + man,
            top - 1, top, fmt.bias // 2, fmt.bias + fmt.bias // 2}
    mans = {0, 1, 2, 3, (1 << man) - 1, (1 << man) - 2, 1 << man - 1, (1 << man - 1) + 1,
            (1 << man - 1) - 1, 0x155555 * 0x40000001 & (1 << man) - 1}
    out = sorted({exp << man | m for exp in exps if 0 <= exp <= top for m in mans})
    both = [bits | sign for bits in out for sign in (0, fmt.sign)]
    return np.array(both, bits_dtype(fmt.width))


def random_bits(kind: str, count: int, seed: int) -> np.ndarray:
    """Half uniform patterns, half with close exponents (so that sums cancel)."""
    fmt = FORMATS[kind]
    rng = np.random.default_rng(seed)
    high = 1 << fmt.width
    wild = rng.integers(0, high, count, dtype=np.uint64)
    man = rng.integers(0, 1 << fmt.man_bits, count, dtype=np.uint64)
    exp = rng.integers(fmt.bias - 3, fmt.bias + 4, count, dtype=np.uint64)
    sign = rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(fmt.width - 1)
    near = sign | exp << np.uint64(fmt.man_bits) | man
    out = np.where(np.arange(count) % 2 == 0, wild, near)
    return out.astype(bits_dtype(fmt.width))


def tuples(kind: str, arity: int, count: int, seed: int) -> list[np.ndarray]:
    """Random tuples of edge values, random values and mixtures."""
    pool = edges(kind)
    rng = np.random.default_rng(seed)
    columns = []
    for place in range(arity):
        edge = pool[rng.integers(0, len(pool), count)]
        rand = random_bits(kind, count, seed + 100 * place + 1)
        columns.append(np.where(rng.integers(0, 3, count) == 0, edge, rand))
    return columns
