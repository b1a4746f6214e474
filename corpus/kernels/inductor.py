"""Kernels in the manner of graph compilers: flat index arithmetic, fixed names, loop reductions.

Written for this corpus after the shape of generated code (xnumel and rnumel, one flat x index,
modulo wrap-around instead of masks in the product); not copied from any generator.
"""
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import triton
import triton.language as tl

from corpus.spec import Buf, Case, Family, Launch, cdiv


@triton.jit
def sum_loop(in_ptr0, out_ptr0, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    _acc = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        tmp0 = tl.load(in_ptr0 + (rindex + rnumel * xindex), rmask & xmask,
                       eviction_policy="evict_first", other=0.0).to(tl.float32)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, RBLOCK])
        tmp2 = _acc + tmp1
        _acc = tl.where(rmask & xmask, tmp2, _acc)
    tmp3 = tl.sum(_acc, 1)[:, None]
    tl.store(out_ptr0 + xindex, tmp3.to(out_ptr0.dtype.element_ty), xmask)


@triton.jit
def split_sum(in_ptr0, out_ptr0, xnumel, rnumel, SPLIT: tl.constexpr, XBLOCK: tl.constexpr,
              RBLOCK: tl.constexpr):
    """First half of a split reduction: x runs over (row, chunk), chunks of ceil(r / SPLIT)."""
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel * SPLIT
    chunk = tl.cdiv(rnumel, SPLIT)
    x0 = xindex % SPLIT
    x1 = xindex // SPLIT
    rbase = tl.arange(0, RBLOCK)[None, :]
    _acc = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for roffset in range(0, chunk, RBLOCK):
        rindex = roffset + rbase
        r = rindex + chunk * x0
        ok = (rindex < chunk) & (r < rnumel) & xmask
        tmp0 = tl.load(in_ptr0 + (r + rnumel * x1), ok, other=0.0).to(tl.float32)
        _acc = tl.where(ok, _acc + tmp0, _acc)
    tl.store(out_ptr0 + xindex, tl.sum(_acc, 1)[:, None], xmask)


@triton.jit
def mm_splitk(arg_A, arg_B, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
              BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, GROUP_M: tl.constexpr):
    """Wrap-around indices instead of masks; K must be a multiple of BLOCK_K * SPLIT_K."""
    pid = tl.program_id(0)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * grid_n
    group_id = pid // width
    group_size = min(grid_m - group_id * GROUP_M, GROUP_M)
    pid_m = group_id * GROUP_M + (pid % group_size)
    pid_n = (pid % width) // group_size
    pid_z = tl.program_id(1)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ram = tl.max_contiguous(tl.multiple_of(rm % M, BLOCK_M), BLOCK_M)
    rbn = tl.max_contiguous(tl.multiple_of(rn % N, BLOCK_N), BLOCK_N)
    rk = pid_z * BLOCK_K + tl.arange(0, BLOCK_K)
    A = arg_A + (ram[:, None] * K + rk[None, :])
    B = arg_B + (rk[:, None] * N + rbn[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(K, 0, -BLOCK_K * SPLIT_K):
        a = tl.load(A)
        b = tl.load(B)
        acc += tl.dot(a, b, allow_tf32=False)
        A += BLOCK_K * SPLIT_K
        B += BLOCK_K * SPLIT_K * N
    idx_m = rm[:, None]
    idx_n = rn[None, :]
    mask = (idx_m < M) & (idx_n < N)
    tl.store(out_ptr + pid_z * M * N + idx_n + N * idx_m, acc, mask)


def _sum_loop(full: bool) -> Iterator[Case]:
    for xb, rb, w in product((1, 2, 4, 8, 16) if full else (1, 8), (64, 256) if full else (64,),
                             (2, 8) if full else (4,)):
        yield Case(
            family="inductor_sum_loop", fn=sum_loop, constexprs={"XBLOCK": xb, "RBLOCK": rb},
            options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(m, xb), 1, 1), {
                    "in_ptr0": Buf("f16", m * n, axis=(m, n, 1)),
                    "out_ptr0": Buf("f16", m, "out"), "xnumel": m, "rnumel": n,
                }) for m, n in ((37, 1003), (19, 777), (67, 1271))),
        )
    for xb, rb, split, w in product((4, 16), (32, 64), (4, 8) if full else (4,), (2, 4)):
        yield Case(
            family="inductor_sum_loop", variant=f"split{split}", fn=split_sum,
            constexprs={"XBLOCK": xb, "RBLOCK": rb, "SPLIT": split}, options={"num_warps": w},
            launches=tuple(
                Launch((cdiv(m * split, xb), 1, 1), {
                    "in_ptr0": Buf("f16", m * n, axis=(m, n, 1)),
                    "out_ptr0": Buf("f32", m * split, "out"), "xnumel": m, "rnumel": n,
                }) for m, n in ((37, 1003), (19, 777), (67, 1271))),
        )


def _mm(full: bool) -> Iterator[Case]:
    for bm, bn, bk, split, w in product((32, 64), (64,), (32, 64) if full else (32,),
                                        (2, 4) if full else (2,), (4,)):
        if 64 * 4 % (bk * split):
            continue
        yield Case(
            family="inductor_splitk_gemm", variant=f"split{split}", fn=mm_splitk,
            constexprs={"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "SPLIT_K": split,
                        "GROUP_M": 8},
            options={"num_warps": w, "num_stages": 3},
            launches=tuple(
                Launch((cdiv(m, bm) * cdiv(n, bn), split, 1), {
                    "arg_A": Buf("f16", m * k, axis=(m, k, 1)),
                    "arg_B": Buf("f16", k * n, axis=(1, k, n), mirror=1),
                    "out_ptr": Buf("f32", split * m * n, "out"), "M": m, "N": n, "K": k,
                }) for m, n, k in ((80, 176, 512), (144, 80, 256), (48, 112, 768))),
        )


FAMILIES = (
    Family("inductor_sum_loop", _sum_loop, "generated-style loop reduction, whole and split"),
    Family("inductor_splitk_gemm", _mm, "generated-style split-K product"),
)
