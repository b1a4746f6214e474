// Element-wise functions whose spelling decides the bits; -fmad and -use_fast_math are knobs.
#ifndef VARIANT
#define VARIANT 0
#endif

extern "C" __global__ void pointwise(const float *__restrict__ a, const float *__restrict__ b,
                                     float *__restrict__ c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i];
#if VARIANT == 0
  c[i] = x * y + x;
#elif VARIANT == 1
  c[i] = __fadd_rn(__fmul_rn(x, y), x);
#elif VARIANT == 2
  c[i] = x / y;
#elif VARIANT == 3
  c[i] = __fdividef(x, y);
#elif VARIANT == 4
  c[i] = sqrtf(fabsf(x)) + rsqrtf(fabsf(y) + 1.0f);
#elif VARIANT == 5
  c[i] = expf(-x * x) + tanhf(y);
#elif VARIANT == 6
  c[i] = x * y - x * x;
#elif VARIANT == 7
  c[i] = fmaxf(fminf(x, y), 0.5f * x);
#elif VARIANT == 8
  c[i] = (x - y) * (x + y);
#else
  c[i] = (float)((int)(x * 16.0f)) * 0.0625f + y;
#endif
}
