// Row kernels as CUDA programs write them: loops that stride by blockDim.x, a sum of the block by
// shuffles and one slot a warp. The launch alone says how many threads there are. One block a row.
// VARIANT: 0 sum, 1 layer norm, 2 root mean square norm, 3 softmax. LANES: how partial sums meet in
// a warp: 0 shuffles down, 1 butterflies, 2 butterflies from near to far.
#ifndef VARIANT
#define VARIANT 0
#endif
#ifndef LANES
#define LANES 0
#endif

__device__ float warp_sum(float v) {
#if LANES == 0
  for (int d = 16; d > 0; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
#elif LANES == 1
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
#else
  for (int d = 1; d < 32; d <<= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
#endif
  return v;
}

__device__ float block_sum(float v) {
  __shared__ float part[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  __syncthreads();
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / 32 ? part[lane] : 0.0f;
  if (warp == 0) v = warp_sum(v);
  return v;
}

__device__ float all_sum(float v) {
  __shared__ float total;
  v = block_sum(v);
  if (threadIdx.x == 0) total = v;
  __syncthreads();
  return total;
}

__device__ float all_max(float v) {
  __shared__ float part[32];
  for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int i = 1; i < blockDim.x / 32; ++i) v = fmaxf(v, part[i]);
  return v;
}

extern "C" __global__ void rows(const float *__restrict__ x, float *__restrict__ y, int m, int n) {
  const float *row = x + (long long)blockIdx.x * n;
#if VARIANT == 0
  float s = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += row[i];
  s = block_sum(s);
  if (threadIdx.x == 0) y[blockIdx.x] = s;
#else
  float *out = y + (long long)blockIdx.x * n;
#if VARIANT == 1
  float s = 0.0f, q = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += row[i];
  float mean = all_sum(s) / n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) q += (row[i] - mean) * (row[i] - mean);
  float scale = rsqrtf(all_sum(q) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = (row[i] - mean) * scale;
#elif VARIANT == 2
  float q = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) q += row[i] * row[i];
  float scale = rsqrtf(all_sum(q) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = row[i] * scale;
#else
  float top = -1.0f / 0.0f, s = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, row[i]);
  top = all_max(top);
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += __expf(row[i] - top);
  float total = all_sum(s);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = __expf(row[i] - top) / total;
#endif
#endif
}
