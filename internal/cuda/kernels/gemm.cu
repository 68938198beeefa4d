// Matrix products: C[m,n] = A[m,k] B[k,n], where element (i,j) of a matrix x
// lies at x[i * xr + j * xc].

#define TILE 64
#define DEPTH 16

// One block of 16x16 threads computes a tile of 64x64 elements of C over the k
// in [z * depth, (z+1) * depth), z = blockIdx.z, each thread 4x4 of them with
// fused products and sums in order of k. With one block along z the result goes
// to C, plus bias[n] unless it is null, through a ReLU if relu is set, added to
// C if accumulate is set; with several, partial sum z goes to partial[z,m,n].
ENTRY(gemm)
(real *C, real *partial, const real *A, const real *B, const real *bias, int M, int N, int K, int ar, int ac, int br,
 int bc, int ldc, int depth, int relu, int accumulate) {
  __shared__ real a[DEPTH][TILE + 1];
  __shared__ real b[DEPTH][TILE + 1];
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  int m0 = blockIdx.x * TILE, n0 = blockIdx.y * TILE;
  int from = blockIdx.z * depth, to = from + depth < K ? from + depth : K;
  real sum[4][4];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) sum[i][j] = 0;
  for (int k0 = from; k0 < to; k0 += DEPTH) {
    for (int e = t; e < TILE * DEPTH; e += 256) {
      // Neighbouring threads read neighbouring addresses.
      int i = ac == 1 ? e / DEPTH : e % TILE, k = ac == 1 ? e % DEPTH : e / TILE;
      int row = m0 + i, at = k0 + k;
      a[k][i] = row < M && at < to ? A[(long long)row * ar + (long long)at * ac] : (real)0;
      int j = bc == 1 ? e % TILE : e / DEPTH;
      k = bc == 1 ? e / TILE : e % DEPTH;
      int column = n0 + j;
      at = k0 + k;
      b[k][j] = column < N && at < to ? B[(long long)at * br + (long long)column * bc] : (real)0;
    }
    __syncthreads();
    for (int k = 0; k < DEPTH; k++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sum[i][j] = fma(a[k][ty + 16 * i], b[k][tx + 16 * j], sum[i][j]);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      int row = m0 + ty + 16 * i, column = n0 + tx + 16 * j;
      if (row >= M || column >= N) continue;
      real v = sum[i][j];
      if (gridDim.z > 1) {
        partial[((long long)blockIdx.z * M + row) * N + column] = v;
        continue;
      }
      real *c = C + (long long)row * ldc + column;
      if (accumulate) v += *c;
      if (bias) v += bias[column];
      *c = relu && v < 0 ? (real)0 : v;
    }
}

// Adds the partial sums of gemm in order.
ENTRY(gemm_reduce)
(real *C, const real *partial, const real *bias, int M, int N, int ldc, int parts, int relu, int accumulate) {
  EACH(e, (long long)M * N) {
    int row = (int)(e / N), column = (int)(e % N);
    real v = partial[e];
    for (int z = 1; z < parts; z++) v += partial[(long long)z * M * N + e];
    real *c = C + (long long)row * ldc + column;
    if (accumulate) v += *c;
    if (bias) v += bias[column];
    *c = relu && v < 0 ? (real)0 : v;
  }
}
