// Row sums that Triton cannot spell: the order of every addition is written out here.
// ORDER picks it; THREADS is the block size. One block a row; x is [m, n], y is [m].
#ifndef ORDER
#define ORDER 0
#endif
#ifndef THREADS
#define THREADS 128
#endif

__device__ float warp_sum(float v) {
#if ORDER == 1
  // Neighbours first: 1, 2, 4, 8, 16.
  for (int d = 1; d < 32; d *= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
#elif ORDER == 2
  // Down instead of xor: only lane 0 holds the whole sum.
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
  v = __shfl_sync(0xffffffffu, v, 0);
#elif ORDER == 3
  // Far, near, far.
  v += __shfl_xor_sync(0xffffffffu, v, 16);
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  v += __shfl_xor_sync(0xffffffffu, v, 8);
  v += __shfl_xor_sync(0xffffffffu, v, 2);
  v += __shfl_xor_sync(0xffffffffu, v, 4);
#else
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
#endif
  return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
row_sum(const float *__restrict__ x, float *__restrict__ y, int m, int n) {
  __shared__ float part[THREADS / 32];
  const float *row = x + (long long)blockIdx.x * n;
  float acc = 0.0f;
#if ORDER == 4
  // Four independent accumulators a thread.
  float a1 = 0.0f, a2 = 0.0f, a3 = 0.0f;
  int i = threadIdx.x;
  for (; i + 3 * THREADS < n; i += 4 * THREADS) {
    acc += row[i];
    a1 += row[i + THREADS];
    a2 += row[i + 2 * THREADS];
    a3 += row[i + 3 * THREADS];
  }
  for (; i < n; i += THREADS) acc += row[i];
  acc = (acc + a1) + (a2 + a3);
#elif ORDER == 5
  // A contiguous span a thread instead of a stride.
  int span = (n + THREADS - 1) / THREADS;
  for (int j = 0; j < span; ++j) {
    int i = threadIdx.x * span + j;
    if (i < n) acc += row[i];
  }
#else
  for (int i = threadIdx.x; i < n; i += THREADS) acc += row[i];
#endif
  acc = warp_sum(acc);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = acc;
  __syncthreads();
#if ORDER == 6
  // The first thread adds the warps in turn.
  if (threadIdx.x == 0) {
    float s = part[0];
    for (int w = 1; w < THREADS / 32; ++w) s += part[w];
    y[blockIdx.x] = s;
  }
#else
  if (threadIdx.x < 32) {
    float s = threadIdx.x < THREADS / 32 ? part[threadIdx.x] : 0.0f;
    for (int d = THREADS / 64; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (threadIdx.x == 0) y[blockIdx.x] = s;
  }
#endif
}
