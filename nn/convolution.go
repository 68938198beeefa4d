package nn

import (
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"
)

// Convolution is a way to compute convolutions.
type Convolution uint8

const (
	// ConvAuto, the zero value, is ConvWinograd for the layers where it is
	// faster, else ConvDirect.
	ConvAuto Convolution = iota
	// ConvDirect adds the products of the definition.
	ConvDirect
	// ConvWinograd is the algorithm F(4x4, 3x3) of Lavin and Gray (2016) for
	// every layer with kernel 3x3 and stride 1. Its rounding error is three to
	// five times that of ConvDirect.
	ConvWinograd
)

var convolutionNames = [...]string{ConvAuto: "auto", ConvDirect: "direct", ConvWinograd: "winograd"}

func (c Convolution) valid() bool { return int(c) < len(convolutionNames) }

// String returns "auto", "direct" or "winograd".
func (c Convolution) String() string {
	if !c.valid() {
		return fmt.Sprintf("Convolution(%d)", uint8(c))
	}
	return convolutionNames[c]
}

// algorithm returns the kernel's algorithm for a shape.
func (c Convolution) algorithm(s kernel.ConvShape) kernel.Algorithm {
	switch {
	case c == ConvAuto:
		return kernel.Auto
	case c == ConvWinograd && s.KernelH == 3 && s.KernelW == 3 && s.StrideH == 1 && s.StrideW == 1:
		return kernel.Winograd
	}
	return kernel.Direct
}

// convolution is a convolution with its weights.
type convolution[T graphop.Float] struct {
	parameter[T]
	conv    *kernel.Conv[T]
	shape   kernel.ConvShape
	run     *RunState
	scratch *kernel.Scratch[T]
}

// newConvolution returns the convolution of images like x with the parameter
// name.weight [out, in, height, width].
func newConvolution[T graphop.Float](b *Builder, x Images, name string, stride, pad int) (o convolution[T], err error) {
	o.run, o.scratch = b.run, b.memory.(*memory[T]).scratch
	if o.parameter, err = param[T](b, prefixed(name)+"weight"); err != nil {
		return o, err
	}
	w := o.node.Shape()
	if len(w) != 4 || w[1] != x.C {
		return o, fmt.Errorf("nn: convolution %q: weight %v does not fit %d channels", name, w, x.C)
	}
	o.shape = kernel.ConvShape{
		InH: x.H, InW: x.W, InC: x.C, OutC: w[0], KernelH: w[2], KernelW: w[3],
		StrideH: stride, StrideW: stride, PadH: pad, PadW: pad,
	}
	if err := o.shape.Check(); err != nil {
		return o, fmt.Errorf("nn: convolution %q: %w", name, err)
	}
	if o.conv, err = kernel.NewConv[T](o.shape, b.convolution.algorithm(o.shape)); err != nil {
		return o, fmt.Errorf("nn: convolution %q: %w", name, err)
	}
	return o, nil
}

func (o *convolution[T]) weights() kernel.Weights[T] {
	return kernel.Weights[T]{Data: o.value, Version: o.run.Version}
}

// forward computes n images y from x.
func (o *convolution[T]) forward(y, x []T, n int) { o.conv.Forward(o.scratch, y, x, n, o.weights()) }

// backward computes the gradient of the weights, and dx unless it is nil.
func (o *convolution[T]) backward(dx, x, dy []T, n int) {
	o.conv.BackwardWeights(o.scratch, o.grad, x, dy, n, false)
	if dx != nil {
		o.conv.BackwardData(o.scratch, dx, dy, n, o.weights())
	}
}

// forwardFused and backwardFused do neighbouring work as well.
func (o *convolution[T]) forwardFused(y, x []T, n int, f kernel.Fusion[T]) {
	o.conv.ForwardFused(o.scratch, y, x, n, o.weights(), f)
}

func (o *convolution[T]) backwardFused(dx, x, dy []T, n int, f kernel.Fusion[T]) {
	o.conv.BackwardFused(o.scratch, dx, o.grad, x, dy, n, o.weights(), f)
}
