"""Input data that is the same on every machine, for every numpy: draws as raw bits.

A counter-based integer hash (the splitmix64 finaliser over stream and index) is the only source of
randomness; floats are built from its bits or rounded by integer code, so no libm, no torch and no
generator state is involved. ``draw`` gives the raw bits of one buffer. Kinds reveal order: see
``KINDS``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[Any]

#: kind -> why it is drawn
KINDS: Mapping[str, str] = {
    "normal": "bell-shaped, moderate exponents: the everyday case",
    "wide": "exponents uniform over a wide range: absorption and double rounding",
    "sparse": "seven of eight elements are zero: masked tails and skipped terms",
    "cancel": "second half of the reduced axis is the negated, permuted first half plus noise",
    "tiny": "signed zeros and subnormals: flushes, signs of zero",
    "special": "normal, with a few infinities and NaNs",
    "huge": "normal, with values near overflow",
    "edge": "half of the values in the three highest exponents: overflow that a fused step avoids",
    "span": "exponents over the whole range: products that underflow, or are subnormal",
    "faint": "the eight smallest exponents: sums and products at the lower end",
    "level": "sizes within a factor of 1.5 of one: products of many neither overflow nor vanish",
    "spikes": "small values around a few large ones of both signs: what is absorbed, and when",
}

#: float dtype -> (exponent bits, mantissa bits, bias)
FORMATS: Mapping[str, tuple[int, int, int]] = {
    "f64": (11, 52, 1023),
    "f32": (8, 23, 127),
    "bf16": (8, 7, 127),
    "f16": (5, 10, 15),
    "e5m2": (5, 2, 15),
    "e4m3": (4, 3, 7),
}

#: dtype -> numpy type of its raw bits
RAW: Mapping[str, type[np.unsignedinteger[Any]]] = {
    "f64": np.uint64, "f32": np.uint32, "bf16": np.uint16, "f16": np.uint16, "e5m2": np.uint8,
    "e4m3": np.uint8, "i8": np.uint8, "u8": np.uint8, "i16": np.uint16, "i32": np.uint32,
    "u32": np.uint32, "i64": np.uint64,
}


def mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser, element by element."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def words(stream: str, n: int) -> NDArray[np.uint64]:
    """``n`` hashed 64-bit words of a named stream."""
    salt = np.uint64(zlib.crc32(stream.encode()) | (zlib.crc32(stream[::-1].encode()) << 32))
    with np.errstate(over="ignore"):
        counter = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return mix(mix(counter ^ salt) + salt)


def indices(stream: str, n: int, below: int) -> tuple[int, ...]:
    """``n`` integers in [0, below): index data for gathers."""
    return tuple(int(v) for v in words(stream, n) % np.uint64(below))


def _bell(w: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Sum four uniform 16-bit integers, centred, unit variance: exact but for one product."""
    total = np.zeros(w.shape, np.int64)
    for shift in (0, 16, 32, 48):
        total += ((w >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    return (total - 131070).astype(np.float64) * (1.0 / 37837.0)


def round_to(dtype: str, x: NDArray[np.float64]) -> Bits:
    """Round finite float64 values to ``dtype`` (nearest, ties to even); overflow gives infinity.

    e4m3 has no infinity and saturates to its largest finite value, 448.
    """
    ebits, mbits, bias = FORMATS[dtype]
    bits = x.view(np.uint64)
    sign = (bits >> np.uint64(63)).astype(np.uint64)
    exponent = ((bits >> np.uint64(52)) & np.uint64(0x7FF)).astype(np.int64)
    mantissa = bits & np.uint64((1 << 52) - 1)
    full = np.where(exponent > 0, mantissa | np.uint64(1 << 52), mantissa)
    e = np.maximum(exponent, 1) - 1023
    low = 1 - bias
    # Bits to drop: the format's precision, and more below its smallest normal exponent.
    drop = np.minimum(52 - mbits + np.maximum(low - e, 0), 63).astype(np.uint64)
    kept = full >> drop
    rest = full - (kept << drop)
    half = np.uint64(1) << np.where(drop > 0, drop - np.uint64(1), np.uint64(0))
    up = (rest > half) | ((rest == half) & ((kept & np.uint64(1)) == 1))
    kept = kept + np.where((drop > 0) & up, np.uint64(1), np.uint64(0))
    # Adding the field arithmetically lets a carry run into the exponent.
    field = (np.maximum(e, low) - low).astype(np.uint64) << np.uint64(mbits)
    magnitude = field + kept
    if dtype == "e4m3":
        top = np.uint64(0x7E)
    else:
        top = np.uint64(((1 << ebits) - 1) << mbits)
    magnitude = np.minimum(magnitude, top)
    out: Bits = (magnitude | (sign << np.uint64(ebits + mbits))).astype(RAW[dtype])
    return out


def _wide(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Random sign and mantissa, exponent uniform around one."""
    ebits, mbits, bias = FORMATS[dtype]
    spread = {"f64": 40, "f32": 20, "bf16": 20, "f16": 9, "e5m2": 9, "e4m3": 5}[dtype]
    exponent = bias - spread + (w % np.uint64(2 * spread + 1)).astype(np.int64)
    exponent = np.clip(exponent, 1, (1 << ebits) - 2).astype(np.uint64)
    mantissa = (w >> np.uint64(8)) & np.uint64((1 << mbits) - 1)
    sign = w >> np.uint64(63)
    raw = (sign << np.uint64(ebits + mbits)) | (exponent << np.uint64(mbits)) | mantissa
    return raw.astype(RAW[dtype])


def _span(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Random sign and mantissa; one exponent in two is uniform over all, subnormal ones included.

    The other half lies around the square root of the smallest normal number, so that products of
    two are subnormal.
    """
    ebits, mbits, bias = FORMATS[dtype]
    pick = (w >> np.uint64(48)) & np.uint64(1)
    every = (w >> np.uint64(32)) % np.uint64((1 << ebits) - 1)
    middle = np.uint64(bias - bias // 2 - mbits // 2) + (w >> np.uint64(32)) % np.uint64(mbits)
    exponent = np.where(pick == 0, every, middle)
    mantissa = (w >> np.uint64(8)) & np.uint64((1 << mbits) - 1)
    if dtype == "e4m3":
        mantissa = mantissa & ~np.uint64(1)  # the last one of the top exponent is NaN
    sign = w >> np.uint64(63)
    raw = (sign << np.uint64(ebits + mbits)) | (exponent << np.uint64(mbits)) | mantissa
    out: Bits = raw.astype(RAW[dtype])
    return out


def _faint(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Random sign and mantissa, one of the eight smallest exponents (0: subnormal), no zero."""
    ebits, mbits, _ = FORMATS[dtype]
    exponent = (w >> np.uint64(40)) % np.uint64(8)
    mantissa = (w >> np.uint64(8)) & np.uint64((1 << mbits) - 1) | np.uint64(1)
    sign = w >> np.uint64(63)
    out: Bits = ((sign << np.uint64(ebits + mbits)) | (exponent << np.uint64(mbits))
                 | mantissa).astype(RAW[dtype])
    return out


def bits_of_bell(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Bell-shaped values of moderate size."""
    return round_to(dtype, _bell(w))


def _edge(dtype: str, bits: Bits, pick: NDArray[np.uint64]) -> Bits:
    """Give half of the values one of the three highest finite exponents, sign and mantissa kept."""
    ebits, mbits, _ = FORMATS[dtype]
    one = bits.dtype.type
    top = (1 << ebits) - (1 if dtype == "e4m3" else 2)
    exponent = (np.uint64(top) - (pick >> np.uint64(8)) % np.uint64(3)).astype(bits.dtype)
    kept = bits & one((1 << (ebits + mbits)) | ((1 << mbits) - 1))
    if dtype == "e4m3":
        kept = kept & one(0xFE)
    return np.where(pick % np.uint64(2) == 0, kept | (exponent << one(mbits)), bits)


def _spikes(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """One element in eight is +L or -L, the rest about L * 2**-(mantissa bits + 1)."""
    _, mbits, _ = FORMATS[dtype]
    large = 2.0 ** {"f64": 30, "f32": 13, "bf16": 6, "f16": 7, "e5m2": 4, "e4m3": 4}[dtype]
    x = _bell(mix(w)) * large * 2.0 ** -min(mbits + 1, 24)
    sign = np.where(w >> np.uint64(63), -1.0, 1.0)
    return round_to(dtype, np.where(w % np.uint64(8) == 0, sign * large, x))


def _level(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Random sign; a size between 1 and 1.5, or one over such a size."""
    size = 1.0 + ((w >> np.uint64(8)) % np.uint64(4096)).astype(np.float64) * 2.0**-13
    size = np.where(w & np.uint64(1), 1.0 / size, size)
    return round_to(dtype, np.where(w >> np.uint64(63), -size, size))


def _tiny(dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Zeros of both signs, subnormals and the smallest normals."""
    ebits, mbits, _ = FORMATS[dtype]
    pick = (w >> np.uint64(8)) & np.uint64(3)
    mantissa = (w >> np.uint64(10)) & np.uint64((1 << (mbits + 1)) - 1)
    raw = np.where(pick < 2, np.uint64(0), np.where(pick == 2, mantissa >> np.uint64(1), mantissa))
    out: Bits = (raw | ((w >> np.uint64(63)) << np.uint64(ebits + mbits))).astype(RAW[dtype])
    return out


def _mirror(bits: Bits, dtype: str, stream: str, axis: tuple[int, int, int], sign: int,
            noise: NDArray[np.uint64]) -> Bits:
    """Overwrite the second half of the reduced axis by the permuted, signed first half."""
    outer, reduced, inner = axis
    half = reduced // 2
    view = bits.reshape(outer, reduced, inner).copy()
    order = np.argsort(words(stream, half), kind="stable")
    image = view[:, order, :]
    ebits, mbits, _ = FORMATS[dtype]
    if sign < 0:
        image = image ^ image.dtype.type(1 << (ebits + mbits))
        # A little noise in the last place of one element in four keeps the sum from being zero.
        flip = (noise.reshape(outer, reduced, inner)[:, :half, :] >> np.uint64(40)) % np.uint64(4)
        image = image ^ (flip == 0).astype(image.dtype)
    view[:, half : 2 * half, :] = image
    return view.reshape(-1)


def draw(kind: str, seed: int, buffer: Mapping[str, Any], launch: int = 0) -> Bits:
    """The raw bits of one buffer of a launch, from its launch facts (``corpus.compile``).

    The stream depends on kind, seed, buffer name and launch index only. Integer buffers ignore the
    kind's float meaning: ``tiny`` gives small numbers, ``huge`` the extremes, else uniform bits.
    What ought to be positive (a scale, say) is of everyday size but for ``edge`` and ``span``.
    """
    dtype, n, name = buffer["dtype"], int(buffer["elements"]), buffer["buffer"]
    if "values" in buffer:
        return np.array(buffer["values"], dtype=np.int64).astype(RAW[dtype])
    if buffer.get("init", {}).get("kind") == "zeros":
        return np.zeros(n, RAW[dtype])
    stream = f"{kind}/{seed}/{launch}/{name}"
    w = words(stream, n)
    hints = buffer.get("draw", {})
    if dtype not in FORMATS:
        return _integers(kind, dtype, w)
    if hints.get("positive") and kind in ("edge", "span"):
        ebits, mbits, _ = FORMATS[dtype]
        signed = draw(kind, seed, {**buffer, "draw": {}}, launch)
        size: Bits = signed & signed.dtype.type((1 << (ebits + mbits)) - 1)
        return size
    if hints.get("positive"):
        return round_to(dtype, np.abs(_bell(w)) * 0.125 + 2.0**-6)
    if kind == "wide":
        return _wide(dtype, w)
    if kind == "faint":
        return _faint(dtype, w)
    if kind == "span":
        return _span(dtype, w)
    if kind == "edge":
        return _edge(dtype, bits_of_bell(dtype, w), mix(w))
    if kind == "spikes":
        return _spikes(dtype, w)
    if kind == "tiny":
        return _tiny(dtype, w)
    if kind == "level":
        return _level(dtype, w)
    bits = bits_of_bell(dtype, w)
    pick = mix(w)
    if kind == "sparse":
        return np.where(pick % np.uint64(8) == 0, bits, bits.dtype.type(0))
    if kind == "cancel" and "axis" in hints and hints["axis"][1] >= 4:
        o, r, i = hints["axis"]
        return _mirror(bits, dtype, f"order/{kind}/{seed}/{launch}", (o, r, i), hints["mirror"],
                       pick)
    if kind == "special":
        return _special(dtype, bits, pick)
    if kind == "huge":
        ebits, mbits, _ = FORMATS[dtype]
        big = bits.dtype.type(((1 << ebits) - 3) << mbits)
        large = (bits & bits.dtype.type((1 << mbits) - 1)) + big
        large = large | (bits & bits.dtype.type(1 << (ebits + mbits)))
        return np.where(pick % np.uint64(16) == 0, large, bits)
    return bits


def _special(dtype: str, bits: Bits, pick: NDArray[np.uint64]) -> Bits:
    """One element in 512 becomes an infinity, one in 1024 a quiet NaN."""
    ebits, mbits, _ = FORMATS[dtype]
    exponent = ((1 << ebits) - 1) << mbits
    nan = 0x7F if dtype == "e4m3" else exponent | (1 << (mbits - 1))
    inf = 0x7E if dtype == "e4m3" else exponent
    sign = bits & bits.dtype.type(1 << (ebits + mbits))
    bits = np.where(pick % np.uint64(512) == 0, sign | bits.dtype.type(inf), bits)
    return np.where(pick % np.uint64(1024) == 1, bits.dtype.type(nan), bits)


def _integers(kind: str, dtype: str, w: NDArray[np.uint64]) -> Bits:
    """Uniform bits; ``tiny`` keeps -8..7, ``huge`` the extremes, ``sparse`` mostly zeros."""
    raw = (w >> np.uint64(3)).astype(RAW[dtype])
    if kind == "tiny":
        return ((w >> np.uint64(5)) % np.uint64(16)).astype(np.int64).__sub__(8).astype(RAW[dtype])
    if kind == "sparse":
        return np.where(mix(w) % np.uint64(8) == 0, raw, raw.dtype.type(0))
    if kind == "huge":
        width = raw.dtype.itemsize * 8
        low, high = raw.dtype.type(1 << (width - 1)), raw.dtype.type((1 << (width - 1)) - 1)
        raw = np.where((w >> np.uint64(60)) & np.uint64(1) == 1, low, high)
    return raw


def canonical_nans(dtype: str, bits: Bits) -> Bits:
    """Give every NaN one payload: a NaN's payload is outside what is compared."""
    if dtype not in FORMATS:
        return bits
    ebits, mbits, _ = FORMATS[dtype]
    one = bits.dtype.type
    magnitude = bits & one((1 << (ebits + mbits)) - 1)
    if dtype == "e4m3":
        return np.where(magnitude == one(0x7F), one(0x7F), bits)
    infinity = one(((1 << ebits) - 1) << mbits)
    return np.where(magnitude > infinity, infinity | one(1 << (mbits - 1)), bits)
