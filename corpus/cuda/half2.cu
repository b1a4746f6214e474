// Packed half arithmetic: two lanes a register, fused or rounded twice, widened or not.
#include <cuda_fp16.h>
#ifndef VARIANT
#define VARIANT 0
#endif

extern "C" __global__ void axpy(const __half2 *__restrict__ a, const __half2 *__restrict__ b,
                                __half2 *__restrict__ c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 x = a[i], y = b[i];
#if VARIANT == 0
  c[i] = __hfma2(x, y, x);
#elif VARIANT == 1
  c[i] = __hadd2_rn(__hmul2_rn(x, y), x);
#elif VARIANT == 2
  float2 p = __half22float2(x), q = __half22float2(y);
  c[i] = __floats2half2_rn(__fmaf_rn(p.x, q.x, p.x), __fmaf_rn(p.y, q.y, p.y));
#elif VARIANT == 3
  c[i] = __halves2half2(__hfma(__low2half(x), __low2half(y), __low2half(x)),
                        __hfma(__high2half(x), __high2half(y), __high2half(x)));
#elif VARIANT == 4
  __half2 s = __lowhigh2highlow(x);
  c[i] = __lowhigh2highlow(__hfma2(s, __lowhigh2highlow(y), s));
#else
  c[i] = __hmax2(__hmin2(x, y), __hneg2(x));
#endif
}
