// Inclusive scans of rows by one block: Hillis and Steele in shared memory, or warp scans with carries.
#ifndef THREADS
#define THREADS 256
#endif
#ifndef VARIANT
#define VARIANT 0
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
scan(const float *__restrict__ x, float *__restrict__ y, int m, int n) {
  int t = threadIdx.x;
  float v = t < n ? x[(long long)blockIdx.x * n + t] : 0.0f;
#if VARIANT == 0
  __shared__ float s[2][THREADS];
  int in = 0;
  s[0][t] = v;
  __syncthreads();
  for (int d = 1; d < THREADS; d *= 2) {
    s[1 - in][t] = t >= d ? s[in][t - d] + s[in][t] : s[in][t];
    in = 1 - in;
    __syncthreads();
  }
  v = s[in][t];
#else
  __shared__ float total[THREADS / 32];
  for (int d = 1; d < 32; d *= 2) {
    float up = __shfl_up_sync(0xffffffffu, v, d);
    if (t % 32 >= d) v += up;
  }
  if (t % 32 == 31) total[t / 32] = v;
  __syncthreads();
  float carry = 0.0f;
  for (int w = 0; w < t / 32; ++w) carry += total[w];
  if (t >= 32) v += carry;
#endif
  if (t < n) y[(long long)blockIdx.x * n + t] = v;
}
