"""Vectorised 128-bit hashing of trees: one hash for each lane, computed bottom-up.

In: child hashes as uint64 arrays of shape [2, n], n being 1 (the same in all lanes) or the number
of lanes. Out: the same shape. Deterministic across machines: integer arithmetic and xxh3 only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash
from numpy import add, bitwise_xor, multiply, right_shift

from checker.arrays import every, some

__all__ = [
    "MANY", "Hash", "agree", "collapse", "finish", "hash_ints", "hex_of", "in_blocks", "key",
    "kinds", "mix", "ordered", "unordered",
]

Hash = npt.NDArray[np.uint64]  # [2, 1] or [2, lanes]

_M1 = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F]], dtype=np.uint64)
_M2 = np.array([[0xD6E8FEB86659FD93], [0xA0761D6478BD642F]], dtype=np.uint64)
_S1, _S2 = np.array(29, dtype=np.uint64), np.array(32, dtype=np.uint64)
_SPREAD = np.array(0x9FB21C651E98DF25, dtype=np.uint64)
FEW = 512
MANY = 1 << 13  # hashes: with more, scratch space is taken block by block (it stays in a cache)
_MASK = (1 << 64) - 1
_A0, _A1 = (int(w) for w in _M1[:, 0])
_B0, _B1 = (int(w) for w in _M2[:, 0])


@lru_cache(maxsize=1 << 16)
def key(text: str) -> Hash:
    """Return the hash [2, 1] of a text."""
    digest = xxhash.xxh3_128_digest(text.encode())
    return np.frombuffer(digest, dtype=">u8").astype(np.uint64).reshape(2, 1)


def mix(acc: Hash, item: Hash) -> Hash:
    """Fold one more hash into an accumulator; the order of foldings matters."""
    size = max(acc.size, item.size)
    if acc.size == item.size == 2:  # a few python integers are faster than an array of two
        (a,), (b,) = acc.tolist()
        (c,), (d,) = item.tolist()
        a, b = (a ^ c) * _A0 & _MASK, (b ^ d) * _A1 & _MASK
        a, b = a ^ a >> 29, b ^ b >> 29
        a, b = a + b * _B0 & _MASK, b + a * _B1 & _MASK
        a, b = a ^ a >> 32, b ^ b >> 32
        return np.array(((a * _B0 & _MASK,), (b * _B1 & _MASK,)), dtype=np.uint64)
    if size > 2 * MANY:
        return in_blocks(mix, size // 2, MANY // 2, acc, item)
    x: Hash = acc ^ item
    m1, m2 = _factors(size // 2)
    multiply(x, m1, x)
    t = right_shift(x, _S1)
    bitwise_xor(x, t, x)
    multiply(x[::-1], m2, t)
    add(x, t, x)
    right_shift(x, _S2, t)
    bitwise_xor(x, t, x)
    multiply(x, m2, x)
    return x


def finish(x: Hash) -> Hash:
    """Scatter a sum of hashes."""
    size = x.size
    if size == 2:
        (a,), (b,) = x.tolist()
        a, b = (a ^ a >> 32) * _A0 & _MASK, (b ^ b >> 32) * _A1 & _MASK
        a, b = a + b * _B0 & _MASK, b + a * _B1 & _MASK
        return np.array(((a ^ a >> 29,), (b ^ b >> 29,)), dtype=np.uint64)
    if size > 2 * MANY:
        return in_blocks(finish, size // 2, MANY // 2, x)
    m1, m2 = _factors(size // 2)
    t = right_shift(x, _S2)
    x = bitwise_xor(x, t)
    multiply(x, m1, x)
    multiply(x[::-1], m2, t)
    add(x, t, x)
    right_shift(x, _S1, t)
    bitwise_xor(x, t, x)
    return x


def in_blocks(step: Callable[..., Hash], count: int, size: int, *hashes: Hash) -> Hash:
    """Return what a step makes of hashes [..., 1 | count], `size` columns at a time."""
    out = np.empty((2, count), dtype=np.uint64)
    for at in range(0, count, size):
        block = slice(at, at + size)
        out[:, block] = step(*(h if h.shape[-1] == 1 else h[..., block] for h in hashes))
    return out


@lru_cache(maxsize=1024)
def _factors(count: int) -> tuple[Hash, Hash]:
    """Return the factors of `mix` in the shape of few hashes: faster than stretching them."""
    if count > FEW:
        return _M1, _M2
    m1, m2 = (np.ascontiguousarray(np.broadcast_to(m, (2, count))) for m in (_M1, _M2))
    return m1, m2


def ordered(tag: Hash, items: list[Hash]) -> Hash:
    """Hash a sequence."""
    for item in items:
        tag = mix(tag, item)
    return tag


def unordered(tag: Hash, items: list[Hash]) -> Hash:
    """Hash a multiset, lane by lane."""
    total = mix(tag, items[0])
    for item in items[1:]:
        total = total + mix(tag, item)
    return mix(tag, finish(total))


def hash_ints(tag: Hash, values: Any) -> Hash:
    """Hash one integer for each lane (int64 array) or one for all (python int)."""
    if isinstance(values, np.ndarray):
        pair = np.empty((2, len(values)), dtype=np.uint64)
        pair[0] = values.astype(np.int64, copy=False).view(np.uint64)
        np.multiply(pair[0], _SPREAD, pair[1])
        return mix(tag, pair)
    if -(1 << 63) <= values < 1 << 64:
        low = values & 0xFFFFFFFFFFFFFFFF
        words = [[low], [low * 0x9FB21C651E98DF25 & 0xFFFFFFFFFFFFFFFF]]
        return mix(tag, np.array(words, dtype=np.uint64))
    return mix(tag, key(f"int {values}"))


def collapse(h: Hash) -> Hash:
    """Return shape [2, 1] where all lanes agree."""
    return h[:, :1].copy() if agree(h) else h


def agree(h: Hash) -> bool:
    """Tell whether several lanes, the last axis, hold one hash (or one row of hashes)."""
    return h.shape[-1] > 1 and h.item(0) == h.item(1) and every(h == h[..., :1])


def kinds(h: Hash) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where each hash stands first, and for each column which of these it is."""
    if h.shape[1] == 1:
        return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    first, where = np.unique(h[0], return_index=True, return_inverse=True)[1:]
    told = h.take(first, axis=1).take(where, axis=1)
    if some(told != h):  # the first words do not tell them apart
        first, where = np.unique(h, axis=1, return_index=True, return_inverse=True)[1:]
    return first.astype(np.int64), where.ravel().astype(np.int64)


def hex_of(h: Hash, lane: int = 0) -> str:
    """Return the 32 hex digits of one lane's hash."""
    column = h[:, lane if h.shape[1] > 1 else 0]
    return f"{int(column[0]):016x}{int(column[1]):016x}"
