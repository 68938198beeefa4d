// What all kernels share. The sources are compiled once for REAL=float and once
// for REAL=double, in alphabetical order as one file.
//
// Rules, which the emulation of a device in host memory relies on: static shared
// memory only, no warp intrinsics, no atomics, every thread of a block reaches
// every barrier, and kernels are declared with ENTRY. Products and sums are
// rounded one by one (the compiler is told not to contract them) except where
// fma is called. Sums have one order, which depends on shapes alone.
typedef REAL real;

#ifndef ENTRY
#define ENTRY(name) extern "C" __global__ void name
#endif

// The side of the blocks in which rows of channels are summed.
#define SUM_X 32
#define SUM_Y 8
// The rows that one block sums, and the elements that one block of the
// optimiser's kernels handles. The launching code knows both.
#define SUM_ROWS 512
#define SEGMENT_CHUNK 4096

// The elements of a flat range that belong to this thread.
#define EACH(i, n)                                                             \
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < (n); \
       i += (long long)gridDim.x * blockDim.x)
