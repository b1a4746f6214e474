// One warp a 16 x 8 tile: k16 steps, pairs of k8 steps in either order, fp32 or fp16 accumulator.
// A is [m, k] row-major, B is [n, k] row-major (so columns are contiguous), k a multiple of 16.
#include <cstdint>
#ifndef VARIANT
#define VARIANT 0
#endif

__device__ void k16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void k8(float d[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
}

extern "C" __global__ void __launch_bounds__(32)
mma_tile(const uint16_t *__restrict__ a, const uint16_t *__restrict__ b, float *__restrict__ c,
         int m, int n, int k) {
  int lane = threadIdx.x, row = blockIdx.y * 16 + lane / 4, col = blockIdx.x * 8 + lane / 4;
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int at = 0; at < k; at += 16) {
    int i = at + lane % 4 * 2;
    uint32_t fa[4], fb[2];
    fa[0] = *(const uint32_t *)(a + row * k + i);
    fa[1] = *(const uint32_t *)(a + (row + 8) * k + i);
    fa[2] = *(const uint32_t *)(a + row * k + i + 8);
    fa[3] = *(const uint32_t *)(a + (row + 8) * k + i + 8);
    fb[0] = *(const uint32_t *)(b + col * k + i);
    fb[1] = *(const uint32_t *)(b + col * k + i + 8);
#if VARIANT == 0
    k16(d, fa, fb);
#elif VARIANT == 1
    k8(d, fa[0], fa[1], fb[0]);
    k8(d, fa[2], fa[3], fb[1]);
#elif VARIANT == 2
    k8(d, fa[2], fa[3], fb[1]);
    k8(d, fa[0], fa[1], fb[0]);
#else
    // A fresh accumulator, added outside.
    float e[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    k16(e, fa, fb);
    for (int j = 0; j < 4; ++j) d[j] = __fadd_rn(d[j], e[j]);
#endif
  }
  int r = blockIdx.y * 16 + lane / 4, q = blockIdx.x * 8 + lane % 4 * 2;
  c[r * n + q] = d[0];
  c[r * n + q + 1] = d[1];
  c[(r + 8) * n + q] = d[2];
  c[(r + 8) * n + q + 1] = d[3];
}
