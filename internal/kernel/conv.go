package kernel

import (
	"errors"
	"fmt"
)

// ErrShape says that a shape is impossible, or one an algorithm does not have.
var ErrShape = errors.New("bad shape")

// ConvShape describes a two-dimensional convolution of an image
// [InH, InW, InC] to [OutH, OutW, OutC], with zeros around the image. Sizes and
// strides are at least 1, pads at least 0. OutH and OutW follow from it.
type ConvShape struct {
	InH, InW, InC    int
	OutC             int
	KernelH, KernelW int
	StrideH, StrideW int
	PadH, PadW       int
}

// OutH returns the height of the output, floor((InH + 2 PadH - KernelH) / StrideH) + 1.
func (s ConvShape) OutH() int { return (s.InH+2*s.PadH-s.KernelH)/s.StrideH + 1 }

// OutW returns the width of the output, floor((InW + 2 PadW - KernelW) / StrideW) + 1.
func (s ConvShape) OutW() int { return (s.InW+2*s.PadW-s.KernelW)/s.StrideW + 1 }

// InLen returns the number of elements of an input image.
func (s ConvShape) InLen() int { return s.InH * s.InW * s.InC }

// OutLen returns the number of elements of an output image.
func (s ConvShape) OutLen() int { return s.OutH() * s.OutW() * s.OutC }

// WeightLen returns the number of weights.
func (s ConvShape) WeightLen() int { return s.OutC * s.InC * s.KernelH * s.KernelW }

// FLOP returns the floating point operations that the definition of one pass
// over one image takes, a product and a sum each counting one and products
// with the zeros around the image counting too.
func (s ConvShape) FLOP() float64 {
	return 2 * float64(s.OutH()*s.OutW()) * float64(s.WeightLen())
}

// maxSize bounds every size of a shape, which keeps products of three of them
// from overflow, and maxImage the elements of an image.
const (
	maxSize  = 1 << 15
	maxImage = 1 << 30
)

// Check returns an error wrapping ErrShape when the shape is impossible.
func (s ConvShape) Check() error {
	for _, v := range []struct {
		name       string
		value, min int
	}{
		{"InH", s.InH, 1}, {"InW", s.InW, 1}, {"InC", s.InC, 1}, {"OutC", s.OutC, 1},
		{"KernelH", s.KernelH, 1}, {"KernelW", s.KernelW, 1},
		{"StrideH", s.StrideH, 1}, {"StrideW", s.StrideW, 1},
		{"PadH", s.PadH, 0}, {"PadW", s.PadW, 0},
	} {
		if v.value < v.min || v.value > maxSize {
			return fmt.Errorf("convolution with %s = %d, want %d to %d: %w", v.name, v.value, v.min, maxSize, ErrShape)
		}
	}
	if s.InH+2*s.PadH < s.KernelH || s.InW+2*s.PadW < s.KernelW {
		return fmt.Errorf("convolution with kernel %dx%d, larger than its padded input %dx%d: %w",
			s.KernelH, s.KernelW, s.InH+2*s.PadH, s.InW+2*s.PadW, ErrShape)
	}
	// Both directions copy an image with zeros around it.
	forward := ((s.OutH()-1)*s.StrideH + s.KernelH) * ((s.OutW()-1)*s.StrideW + s.KernelW) * s.InC
	backward := (s.InH + s.KernelH - 1) * (s.InW + s.KernelW - 1) * s.OutC
	if size := max(s.InLen(), s.OutLen(), s.WeightLen(), forward, backward); size > maxImage {
		return fmt.Errorf("convolution with a padded image or weights of %d elements, want at most %d: %w", size, maxImage, ErrShape)
	}
	return nil
}

// An Algorithm is a way to compute a convolution.
type Algorithm uint8

const (
	// Auto is Winograd where it is faster, else Direct.
	Auto Algorithm = iota
	// Direct adds the products of the definition one after the other.
	Direct
	// Winograd is F(4x4, 3x3) of Lavin and Gray (2016), for kernels 3x3 with
	// stride 1: a quarter of the products, at the price of three to five times
	// the rounding error of Direct.
	Winograd
)

var algorithmNames = [...]string{Auto: "auto", Direct: "direct", Winograd: "winograd"}

// String returns "auto", "direct" or "winograd".
func (a Algorithm) String() string {
	if int(a) >= len(algorithmNames) {
		return fmt.Sprintf("Algorithm(%d)", uint8(a))
	}
	return algorithmNames[a]
}

// Weights are the weights of a convolution with their version. The packed form
// that the passes read is kept until the version changes.
type Weights[T Float] struct {
	// Data is [OutC, InC, KernelH, KernelW], PyTorch's order.
	Data []T
	// Version tells contents apart: whoever changes Data changes it. Zero
	// stands for unknown contents, which are packed at every call.
	Version uint64
}

// A Conv computes one convolution (a correlation, as in every network library)
// and its gradients. Images are [height, width, channels], row-major and
// without gaps, a batch is n of them; slices may be longer, and what lies
// behind the n images is neither read nor written. With zeros outside the
// image,
//
//	y[h,w,o]      = sum_{r,s,i} x[h StrideH + r - PadH, w StrideW + s - PadW, i] weights[o,i,r,s]
//	dx            = dL/dx given dy = dL/dy
//	dw[o,i,r,s]   = sum over images and h, w of x[h StrideH + r - PadH, w StrideW + s - PadW, i] dy[h,w,o]
//
// A Conv belongs to one goroutine at a time. An image of y or dx depends on no
// other image of the batch. dw is summed over chunks of eight images, in order
// of the images, and the chunks are added in order.
type Conv[T Float] struct {
	shape     ConvShape
	algorithm Algorithm
	// forward is the shape's correlation; backward is the one of stride 1 that
	// makes dx from dy.
	forward, backward correlation
	forwardW          packedWeights[T]
	backwardW         packedWeights[T]
	hwio              []T // scratch of the packing
	job               convJob[T]
}

// NewConv returns a convolution. It returns an error wrapping ErrShape when the
// shape is impossible, or not one that the algorithm has.
func NewConv[T Float](s ConvShape, a Algorithm) (*Conv[T], error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	switch a {
	case Auto:
		a = Direct
		if winogradPays(s) {
			a = Winograd
		}
	case Direct:
	case Winograd:
		if !winogradHas(s) {
			return nil, fmt.Errorf("winograd convolution with kernel %dx%d, stride %dx%d, want kernel 3x3, stride 1x1: %w",
				s.KernelH, s.KernelW, s.StrideH, s.StrideW, ErrShape)
		}
	default:
		return nil, fmt.Errorf("convolution with %v: %w", a, ErrShape)
	}
	c := &Conv[T]{shape: s, algorithm: a, hwio: make([]T, s.WeightLen())}
	c.forward = correlation{
		outH: s.OutH(), outW: s.OutW(), outC: s.OutC,
		inH: s.InH, inW: s.InW, inC: s.InC,
		kernelH: s.KernelH, kernelW: s.KernelW,
		strideH: s.StrideH, strideW: s.StrideW,
		spreadH: 1, spreadW: 1,
		topPad: s.PadH, leftPad: s.PadW,
	}
	c.backward = correlation{
		outH: s.InH, outW: s.InW, outC: s.InC,
		inH: s.OutH(), inW: s.OutW(), inC: s.OutC,
		kernelH: s.KernelH, kernelW: s.KernelW,
		strideH: 1, strideW: 1,
		spreadH: s.StrideH, spreadW: s.StrideW,
		topPad: s.KernelH - 1 - s.PadH, leftPad: s.KernelW - 1 - s.PadW,
	}
	return c, nil
}

// Shape returns the shape.
func (c *Conv[T]) Shape() ConvShape { return c.shape }

// Algorithm returns the algorithm in use: Direct or Winograd.
func (c *Conv[T]) Algorithm() Algorithm { return c.algorithm }

// Forward computes y from n images x.
func (c *Conv[T]) Forward(s *Scratch[T], y, x []T, n int, w Weights[T]) {
	checkImages("Conv.Forward", "y", n, c.shape.OutLen(), len(y))
	checkImages("Conv.Forward", "x", n, c.shape.InLen(), len(x))
	c.pack(&c.forwardW, w, c.packForward)
	c.correlate(s, &c.forward, &c.forwardW, y, x, n, Fusion[T]{})
}

// BackwardData computes dx from dy for n images.
func (c *Conv[T]) BackwardData(s *Scratch[T], dx, dy []T, n int, w Weights[T]) {
	checkImages("Conv.BackwardData", "dx", n, c.shape.InLen(), len(dx))
	checkImages("Conv.BackwardData", "dy", n, c.shape.OutLen(), len(dy))
	c.pack(&c.backwardW, w, c.packBackward)
	c.correlate(s, &c.backward, &c.backwardW, dx, dy, n, Fusion[T]{})
}

// BackwardWeights computes dw, in the order of [Weights], from n images of x
// and dy. With accumulate it adds to dw, after the sum over the batch.
func (c *Conv[T]) BackwardWeights(s *Scratch[T], dw, x, dy []T, n int, accumulate bool) {
	c.checkBackward("Conv.BackwardWeights", dw, x, dy, n, c.shape.OutLen())
	c.weightGradient(s, nil, x, dy, n, Fusion[T]{})
	c.unpack(dw, s.partial[:c.shape.WeightLen()], accumulate)
}

// checkBackward panics unless the slices fit, where dy holds images of the
// given length.
func (c *Conv[T]) checkBackward(op string, dw, x, dy []T, n, image int) {
	checkImages(op, "x", n, c.shape.InLen(), len(x))
	checkImages(op, "dy", n, image, len(dy))
	if len(dw) != c.shape.WeightLen() {
		panic(fmt.Sprintf("kernel.%s: dw has %d elements, want %d", op, len(dw), c.shape.WeightLen()))
	}
}
