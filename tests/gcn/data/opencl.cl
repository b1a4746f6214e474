// Compiled by: clang -target amdgcn-amd-amdhsa -mcpu=TARGET -x cl -cl-std=CL2.0 -O2 -S -nogpulib (14 and 19)
#define G __global
__attribute__((reqd_work_group_size(64,1,1)))
__kernel void saxpy(G const float*x, G const float*y, G float*o, float a, int n){ int i=__builtin_amdgcn_workgroup_id_x()*64+__builtin_amdgcn_workitem_id_x(); if(i<n) o[i]=a*x[i]+y[i]; }
__attribute__((reqd_work_group_size(256,1,1)))
__kernel void rowsum(G const float*x, G float*o, int n){ __local float s[256]; int t=__builtin_amdgcn_workitem_id_x(); int r=__builtin_amdgcn_workgroup_id_x(); float a=0; for(int i=t;i<n;i+=256) a+=x[r*n+i]; s[t]=a; __builtin_amdgcn_s_barrier(); for(int d=128;d>0;d>>=1){ if(t<d) s[t]+=s[t+d]; __builtin_amdgcn_fence(__ATOMIC_ACQ_REL,"workgroup"); __builtin_amdgcn_s_barrier(); } if(t==0) o[r]=s[0]; }
__attribute__((reqd_work_group_size(16,16,1)))
__kernel void mm(G const float*a,G const float*b,G float*c,int n){ __local float A[16][16],B[16][16]; int x=__builtin_amdgcn_workitem_id_x(),y=__builtin_amdgcn_workitem_id_y(); int i=__builtin_amdgcn_workgroup_id_y()*16+y,j=__builtin_amdgcn_workgroup_id_x()*16+x; float s=0; for(int k=0;k<n;k+=16){ A[y][x]=a[i*n+k+x]; B[y][x]=b[(k+y)*n+j]; __builtin_amdgcn_fence(__ATOMIC_ACQ_REL,"workgroup"); __builtin_amdgcn_s_barrier(); for(int q=0;q<16;q++) s+=A[y][q]*B[q][x]; __builtin_amdgcn_fence(__ATOMIC_ACQ_REL,"workgroup"); __builtin_amdgcn_s_barrier();} c[i*n+j]=s; }
__attribute__((reqd_work_group_size(64,1,1)))
__kernel void divk(G const float*x, G const float*y, G float*o, G const double*u, G double*v, int d){ int i=__builtin_amdgcn_workgroup_id_x()*64+__builtin_amdgcn_workitem_id_x(); o[i]=x[i]/y[i/d]+(float)(i%d); v[i]=u[i]/(double)y[i]; }
__attribute__((reqd_work_group_size(64,1,1)))
__kernel void sw(G const int*x, G int*o, int n){ int i=__builtin_amdgcn_workgroup_id_x()*64+__builtin_amdgcn_workitem_id_x(); int v=x[i]; int r; switch(v&7){case 0:r=v*3;break;case 1:r=v+7;break;case 2:r=v^5;break;case 5:r=v/9;break;default:r=-v;} for(int k=0;k<(v&15);k++) r=r*31+k; o[i]=r; }
