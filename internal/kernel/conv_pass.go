package kernel

// gradientChunk is the number of images whose weight gradients are summed one
// after the other.
const gradientChunk = 8

// convJob is one pass over a batch.
type convJob[T Float] struct {
	s *Scratch[T]
	f Fusion[T]
	n int
	// The correlation of dst from src, with weights w. In a pass that sums a
	// weight gradient it makes dx from dy, unless dst is nil.
	g        *correlation
	w        *packedWeights[T]
	dst, src []T
	// x is the input, in a pass that sums a weight gradient.
	x        []T
	gradient bool
}

// correlate computes n images of dst from src.
func (c *Conv[T]) correlate(s *Scratch[T], g *correlation, w *packedWeights[T], dst, src []T, n int, f Fusion[T]) {
	c.job = convJob[T]{s: s, f: f, n: n, g: g, w: w, dst: dst, src: src}
	s.run(n, c)
	c.job = convJob[T]{}
}

// weightGradient leaves the gradient as [KernelH, KernelW, InC, OutC] at the
// start of s.partial, and computes dx unless it is nil.
func (c *Conv[T]) weightGradient(s *Scratch[T], dx, x, dy []T, n int, f Fusion[T]) {
	size, parts := c.shape.WeightLen(), chunks(n, gradientChunk)
	partial := grow(&s.partial, max(1, parts)*size)
	clear(partial)
	c.job = convJob[T]{s: s, f: f, n: n, g: &c.backward, w: &c.backwardW, dst: dx, src: dy, x: x, gradient: true}
	s.run(parts, c)
	c.job = convJob[T]{}
	for i := 1; i < parts; i++ {
		Axpy(1, partial[i*size:][:size], partial[:size])
	}
}

// do implements task: an image, or a chunk of images of a weight gradient.
func (c *Conv[T]) do(thread, item int) {
	t := &c.job.s.threads[thread]
	if c.job.gradient {
		c.backwardChunk(t, item)
	} else {
		c.correlateImage(t, item)
	}
}

func (c *Conv[T]) correlateImage(t *threadScratch[T], item int) {
	j, f := &c.job, &c.job.f
	in, out := j.g.inLen(), j.g.outLen()
	src, dst := source[T]{x: j.src[item*in:][:in]}, j.dst[item*out:][:out]
	switch {
	case f.In != nil && f.Store != nil:
		to := f.Store[item*in:][:in]
		f.input(to, src.x, item, in)
		src.x = to
	case f.In != nil:
		src.norm, src.relu = f.In, f.ReLU
		if f.Residual != nil {
			src.residual = f.Residual[item*in:][:in]
		}
	}
	c.image(t, j.g, j.w, dst, src)
	if f.Out != nil {
		f.Out.imageSums(t, j.s.sums, item, dst)
	}
}

// image computes one image of a correlation.
func (c *Conv[T]) image(t *threadScratch[T], g *correlation, w *packedWeights[T], dst []T, src source[T]) {
	if c.algorithm == Winograd {
		winograd(t, g, w.packed, dst, src)
	} else {
		direct(t, g, w.packed, dst, src)
	}
}

// backwardChunk sums the weight gradient of a chunk of images, and computes
// their dx.
func (c *Conv[T]) backwardChunk(t *threadScratch[T], item int) {
	j, f := &c.job, &c.job.f
	in, out, size := c.forward.inLen(), c.forward.outLen(), c.shape.WeightLen()
	dw := j.s.partial[item*size:][:size]
	first := item * gradientChunk
	last := min(first+gradientChunk, j.n)
	group := 1
	if c.algorithm == Winograd {
		group = c.forward.gradientGroup()
	}
	for lo := first; lo < last; lo += group {
		n := min(group, last-lo)
		x, dy := j.x[lo*in:(lo+n)*in], c.outputGradient(t, lo, n)
		if f.In != nil {
			to := grow(&t.input, n*in)
			f.input(to, x, lo, in)
			x = to
		}
		if c.algorithm == Winograd {
			winogradGradient(t, &c.forward, x, dy, n, lo == first)
		} else {
			directGradient(t, &c.forward, dw, x, dy)
		}
		if j.dst != nil {
			for i := range n {
				dx := j.dst[(lo+i)*in:][:in]
				c.image(t, j.g, j.w, dx, source[T]{x: dy[i*out:][:out]})
				if f.Shortcut != nil {
					Axpy(1, f.Shortcut[(lo+i)*in:][:in], dx)
				}
				if f.Prev != nil {
					f.Prev.imageGradientSums(t, j.s.sums, lo+i, dx, dx, f.PrevX[(lo+i)*in:][:in], x[i*in:][:in])
				}
			}
		}
	}
	if c.algorithm == Winograd {
		winogradFilterSum(t, &c.forward, dw)
	}
}

// outputGradient returns the gradient of the convolution's output for n images
// from the given one on.
func (c *Conv[T]) outputGradient(t *threadScratch[T], lo, n int) []T {
	j, f := &c.job, &c.job.f
	out := c.forward.outLen()
	if f.Out == nil {
		return j.src[lo*out : (lo+n)*out]
	}
	dy, y := grow(&t.gradient, n*out), f.Y[lo*out:(lo+n)*out]
	if f.Pool == nil {
		f.Out.gradient(dy, j.src[lo*out:(lo+n)*out], y)
		return dy
	}
	pooled := f.Pool.OutLen()
	for i := range n {
		at := (lo + i) * pooled
		f.Pool.backwardImage(dy[i*out:][:out], j.src[at:][:pooled], f.Argmax[at:][:pooled], f.Out, y[i*out:][:out])
	}
	return dy
}
