// Indices and barriers on both vendors without a device library.
#if defined(__AMDGCN__)
#define TID ((int)__builtin_amdgcn_workitem_id_x())
#define GID ((int)__builtin_amdgcn_workgroup_id_x())
#define BARRIER()                                      \
  do {                                                 \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
    __builtin_amdgcn_s_barrier();                      \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
  } while (0)
#else
#define BARRIER() __nvvm_bar_sync(0)
#define TID ((int)__nvvm_read_ptx_sreg_tid_x())
#define GID ((int)__nvvm_read_ptx_sreg_ctaid_x())
#endif
#ifndef THREADS
#define THREADS 128
#endif
#ifndef VARIANT
#define VARIANT 0
#endif
