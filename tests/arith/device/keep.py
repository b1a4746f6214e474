"""Cut the results of `measure.py scalar matrix` down to what the tests keep.

    python -m tests.arith.device.keep MEASURED tests/arith/data
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

import numpy as np

from .matrix_cases import KERNELS, Kernel
from .variants import WIDTH, all_variants

RESULTS = 192  # of each scalar variant
DATA = Path(__file__).parents[1] / "data"


def tiles(kernel: Kernel) -> int:
    """Tiles of a matrix kernel that are kept: some of every category."""
    return 40 if kernel.rows <= 16 else 10


def keep(measured: Path, data: Path) -> None:
    with np.load(measured / "scalar.npz") as got:
        parts = [got[f"k{i}"][:RESULTS].tobytes() for i in range(len(all_variants()))]
    (data / "scalar.xz").write_bytes(lzma.compress(b"".join(parts), preset=9))
    with np.load(measured / "matrix.npz") as got:
        parts = [got[k.name][:tiles(k)].tobytes() for k in KERNELS]
    (data / "matrix.xz").write_bytes(lzma.compress(b"".join(parts), preset=9))


def scalar_results() -> list[np.ndarray]:
    """The card's results, one array per variant."""
    raw, out, at = lzma.decompress((DATA / "scalar.xz").read_bytes()), [], 0
    for variant in all_variants():
        size = WIDTH[variant.target] // 8
        out.append(np.frombuffer(raw, f"u{size}", RESULTS, at))
        at += size * RESULTS
    return out


def matrix_results() -> dict[str, np.ndarray]:
    """The card's results, [tile][row][column] by kernel."""
    raw, out, at = lzma.decompress((DATA / "matrix.xz").read_bytes()), {}, 0
    for kernel in KERNELS:
        size = {"f16": 2, "f64": 8}.get(kernel.acc, 4)
        shape = (tiles(kernel), kernel.rows, 8)
        count = int(np.prod(shape))
        out[kernel.name] = np.frombuffer(raw, f"u{size}", count, at).reshape(shape)
        at += size * count
    return out


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
