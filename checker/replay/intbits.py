"""Integer core operations on known bits (numpy uint64, values below 2**width).

In: operation name, attribute, bit arrays. Out: bit arrays (bool for predicates). Division by zero
gives all ones. Pure functions of the arrays; nothing here knows hashes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["BITS", "signed"]

A = Any  # NDArray of uint64 or bool
U = np.uint64
_FN = Callable[..., Any]


def _m(w: int) -> np.uint64:
    return U((1 << w) - 1)


def signed(a: A, w: int) -> Any:
    """Two's complement value of w-bit words."""
    if w == 64:
        return a.astype(np.uint64).view(np.int64)
    s = U(1 << (w - 1))
    return ((a.astype(np.uint64) ^ s) - s).view(np.int64)


def _u(a: A, w: int) -> A:
    return np.ascontiguousarray(a).view(np.uint64) & _m(w)


def _b(a: A) -> A:
    return a.astype(np.uint64) if a.dtype == np.bool_ else a


def _mulhi_u(a: A, b: A, w: int) -> A:
    if w <= 32:
        return (a * b) >> U(w)
    lo, hi = U(0xFFFFFFFF), U(32)
    a0, a1, b0, b1 = a & lo, a >> hi, b & lo, b >> hi
    t = a1 * b0 + ((a0 * b0) >> hi)
    u = a0 * b1 + (t & lo)
    return a1 * b1 + (t >> hi) + (u >> hi)


def _mulhi_s(a: A, b: A, w: int) -> A:
    if w <= 32:
        return _u((signed(a, w) * signed(b, w)) >> np.int64(w), w)
    top = U(63)
    return (_mulhi_u(a, b, 64) - np.where(a >> top != 0, b, U(0))
            - np.where(b >> top != 0, a, U(0)))


def _divide(a: A, b: A, w: int) -> tuple[A, A]:
    safe = np.where(b == 0, U(1), b)
    q = np.where(b == 0, _m(w), a // safe)
    return q, np.where(b == 0, a, a % safe)


def _divide_s(a: A, b: A, w: int) -> tuple[A, A]:
    top = U(1 << (w - 1))
    na, nb = (a & top) != 0, (b & top) != 0
    q, r = _divide(np.where(na, U(0) - a, a) & _m(w), np.where(nb, U(0) - b, b) & _m(w), w)
    q = np.where((na ^ nb) & (b != 0), U(0) - q, q)
    return q & _m(w), np.where(na, U(0) - r, r) & _m(w)


def _shl(a: A, n: A, w: int) -> A:
    n = n & U(0xFFFFFFFF)
    return np.where(n < w, a << np.minimum(n, U(63)), U(0)) & _m(w)


def _shr_u(a: A, n: A, w: int) -> A:
    n = n & U(0xFFFFFFFF)
    return np.where(n < w, a >> np.minimum(n, U(63)), U(0))


def _shr_s(a: A, n: A, w: int) -> A:
    n = np.minimum(n & U(0xFFFFFFFF), U(w - 1))
    return _u(signed(a, w) >> n.astype(np.int64), w)


def _popc(a: A, w: int) -> A:
    return np.bitwise_count(_b(a)).astype(np.uint64)


def _bit_length(a: A) -> A:
    out = np.zeros_like(a)
    for step in (32, 16, 8, 4, 2, 1):
        big = a >> U(step) != 0
        out = out + np.where(big, U(step), U(0))
        a = np.where(big, a >> U(step), a)
    return out + a


def _brev(a: A, w: int) -> A:
    out = np.zeros_like(a)
    for i in range(w):
        out |= ((a >> U(i)) & U(1)) << U(w - 1 - i)
    return out


def _bfind(a: A, w: int, is_signed: bool) -> A:
    if is_signed:
        a = np.where(a >> U(w - 1) != 0, ~a & _m(w), a)
    return np.where(a == 0, U(0xFFFFFFFF), _bit_length(a) - U(1))


def _bfe_u(a: A, pos: A, length: A, w: int) -> A:
    pos, length = pos & U(0xFF), length & U(0xFF)
    shifted = np.where(pos < w, a >> np.minimum(pos, U(63)), U(0))
    keep = np.where(length < 64, (U(1) << np.minimum(length, U(63))) - U(1), _m(64))
    return shifted & keep & _m(w)


def _bfe_s(a: A, pos: A, length: A, w: int) -> A:
    pos, length = pos & U(0xFF), length & U(0xFF)
    out = _bfe_u(a, pos, length, w)
    at = np.minimum(pos + length - U(1), U(w - 1))
    sign = np.where(length == 0, U(0), (a >> at) & U(1))
    end = np.minimum(length, U(w))
    fill = np.where(end < w, (_m(w) >> np.minimum(end, U(63))) << np.minimum(end, U(63)), U(0))
    # bits beyond the top of `a` are the sign as well
    over = np.where(pos + length > w, np.where(pos < w, U(w) - np.minimum(pos, U(w)), U(0)), end)
    fill = np.where(over < w, _m(w) & ~((U(1) << np.minimum(over, U(63))) - U(1)), fill)
    return np.where(sign != 0, out | fill, out) & _m(w)


def _bfi(f: A, base: A, pos: A, length: A, w: int) -> A:
    pos, length = pos & U(0xFF), length & U(0xFF)
    ones = np.where(length < 64, (U(1) << np.minimum(length, U(63))) - U(1), _m(64))
    field = np.where(pos < w, ones << np.minimum(pos, U(63)), U(0)) & _m(w)
    return (base & ~field) | ((f << np.minimum(pos, U(63))) & field)


def _fshl(lo: A, hi: A, n: A, mode: str) -> A:
    n = n & U(31) if mode == "wrap" else np.minimum(n & U(0xFFFFFFFF), U(32))
    both = (hi << U(32)) | lo
    return np.where(n == 32, lo, ((both << np.minimum(n, U(31))) >> U(32))) & _m(32)


def _fshr(lo: A, hi: A, n: A, mode: str) -> A:
    n = n & U(31) if mode == "wrap" else np.minimum(n & U(0xFFFFFFFF), U(32))
    return (((hi << U(32)) | lo) >> n) & _m(32)


def _lop3(a: A, b: A, c: A, lut: int) -> A:
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), dtype=np.uint64)
    for i in range(8):
        if lut >> i & 1:
            out = out | ((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c))
    return out & _m(32)


def _sat(a: A, b: A, kind: str, minus: bool) -> A:
    w = int(kind[1:])
    if kind[0] == "u":
        if minus:
            return np.where(a > b, a - b, U(0))
        total = a + b
        return np.where((total > _m(w)) | (total < a), _m(w), total)
    x, y = signed(a, w), signed(b, w)
    total = x - y if minus else x + y
    if w == 64:
        over = ((x ^ total) & ((x ^ y) if minus else (y ^ total))) < 0
        return _u(np.where(over, np.where(x < 0, np.int64(-(2**63)), np.int64(2**63 - 1)), total),
                  64)
    return _u(np.clip(total, -(1 << (w - 1)), (1 << (w - 1)) - 1), w)


def _bytes_of(a: A, kind: str, step: int, i: int) -> A:
    part = (a >> U(step * i)) & _m(step)
    return signed(part, step) if kind.startswith("s") else part.astype(np.int64)


def _dp4a(a: A, b: A, c: A, attr: tuple[str, str, bool]) -> A:
    at, bt, _ = attr
    total = c.astype(np.int64)
    for i in range(4):
        total = total + _bytes_of(a, at, 8, i) * _bytes_of(b, bt, 8, i)
    return _u(total, 32)


def _dp2a(a: A, b: A, c: A, attr: tuple[str, str, bool]) -> A:
    at, bt, hi = attr
    total = c.astype(np.int64)
    for i in range(2):
        total = total + _bytes_of(a, at, 16, i) * _bytes_of(b, bt, 8, i + (2 if hi else 0))
    return _u(total, 32)


def _icmp(a: A, b: A, attr: Any) -> A:
    a, b = _b(a), _b(b)
    if attr.type[0] == "s" and attr.cond not in ("eq", "ne"):
        w = int(attr.type[1:])
        a, b = signed(a, w), signed(b, w)
    return {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal}[attr.cond](a, b)


def _carry(a: A, b: A, c: A, w: int) -> A:
    if w < 64:
        return ((a + b + _b(c)) >> U(w)) != 0
    total = a + b
    return (total < a) | ((total + _b(c)) < total)


def _borrow(a: A, b: A, c: A, w: int) -> A:
    return (a < b) | ((a == b) & (_b(c) != 0))


def _prmt(a: A, b: A, sel: A, mode: str) -> A:
    both = (b << U(32)) | a
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, sel.shape), dtype=np.uint64)
    for i in range(4):
        which = prmt_index(sel, mode, i)
        byte = (both >> (which & U(7)) * U(8)) & U(0xFF)
        byte = np.where((which & U(8)) != 0, np.where(byte & U(0x80), U(0xFF), U(0)), byte)
        out = out | byte << U(8 * i)
    return out


def prmt_index(sel: A, mode: str, i: int) -> A:
    """Which byte of {b, a} result byte i takes; bit 3: replicate its sign."""
    s = sel & U(3)
    if mode == "":
        return (sel >> U(4 * i)) & U(15)
    if mode == "f4e":
        return s + U(i)
    if mode == "b4e":
        return (s + U(8 - i)) & U(7)
    if mode == "rc8":
        return s
    if mode == "ecl":
        return np.maximum(s, U(i))
    if mode == "ecr":
        return np.minimum(s, U(i))
    return (s & U(1)) * U(2) + U(i & 1)  # rc16


BITS: dict[str, _FN] = {
    "iadd": lambda a, b, w: (a + b) & _m(w),
    "isub": lambda a, b, w: (a - b) & _m(w),
    "imul": lambda a, b, w: (a * b) & _m(w),
    "iand": lambda a, b, w: a & b,
    "ior": lambda a, b, w: a | b,
    "ixor": lambda a, b, w: a ^ b,
    "imin_u": lambda a, b, w: np.minimum(a, b),
    "imax_u": lambda a, b, w: np.maximum(a, b),
    "imin_s": lambda a, b, w: np.where(signed(a, w) < signed(b, w), a, b),
    "imax_s": lambda a, b, w: np.where(signed(a, w) > signed(b, w), a, b),
    "imulhi_u": _mulhi_u,
    "imulhi_s": _mulhi_s,
    "imulwide_u": lambda a, b, w: a * b,
    "imulwide_s": lambda a, b, w: _u(signed(a, w) * signed(b, w), 2 * w),
    "idiv_u": lambda a, b, w: _divide(a, b, w)[0],
    "irem_u": lambda a, b, w: _divide(a, b, w)[1],
    "idiv_s": lambda a, b, w: _divide_s(a, b, w)[0],
    "irem_s": lambda a, b, w: _divide_s(a, b, w)[1],
    "ineg": lambda a, w: (U(0) - a) & _m(w),
    "inot": lambda a, w: ~a if a.dtype == np.bool_ else ~a & _m(w),
    "iabs": lambda a, w: np.where(a >> U(w - 1) != 0, U(0) - a, a) & _m(w),
    "popc": _popc,
    "clz": lambda a, w: U(w) - _bit_length(a),
    "brev": _brev,
    "bfind_u": lambda a, w: _bfind(a, w, False),
    "bfind_s": lambda a, w: _bfind(a, w, True),
    "shl": _shl, "shr_u": _shr_u, "shr_s": _shr_s,
    "bfe_u": _bfe_u, "bfe_s": _bfe_s, "bfi": _bfi,
    "fshl": _fshl, "fshr": _fshr, "lop3": _lop3,
    "isad_u": lambda a, b, c, w: (c + (np.maximum(a, b) - np.minimum(a, b))) & _m(w),
    "isad_s": lambda a, b, c, w: _u(signed(c, w) + abs(signed(a, w) - signed(b, w)), w),
    "iadd_sat": lambda a, b, kind: _sat(a, b, kind, False),
    "isub_sat": lambda a, b, kind: _sat(a, b, kind, True),
    "dp4a": _dp4a, "dp2a": _dp2a,
    "icmp": _icmp, "carry": _carry, "borrow": _borrow,
    "pand": lambda p, q, _: p & q, "por": lambda p, q, _: p | q, "pxor": lambda p, q, _: p ^ q,
    "pnot": lambda p, _: ~p,
    "zext": lambda a, attr: _b(a),
    "sext": lambda a, attr: _u(signed(_b(a), attr[0]), attr[1]),
    "prmt": _prmt,
}
