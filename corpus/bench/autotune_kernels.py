"""The kernels of the autotuner demonstration."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gemm(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
         BLOCK_K: tl.constexpr, CHUNKS: tl.constexpr):
    """c[m, n] = a[m, k] b[n, k]^T, the k range cut into CHUNKS accumulators."""
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    rk = tl.arange(0, BLOCK_K)
    span = k // CHUNKS
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for chunk in tl.static_range(CHUNKS):
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for j in range(0, span, BLOCK_K):
            at = chunk * span + j + rk
            a = tl.load(a_ptr + rm[:, None] * k + at[None, :], mask=rm[:, None] < m, other=0.0)
            b = tl.load(b_ptr + rn[None, :] * k + at[:, None], mask=rn[None, :] < n, other=0.0)
            acc = tl.dot(a, b, acc)
        total += acc
    inside = (rm[:, None] < m) & (rn[None, :] < n)
    tl.store(c_ptr + rm[:, None] * n + rn[None, :], total, mask=inside)


@triton.jit
def layernorm(x_ptr, w_ptr, b_ptr, out_ptr, rows, n, eps, CHUNK: tl.constexpr,
              ROWS: tl.constexpr):
    """Layer norm over rows of n elements, CHUNK at a time, ROWS rows a program."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, CHUNK)
    row_inside = r[:, None] < rows
    total = tl.zeros((ROWS, CHUNK), tl.float32)
    for j in range(0, n, CHUNK):
        inside = row_inside & (j + c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + j + c[None, :], mask=inside, other=0.0)
        total += x.to(tl.float32)
    mean = tl.sum(total, 1) / n
    squares = tl.zeros((ROWS, CHUNK), tl.float32)
    for j in range(0, n, CHUNK):
        inside = row_inside & (j + c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + j + c[None, :], mask=inside, other=0.0)
        d = tl.where(inside, x.to(tl.float32) - mean[:, None], 0.0)
        squares += d * d
    scale = 1.0 / tl.sqrt(tl.sum(squares, 1) / n + eps)
    for j in range(0, n, CHUNK):
        inside = row_inside & (j + c[None, :] < n)
        x = tl.load(x_ptr + r[:, None] * n + j + c[None, :], mask=inside, other=0.0)
        w = tl.load(w_ptr + j + c, mask=j + c < n, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + j + c, mask=j + c < n, other=0.0).to(tl.float32)
        y = (x.to(tl.float32) - mean[:, None]) * scale[:, None] * w[None, :] + b[None, :]
        tl.store(out_ptr + r[:, None] * n + j + c[None, :], y, mask=inside)
