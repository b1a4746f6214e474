"""From the dumps of `measure.py` to the tables in checker/arith/data.

    python -m tests.arith.device.build_tables DUMPS DATA
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import numpy as np

from checker.arith.ops import apply
from checker.arith.tables import encode
from checker.core import FloatMode

TANH = range(-9, 3)  # binades with a table; below tanh(x) is x, above 1
SIN = range(-22, 1)


def binade(dumps: Path, name: str) -> np.ndarray:
    """Results for x in [2**e, 2**(e + 1)), as `_pack` left them."""
    for path in sorted(dumps.glob("dump*.npz")):
        with np.load(path) as group:
            for key in group.files:
                label, width, head = key.rsplit("_", 2)
                if label == name:
                    raw = np.frombuffer(lzma.decompress(group[key].tobytes()), np.uint8)
                    size = int(width) // 8
                    steps = raw.reshape(size, -1).T.copy().view(f"i{size}")[:, 0]
                    values = int(head) + np.cumsum(steps.astype(np.int64))
                    return np.concatenate([[int(head)], values]).astype(np.uint32)
    raise KeyError(name)


def lg2(dumps: Path, data: Path) -> None:
    for exp, name in ((0, "lg2_above"), (-1, "lg2_below")):
        (data / f"{name}.delta.xz").write_bytes(encode(binade(dumps, f"lg2{exp}")))


def tanh(dumps: Path, data: Path) -> None:
    parts, drops = [], []
    for exp in TANH:
        values = binade(dumps, f"tanh_{exp}")
        drop = 0
        while drop < 12 and (values.reshape(-1, 2 << drop) == values[:: 2 << drop, None]).all():
            drop += 1
        drops.append(drop)
        parts.append(values[:: 1 << drop])
    print("tanh: low bits that do not matter, by binade", drops)
    table = np.concatenate([np.array(drops, np.uint32), *parts])
    (data / "tanh.delta.xz").write_bytes(encode(table))


def sin(dumps: Path, data: Path) -> None:
    """The first quarter, by the 23 bits after the leading two of the phase's 25."""
    quarter = np.zeros(1 << 23, np.uint32)
    known = np.zeros(1 << 23, bool)
    known[0] = True
    factor = np.full(1, 0x3E22F983, np.uint32)
    for exp in SIN:
        x = (np.arange(1 << 23) + ((exp + 127) << 23)).astype(np.uint32)
        u = apply("fmul", FloatMode("f32", "rz"), x, factor).view(np.float32).astype(np.float64)
        phase = np.floor(u * 2.0**25).astype(np.int64)
        inside = phase < 1 << 23
        values = binade(dumps, f"sin_{exp}")
        clash = known[phase[inside]] & (quarter[phase[inside]] != values[inside])
        assert not clash.any(), exp
        quarter[phase[inside]] = values[inside]
        known[phase[inside]] = True
    print("sin: unknown phases", int((~known).sum()))
    (data / "sin.delta.xz").write_bytes(encode(quarter))


def half(dumps: Path, data: Path) -> None:
    with np.load(dumps / "half.npz") as tables:
        for name in tables.files:
            planes = np.ascontiguousarray(tables[name].view(np.uint8).reshape(-1, 2).T)
            (data / f"{name}.u16.xz").write_bytes(lzma.compress(planes.tobytes(), preset=9))


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    for build in (lg2, tanh, sin, half):
        build(source, target)
