// Row sums by one group a row: local memory trees, and a chain that any vendor spells alike.
#include "ids.h"

__attribute__((reqd_work_group_size(THREADS, 1, 1)))
kernel void rows(global const float *restrict x, global float *restrict y, int m, int n) {
  local float s[THREADS];
  int t = TID;
  global const float *row = x + (long)GID * n;
#if VARIANT == 3
  // One lane does it all.
  if (t == 0) {
    float acc = 0.0f;
    for (int i = 0; i < n; ++i) acc += row[i];
    y[GID] = acc;
  }
#else
  float acc = 0.0f;
  for (int i = t; i < n; i += THREADS) acc += row[i];
  s[t] = acc;
  BARRIER();
#if VARIANT == 0
  for (int d = THREADS / 2; d > 0; d /= 2) {
    if (t < d) s[t] += s[t + d];
    BARRIER();
  }
#elif VARIANT == 1
  for (int d = 1; d < THREADS; d *= 2) {
    if (t % (2 * d) == 0) s[t] += s[t + d];
    BARRIER();
  }
#else
  for (int d = THREADS / 2; d > 0; d /= 2) {
    if (t < d) s[t] = s[t + d] + s[t];
    BARRIER();
  }
#endif
  if (t == 0) y[GID] = s[0];
#endif
}
