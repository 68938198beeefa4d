// Sums over the rows of a matrix [rows, C], and batch normalisation over the
// channels.
//
// A block of 32x8 threads sums SUM_ROWS rows of 32 columns: each thread every
// eighth of them in real, then the eight in double, in order. The sums of a
// block go to partial[block, 2, C]; finishing kernels add the blocks of a column
// in double: thread t of 128 takes blocks t, t+128, ..., and the threads are
// added pairwise, t and t + 64, and so on.

// The sums of this block's 32 columns.
static __device__ void store_sums(double *partial, int C, real first, real second) {
  __shared__ double s[2][SUM_Y][SUM_X];
  int tx = threadIdx.x, ty = threadIdx.y, c = blockIdx.x * SUM_X + tx;
  s[0][ty][tx] = (double)first;
  s[1][ty][tx] = (double)second;
  __syncthreads();
  if (ty == 0 && c < C)
    for (int j = 0; j < 2; j++) {
      double sum = 0;
      for (int y = 0; y < SUM_Y; y++) sum += s[j][y][tx];
      partial[((long long)blockIdx.y * 2 + j) * C + c] = sum;
    }
}

// The sum of column c of the partial sums of all blocks, in thread 0.
static __device__ double total_sum(const double *partial, int blocks, int C, int c, int second) {
  __shared__ double s[128];
  int t = threadIdx.x;
  double sum = 0;
  for (int b = t; b < blocks; b += 128) sum += partial[((long long)b * 2 + second) * C + c];
  s[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  sum = s[0];
  __syncthreads();
  return sum;
}

// This thread's column and rows of a sum.
#define SUM_RANGE(c, lo, hi)                                     \
  int c = blockIdx.x * SUM_X + threadIdx.x;                      \
  long long lo = (long long)blockIdx.y * SUM_ROWS + threadIdx.y; \
  long long hi = (long long)(blockIdx.y + 1) * SUM_ROWS;         \
  if (hi > rows) hi = rows;                                      \
  if (c >= C) hi = lo;

// The sum and the sum of squares of each channel.
ENTRY(norm_sums)(double *partial, const real *x, long long rows, int C) {
  SUM_RANGE(c, lo, hi)
  real sum = 0, squares = 0;
  for (long long r = lo; r < hi; r += SUM_Y) {
    real v = x[r * C + c];
    sum += v;
    squares += v * v;
  }
  store_sums(partial, C, sum, squares);
}

// d = dy where out > 0, else 0, or dy if out is null; the sums of d and of
// d (x - mean). d may be dy.
ENTRY(norm_gradient_sums)
(double *partial, real *d, const real *dy, const real *x, const real *out, const real *mean, long long rows, int C) {
  SUM_RANGE(c, lo, hi)
  real sum = 0, product = 0, m = c < C ? mean[c] : (real)0;
  for (long long r = lo; r < hi; r += SUM_Y) {
    long long e = r * C + c;
    real v = dy[e];
    if (out && !(out[e] > 0)) v = 0;
    d[e] = v;
    sum += v;
    product += v * (x[e] - m);
  }
  store_sums(partial, C, sum, product);
}

// dz = dy where y > 0, else 0, or dy if y is null; the sums of dz. dz may be dy.
ENTRY(bias_sums)(double *partial, real *dz, const real *dy, const real *y, long long rows, int C) {
  SUM_RANGE(c, lo, hi)
  real sum = 0;
  for (long long r = lo; r < hi; r += SUM_Y) {
    long long e = r * C + c;
    real v = dy[e];
    if (y && !(y[e] > 0)) v = 0;
    dz[e] = v;
    sum += v;
  }
  store_sums(partial, C, sum, (real)0);
}

// db = the sums of bias_sums. A block for each column.
ENTRY(bias_gradient)(real *db, const double *partial, int blocks, int C) {
  double sum = total_sum(partial, blocks, C, blockIdx.x, 0);
  if (threadIdx.x == 0) db[blockIdx.x] = (real)sum;
}

// scale, shift and mean of channel c from its statistics.
static __device__ void fold(int c, int C, double mean, double variance, double epsilon, const real *gamma,
                            const real *beta, real *factors) {
  double scale = (double)gamma[c] / sqrt(variance + epsilon);
  factors[c] = (real)scale;
  factors[C + c] = (real)((double)beta[c] - mean * scale);
  factors[2 * C + c] = (real)mean;
}

// The statistics of a batch of count rows from norm_sums, to stats [2, C], and
// what norm_apply and norm_gradient_sums read, factors [3, C]: scale, shift,
// mean. Moves the running statistics. A block for each channel.
ENTRY(norm_batch)
(double *stats, real *factors, real *running_mean, real *running_variance, const double *partial, const real *gamma,
 const real *beta, int blocks, int C, double count, double epsilon, double momentum) {
  int c = blockIdx.x;
  double sum = total_sum(partial, blocks, C, c, 0), squares = total_sum(partial, blocks, C, c, 1);
  if (threadIdx.x == 0) {
    double mean = sum / count, variance = squares / count - mean * mean;
    if (variance < 0) variance = 0;  // rounding may leave a constant channel just below
    stats[c] = mean;
    stats[C + c] = variance;
    fold(c, C, mean, variance, epsilon, gamma, beta, factors);
    double unbiased = count / (count > 1 ? count - 1 : 1);
    running_mean[c] = (real)((1 - momentum) * (double)running_mean[c] + momentum * mean);
    running_variance[c] = (real)((1 - momentum) * (double)running_variance[c] + momentum * (unbiased * variance));
  }
}

// The factors of given statistics.
ENTRY(norm_running)
(real *factors, const real *running_mean, const real *running_variance, const real *gamma, const real *beta, int C,
 double epsilon) {
  EACH(c, C) fold((int)c, C, (double)running_mean[c], (double)running_variance[c], epsilon, gamma, beta, factors);
}

// y = scale x + shift, plus residual unless it is null, through a ReLU if relu
// is set, for n = rows * C. y may be x or residual.
ENTRY(norm_apply)
(real *y, const real *x, const real *residual, const real *factors, long long n, int C, int relu) {
  EACH(e, n) {
    int c = (int)(e % C);
    real v = factors[c] * x[e] + factors[C + c];
    if (residual) v += residual[e];
    y[e] = relu && v < 0 ? (real)0 : v;
  }
}

// The gradients of gamma and beta from norm_gradient_sums, and the slopes
// [3, C] of norm_gradient_apply. A block for each channel.
ENTRY(norm_gradient)
(real *dgamma, real *dbeta, real *slopes, const double *partial, const double *stats, const real *factors,
 const real *gamma, int blocks, int C, double count, double epsilon) {
  int c = blockIdx.x;
  double d = total_sum(partial, blocks, C, c, 0), dx = total_sum(partial, blocks, C, c, 1);
  if (threadIdx.x == 0) {
    double mean = stats[c], inv = 1 / sqrt(stats[C + c] + epsilon);
    // dx was summed about the rounded mean.
    double dg = (dx + ((double)factors[2 * C + c] - mean) * d) * inv;
    dgamma[c] = (real)dg;
    dbeta[c] = (real)d;
    double a = (double)gamma[c] * inv, slope = -a * inv * dg / count;
    slopes[c] = (real)a;
    slopes[C + c] = (real)slope;
    slopes[2 * C + c] = (real)(-a * d / count - slope * mean);
  }
}

// dx = a d + b x + c with the slopes a, b, c of each channel; dx may be d or x.
ENTRY(norm_gradient_apply)(real *dx, const real *d, const real *x, const real *slopes, long long n, int C) {
  EACH(e, n) {
    int c = (int)(e % C);
    dx[e] = slopes[c] * d[e] + slopes[C + c] * x[e] + slopes[2 * C + c];
  }
}
