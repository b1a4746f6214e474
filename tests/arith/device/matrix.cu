// One warp (mma.sync) or four (wgmma) per tile; operands lie in memory by rows of K bytes:
// A [tile][16 or 64][K bytes], B [tile][8][K bytes] (K-major), C and D [tile][16 or 64][8].
#include <cstdint>
typedef uint32_t u32;

#define MMA4(NAME, SPEC)                                                                           \
extern "C" __global__ void NAME(u32* D, const u32* A, const u32* B, const u32* C) {                \
  int t = threadIdx.x, g = t / 4, q = t % 4; A += blockIdx.x * 128; B += blockIdx.x * 64;          \
  C += blockIdx.x * 128; D += blockIdx.x * 128;                                                    \
  u32 a0 = A[g * 8 + q], a1 = A[(g + 8) * 8 + q], a2 = A[g * 8 + q + 4],                           \
      a3 = A[(g + 8) * 8 + q + 4], b0 = B[g * 8 + q], b1 = B[g * 8 + q + 4];                       \
  u32 c0 = C[g * 8 + 2 * q], c1 = C[g * 8 + 2 * q + 1], c2 = C[(g + 8) * 8 + 2 * q],               \
      c3 = C[(g + 8) * 8 + 2 * q + 1];                                                             \
  asm volatile("mma.sync.aligned." SPEC " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"      \
    : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)                                                       \
    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                       \
  D[g * 8 + 2 * q] = c0; D[g * 8 + 2 * q + 1] = c1; D[(g + 8) * 8 + 2 * q] = c2;                   \
  D[(g + 8) * 8 + 2 * q + 1] = c3; }

#define MMA2(NAME, SPEC)                                                                           \
extern "C" __global__ void NAME(u32* D, const u32* A, const u32* B, const u32* C) {                \
  int t = threadIdx.x, g = t / 4, q = t % 4; A += blockIdx.x * 64; B += blockIdx.x * 32;           \
  C += blockIdx.x * 128; D += blockIdx.x * 128;                                                    \
  u32 a0 = A[g * 4 + q], a1 = A[(g + 8) * 4 + q], b0 = B[g * 4 + q];                               \
  u32 c0 = C[g * 8 + 2 * q], c1 = C[g * 8 + 2 * q + 1], c2 = C[(g + 8) * 8 + 2 * q],               \
      c3 = C[(g + 8) * 8 + 2 * q + 1];                                                             \
  asm volatile("mma.sync.aligned." SPEC " {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"               \
    : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) : "r"(a0), "r"(a1), "r"(b0));                         \
  D[g * 8 + 2 * q] = c0; D[g * 8 + 2 * q + 1] = c1; D[(g + 8) * 8 + 2 * q] = c2;                   \
  D[(g + 8) * 8 + 2 * q + 1] = c3; }

// f16 accumulators: C and D hold pairs of halves, [tile][16][4] words.
#define MMA4H(NAME, SPEC)                                                                          \
extern "C" __global__ void NAME(u32* D, const u32* A, const u32* B, const u32* C) {                \
  int t = threadIdx.x, g = t / 4, q = t % 4; A += blockIdx.x * 128; B += blockIdx.x * 64;          \
  C += blockIdx.x * 64; D += blockIdx.x * 64;                                                      \
  u32 a0 = A[g * 8 + q], a1 = A[(g + 8) * 8 + q], a2 = A[g * 8 + q + 4],                           \
      a3 = A[(g + 8) * 8 + q + 4], b0 = B[g * 8 + q], b1 = B[g * 8 + q + 4];                       \
  u32 c0 = C[g * 4 + q], c1 = C[(g + 8) * 4 + q];                                                  \
  asm volatile("mma.sync.aligned." SPEC " {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"                  \
    : "+r"(c0), "+r"(c1) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                  \
  D[g * 4 + q] = c0; D[(g + 8) * 4 + q] = c1; }

#define MMA2H(NAME, SPEC)                                                                          \
extern "C" __global__ void NAME(u32* D, const u32* A, const u32* B, const u32* C) {                \
  int t = threadIdx.x, g = t / 4, q = t % 4; A += blockIdx.x * 64; B += blockIdx.x * 32;           \
  C += blockIdx.x * 64; D += blockIdx.x * 64;                                                      \
  u32 a0 = A[g * 4 + q], a1 = A[(g + 8) * 4 + q], b0 = B[g * 4 + q];                               \
  u32 c0 = C[g * 4 + q], c1 = C[(g + 8) * 4 + q];                                                  \
  asm volatile("mma.sync.aligned." SPEC " {%0,%1},{%2,%3},{%4},{%0,%1};"                           \
    : "+r"(c0), "+r"(c1) : "r"(a0), "r"(a1), "r"(b0));                                             \
  D[g * 4 + q] = c0; D[(g + 8) * 4 + q] = c1; }

MMA4(mma_f16_k16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA2(mma_f16_k8, "m16n8k8.row.col.f32.f16.f16.f32")
MMA4H(mma_f16_k16_f16, "m16n8k16.row.col.f16.f16.f16.f16")
MMA2H(mma_f16_k8_f16, "m16n8k8.row.col.f16.f16.f16.f16")
MMA4(mma_bf16_k16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA2(mma_bf16_k8, "m16n8k8.row.col.f32.bf16.bf16.f32")
MMA4(mma_tf32_k8, "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA2(mma_tf32_k4, "m16n8k4.row.col.f32.tf32.tf32.f32")
MMA4(mma_e4m3_k32, "m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA2(mma_e4m3_k16, "m16n8k16.row.col.f32.e4m3.e4m3.f32")
MMA4(mma_e5m2_k32, "m16n8k32.row.col.f32.e5m2.e5m2.f32")
MMA2(mma_e5m2_k16, "m16n8k16.row.col.f32.e5m2.e5m2.f32")
MMA4H(mma_e5m2_k32_f16, "m16n8k32.row.col.f16.e5m2.e5m2.f16")
MMA2H(mma_e4m3_k16_f16, "m16n8k16.row.col.f16.e4m3.e4m3.f16")
MMA4(mma_s8_k32, "m16n8k32.row.col.s32.s8.s8.s32")
MMA4(mma_s8_k32_sat, "m16n8k32.row.col.satfinite.s32.s8.s8.s32")
MMA2(mma_u8_k16_sat, "m16n8k16.row.col.satfinite.s32.u8.u8.s32")

extern "C" __global__ void mma_f64_k4(double* D, const double* A, const double* B,
                                      const double* C) {
  int t = threadIdx.x, g = t / 4, q = t % 4;
  A += blockIdx.x * 32; B += blockIdx.x * 32; C += blockIdx.x * 64; D += blockIdx.x * 64;
  double a = A[g * 4 + q], b = B[g * 4 + q], c0 = C[g * 8 + 2 * q], c1 = C[g * 8 + 2 * q + 1];
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
    : "+d"(c0), "+d"(c1) : "d"(a), "d"(b));
  D[g * 8 + 2 * q] = c0; D[g * 8 + 2 * q + 1] = c1;
}

extern "C" __global__ void mma_f64_k16(double* D, const double* A, const double* B,
                                       const double* C) {
  int t = threadIdx.x, g = t / 4, q = t % 4;
  A += blockIdx.x * 256; B += blockIdx.x * 128; C += blockIdx.x * 128; D += blockIdx.x * 128;
  double a[8], b[4], c[4];
  for (int i = 0; i < 8; i++) a[i] = A[(g + 8 * (i & 1)) * 16 + q + 4 * (i / 2)];
  for (int i = 0; i < 4; i++) b[i] = B[g * 16 + q + 4 * i];
  for (int i = 0; i < 4; i++) c[i] = C[(g + 8 * (i / 2)) * 8 + 2 * q + (i & 1)];
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},"
    "{%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15},{%0,%1,%2,%3};"
    : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
    : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
      "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
  for (int i = 0; i < 4; i++) D[(g + 8 * (i / 2)) * 8 + 2 * q + (i & 1)] = c[i];
}

// wgmma: 128 threads, A from registers, B (8 columns, 32 bytes of K) in shared memory, no swizzle.
#define WG_HEAD                                                                                    \
  __shared__ alignas(128) u32 sb[64];                                                              \
  int t = threadIdx.x, w = t / 32, l = t % 32, g = l / 4 + 16 * w, q = l % 4;                      \
  A += blockIdx.x * 512; B += blockIdx.x * 64;                                                     \
  if (t < 64) sb[(t % 8 / 4) * 32 + (t / 8) * 4 + t % 4] = B[t];                                   \
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                     \
  __syncthreads();                                                                                 \
  unsigned long long desc = (((u32)__cvta_generic_to_shared(sb)) >> 4) | (8ull << 16) | (16ull << 32); \
  u32 a0 = A[g * 8 + q], a1 = A[(g + 8) * 8 + q], a2 = A[g * 8 + q + 4], a3 = A[(g + 8) * 8 + q + 4];

#define WG4(NAME, SPEC, TAIL)                                                                      \
extern "C" __global__ void NAME(u32* D, const u32* A, const u32* B, const u32* C) {                \
  WG_HEAD C += blockIdx.x * 512; D += blockIdx.x * 512;                                            \
  u32 c0 = C[g * 8 + 2 * q], c1 = C[g * 8 + 2 * q + 1], c2 = C[(g + 8) * 8 + 2 * q],               \
      c3 = C[(g + 8) * 8 + 2 * q + 1];                                                             \
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                          \
  asm volatile("wgmma.mma_async.sync.aligned." SPEC " {%0,%1,%2,%3},{%4,%5,%6,%7},%8," TAIL ";"    \
    : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc));     \
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                                   \
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3) :: "memory"); \
  D[g * 8 + 2 * q] = c0; D[g * 8 + 2 * q + 1] = c1; D[(g + 8) * 8 + 2 * q] = c2;                   \
  D[(g + 8) * 8 + 2 * q + 1] = c3; }

#define WG2H(NAME, SPEC, TAIL)                                                                     \
extern "C" __global__ void NAME(u32* D, const u32* A, const u32* B, const u32* C) {                \
  WG_HEAD C += blockIdx.x * 256; D += blockIdx.x * 256;                                            \
  u32 c0 = C[g * 4 + q], c1 = C[(g + 8) * 4 + q];                                                  \
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");                                          \
  asm volatile("wgmma.mma_async.sync.aligned." SPEC " {%0,%1},{%2,%3,%4,%5},%6," TAIL ";"          \
    : "+r"(c0), "+r"(c1) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc));                         \
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");                                   \
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+r"(c0), "+r"(c1) :: "memory");               \
  D[g * 4 + q] = c0; D[(g + 8) * 4 + q] = c1; }

WG4(wgmma_f16_k16, "m64n8k16.f32.f16.f16", "1,1,1,0")
WG4(wgmma_bf16_k16, "m64n8k16.f32.bf16.bf16", "1,1,1,0")
WG4(wgmma_tf32_k8, "m64n8k8.f32.tf32.tf32", "1,1,1")
WG4(wgmma_e4m3_k32, "m64n8k32.f32.e4m3.e4m3", "1,1,1")
WG4(wgmma_e5m2_k32, "m64n8k32.f32.e5m2.e5m2", "1,1,1")
WG2H(wgmma_f16_k16_f16, "m64n8k16.f16.f16.f16", "1,1,1,0")
WG2H(wgmma_e4m3_k32_f16, "m64n8k32.f16.e4m3.e4m3", "1,1,1")
WG4(wgmma_s8_k32, "m64n8k32.s32.s8.s8", "1")
WG4(wgmma_s8_k32_sat, "m64n8k32.s32.s8.s8.satfinite", "1")
