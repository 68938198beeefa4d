// Adam with gradient clipping over a flat vector of arrays. The vector is cut
// into chunks of at most SEGMENT_CHUNK elements that lie in one array each:
// chunks[k] = {first element, length, array}.
struct chunk {
  int first, length, array, unused;
};

// The sum of squares of each chunk, in double. 256 threads.
ENTRY(chunk_squares)(double *sums, const real *g, const chunk *chunks) {
  __shared__ double s[256];
  chunk k = chunks[blockIdx.x];
  int t = threadIdx.x;
  double sum = 0;
  for (int i = t; i < k.length; i += 256) {
    double v = (double)g[k.first + i];
    sum += v * v;
  }
  s[t] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = s[0];
}

// squares[j] = the sum of squares of array j, whose chunks are [starts[j],
// starts[j+1]), and factors[j] = min(1, clip / norm), norm that of the array,
// or of the whole vector if global is set; 1 if clip is 0. factors[arrays] is 0
// if a sum is not finite, else 1. One block of 256 threads.
ENTRY(clip_factors)
(double *squares, double *factors, const double *sums, const int *starts, int arrays, double clip, int global) {
  int t = threadIdx.x;
  for (int j = t; j < arrays; j += 256) {
    double sum = 0;
    for (int k = starts[j]; k < starts[j + 1]; k++) sum += sums[k];
    squares[j] = sum;
  }
  __syncthreads();
  double total = 0;
  for (int j = 0; j < arrays; j++) total += squares[j];
  for (int j = t; j < arrays; j += 256) {
    double norm = sqrt(global ? total : squares[j]);
    factors[j] = clip > 0 && norm > clip ? clip / norm : 1;
  }
  if (t == 0) {
    double bad = 0;
    for (int j = 0; j < arrays; j++) bad += squares[j] - squares[j];
    factors[arrays] = bad == 0 ? 1 : 0;
  }
}

// One step of Adam (Kingma and Ba 2015, algorithm 1), every operation rounded:
//
//	h = factor g
//	m = beta1 m + rest1 h
//	v = beta2 v + (rest2 h) h
//	p = p - (rate m) / (root sqrt(v) + epsilon)
//
// Nothing happens if factors[arrays] is 0. A block for each chunk.
ENTRY(adam)
(real *p, const real *g, real *m, real *v, const chunk *chunks, const double *factors, int arrays, double beta1,
 double rest1, double beta2, double rest2, double rate, double root, double epsilon) {
  chunk k = chunks[blockIdx.x];
  if (factors[arrays] == 0) return;
  real f = (real)factors[k.array], b1 = (real)beta1, r1 = (real)rest1, b2 = (real)beta2, r2 = (real)rest2;
  real lr = (real)rate, rt = (real)root, eps = (real)epsilon;
  for (int i = k.first + threadIdx.x; i < k.first + k.length; i += blockDim.x) {
    real h = f * g[i];
    real mi = b1 * m[i] + r1 * h;
    real vi = b2 * v[i] + (r2 * h) * h;
    m[i] = mi;
    v[i] = vi;
    p[i] = p[i] - (lr * mi) / (rt * sqrt(vi) + eps);
  }
}

// g += mu (p - ref), computed in double and rounded once.
ENTRY(proximal)(real *g, const real *p, const double *ref, double mu, long long n) {
  EACH(i, n) g[i] += (real)(mu * ((double)p[i] - ref[i]));
}
