package kernels

import (
	"fmt"

	"fedrspo/internal/cuda"
)

// ConvShape describes a convolution of images [H, W, C] to [OutH, OutW, Out]
// with a square stride and pad.
type ConvShape struct {
	H, W, C          int
	Out              int
	KernelH, KernelW int
	Stride, Pad      int
}

// OutH returns the height of the output.
func (s ConvShape) OutH() int { return (s.H+2*s.Pad-s.KernelH)/s.Stride + 1 }

// OutW returns the width of the output.
func (s ConvShape) OutW() int { return (s.W+2*s.Pad-s.KernelW)/s.Stride + 1 }

// InLen returns the elements of an input image.
func (s ConvShape) InLen() int { return s.H * s.W * s.C }

// OutLen returns the elements of an output image.
func (s ConvShape) OutLen() int { return s.OutH() * s.OutW() * s.Out }

// WeightLen returns the number of weights.
func (s ConvShape) WeightLen() int { return s.Out * s.depth() }

// depth is the length of the sums.
func (s ConvShape) depth() int { return s.KernelH * s.KernelW * s.C }

// columnBytes bounds the scratch memory for the rows of a product.
const columnBytes = 128 << 20

// images returns how many images one product takes. It depends on the shape
// alone, so that sums over a batch always have the same parts.
func (q *Queue) images(s ConvShape) int {
	return max(1, columnBytes/(s.OutH()*s.OutW()*s.depth()*q.elem.Size()))
}

// geometry is the arguments that im2col and col2im share.
func (s ConvShape) geometry() [9]cuda.Arg {
	return [9]cuda.Arg{cuda.I(s.H), cuda.I(s.W), cuda.I(s.C), cuda.I(s.OutH()), cuda.I(s.OutW()),
		cuda.I(s.KernelH), cuda.I(s.KernelW), cuda.I(s.Stride), cuda.I(s.Pad)}
}

// PackWeights turns weights from [Out, C, KernelH, KernelW] to the order
// [Out, KernelH, KernelW, C] that the convolutions read.
func (q *Queue) PackWeights(packed, w Ptr, s ConvShape) {
	q.each(q.packWeights, s.WeightLen(), cuda.P(packed), cuda.P(w), cuda.I(s.Out), cuda.I(s.C), cuda.I(s.KernelH*s.KernelW))
}

// Conv computes the convolution of n images: y from x.
func (q *Queue) Conv(y, x, packed Ptr, s ConvShape, n int) {
	q.eachImages(s, n, func(first, count, pixels int, columns Ptr) {
		q.columnsOf(columns, q.at(x, first*s.InLen()), s, pixels)
		q.Gemm(pixels, s.Out, s.depth(), Matrix{columns, s.depth(), false}, Matrix{packed, s.depth(), true}, q.at(y, first*s.OutLen()), s.Out, Epilogue{})
	})
}

// ConvBackwardData computes dx from dy for n images.
func (q *Queue) ConvBackwardData(dx, dy, packed Ptr, s ConvShape, n int) {
	q.eachImages(s, n, func(first, count, pixels int, columns Ptr) {
		q.Gemm(pixels, s.depth(), s.Out, Matrix{q.at(dy, first*s.OutLen()), s.Out, false}, Matrix{packed, s.depth(), false}, columns, s.depth(), Epilogue{})
		g, total := s.geometry(), count*s.InLen()
		q.each(q.col2im, total, cuda.P(q.at(dx, first*s.InLen())), cuda.P(columns), cuda.L(total), g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8])
	})
}

// ConvBackwardWeights computes the gradient dw of the weights, in their order,
// from n images of x and dy. dpacked is room for as many elements.
func (q *Queue) ConvBackwardWeights(dw, dpacked, x, dy Ptr, s ConvShape, n int) {
	q.eachImages(s, n, func(first, count, pixels int, columns Ptr) {
		q.columnsOf(columns, q.at(x, first*s.InLen()), s, pixels)
		q.Gemm(s.Out, s.depth(), pixels, Matrix{q.at(dy, first*s.OutLen()), s.Out, true}, Matrix{columns, s.depth(), false}, dpacked, s.depth(), Epilogue{Accumulate: first > 0})
	})
	q.each(q.unpackWeights, s.WeightLen(), cuda.P(dw), cuda.P(dpacked), cuda.I(s.Out), cuda.I(s.C), cuda.I(s.KernelH*s.KernelW))
}

// eachImages calls f for the parts of a batch that one product takes.
func (q *Queue) eachImages(s ConvShape, n int, f func(first, count, pixels int, columns Ptr)) {
	if s.OutH() < 1 || s.OutW() < 1 || s.Stride < 1 || n < 1 {
		panic(fmt.Sprintf("kernels: convolution %+v of %d images", s, n))
	}
	step := q.images(s)
	columns := q.grow(&q.columns, min(step, n)*s.OutH()*s.OutW()*s.depth()*q.elem.Size())
	for first := 0; first < n; first += step {
		count := min(step, n-first)
		f(first, count, count*s.OutH()*s.OutW(), columns)
	}
}

func (q *Queue) columnsOf(columns, x Ptr, s ConvShape, pixels int) {
	g, total := s.geometry(), pixels*s.depth()
	q.each(q.im2col, total, cuda.P(columns), cuda.P(x), cuda.L(total), g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8])
}
