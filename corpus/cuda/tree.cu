// The textbook tree in shared memory, halving or doubling the stride; optionally the last warp by shuffles.
#ifndef THREADS
#define THREADS 128
#endif
#ifndef ORDER
#define ORDER 0
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
tree_sum(const float *__restrict__ x, float *__restrict__ y, int m, int n) {
  __shared__ float s[THREADS];
  int t = threadIdx.x;
  float acc = 0.0f;
  for (int i = t; i < n; i += THREADS) acc += x[(long long)blockIdx.x * n + i];
  s[t] = acc;
  __syncthreads();
#if ORDER == 0
  for (int d = THREADS / 2; d > 0; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
#elif ORDER == 1
  for (int d = 1; d < THREADS; d *= 2) {
    if (t % (2 * d) == 0) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
#elif ORDER == 2
  // As ORDER 0, but the last 32 by shuffles: the same tree.
  for (int d = THREADS / 2; d >= 32; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t < 32) {
    float v = s[t];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (t == 0) y[blockIdx.x] = v;
  }
#else
  // Operands swapped in every addition: the same bits.
  for (int d = THREADS / 2; d > 0; d /= 2) {
    if (t < d) s[t] = s[t + d] + s[t];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
#endif
}
