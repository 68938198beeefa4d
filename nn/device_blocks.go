package nn

import (
	"fmt"

	"fedrspo/internal/cuda/kernels"
)

// stem is Builder.Stem on a device.
func (g *deviceGraph) stem(b *Builder, x Images, conv, norm string) (Images, error) {
	o := &deviceStem{g: g, run: b.run}
	k, err := b.kernelSize(conv)
	if err != nil {
		return Images{}, err
	}
	if o.conv, err = g.convolution(b, x, conv, 2, k/2); err != nil {
		return Images{}, err
	}
	s := o.conv.shape
	made := Images{H: s.OutH(), W: s.OutW(), C: s.Out}
	if o.norm, err = g.norm(b, norm, made.H, made.W, made.C); err != nil {
		return Images{}, err
	}
	if o.pool, err = poolShape(made, 1, 1, 3, 2, 1); err != nil {
		return Images{}, fmt.Errorf("nn: stem %q: %w", conv, err)
	}
	if o.argmax, err = g.places(b, o.pool); err != nil {
		return Images{}, err
	}
	live := b.run.Batch * made.size()
	if err := g.reserve(0, live); err != nil {
		return Images{}, err
	}
	if g.training {
		if o.c, err = g.alloc(live); err != nil {
			return Images{}, err
		}
	}
	return g.images(b, "stem "+conv, o.pool.OutH, o.pool.OutW, made.C, o, []Images{x}, o.conv.deviceParam, o.norm.gamma, o.norm.beta)
}

type deviceStem struct {
	g    *deviceGraph
	run  *RunState
	conv *deviceConvolution
	norm *deviceNorm
	pool kernels.PoolShape
	// Of the training graph: the convolution's output (and, in backward, its
	// gradient), and the places of the maxima.
	c, argmax kernels.Ptr
}

func (o *deviceStem) forward(y kernels.Ptr, x []kernels.Ptr) {
	c := o.c
	if c == 0 {
		c = o.g.temp[0].Ptr
	}
	o.conv.compute(c, x[0])
	o.norm.statistics(c)
	o.g.queue.MaxPool(y, o.argmax, c, o.norm.Factors(), o.pool, o.run.Rows)
}

func (o *deviceStem) backward(dx, x []kernels.Ptr, y, dy kernels.Ptr) {
	d := o.g.temp[0].Ptr
	o.g.queue.MaxPoolGrad(d, dy, y, o.argmax, o.pool, o.run.Rows)
	o.norm.backwardSums(d, d, 0, o.c)
	o.norm.backwardApply(o.c, d, o.c)
	o.conv.gradients(dx[0], x[0], o.c)
}

// basicBlock is Builder.BasicBlock on a device.
func (g *deviceGraph) basicBlock(b *Builder, x Images, name string) (Images, error) {
	o := &deviceBlock{g: g, run: b.run, image: x.size()}
	for i := range o.conv {
		conv, norm := fmt.Sprintf("%sconv%d", prefixed(name), i+1), fmt.Sprintf("%sbn%d", prefixed(name), i+1)
		k, err := b.kernelSize(conv)
		if err != nil {
			return Images{}, err
		}
		if o.conv[i], err = g.convolution(b, x, conv, 1, k/2); err != nil {
			return Images{}, err
		}
		if o.conv[i].shape.Out != x.C {
			return Images{}, fmt.Errorf("nn: basic block %q: %s makes %d channels of %d", name, conv, o.conv[i].shape.Out, x.C)
		}
		if o.norm[i], err = g.norm(b, norm, x.H, x.W, x.C); err != nil {
			return Images{}, err
		}
	}
	live := b.run.Batch * x.size()
	for k := range g.temp {
		if err := g.reserve(k, live); err != nil {
			return Images{}, err
		}
	}
	if g.training {
		for _, p := range []*kernels.Ptr{&o.c1, &o.a1, &o.c2} {
			var err error
			if *p, err = g.alloc(live); err != nil {
				return Images{}, err
			}
		}
	}
	return g.images(b, "basic block "+name, x.H, x.W, x.C, o, []Images{x},
		o.conv[0].deviceParam, o.norm[0].gamma, o.norm[0].beta, o.conv[1].deviceParam, o.norm[1].gamma, o.norm[1].beta)
}

type deviceBlock struct {
	g     *deviceGraph
	run   *RunState
	image int
	conv  [2]*deviceConvolution
	norm  [2]*deviceNorm
	// Of the training graph: the convolutions' outputs (c2 in backward its
	// gradient) and the input of the second.
	c1, a1, c2 kernels.Ptr
}

func (o *deviceBlock) forward(y kernels.Ptr, x []kernels.Ptr) {
	c1, a1, c2 := o.c1, o.a1, o.c2
	if c1 == 0 {
		c1, a1, c2 = o.g.temp[0].Ptr, o.g.temp[0].Ptr, o.g.temp[1].Ptr
	}
	o.conv[0].compute(c1, x[0])
	o.norm[0].statistics(c1)
	o.norm[0].apply(a1, c1, 0, true)
	o.conv[1].compute(c2, a1)
	o.norm[1].statistics(c2)
	o.norm[1].apply(y, c2, x[0], true)
}

func (o *deviceBlock) backward(dx, x []kernels.Ptr, y, dy kernels.Ptr) {
	d, d1 := o.g.temp[0].Ptr, o.g.temp[1].Ptr
	o.norm[1].backwardSums(d, dy, y, o.c2) // d is the shortcut's gradient too
	o.norm[1].backwardApply(o.c2, d, o.c2)
	o.conv[1].gradients(d1, o.a1, o.c2)
	o.norm[0].backwardSums(d1, d1, o.a1, o.c1)
	o.norm[0].backwardApply(d1, d1, o.c1)
	o.conv[0].gradients(dx[0], x[0], d1)
	if dx[0] != 0 {
		o.g.queue.Add(dx[0], dx[0], d, o.run.Rows*o.image)
	}
}

// head is Builder.ConvHead of the given name, or Builder.MeanHead if there is
// none, on a device.
func (g *deviceGraph) head(b *Builder, x Images, name *string, h, w int) (Images, error) {
	o := &deviceHead{g: g, run: b.run, channels: x.C}
	var err error
	if o.pool, err = poolShape(x, h, w, 0, 0, 0); err != nil {
		return Images{}, fmt.Errorf("nn: head: %w", err)
	}
	if o.argmax, err = g.places(b, o.pool); err != nil {
		return Images{}, err
	}
	pooled := b.run.Batch * o.pool.OutLen()
	if err := g.reserve(0, pooled); err != nil {
		return Images{}, err
	}
	if name == nil {
		return g.images(b, "mean head", h, w, 1, o, []Images{x})
	}
	if err := g.reserve(1, b.run.Batch*h*w); err != nil {
		return Images{}, err
	}
	prefix := prefixed(*name)
	if o.weight, err = g.param(b, prefix+"weight"); err != nil {
		return Images{}, err
	}
	if o.bias, err = g.param(b, prefix+"bias"); err != nil {
		return Images{}, err
	}
	if o.weight.len != x.C || o.bias.len != 1 {
		return Images{}, fmt.Errorf("nn: head %q: weight and bias of %d and %d numbers, want %d and 1", *name, o.weight.len, o.bias.len, x.C)
	}
	if g.training {
		if o.pooled, err = g.alloc(pooled); err != nil {
			return Images{}, err
		}
	}
	return g.images(b, "head "+*name, h, w, 1, o, []Images{x}, o.weight, o.bias)
}

type deviceHead struct {
	g            *deviceGraph
	run          *RunState
	pool         kernels.PoolShape
	channels     int
	weight, bias deviceParam // of a ConvHead
	// Of the training graph: the places of the maxima and, for a ConvHead, the
	// pooled images.
	argmax, pooled kernels.Ptr
}

func (o *deviceHead) pixels() int { return o.run.Rows * o.pool.OutH * o.pool.OutW }

func (o *deviceHead) forward(y kernels.Ptr, x []kernels.Ptr) {
	q, p, c := o.g.queue, o.pooled, o.channels
	if p == 0 {
		p = o.g.temp[0].Ptr
	}
	q.MaxPool(p, o.argmax, x[0], 0, o.pool, o.run.Rows)
	if o.weight.node == nil {
		q.ChannelMean(y, p, o.pixels(), c)
		return
	}
	q.Gemm(o.pixels(), 1, c, kernels.Matrix{Ptr: p, Stride: c}, kernels.Matrix{Ptr: o.weight.value, Stride: c, Transposed: true}, y, 1,
		kernels.Epilogue{Bias: o.bias.value, ReLU: true})
}

func (o *deviceHead) backward(dx, _ []kernels.Ptr, y, dy kernels.Ptr) {
	q, c, n := o.g.queue, o.channels, o.pixels()
	dp := o.g.temp[0].Ptr
	if o.weight.node == nil {
		q.ChannelMeanGrad(dp, dy, n, c)
	} else {
		dz := o.g.temp[1].Ptr
		q.BiasGrad(dz, o.bias.grad, dy, y, n, 1)
		q.Gemm(1, c, n, kernels.Matrix{Ptr: dz, Stride: 1, Transposed: true}, kernels.Matrix{Ptr: o.pooled, Stride: c}, o.weight.grad, c, kernels.Epilogue{})
		q.Gemm(n, c, 1, kernels.Matrix{Ptr: dz, Stride: 1}, kernels.Matrix{Ptr: o.weight.value, Stride: c}, dp, c, kernels.Epilogue{})
	}
	if dx[0] != 0 {
		q.MaxPoolGrad(dx[0], dp, 0, o.argmax, o.pool, o.run.Rows)
	}
}
