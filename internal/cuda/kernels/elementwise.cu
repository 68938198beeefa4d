// Flat vectors, and rows of channels.

// y = a + b; y may be either.
ENTRY(add)(real *y, const real *a, const real *b, long long n) {
  EACH(i, n) y[i] = a[i] + b[i];
}

// y = max(0, x); NaN stays NaN.
ENTRY(relu)(real *y, const real *x, long long n) {
  EACH(i, n) {
    real v = x[i];
    y[i] = v < 0 ? (real)0 : v;
  }
}

// dx = dy where y > 0, else 0; dx may be dy.
ENTRY(relu_gradient)(real *dx, const real *dy, const real *y, long long n) {
  EACH(i, n) dx[i] = y[i] > 0 ? dy[i] : (real)0;
}

ENTRY(from_double)(real *dst, const double *src, long long n) {
  EACH(i, n) dst[i] = (real)src[i];
}

ENTRY(to_double)(double *dst, const real *src, long long n) {
  EACH(i, n) dst[i] = (double)src[i];
}

// y[r,c] += bias[c], through a ReLU if relu is set, for n = rows * columns.
ENTRY(bias_relu)(real *y, const real *bias, long long n, int columns, int relu) {
  EACH(i, n) {
    real v = y[i];
    if (bias) v += bias[i % columns];
    y[i] = relu && v < 0 ? (real)0 : v;
  }
}

// The mean over the channels of each pixel: channel c goes to partial sum
// c mod 4, and the partial sums are added pairwise, 0 and 2, 1 and 3.
ENTRY(channel_mean)(real *y, const real *x, long long pixels, int channels) {
  EACH(p, pixels) {
    const real *row = x + p * channels;
    real s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    int c = 0;
    for (; c + 4 <= channels; c += 4) {
      s0 += row[c];
      s1 += row[c + 1];
      s2 += row[c + 2];
      s3 += row[c + 3];
    }
    if (c < channels) s0 += row[c];
    if (c + 1 < channels) s1 += row[c + 1];
    if (c + 2 < channels) s2 += row[c + 2];
    y[p] = ((s0 + s2) + (s1 + s3)) / (real)channels;
  }
}

// dx[p,c] = dy[p] / channels, for n = pixels * channels.
ENTRY(channel_mean_gradient)(real *dx, const real *dy, long long n, int channels) {
  EACH(i, n) dx[i] = dy[i / channels] / (real)channels;
}
