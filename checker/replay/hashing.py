"""128-bit hashes of dependence trees as numpy arrays of shape (2, ...) uint64.

In: arrays of child hashes and key constants. Out: arrays of the same lane shape. `mix` is a
bijection; keys come from xxh3-128 of text, so hashes are stable across machines and runs.
`shift_form`/extraction offsets are plain additions, so that they can be undone and compose.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = [
    "FLIP", "TAG", "UNDEF_TAG", "U64", "combine", "combine_all", "const_hash", "digest_pair",
    "extract_offset", "flip", "is_flipped", "key", "leaf_table", "mix", "representative",
    "symmetric",
]

U64 = NDArray[np.uint64]

_BLOCK = 8192  # lanes that are hashed at a time
_SMALL = 4096  # words of arrays for which the constants are written out
_KEPT = 1 << 18  # elements of the largest table of leaves that is kept
_S32, _S29 = np.uint64(32), np.uint64(29)
_TOP = np.uint64(1 << 63)


def _pair(text: str) -> U64:
    """Two 64-bit words from a text, shape (2,)."""
    value = xxhash.xxh3_128_intdigest(text.encode())
    return np.array([value >> 64, value & (2**64 - 1)], dtype=np.uint64)


@cache
def key(text: str) -> U64:
    """The key constant of an operation or attribute, shape (2, 1, 1)."""
    return _pair("samebits " + text).reshape(2, 1, 1)


def digest_pair(text: str) -> tuple[int, int]:
    """The key constant as two Python integers."""
    pair = _pair("samebits " + text)
    return int(pair[0]), int(pair[1])


_ONE = np.uint64(1)
_K1 = key("mix 1") | _ONE
_K2 = key("mix 2") | _ONE
_KA = key("child a") | _ONE
_KB = key("child b") | _ONE
_TSYM = key("symmetric")
_FLIP0 = key("sign flip").copy()
_FLIP0[1] |= _TOP
FLIP: U64 = _FLIP0
TAG = np.uint64(digest_pair("concrete tag")[0] & ~1)  # word 0 of a value whose bits are known
UNDEF_TAG = np.uint64(digest_pair("undefined tag")[0])
_P = key("extract position") | _ONE
_Q = key("extract width") | _ONE


class _Constants(NamedTuple):
    """What is multiplied and added, for arrays of one shape."""

    k1: U64
    k2: U64
    a: U64
    b: U64
    symmetric: U64
    flip: U64


@lru_cache(maxsize=64)
def _constants(shape: tuple[int, ...]) -> _Constants:
    """Written out where that is small: numpy takes half the time for two arrays of one shape."""
    fitted = [k.reshape((2,) + (1,) * (len(shape) - 1)) for k in (_K1, _K2, _KA, _KB, _TSYM, FLIP)]
    if prod(shape) <= _SMALL:
        fitted = [np.broadcast_to(k, shape).copy() for k in fitted]
    return _Constants(*fitted)


def mix(x: U64) -> U64:
    """A bijection of 128-bit words with full diffusion across both halves."""
    return _mixed(x.copy())


def _mixed(x: U64) -> U64:
    """`mix` in place, of an array that nobody else sees."""
    k = _constants(x.shape)
    _stir(x, x[::-1], np.empty_like(x), k.k1, k.k2)
    return x


def _stir(x: U64, other: U64, t: U64, k1: U64, k2: U64) -> None:
    """The rounds of `mix`; other: the words of `x` swapped, t: room for as many."""
    np.right_shift(other, _S32, out=t)
    x ^= t
    x *= k1
    np.right_shift(other, _S29, out=t)
    x ^= t
    x *= k2
    np.right_shift(other, _S32, out=t)
    x ^= t


def _fit(k: U64, x: U64) -> U64:
    """A (2, 1, 1) constant for arrays of another number of dimensions."""
    return k if x.ndim == 3 else k.reshape((2,) + (1,) * (x.ndim - 1))


def combine(k: U64, a: U64, b: U64 | None = None) -> U64:
    """Hash of an operation over one child or two ordered ones."""
    if a.size >= 2 * _BLOCK and k.size == 2 and a[0].flags.c_contiguous and (
            b is None or (b.shape == a.shape and b[0].flags.c_contiguous)):
        return _combine_blocks(k.reshape(2, 1), a.reshape(2, -1),
                               None if b is None else b.reshape(2, -1)).reshape(a.shape)
    x = a * _constants(a.shape).a
    if b is not None:
        y = b * _constants(b.shape).b
        if x.shape == y.shape:
            x += y
        else:
            x = x + y
    fitted = _fit(k, x)
    if fitted.ndim == x.ndim and fitted.shape[1:] == (1,) * (x.ndim - 1):
        x += fitted
        return _mixed(x)
    return _mixed(x + fitted)


def _combine_blocks(k: U64, a: U64, b: U64 | None) -> U64:
    """`combine` of rows (2, n), as much at a time as stays in the cache."""
    out = np.empty(a.shape, dtype=np.uint64)
    ka, kb, k1, k2 = (c.reshape(2, 1) for c in (_KA, _KB, _K1, _K2))
    t = np.empty((2, _BLOCK), dtype=np.uint64)
    for at in range(0, a.shape[1], _BLOCK):
        x = out[:, at : at + _BLOCK]
        y = t[:, : x.shape[1]]
        np.multiply(a[:, at : at + _BLOCK], ka, out=x)
        if b is not None:
            np.multiply(b[:, at : at + _BLOCK], kb, out=y)
            x += y
        x += k
        _stir(x, x[::-1], y, k1, k2)
    return out


def combine_all(k: U64, children: list[U64]) -> U64:
    """Hash of an operation over any number of ordered children."""
    if not children:
        return mix(k)
    x = combine(k, children[0])
    for child in children[1:]:
        x = combine(k, x, child)
    return x


def symmetric(k: U64, a: U64, b: U64) -> U64:
    """Hash of an operation whose two children commute: a product and a sum decide the pair.

    The product alone would not do: where one factor is even, the top bit of the other is lost, and
    literals differ in one word only. Their sum goes into the other word.
    """
    x, y = a + _constants(a.shape).symmetric, b + _constants(b.shape).symmetric
    total = a + b
    if not x.shape == y.shape == total.shape:
        return mix(x * y + total[::-1] + _fit(k, a))
    x *= y
    x += total[::-1]
    x += _fit(k, a)
    return _mixed(x)


def const_hash(bits: U64) -> U64:
    """Hash of a value whose bits are known: (TAG, bits)."""
    out = np.empty((2, *bits.shape), dtype=np.uint64)
    out[0] = TAG
    out[1] = bits
    return out


def flip(h: U64) -> U64:
    """Hash of the value with its top bit inverted (float negation, predicate not)."""
    return h ^ _constants(h.shape).flip


def is_flipped(h: U64) -> NDArray[np.bool_]:
    """Which of {x, flip(x)} this hash is; arbitrary but fixed."""
    return np.asarray(h[1] >= _TOP)


def representative(h: U64) -> tuple[U64, NDArray[np.bool_]]:
    """The chosen one of {x, flip(x)} and whether `h` was the other."""
    neg = is_flipped(h)
    return np.where(neg, flip(h), h), neg


@cache
def extract_offset(lo: int, width: int, whole: int) -> U64:
    """What extraction of `width` bits at `lo` out of `whole` adds to a hash; composes."""
    return (_P * np.uint64(lo % 2**64) + _Q * np.uint64((width - whole) % 2**64)).reshape(2, 1, 1)


def leaf_table(name: str, count: int, elem_bytes: int) -> U64:
    """Hashes (2, count) of the elements of an input buffer; not to be written to."""
    table = _leaf_table if count <= _KEPT else _leaf_table.__wrapped__
    return table(name, count, elem_bytes)


@lru_cache(maxsize=16)  # the kernels of a sweep share their launch
def _leaf_table(name: str, count: int, elem_bytes: int) -> U64:
    index = np.arange(count, dtype=np.uint64) * np.uint64(elem_bytes)
    base = np.empty((2, 1, count), dtype=np.uint64)
    base[0] = index
    base[1] = index + _ONE
    out = combine(key(f"leaf {name} {elem_bytes}"), base).reshape(2, count)
    out.flags.writeable = False
    return out


def hash_bytes(data: bytes) -> str:
    """32 hex digits of xxh3-128."""
    return str(xxhash.xxh3_128_hexdigest(data))


def as_any(x: Any) -> Any:
    """Identity (typing escape for numpy's stubs)."""
    return x
