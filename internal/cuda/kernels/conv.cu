// Convolutions as matrix products. Images are [n, height, width, channels].

// The rows of the product: col[p, (r, s, i)] = x[h stride + r - pad,
// w stride + s - pad, i], zero outside the image, for pixels p = (image, h, w)
// of the output. total is pixels * KH * KW * C.
ENTRY(im2col)
(real *col, const real *x, long long total, int H, int W, int C, int OH, int OW, int KH, int KW, int stride, int pad) {
  int K = KH * KW * C;
  EACH(e, total) {
    long long p = e / K;
    int k = (int)(e % K), i = k % C, s = k / C % KW, r = k / (C * KW);
    int w = (int)(p % OW), h = (int)(p / OW % OH);
    long long image = p / ((long long)OW * OH);
    int y = h * stride + r - pad, z = w * stride + s - pad;
    col[e] = y >= 0 && y < H && z >= 0 && z < W ? x[((image * H + y) * W + z) * C + i] : (real)0;
  }
}

// The gradient of x from that of im2col's rows: those that meet in an element
// are added in ascending order of (r, s). total is images * H * W * C.
ENTRY(col2im)
(real *dx, const real *dcol, long long total, int H, int W, int C, int OH, int OW, int KH, int KW, int stride, int pad) {
  long long K = (long long)KH * KW * C;
  EACH(e, total) {
    int i = (int)(e % C), z = (int)(e / C % W), y = (int)(e / C / W % H);
    long long image = e / C / W / H;
    real sum = 0;
    for (int r = 0; r < KH; r++) {
      int h = y + pad - r;
      if (h < 0 || h % stride || h / stride >= OH) continue;
      h /= stride;
      for (int s = 0; s < KW; s++) {
        int w = z + pad - s;
        if (w < 0 || w % stride || w / stride >= OW) continue;
        w /= stride;
        sum += dcol[((image * OH + h) * OW + w) * K + (r * KW + s) * C + i];
      }
    }
    dx[e] = sum;
  }
}

// Weights from PyTorch's order [o, i, r, s] to the product's, [o, r, s, i].
ENTRY(pack_weights)(real *dst, const real *src, int O, int I, int area) {
  EACH(e, (long long)O * I * area) {
    int i = (int)(e % I), rs = (int)(e / I % area);
    long long o = e / I / area;
    dst[e] = src[(o * I + i) * area + rs];
  }
}

// Their gradient back to PyTorch's order.
ENTRY(unpack_weights)(real *dst, const real *src, int O, int I, int area) {
  EACH(e, (long long)O * I * area) {
    int rs = (int)(e % area), i = (int)(e / area % I);
    long long o = e / area / I;
    dst[e] = src[(o * area + rs) * I + i];
  }
}
