// One output a work item: chains of fma, of rounded products, in double, backwards.
#include "ids.h"

__attribute__((reqd_work_group_size(THREADS, 1, 1)))
kernel void chain(global const float *restrict a, global const float *restrict b,
                  global float *restrict c, int n, int k) {
  int i = GID * THREADS + TID;
  if (i >= n) return;
#if VARIANT == 0
  float acc = 0.0f;
  for (int j = 0; j < k; ++j) acc = __builtin_fmaf(a[i * k + j], b[j], acc);
#elif VARIANT == 1
  float acc = 0.0f;
  for (int j = 0; j < k; ++j) {
#pragma clang fp contract(off)
    float p = a[i * k + j] * b[j];
    acc = acc + p;
  }
#elif VARIANT == 2
  double sum = 0.0;
  for (int j = 0; j < k; ++j) sum = __builtin_fma((double)a[i * k + j], (double)b[j], sum);
  float acc = (float)sum;
#elif VARIANT == 3
  float acc = 0.0f;
  for (int j = k - 1; j >= 0; --j) acc = __builtin_fmaf(a[i * k + j], b[j], acc);
#else
  float even = 0.0f, odd = 0.0f;
  int j = 0;
  for (; j + 1 < k; j += 2) {
    even = __builtin_fmaf(a[i * k + j], b[j], even);
    odd = __builtin_fmaf(a[i * k + j + 1], b[j + 1], odd);
  }
  if (j < k) even = __builtin_fmaf(a[i * k + j], b[j], even);
  float acc = even + odd;
#endif
  c[i] = acc;
}
