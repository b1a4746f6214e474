// Data movement only: through shared memory with or without padding, or straight. All the same bits.
#ifndef VARIANT
#define VARIANT 0
#endif
#define TILE 16

extern "C" __global__ void __launch_bounds__(TILE * TILE)
transpose(const float *__restrict__ x, float *__restrict__ y, int m, int n) {
  int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
  int r = blockIdx.y * TILE, c = blockIdx.x * TILE;
#if VARIANT == 0
  if (r + ty < m && c + tx < n) y[(c + tx) * m + r + ty] = x[(r + ty) * n + c + tx];
#else
  __shared__ float s[TILE][TILE + VARIANT - 1];
  if (r + ty < m && c + tx < n) s[ty][tx] = x[(r + ty) * n + c + tx];
  __syncthreads();
  if (c + ty < n && r + tx < m) y[(c + ty) * m + r + tx] = s[tx][ty];
#endif
}
