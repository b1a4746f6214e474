"""On a machine with an H200: compare every model with the card, save what tests need.

    python -m tests.arith.device.measure OUT scalar matrix sweep dump

Needs cupy. Prints one line per disagreement; OUT gets compressed arrays (see the functions).
"""

from __future__ import annotations

import lzma
import sys
import time
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from checker.arith.formats import FORMATS, is_nan
from checker.arith.ops import UnsupportedArithmetic, accurate, apply
from checker.core import Approx, FloatMode

from ..values import below, column, stream
from .matrix_cases import CATEGORIES, KERNELS, expected, operands
from .variants import WIDTH, Variant, all_variants, module

HERE = Path(__file__).parent
UNSIGNED = {16: np.uint16, 32: np.uint32, 64: np.uint64}
KEPT = 384  # results of a variant that are saved
TILES = {16: 64, 8: 64, 64: 16}


def columns(variant: Variant, count: int) -> list[np.ndarray]:
    """The operands of a variant; every twentieth sits where its result is hardly normal."""
    seed = zlib.crc32(variant.text.encode()) % 1_000_000
    out = [column(kind, count, seed + 37 * place).astype(UNSIGNED[WIDTH[kind]])
           for place, kind in enumerate(variant.sources)]
    if variant.name in {"fadd", "fsub", "fmul", "ffma", "fdiv", "fcvt"} \
            and variant.sources[0] in SHAPES:
        _hardly_normal(variant, out, seed)
    return out


# The least normal exponent field is 1: (exponent field, fraction) of operands whose result has a
# magnitude just at 2**emin; `near` is random in the last places.
SHAPES = {"f16": (10, 15), "f32": (23, 127), "f64": (52, 1023)}


def _hardly_normal(variant: Variant, out: list[np.ndarray], seed: int) -> None:
    man, bias = SHAPES[variant.sources[0]]
    width = {"f16": 16, "f32": 32, "f64": 64}[variant.sources[0]]
    count = len(out[0][::20])
    one = np.uint64(1)
    kind = out[0].dtype

    def bits(exp: np.ndarray | int, fraction: np.ndarray, sign: int) -> np.ndarray:
        word = np.asarray(exp).astype(np.uint64) << np.uint64(man) | fraction.astype(np.uint64)
        return (word | (stream(sign, count) & one) << np.uint64(width - 1)).astype(kind)

    last = np.uint64((1 << man) - 1) - below(seed + 1, count, 3).astype(np.uint64)
    first = below(seed + 2, count, 3)
    if variant.name == "fmul":  # 2**emin (1 - few units) by halves, or (2 - e)(2 - e) 2**(emin - 2)
        half = below(seed + 3, count, 2) == 0
        out[0][::20] = np.where(half, bits(1, last, seed + 4), bits(bias // 2, last, seed + 4))
        low = bias - 1, bias - bias // 2 - 1
        out[1][::20] = np.where(half, bits(low[0], first * 0, seed + 5),
                                bits(low[1], last, seed + 5))
    elif variant.name in {"fadd", "fsub"}:
        out[0][::20] = bits(1, first, seed + 4)
        out[1][::20] = bits(0, first, seed + 5)
    elif variant.name == "ffma":  # +-2**emin plus a product around a unit of its last place
        out[0][::20] = bits(bias - man - 4 + below(seed + 6, count, 5), last, seed + 4)
        out[1][::20] = bits(1, first, seed + 5)
        out[2][::20] = bits(1, first * (below(seed + 7, count, 3) == 0), seed + 6)
    elif variant.name == "fdiv":
        out[0][::20] = bits(2, last, seed + 4)
        out[1][::20] = bits(bias + 1, first, seed + 5)
    elif variant.target in {"f32", "f16"} and man > SHAPES.get(variant.target, (99, 0))[0]:
        short, low = SHAPES[variant.target]
        gap = man - short
        fraction = (1 << man) - (one << np.uint64(gap - 3)) * below(seed + 8, count, 24).astype(
            np.uint64)
        exp = np.where(fraction >> np.uint64(man) > 0, bias - low + 1, bias - low)
        out[0][::20] = bits(exp, fraction & np.uint64((1 << man) - 1), seed + 4)


def scalar(out: Path, count: int = 40_000) -> None:
    import cupy

    variants = all_variants()
    path = Path("/tmp/samebits_module.ptx")
    path.write_text(module(variants))
    loaded = cupy.RawModule(path=str(path))  # read on first use
    saved = {}
    for index, variant in enumerate(variants):
        args = columns(variant, count)
        dev = [cupy.asarray(a) for a in args] + [cupy.zeros(1, np.uint32)] * (3 - len(args))
        got = cupy.zeros(count, UNSIGNED[WIDTH[variant.target]])
        loaded.get_function(f"k{index}")((count // 128 + 1,), (128,), (got, *dev, np.uint32(count)))
        bits = got.get()
        saved[f"k{index}"] = bits[:KEPT]
        report(variant, args, bits)
    np.savez_compressed(out / "scalar.npz", **saved)


def one_nan(kind: str, bits: np.ndarray) -> np.ndarray:
    """NaNs as the canonical NaN: payloads are not compared."""
    if kind not in {"f16", "bf16", "f32", "f64"}:
        return bits
    fmt = FORMATS[kind]
    return np.where(is_nan(fmt, bits), bits.dtype.type(fmt.nan), bits)


def report(variant: Variant, args: list[np.ndarray], bits: np.ndarray) -> None:
    try:
        want = apply(variant.name, variant.attr, *args)
    except UnsupportedArithmetic as error:
        print("UNSUPPORTED", variant.text, error)
        return
    width = {"e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8}.get(variant.target, WIDTH[variant.target])
    low = bits & bits.dtype.type((1 << width) - 1)
    low, want = one_nan(variant.target, low), one_nan(variant.target, want.astype(bits.dtype))
    bad = np.flatnonzero(low != want)
    if not len(bad):
        return
    sure = accurate(variant.name, variant.attr, *args)
    sure = int(np.broadcast_to(sure, low.shape)[bad].sum())
    text = [f"({', '.join(hex(int(a[i])) for a in args)}) card {int(low[i]):#x} "
            f"model {int(want[i]):#x}" for i in bad[:: max(1, len(bad) // 4)][:4]]
    print("DIFFERS", variant.text, f"{len(bad)} of {len(low)}, {sure} claimed;", "; ".join(text))


def matrix(out: Path, times: int = 16) -> None:
    import cupy

    loaded = cupy.RawModule(path=str(HERE / "matrix.cubin"))
    saved = {}
    for kernel in KERNELS:
        tiles = TILES[kernel.rows] * times
        a, b, c = operands(kernel, tiles)
        got = cupy.zeros_like(cupy.asarray(c))
        dev = [cupy.asarray(np.ascontiguousarray(x)) for x in (a, b, c)]
        loaded.get_function(kernel.name)((tiles,), (128 if kernel.unit == "wgmma" else 32,),
                                         (got, *dev))
        bits = got.get()
        saved[kernel.name] = bits[: TILES[kernel.rows]]
        want = expected(kernel, a, b, c)
        bad = np.argwhere(one_nan(kernel.acc, bits) != one_nan(kernel.acc, want))
        if len(bad):
            kinds = np.bincount(bad[:, 0] % len(CATEGORIES), minlength=len(CATEGORIES))
            print("DIFFERS", kernel.name, f"{len(bad)} of {bits.size}; by category {kinds}")
            for t, i, j in bad[:: max(1, len(bad) // 6)][:6]:
                print("   ", CATEGORIES[t % len(CATEGORIES)], "card", hex(bits[t, i, j]), "model",
                      hex(want[t, i, j]), "c", hex(c[t, i, j]), "a", [hex(x) for x in a[t, i]],
                      "b", [hex(x) for x in b[t, j]])
        else:
            print("same", kernel.name, bits.size)
    np.savez_compressed(out / "matrix.npz", **saved)


# --- sweeps of whole functions against the model ----------------------------------------------

SHARED = "/tmp/samebits_sweep.bin"
BLOCK = 1 << 27
STRIDE = 32  # one pattern in STRIDE is compared, its place changing from one to the next


def _expected(fn: str, x: np.ndarray) -> np.ndarray:
    name, _, keep = fn.partition("_")
    mode = FloatMode("f32", denorm="keep" if keep else "flush")
    return apply("fapprox", Approx(name + ".approx", "sm_90", mode), x)


def _compare(job: tuple[str, int, int, int]) -> tuple[int, np.ndarray, np.ndarray]:
    fn, start, offset, count = job
    got = np.memmap(SHARED, np.uint32, "r", offset * 4, (count,))
    bad_x, bad_y, total = [], [], 0
    for low in range(0, count, 1 << 18):
        index = np.arange(offset + low, min(offset + low + (1 << 18), offset + count))
        x = (start + index * STRIDE + index % STRIDE).astype(np.uint32)
        y = np.asarray(got[low:low + (1 << 18)])
        wrong = np.flatnonzero(_expected(fn, x) != y)
        total += len(wrong)
        if sum(len(b) for b in bad_x) < 4000:
            bad_x.append(x[wrong[:500]])
            bad_y.append(y[wrong[:500]])
    return total, np.concatenate(bad_x), np.concatenate(bad_y)


def sweep(out: Path, functions: str) -> None:
    """f32 patterns (all, with STRIDE 1) through the unit and through the model."""
    pool = ProcessPoolExecutor(16)
    list(pool.map(_warm, range(32)))
    import cupy

    loaded = cupy.RawModule(code=(HERE / "mufu.cu").read_text())
    shared = np.memmap(SHARED, np.uint32, "w+", 0, (BLOCK // STRIDE,))
    chosen = cupy.arange(BLOCK // STRIDE)
    chosen = chosen * STRIDE + chosen % STRIDE
    saved = {}
    for fn in functions.split(","):
        kernel, began, bad = loaded.get_function(fn), time.time(), 0
        xs, ys = [], []
        for start in range(0, 1 << 32, BLOCK):
            got = cupy.empty(BLOCK, np.uint32)
            kernel((BLOCK // 256,), (256,), (got, np.uint32(start), np.uint64(BLOCK)))
            got[chosen].get(out=shared)
            part = BLOCK // STRIDE // 16
            jobs = [(fn, start, i * part, part) for i in range(16)]
            for total, x, y in pool.map(_compare, jobs):
                bad += total
                if sum(map(len, xs)) < 200_000:
                    xs.append(x)
                    ys.append(y)
        x, y = np.concatenate(xs), np.concatenate(ys)
        saved[fn + "_x"], saved[fn + "_y"] = x, y
        shown = [f"{int(a):#x} -> {int(b):#x}" for a, b in zip(x[:4], y[:4], strict=True)]
        print("SWEEP", fn, bad, f"differ of {2**32 // STRIDE}", f"{time.time() - began:.0f} s",
              *shown, flush=True)
    np.savez_compressed(out / "sweep.npz", **saved)
    Path(SHARED).unlink()


def _warm(_: int) -> None:
    for fn in ("ex2", "rcp", "sqrt_", "rsqrt_", "lg2", "sin_", "tanh_"):
        _expected(fn, np.arange(4, dtype=np.uint32))


# --- raw results of functions that are not modelled yet ----------------------------------------

BINADES = {
    "lg2": [0, -1],
    "tanh_": [-9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2],
    "sin_": [0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, -14, -15, -16, -17, -18,
             -19, -20, -21, -22],
}


def _pack(job: tuple[str, np.ndarray]) -> tuple[str, bytes]:
    """First differences along x, int16 where they fit, byte planes apart, xz."""
    name, bits = job
    diff = np.diff(bits.astype(np.int64), prepend=np.int64(0))
    head, diff = int(diff[0]), diff[1:]
    small = np.abs(diff).max() < 1 << 15
    raw = diff.astype(np.int16 if small else np.int64)
    planes = raw.view(np.uint8).reshape(-1, raw.itemsize).T.copy()
    data = lzma.compress(planes.tobytes(), preset=2)
    return f"{name}_{'16' if small else '64'}_{head}", data


def dump(out: Path) -> None:
    pool = ProcessPoolExecutor(16)
    list(pool.map(abs, range(32)))
    import cupy

    loaded = cupy.RawModule(code=(HERE / "mufu.cu").read_text())

    def run(fn: str, start: int, count: int) -> Any:
        got = cupy.empty(count, np.uint32)
        loaded.get_function(fn)((count // 256 + 1,), (256,), (got, np.uint32(start),
                                                             np.uint64(count)))
        return got

    half = cupy.RawModule(code=(HERE / "mufu.cu").read_text())
    tables = {}
    for fn in ("ex2_f16", "ex2_bf16", "tanh_f16", "tanh_bf16"):
        got = cupy.empty(1 << 16, np.uint16)
        half.get_function(fn)((256,), (256,), (got,))
        tables[fn] = got.get()
    np.savez(out / "half.npz", **tables)
    jobs = [(f"{fn}{e}", run(fn, (e + 127) << 23, 1 << 23).get())
            for rank in range(23) for fn in BINADES for e in BINADES[fn][rank:rank + 1]]
    files: list[dict[str, bytes]] = [{}]
    size = 0
    for name, data in pool.map(_pack, jobs):
        print("dump", name, len(data), flush=True)
        if size + len(data) > 15_500_000:
            files.append({})
            size = 0
        files[-1][name] = data
        size += len(data)
    for index, group in enumerate(files[:4]):
        np.savez(out / f"dump{index}.npz", **{k: np.frombuffer(v, np.uint8)
                                             for k, v in group.items()})


if __name__ == "__main__":
    target = Path(sys.argv[1])
    for step in sys.argv[2:]:
        began = time.time()
        print("==", step, flush=True)
        if step.startswith("sweep:"):
            sweep(target, step.removeprefix("sweep:"))
        else:
            {"scalar": scalar, "matrix": matrix, "dump": dump}[step](target)
        print("==", step, f"{time.time() - began:.1f} s", flush=True)
