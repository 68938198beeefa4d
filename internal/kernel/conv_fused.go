package kernel

import "fmt"

// A Fusion is work of the neighbouring batch norms that a convolution does on
// each image while it is in the cache. The bits are those of the separate
// operations.
type Fusion[T Float] struct {
	// In, unless nil, makes In.Apply(x, Residual, ReLU) the convolution's input
	// in place of x. Residual may be nil. In a forward pass Store, unless nil,
	// receives that input.
	In       *BatchNorm[T]
	Residual []T
	ReLU     bool
	Store    []T
	// Out, unless nil, is the batch norm behind the convolution. A forward pass
	// computes its statistics like Out.Batch(y), with Gamma and Beta. In a
	// backward pass the gradient of y is Out.BackwardApply(dy, Y), where Y is
	// the y of the forward pass and dy is the d of Out.BackwardSums.
	Out         *BatchNorm[T]
	Gamma, Beta []T
	Y           []T
}

// input computes the convolution's input from images x, the first of which is
// the given one of the batch.
func (f *Fusion[T]) input(to, x []T, first, image int) {
	var residual []T
	if f.Residual != nil {
		residual = f.Residual[first*image:][:len(x)]
	}
	scaleShift(to, x, residual, f.In.scale, f.In.shift, f.ReLU)
}

// check panics unless the batch norms and slices fit the convolution.
func (f *Fusion[T]) check(op string, s ConvShape, n int) {
	if f.In != nil {
		if f.In.channels != s.InC {
			panic(fmt.Sprintf("kernel.%s: batch norm of %d channels before %d input channels", op, f.In.channels, s.InC))
		}
		if f.Residual != nil {
			checkImages(op, "Residual", n, s.InLen(), len(f.Residual))
		}
		if f.Store != nil {
			checkImages(op, "Store", n, s.InLen(), len(f.Store))
		}
	}
	if f.Out != nil && f.Out.channels != s.OutC {
		panic(fmt.Sprintf("kernel.%s: batch norm of %d channels behind %d output channels", op, f.Out.channels, s.OutC))
	}
}

// ForwardFused is Forward with the work of f.
func (c *Conv[T]) ForwardFused(s *Scratch[T], y, x []T, n int, w Weights[T], f Fusion[T]) {
	checkImages("Conv.ForwardFused", "y", n, c.shape.OutLen(), len(y))
	checkImages("Conv.ForwardFused", "x", n, c.shape.InLen(), len(x))
	f.check("Conv.ForwardFused", c.shape, n)
	pixels := c.shape.OutH() * c.shape.OutW()
	if f.Out != nil {
		f.Out.beginBatch(s, n, pixels, f.Gamma, f.Beta)
	}
	c.pack(&c.forwardW, w, c.packForward)
	c.correlate(s, &c.forward, &c.forwardW, y, x, n, f)
	if f.Out != nil {
		f.Out.endBatch(s, n, pixels, f.Gamma, f.Beta)
	}
}

// BackwardFused is BackwardWeights, without accumulation, and BackwardData in
// one pass, with the work of f. dx is the gradient of the convolution's input,
// behind f.In; nil leaves it out, and then w is not used.
func (c *Conv[T]) BackwardFused(s *Scratch[T], dx, dw, x, dy []T, n int, w Weights[T], f Fusion[T]) {
	c.checkBackward("Conv.BackwardFused", dw, x, dy, n)
	f.check("Conv.BackwardFused", c.shape, n)
	if f.Out != nil {
		checkImages("Conv.BackwardFused", "Y", n, c.shape.OutLen(), len(f.Y))
	}
	if dx != nil {
		checkImages("Conv.BackwardFused", "dx", n, c.shape.InLen(), len(dx))
		c.pack(&c.backwardW, w, c.packBackward)
	}
	c.weightGradient(s, dx, x, dy, n, f)
	c.unpack(dw, s.partial[:c.shape.WeightLen()], false)
}
