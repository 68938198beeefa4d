package kernel

import "fmt"

// A Fusion is work of the neighbouring operations that a convolution does on
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
	// Pool, unless nil, is the max pool behind Out, and Argmax its maxima. In a
	// backward pass dy is then the d of Out.BackwardSumsPool, and
	// Pool.Backward(dy, Argmax) takes its place.
	Pool   *MaxPool[T]
	Argmax []uint8
	// Shortcut, unless nil, is added to dx in a backward pass: the gradient
	// that reaches the convolution's input by another way.
	Shortcut []T
	// Prev, unless nil, is the batch norm before the convolution, whose output
	// went through a ReLU: that of In, or one applied by others. A backward pass
	// then does the work of Prev.BackwardSums, with the convolution's input as
	// out and PrevX as x: dx becomes its d, and Dgamma and Dbeta are set.
	// It needs dx.
	Prev          *BatchNorm[T]
	PrevX         []T
	Dgamma, Dbeta []T
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

// checkBackward panics unless what a backward pass reads fits the convolution.
func (f *Fusion[T]) checkBackward(op string, s ConvShape, n int, dx bool) {
	if f.Out != nil {
		checkImages(op, "Y", n, s.OutLen(), len(f.Y))
	}
	if p := f.Pool; p != nil {
		if f.Out == nil || p.channels != s.OutC || p.inH != s.OutH() || p.inW != s.OutW() {
			panic(fmt.Sprintf("kernel.%s: pool of %dx%dx%d behind %dx%dx%d, want one size and a batch norm between", op,
				p.inH, p.inW, p.channels, s.OutH(), s.OutW(), s.OutC))
		}
		checkImages(op, "Argmax", n, p.OutLen(), len(f.Argmax))
	}
	if (f.Shortcut != nil || f.Prev != nil) && !dx {
		panic(fmt.Sprintf("kernel.%s: Shortcut or Prev without dx", op))
	}
	if f.Shortcut != nil {
		checkImages(op, "Shortcut", n, s.InLen(), len(f.Shortcut))
	}
	if f.Prev != nil {
		f.checkPrev(op, s.InLen(), s.InC, n)
	}
}

// checkPrev panics unless Prev and what it reads fit n images of the given
// length.
func (f *Fusion[T]) checkPrev(op string, image, channels, n int) {
	if f.Prev.channels != channels {
		panic(fmt.Sprintf("kernel.%s: batch norm of %d channels before %d input channels", op, f.Prev.channels, channels))
	}
	f.Prev.checkParameters(op, f.Dgamma, f.Dbeta)
	f.Prev.checkBatch(op, n, image/channels)
	checkImages(op, "PrevX", n, image, len(f.PrevX))
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
		f.Out.endBatch(s, y, n, pixels, f.Gamma, f.Beta)
	}
}

// BackwardFused is BackwardWeights, without accumulation, and BackwardData in
// one pass, with the work of f. dx is the gradient of the convolution's input,
// behind f.In; nil leaves it out, and then w is not used.
func (c *Conv[T]) BackwardFused(s *Scratch[T], dx, dw, x, dy []T, n int, w Weights[T], f Fusion[T]) {
	const op = "Conv.BackwardFused"
	image := c.shape.OutLen()
	if f.Pool != nil {
		image = f.Pool.OutLen()
	}
	c.checkBackward(op, dw, x, dy, n, image)
	f.check(op, c.shape, n)
	f.checkBackward(op, c.shape, n, dx != nil)
	if dx != nil {
		checkImages(op, "dx", n, c.shape.InLen(), len(dx))
		c.pack(&c.backwardW, w, c.packBackward)
	}
	if f.Prev != nil {
		grow(&s.sums, 2*n*f.Prev.channels)
	}
	c.weightGradient(s, dx, x, dy, n, f)
	c.unpack(dw, s.partial[:c.shape.WeightLen()], false)
	if f.Prev != nil {
		f.Prev.endBackward(s, f.Dgamma, f.Dbeta, n)
	}
}
