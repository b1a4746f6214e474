// out[i] = fn(bits of (start + i)), for sweeps of the special function unit.
typedef unsigned int u32;
#define SWEEP(NAME, OP)                                                                            \
extern "C" __global__ void NAME(u32* out, u32 start, unsigned long long n) {                       \
  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;                \
  if (i >= n) return;                                                                              \
  float x = __uint_as_float(start + (u32)i), y;                                                    \
  asm volatile(OP " %0, %1;" : "=f"(y) : "f"(x));                                                  \
  out[i] = __float_as_uint(y); }
SWEEP(ex2, "ex2.approx.ftz.f32")
SWEEP(ex2_keep, "ex2.approx.f32")
SWEEP(rcp, "rcp.approx.ftz.f32")
SWEEP(rcp_keep, "rcp.approx.f32")
SWEEP(sqrt_, "sqrt.approx.ftz.f32")
SWEEP(rsqrt_, "rsqrt.approx.ftz.f32")
SWEEP(lg2, "lg2.approx.ftz.f32")
SWEEP(sin_, "sin.approx.ftz.f32")
SWEEP(cos_, "cos.approx.ftz.f32")
SWEEP(tanh_, "tanh.approx.f32")
SWEEP(lg2_keep, "lg2.approx.f32")
SWEEP(sqrt_keep, "sqrt.approx.f32")
SWEEP(rsqrt_keep, "rsqrt.approx.f32")

#define HALF(NAME, OP)                                                                             \
extern "C" __global__ void NAME(unsigned short* out) {                                             \
  unsigned short x = blockIdx.x * 256 + threadIdx.x, y;                                            \
  asm volatile(OP " %0, %1;" : "=h"(y) : "h"(x));                                                  \
  out[x] = y; }
HALF(ex2_f16, "ex2.approx.f16")
HALF(ex2_bf16, "ex2.approx.ftz.bf16")
HALF(tanh_f16, "tanh.approx.f16")
HALF(tanh_bf16, "tanh.approx.bf16")
