package nn

import (
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"

	"gorgonia.org/tensor"
)

// The blocks compute what the layers of layers.go do one by one, and fuse the
// elementwise work with the convolutions before and after it, image by image. In
// training a block keeps the outputs of its convolutions and its own; in
// evaluation it takes a few images at a time through the whole of it.

// Stem adds what a residual network begins with (He et al. 2016, table 1): a
// convolution with stride 2 and half its kernel as padding, batch
// normalisation, ReLU, and max pooling over 3x3 windows, stride 2, padding 1.
// The parameters are conv.weight [out, in, k, k], k odd, and those of
// [Builder.BatchNorm] at norm.
func (b *Builder) Stem(x Images, conv, norm string) (Images, error) {
	if b.device != nil {
		return b.device.stem(b, x, conv, norm)
	}
	if b.dtype == tensor.Float32 {
		return addStem[float32](b, x, conv, norm)
	}
	return addStem[float64](b, x, conv, norm)
}

// stem is the state of a Stem's operations.
type stem[T graphop.Float] struct {
	chain[T]
	run  *RunState
	mem  *memory[T]
	conv convolution[T]
	norm *norm[T]
	pool *kernel.MaxPool[T]

	// Of a training run: the convolution's output, the places of the maxima
	// and the elements there.
	c, largest []T
	argmax     []uint8
}

func addStem[T graphop.Float](b *Builder, x Images, conv, norm string) (Images, error) {
	o := &stem[T]{run: b.run, mem: b.memory.(*memory[T])}
	k, err := b.kernelSize(conv)
	if err != nil {
		return Images{}, err
	}
	if o.conv, err = newConvolution[T](b, x, conv, 2, k/2); err != nil {
		return Images{}, err
	}
	h, w, c := o.conv.shape.OutH(), o.conv.shape.OutW(), o.conv.shape.OutC
	if o.norm, err = newNorm[T](b, norm, h, w, c); err != nil {
		return Images{}, err
	}
	if o.pool, err = kernel.NewMaxPool[T](h, w, c, 3, 2, 1); err != nil {
		return Images{}, fmt.Errorf("nn: stem %q: %w", conv, err)
	}
	o.tail = &tail[T]{norm: o.norm, x: &o.largest}
	return addImages(b, "stem "+conv, o.pool.OutH(), o.pool.OutW(), c, o, []Images{x}, o.conv.parameter, o.norm.gamma, o.norm.beta)
}

// kernelSize returns the side of the odd, square kernel of name.weight.
func (b *Builder) kernelSize(name string) (int, error) {
	s, ok := b.layout.Find(prefixed(name) + "weight")
	if !ok || len(s.Shape) != 4 || s.Shape[2] != s.Shape[3] || s.Shape[2]%2 == 0 {
		return 0, fmt.Errorf("nn: %q has no weight with an odd square kernel, but %v", name, s.Shape)
	}
	return s.Shape[2], nil
}

func (o *stem[T]) forward(y []T, x [][]T) {
	n, scratch := o.run.Rows, o.mem.scratch
	in, image, out := o.conv.shape.InLen(), o.conv.shape.OutLen(), o.pool.OutLen()
	if o.run.Train {
		need(&o.c, o.run.Batch*image)
		need(&o.largest, o.run.Batch*out)
		need(&o.argmax, o.run.Batch*out)
		o.conv.forwardFused(o.c, x[0], n, o.norm.behind())
		o.norm.moveRunning()
		o.pool.ForwardNorm(scratch, y, o.argmax, o.largest, o.c, n, o.norm.BatchNorm, true)
		return
	}
	o.norm.running()
	step := o.mem.evalImages()
	c := need(&o.mem.temp[0], step*image)
	for lo := 0; lo < n; lo += step {
		m := min(step, n-lo)
		o.conv.forward(c, x[0][lo*in:], m)
		o.pool.ForwardNorm(scratch, y[lo*out:], nil, nil, c, m, o.norm.BatchNorm, true)
	}
}

func (o *stem[T]) backward(dx, x [][]T, y, dy []T) {
	n := o.run.Rows
	d := dy
	if !o.tail.summed {
		d = need(&o.mem.temp[0], n*o.pool.OutLen())
		o.norm.BackwardSumsPool(o.mem.scratch, d, o.norm.gamma.grad, o.norm.beta.grad, dy, y, o.largest, n, o.pool)
	}
	o.conv.backwardFused(dx[0], x[0], d, n, kernel.Fusion[T]{Out: o.norm.BatchNorm, Y: o.c, Pool: o.pool, Argmax: o.argmax})
}

// BasicBlock adds a residual block with identity shortcut (He et al. 2016,
// figure 5): convolution, batch normalisation, ReLU, convolution, batch
// normalisation, the sum with x, ReLU. Kernels are odd, strides 1, and sizes and
// channels stay. The parameters are name.conv1.weight and name.conv2.weight
// [C, C, k, k], and those of [Builder.BatchNorm] at name.bn1 and name.bn2.
func (b *Builder) BasicBlock(x Images, name string) (Images, error) {
	if b.device != nil {
		return b.device.basicBlock(b, x, name)
	}
	if b.dtype == tensor.Float32 {
		return addBasicBlock[float32](b, x, name)
	}
	return addBasicBlock[float64](b, x, name)
}

// basicBlock is the state of a BasicBlock's operations.
type basicBlock[T graphop.Float] struct {
	chain[T]
	run          *RunState
	mem          *memory[T]
	conv1, conv2 convolution[T]
	norm1, norm2 *norm[T]

	// Of a training run: the convolutions' outputs.
	c1, c2 []T
}

func addBasicBlock[T graphop.Float](b *Builder, x Images, name string) (Images, error) {
	o := &basicBlock[T]{run: b.run, mem: b.memory.(*memory[T])}
	for _, part := range []struct {
		number string
		conv   *convolution[T]
		norm   **norm[T]
	}{{"1", &o.conv1, &o.norm1}, {"2", &o.conv2, &o.norm2}} {
		conv, norm := prefixed(name)+"conv"+part.number, prefixed(name)+"bn"+part.number
		k, err := b.kernelSize(conv)
		if err != nil {
			return Images{}, err
		}
		if *part.conv, err = newConvolution[T](b, x, conv, 1, k/2); err != nil {
			return Images{}, err
		}
		if part.conv.shape.OutC != x.C {
			return Images{}, fmt.Errorf("nn: basic block %q: %s makes %d channels of %d", name, conv, part.conv.shape.OutC, x.C)
		}
		if *part.norm, err = newNorm[T](b, norm, x.H, x.W, x.C); err != nil {
			return Images{}, err
		}
	}
	o.before(x)
	o.tail = &tail[T]{norm: o.norm2, x: &o.c2}
	return addImages(b, "basic block "+name, x.H, x.W, x.C, o, []Images{x},
		o.conv1.parameter, o.norm1.gamma, o.norm1.beta, o.conv2.parameter, o.norm2.gamma, o.norm2.beta)
}

func (o *basicBlock[T]) forward(y []T, xs [][]T) {
	x, n, image := xs[0], o.run.Rows, o.conv1.shape.InLen()
	if o.run.Train {
		need(&o.c1, o.run.Batch*image)
		need(&o.c2, o.run.Batch*image)
		o.conv1.forwardFused(o.c1, x, n, o.norm1.behind())
		o.norm1.moveRunning()
		f := o.norm2.behind()
		f.In, f.ReLU = o.norm1.BatchNorm, true
		o.conv2.forwardFused(o.c2, o.c1, n, f)
		o.norm2.moveRunning()
		o.norm2.apply(y, o.c2, x, n, true)
		return
	}
	o.norm1.running()
	o.norm2.running()
	step := o.mem.evalImages()
	c1, c2 := need(&o.mem.temp[0], step*image), need(&o.mem.temp[1], step*image)
	for lo := 0; lo < n; lo += step {
		m := min(step, n-lo)
		o.conv1.forward(c1, x[lo*image:], m)
		o.conv2.forwardFused(c2, c1, m, kernel.Fusion[T]{In: o.norm1.BatchNorm, ReLU: true})
		o.norm2.apply(y[lo*image:], c2, x[lo*image:], m, true)
	}
}

func (o *basicBlock[T]) backward(dx, x [][]T, y, dy []T) {
	n := o.run.Rows
	live := n * o.conv1.shape.InLen()
	// d is the gradient before the last ReLU, the shortcut's too.
	d, d1 := dy, need(&o.mem.temp[1], live)
	if !o.tail.summed {
		d = need(&o.mem.temp[0], live)
		o.norm2.backwardSums(d, dy, y, o.c2, n)
	}
	f := o.norm1.before(o.c1)
	f.In, f.ReLU, f.Out, f.Y = o.norm1.BatchNorm, true, o.norm2.BatchNorm, o.c2
	o.conv2.backwardFused(d1, o.c1, d, n, f)
	f = kernel.Fusion[T]{}
	if dx[0] != nil {
		f = o.sums()
		f.Shortcut = d
	}
	f.Out, f.Y = o.norm1.BatchNorm, o.c1
	o.conv1.backwardFused(dx[0], x[0], d1, n, f)
}

// MeanHead adds the paper's output layer for maps (paper, appendix C):
// adaptive max pooling to h x w, then the mean over the channels. It has no
// parameters; its output has one channel, and is not negative when x is not.
func (b *Builder) MeanHead(x Images, h, w int) (Images, error) {
	if b.device != nil {
		return b.device.head(b, x, nil, h, w)
	}
	if b.dtype == tensor.Float32 {
		return addHead[float32](b, x, nil, h, w)
	}
	return addHead[float64](b, x, nil, h, w)
}

// ConvHead adds adaptive max pooling to h x w, then a convolution with kernel
// 1x1 to one channel, clamped at zero: y = max(0, w·x + b), with no gradient
// where it is clamped. The parameters are name.weight [1, C, 1, 1] and
// name.bias [1].
func (b *Builder) ConvHead(x Images, name string, h, w int) (Images, error) {
	if b.device != nil {
		return b.device.head(b, x, &name, h, w)
	}
	if b.dtype == tensor.Float32 {
		return addHead[float32](b, x, &name, h, w)
	}
	return addHead[float64](b, x, &name, h, w)
}

// head is the state of the operations of a MeanHead, or of a ConvHead.
type head[T graphop.Float] struct {
	chain[T]
	run      *RunState
	mem      *memory[T]
	pool     *kernel.MaxPool[T]
	channels int
	// Of a ConvHead.
	conv         bool
	weight, bias parameter[T]

	// Of a training run: the places of the maxima and, for a ConvHead, the
	// pooled images.
	argmax []uint8
	pooled []T
}

// addHead adds a ConvHead of the given name, or a MeanHead if there is none.
func addHead[T graphop.Float](b *Builder, x Images, name *string, h, w int) (Images, error) {
	o := &head[T]{run: b.run, mem: b.memory.(*memory[T]), channels: x.C, conv: name != nil}
	var err error
	if o.pool, err = kernel.NewAdaptiveMaxPool[T](x.H, x.W, x.C, h, w); err != nil {
		return Images{}, fmt.Errorf("nn: head: %w", err)
	}
	o.before(x)
	if !o.conv {
		return addImages(b, "mean head", h, w, 1, o, []Images{x})
	}
	prefix := prefixed(*name)
	if o.weight, err = param[T](b, prefix+"weight"); err != nil {
		return Images{}, err
	}
	if o.bias, err = param[T](b, prefix+"bias"); err != nil {
		return Images{}, err
	}
	if len(o.weight.value) != x.C || len(o.bias.value) != 1 {
		return Images{}, fmt.Errorf("nn: head %q: weight and bias of %d and %d numbers, want %d and 1", *name, len(o.weight.value), len(o.bias.value), x.C)
	}
	return addImages(b, "head "+*name, h, w, 1, o, []Images{x}, o.weight, o.bias)
}

func (o *head[T]) forward(y []T, x [][]T) {
	n := o.run.Rows
	pixels := n * o.pool.OutH() * o.pool.OutW()
	var argmax []uint8
	if o.run.Train {
		argmax = need(&o.argmax, o.run.Batch*o.pool.OutLen())
	}
	buf := &o.mem.temp[0]
	if o.conv && o.run.Train {
		buf = &o.pooled
		need(buf, o.run.Batch*o.pool.OutLen())
	}
	p := need(buf, n*o.pool.OutLen())
	o.pool.Forward(o.mem.scratch, p, argmax, x[0], n)
	if !o.conv {
		kernel.ChannelMean(y[:pixels], p, o.channels)
		return
	}
	c := o.channels
	kernel.Gemm(false, true, pixels, 1, c, p, c, o.weight.value, c, y, 1, kernel.Epilogue[T]{Bias: o.bias.value, ReLU: true})
}

func (o *head[T]) backward(dx, x [][]T, y, dy []T) {
	n := o.run.Rows
	pixels := n * o.pool.OutH() * o.pool.OutW()
	dy = dy[:pixels]
	dp := need(&o.mem.temp[0], n*o.pool.OutLen())
	if o.conv {
		c, none := o.channels, kernel.Epilogue[T]{}
		dz := need(&o.mem.temp[1], pixels)
		kernel.ReLUGradColSums(dz, o.bias.grad, dy, y[:pixels], pixels, 1, false)
		kernel.Gemm(true, false, 1, c, pixels, dz, 1, o.pooled, c, o.weight.grad, c, none)
		kernel.Gemm(false, false, pixels, c, 1, dz, 1, o.weight.value, c, dp, c, none)
	} else {
		kernel.ChannelMeanGrad(dp, dy, o.channels)
	}
	if dx[0] == nil {
		return
	}
	if f := o.sums(); f.Prev != nil {
		o.pool.BackwardFused(o.mem.scratch, dx[0], dp, o.argmax, x[0], n, f)
	} else {
		o.pool.Backward(o.mem.scratch, dx[0], dp, o.argmax, n)
	}
}
