// Max pooling. Window i of an axis covers [i stride - pad, i stride - pad +
// size), cut at the border; with size 0 it covers [floor(i in / out),
// ceil((i+1) in / out)).

static __device__ void span(int i, int in, int out, int size, int stride, int pad, int *lo, int *hi) {
  if (size == 0) {
    *lo = (int)((long long)i * in / out);
    *hi = (int)(((long long)(i + 1) * in + out - 1) / out);
    return;
  }
  *lo = i * stride - pad;
  *hi = *lo + size < in ? *lo + size : in;
  if (*lo < 0) *lo = 0;
}

// The windows [first, last] of an axis that may cover place h.
static __device__ void covering(int h, int in, int out, int size, int stride, int pad, int *first, int *last) {
  if (size == 0) {
    *first = (int)((long long)h * out / in) - 1;
    *last = (int)(((long long)(h + 1) * out + in - 1) / in);
  } else {
    *first = (h + pad - size) / stride;
    *last = (h + pad) / stride;
  }
  if (*first < 0) *first = 0;
  if (*last > out - 1) *last = out - 1;
}

// y = the largest element of each window, argmax, unless it is null, its place
// there, row * code + column. Of equal elements the first is taken; a NaN is
// larger than every number. With factors [2, C], x stands for scale x + shift,
// through a ReLU. total is images * OH * OW * C.
ENTRY(max_pool)
(real *y, unsigned char *argmax, const real *x, const real *factors, long long total, int H, int W, int C, int OH,
 int OW, int size, int stride, int pad, int code) {
  EACH(e, total) {
    int c = (int)(e % C), ow = (int)(e / C % OW), oh = (int)(e / C / OW % OH);
    long long image = e / C / OW / OH;
    int h0, h1, w0, w1;
    span(oh, H, OH, size, stride, pad, &h0, &h1);
    span(ow, W, OW, size, stride, pad, &w0, &w1);
    real best = 0;
    int at = 0;
    for (int h = h0; h < h1; h++)
      for (int w = w0; w < w1; w++) {
        real v = x[((image * H + h) * W + w) * C + c];
        if (factors) {
          v = factors[c] * v + factors[C + c];
          if (v < 0) v = 0;
        }
        if ((h == h0 && w == w0) || v > best || (v != v && best == best)) {
          best = v;
          at = (h - h0) * code + w - w0;
        }
      }
    y[e] = best;
    if (argmax) argmax[e] = (unsigned char)at;
  }
}

// dx from dy and the places of the maxima; where out is not null and not
// positive, dy counts as 0. Gradients that meet in an element are added in
// order of the windows. total is images * H * W * C.
ENTRY(max_pool_gradient)
(real *dx, const real *dy, const real *out, const unsigned char *argmax, long long total, int H, int W, int C, int OH,
 int OW, int size, int stride, int pad, int code) {
  EACH(e, total) {
    int c = (int)(e % C), w = (int)(e / C % W), h = (int)(e / C / W % H);
    long long image = e / C / W / H;
    int i0, i1, j0, j1;
    covering(h, H, OH, size, stride, pad, &i0, &i1);
    covering(w, W, OW, size, stride, pad, &j0, &j1);
    real sum = 0;
    for (int i = i0; i <= i1; i++) {
      int h0, h1;
      span(i, H, OH, size, stride, pad, &h0, &h1);
      if (h < h0 || h >= h1) continue;
      for (int j = j0; j <= j1; j++) {
        int w0, w1;
        span(j, W, OW, size, stride, pad, &w0, &w1);
        if (w < w0 || w >= w1) continue;
        long long o = ((image * OH + i) * OW + j) * C + c;
        if (argmax[o] != (h - h0) * code + w - w0) continue;
        real v = dy[o];
        if (out && !(out[o] > 0)) v = 0;
        sum += v;
      }
    }
    dx[e] = sum;
  }
}
