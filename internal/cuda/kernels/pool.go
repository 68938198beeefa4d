package kernels

import "fedrspo/internal/cuda"

// PoolShape describes a max pooling of images [H, W, C] to [OutH, OutW, C].
// Window i of an axis covers [i Stride - Pad, i Stride - Pad + Size), cut at the
// border; with Size 0 it covers [floor(i in / out), ceil((i+1) in / out)). Sides
// of windows are at most 16.
type PoolShape struct {
	H, W, C, OutH, OutW int
	Size, Stride, Pad   int
}

// InLen returns the elements of an input image.
func (s PoolShape) InLen() int { return s.H * s.W * s.C }

// OutLen returns the elements of an output image.
func (s PoolShape) OutLen() int { return s.OutH * s.OutW * s.C }

// code is the widest window: places in a window are numbered row * code + column.
func (s PoolShape) code() int {
	widest := 0
	for i := range s.OutW {
		lo, hi := i*s.W/s.OutW, ((i+1)*s.W+s.OutW-1)/s.OutW
		if s.Size > 0 {
			lo = i*s.Stride - s.Pad
			lo, hi = max(0, lo), min(s.W, lo+s.Size)
		}
		widest = max(widest, hi-lo)
	}
	return widest
}

// geometry is the arguments that both kernels share.
func (s PoolShape) geometry() [9]cuda.Arg {
	return [9]cuda.Arg{cuda.I(s.H), cuda.I(s.W), cuda.I(s.C), cuda.I(s.OutH), cuda.I(s.OutW), cuda.I(s.Size), cuda.I(s.Stride), cuda.I(s.Pad), cuda.I(s.code())}
}

// MaxPool computes the maxima y of n images x and, unless argmax is 0, their
// places as bytes. With factors, those of a [Norm], the images are normalised
// and clamped at zero first.
func (q *Queue) MaxPool(y, argmax, x, factors Ptr, s PoolShape, n int) {
	g, total := s.geometry(), n*s.OutLen()
	q.each(q.maxPool, total, cuda.P(y), cuda.P(argmax), cuda.P(x), cuda.P(factors), cuda.L(total), g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8])
}

// MaxPoolGrad computes dx of n images from dy and the places of the maxima;
// where out is not 0 and the output is not positive there, dy counts as zero.
func (q *Queue) MaxPoolGrad(dx, dy, out, argmax Ptr, s PoolShape, n int) {
	g, total := s.geometry(), n*s.InLen()
	q.each(q.maxPoolGradient, total, cuda.P(dx), cuda.P(dy), cuda.P(out), cuda.P(argmax), cuda.L(total), g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8])
}
