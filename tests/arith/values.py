"""Edge and random bit patterns of every format; the same numbers on every machine and version."""

from __future__ import annotations

import numpy as np

from checker.arith.formats import FORMATS, Format, bits_dtype


def stream(seed: int, count: int) -> np.ndarray:
    """`count` random 64-bit words (splitmix64), fixed for good by the seed."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def below(seed: int, count: int, high: int) -> np.ndarray:
    """Random integers in [0, high), as int64."""
    return ((stream(seed, count) >> np.uint64(1)) % np.uint64(high)).astype(np.int64)


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


def with_exponents(fmt: Format, seed: int, exps: np.ndarray) -> np.ndarray:
    """Patterns with the given exponent fields, random signs and fractions."""
    words = stream(seed, exps.size).reshape(exps.shape)
    man = words & np.uint64((1 << fmt.man_bits) - 1)
    sign = (words >> np.uint64(63)) << np.uint64(fmt.width - 1)
    bits = sign | exps.astype(np.uint64) << np.uint64(fmt.man_bits) | man
    return bits.astype(bits_dtype(fmt.width))


def random_bits(kind: str, count: int, seed: int) -> np.ndarray:
    """Half uniform patterns, half with close exponents (so that sums cancel)."""
    fmt = FORMATS[kind]
    wild = stream(seed, count) >> np.uint64(64 - fmt.width)
    near = with_exponents(fmt, seed + 1, fmt.bias - 3 + below(seed + 2, count, 7))
    out = np.where(np.arange(count) % 2 == 0, wild, near)
    return out.astype(bits_dtype(fmt.width))


def tuples(kind: str, arity: int, count: int, seed: int) -> list[np.ndarray]:
    """Random tuples of edge values, random values and mixtures."""
    return [column(kind, count, seed + 100 * place + 1) for place in range(arity)]


def column(kind: str, count: int, seed: int) -> np.ndarray:
    """One operand: a third edge values; integers are short or long at random."""
    if kind not in FORMATS:
        words = stream(seed, count) >> below(seed + 3, count, 64).astype(np.uint64)
        return np.where(below(seed + 4, count, 2) == 0, words, ~words)
    pool = edges(kind)
    edge = pool[below(seed + 3, count, len(pool))]
    return np.where(below(seed + 4, count, 3) == 0, edge, random_bits(kind, count, seed))
