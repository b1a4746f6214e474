// c = a @ b in single precision through shared memory, one chain of fused steps an element.
// VARIANT: 0 a tile of 16 x 16 with masks, 1 the same with padded rows, 2 a column-major tile of a,
// 3 four elements of a column a thread, 4 the chain of each 16 summed first.
#ifndef VARIANT
#define VARIANT 0
#endif
#define T 16
#define PAD (VARIANT == 1 ? 1 : 0)
#define MORE (VARIANT == 3 ? 4 : 1)

extern "C" __global__ void __launch_bounds__(T * T)
matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m,
       int n, int k) {
  __shared__ float ta[T * MORE][T + PAD], tb[T][T + PAD];
  int tx = threadIdx.x % T, ty = threadIdx.x / T;
  int col = blockIdx.x * T + tx;
  float acc[MORE] = {};
  for (int at = 0; at < k; at += T) {
#pragma unroll
    for (int e = 0; e < MORE; ++e) {
      int row = (blockIdx.y * MORE + e) * T + ty;
      float v = row < m && at + tx < k ? a[row * k + at + tx] : 0.0f;
#if VARIANT == 2
      ta[tx][ty] = v;
#else
      ta[e * T + ty][tx] = v;
#endif
    }
    tb[ty][tx] = col < n && at + ty < k ? b[(at + ty) * n + col] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < MORE; ++e) {
#if VARIANT == 4
      float s = 0.0f;
#else
      float s = acc[e];
#endif
#pragma unroll
      for (int i = 0; i < T; ++i)
#if VARIANT == 2
        s = fmaf(ta[i][ty], tb[i][tx], s);
#else
        s = fmaf(ta[e * T + ty][i], tb[i][tx], s);
#endif
#if VARIANT == 4
      acc[e] += s;
#else
      acc[e] = s;
#endif
    }
    __syncthreads();
  }
#pragma unroll
  for (int e = 0; e < MORE; ++e) {
    int row = (blockIdx.y * MORE + e) * T + ty;
    if (row < m && col < n) c[row * n + col] = acc[e];
  }
}
