// One output a thread: dot products with the chain, the unrolling and the precision spelled out.
#ifndef VARIANT
#define VARIANT 0
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

constexpr int kUnroll = UNROLL;

extern "C" __global__ void dot(const float *__restrict__ a, const float *__restrict__ b,
                               float *__restrict__ c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y;
  if (col >= n) return;
#if VARIANT == 0
  float acc = 0.0f;
#pragma unroll kUnroll
  for (int i = 0; i < k; ++i) acc += a[row * k + i] * b[i * n + col];
#elif VARIANT == 1
  float acc = 0.0f;
#pragma unroll kUnroll
  for (int i = 0; i < k; ++i) acc = __fmaf_rn(a[row * k + i], b[i * n + col], acc);
#elif VARIANT == 2
  float acc = 0.0f;
#pragma unroll kUnroll
  for (int i = 0; i < k; ++i) acc = __fadd_rn(acc, __fmul_rn(a[row * k + i], b[i * n + col]));
#elif VARIANT == 3
  double sum = 0.0;
#pragma unroll kUnroll
  for (int i = 0; i < k; ++i) sum += (double)a[row * k + i] * (double)b[i * n + col];
  float acc = (float)sum;
#elif VARIANT == 4
  // Two chains, even and odd.
  float even = 0.0f, odd = 0.0f;
  int i = 0;
#pragma unroll kUnroll
  for (; i + 1 < k; i += 2) {
    even = __fmaf_rn(a[row * k + i], b[i * n + col], even);
    odd = __fmaf_rn(a[row * k + i + 1], b[(i + 1) * n + col], odd);
  }
  if (i < k) even = __fmaf_rn(a[row * k + i], b[i * n + col], even);
  float acc = even + odd;
#elif VARIANT == 5
  // Backwards.
  float acc = 0.0f;
#pragma unroll kUnroll
  for (int i = k - 1; i >= 0; --i) acc = __fmaf_rn(a[row * k + i], b[i * n + col], acc);
#else
  // Compensated.
  float acc = 0.0f, lost = 0.0f;
#pragma unroll kUnroll
  for (int i = 0; i < k; ++i) {
    float y = a[row * k + i] * b[i * n + col] - lost;
    float t = acc + y;
    lost = (t - acc) - y;
    acc = t;
  }
#endif
  c[row * n + col] = acc;
}
