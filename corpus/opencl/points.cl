// Element-wise arithmetic on vectors of four, with and without contraction.
#include "ids.h"

__attribute__((reqd_work_group_size(THREADS, 1, 1)))
kernel void points(global const float4 *restrict a, global const float4 *restrict b,
                   global float4 *restrict c, int n) {
  int i = GID * THREADS + TID;
  if (i >= n) return;
  float4 x = a[i], y = b[i];
#if VARIANT == 0
  c[i] = x * y + x;
#elif VARIANT == 1
  c[i] = (x + y) * (x - y);
#elif VARIANT == 2
  c[i] = x > y ? x : y;
#elif VARIANT == 3
  c[i] = __builtin_convertvector(__builtin_convertvector(x * 16.0f, int4), float4) * 0.0625f + y;
#else
  c[i] = (float4)(x.w, x.z, y.y, y.x) - x.yxwz;
#endif
}
