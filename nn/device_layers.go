package nn

import (
	"errors"
	"fmt"

	"fedrspo/internal/cuda/kernels"
	"fedrspo/internal/kernel"

	"gorgonia.org/gorgonia"
)

// linear is Builder.Linear on a device.
func (g *deviceGraph) linear(b *Builder, x *gorgonia.Node, name string, relu bool) (*gorgonia.Node, error) {
	prefix := prefixed(name)
	w, err := g.param(b, prefix+"weight")
	if err != nil {
		return nil, err
	}
	shape := w.node.Shape()
	if len(shape) != 2 || x.Dims() != 2 || shape[1] != x.Shape()[1] {
		return nil, fmt.Errorf("linear %q: weight %v does not fit input %v", name, shape, x.Shape())
	}
	o := &deviceLinear{g: g, run: b.run, in: shape[1], out: shape[0], relu: relu, w: w}
	params := []deviceParam{w}
	if b.has(prefix + "bias") {
		if o.bias, err = g.param(b, prefix+"bias"); err != nil {
			return nil, err
		}
		if o.bias.len != o.out {
			return nil, fmt.Errorf("linear %q: bias of length %d, want %d", name, o.bias.len, o.out)
		}
		params = append(params, o.bias)
	}
	if err := g.reserve(0, b.run.Batch*o.out); err != nil {
		return nil, err
	}
	return g.apply(b, "linear "+name, o.out, o, []*gorgonia.Node{x}, params...)
}

type deviceLinear struct {
	g       *deviceGraph
	run     *RunState
	in, out int
	relu    bool
	w, bias deviceParam
}

func (o *deviceLinear) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.g.queue.Gemm(o.run.Rows, o.out, o.in, kernels.Matrix{Ptr: x[0], Stride: o.in}, kernels.Matrix{Ptr: o.w.value, Stride: o.in, Transposed: true},
		y, o.out, kernels.Epilogue{Bias: o.bias.value, ReLU: o.relu})
}

func (o *deviceLinear) backward(dx, x []kernels.Ptr, y, dy kernels.Ptr) {
	q, n, dz := o.g.queue, o.run.Rows, dy
	if !o.relu {
		y = 0
	}
	switch {
	case o.bias.node != nil:
		dz = o.g.temp[0].Ptr
		q.BiasGrad(dz, o.bias.grad, dy, y, n, o.out)
	case o.relu:
		dz = o.g.temp[0].Ptr
		q.ReLUGrad(dz, dy, y, n*o.out)
	}
	q.Gemm(o.out, o.in, n, kernels.Matrix{Ptr: dz, Stride: o.out, Transposed: true}, kernels.Matrix{Ptr: x[0], Stride: o.in}, o.w.grad, o.in, kernels.Epilogue{})
	if dx[0] != 0 {
		q.Gemm(n, o.in, o.out, kernels.Matrix{Ptr: dz, Stride: o.out}, kernels.Matrix{Ptr: o.w.value, Stride: o.in}, dx[0], o.in, kernels.Epilogue{})
	}
}

// deviceConvolution is a convolution with its weights.
type deviceConvolution struct {
	deviceParam
	g               *deviceGraph
	run             *RunState
	shape           kernels.ConvShape
	packed, dpacked kernels.Ptr
	version         uint64 // of packed
}

func (g *deviceGraph) convolution(b *Builder, x Images, name string, stride, pad int) (*deviceConvolution, error) {
	p, err := g.param(b, prefixed(name)+"weight")
	if err != nil {
		return nil, err
	}
	w := p.node.Shape()
	if len(w) != 4 || w[1] != x.C {
		return nil, fmt.Errorf("nn: convolution %q: weight %v does not fit %d channels", name, w, x.C)
	}
	host := kernel.ConvShape{InH: x.H, InW: x.W, InC: x.C, OutC: w[0], KernelH: w[2], KernelW: w[3], StrideH: stride, StrideW: stride, PadH: pad, PadW: pad}
	if err := host.Check(); err != nil {
		return nil, fmt.Errorf("nn: convolution %q: %w", name, err)
	}
	c := &deviceConvolution{deviceParam: p, g: g, run: b.run,
		shape: kernels.ConvShape{H: x.H, W: x.W, C: x.C, Out: w[0], KernelH: w[2], KernelW: w[3], Stride: stride, Pad: pad}}
	if c.packed, err = g.alloc(p.len); err != nil {
		return nil, err
	}
	c.dpacked, err = g.alloc(p.len)
	return c, err
}

func (c *deviceConvolution) pack() {
	if c.version != c.run.Version {
		c.g.queue.PackWeights(c.packed, c.value, c.shape)
		c.version = c.run.Version
	}
}

func (c *deviceConvolution) compute(y, x kernels.Ptr) {
	c.pack()
	c.g.queue.Conv(y, x, c.packed, c.shape, c.run.Rows)
}

// gradients computes the gradient of the weights, and dx unless it is 0.
func (c *deviceConvolution) gradients(dx, x, dy kernels.Ptr) {
	c.g.queue.ConvBackwardWeights(c.grad, c.dpacked, x, dy, c.shape, c.run.Rows)
	if dx != 0 {
		c.pack()
		c.g.queue.ConvBackwardData(dx, dy, c.packed, c.shape, c.run.Rows)
	}
}

// deviceNorm is a batch normalisation with its parameters.
type deviceNorm struct {
	*kernels.Norm
	g           *deviceGraph
	run         *RunState
	pixels      int
	gamma, beta deviceParam
}

func (g *deviceGraph) norm(b *Builder, name string, h, w, channels int) (*deviceNorm, error) {
	n := &deviceNorm{g: g, run: b.run, pixels: h * w}
	prefix := prefixed(name)
	var err error
	if n.gamma, err = g.param(b, prefix+"weight"); err != nil {
		return nil, err
	}
	if n.beta, err = g.param(b, prefix+"bias"); err != nil {
		return nil, err
	}
	mean, length, err := g.buffer(b, prefix+"running_mean")
	if err != nil {
		return nil, err
	}
	variance, length2, err := g.buffer(b, prefix+"running_var")
	if err != nil {
		return nil, err
	}
	for _, l := range []int{n.gamma.len, n.beta.len, length, length2} {
		if l != channels {
			return nil, fmt.Errorf("nn: batch normalisation %q: array of length %d for %d channels", name, l, channels)
		}
	}
	n.Norm, err = g.queue.NewNorm(kernels.Norm{Channels: channels, Epsilon: NormEpsilon, Momentum: NormMomentum, Gamma: n.gamma.value, Beta: n.beta.value,
		RunningMean: mean, RunningVariance: variance, GammaGrad: n.gamma.grad, BetaGrad: n.beta.grad})
	if err == nil {
		g.hosts = append(g.hosts, freeNorm{n})
	}
	return n, err
}

// freeNorm gives a normalisation's memory back.
type freeNorm struct{ *deviceNorm }

// Close frees the memory.
func (f freeNorm) Close() error {
	f.Free(f.g.queue.Device())
	return nil
}

// rows is the number of pixels of the live images.
func (n *deviceNorm) rows() int { return n.run.Rows * n.pixels }

// statistics takes those of the batch in training, else the running ones.
func (n *deviceNorm) statistics(x kernels.Ptr) {
	if n.run.Train {
		n.g.queue.NormBatch(n.Norm, x, n.rows())
	} else {
		n.g.queue.NormRunning(n.Norm)
	}
}

func (n *deviceNorm) apply(y, x, residual kernels.Ptr, relu bool) {
	n.g.queue.NormApply(n.Norm, y, x, residual, n.rows(), relu)
}

func (n *deviceNorm) backwardSums(d, dy, out, x kernels.Ptr) {
	n.g.queue.NormBackwardSums(n.Norm, d, dy, out, x, n.rows())
}

func (n *deviceNorm) backwardApply(dx, d, x kernels.Ptr) {
	n.g.queue.NormBackwardApply(n.Norm, dx, d, x, n.rows())
}

// conv2D is Builder.Conv2D on a device.
func (g *deviceGraph) conv2D(b *Builder, x Images, name string, stride, pad int) (Images, error) {
	c, err := g.convolution(b, x, name, stride, pad)
	if err != nil {
		return Images{}, err
	}
	o := &deviceConv2D{deviceConvolution: c}
	params := []deviceParam{c.deviceParam}
	if bias := prefixed(name) + "bias"; b.has(bias) {
		if o.bias, err = g.param(b, bias); err != nil {
			return Images{}, err
		}
		if o.bias.len != c.shape.Out {
			return Images{}, fmt.Errorf("nn: convolution %q: bias of length %d, want %d", name, o.bias.len, c.shape.Out)
		}
		params = append(params, o.bias)
		if err := g.reserve(0, b.run.Batch*c.shape.OutLen()); err != nil {
			return Images{}, err
		}
	}
	return g.images(b, "conv2d "+name, c.shape.OutH(), c.shape.OutW(), c.shape.Out, o, []Images{x}, params...)
}

type deviceConv2D struct {
	*deviceConvolution
	bias deviceParam
}

func (o *deviceConv2D) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.compute(y, x[0])
	if o.bias.node != nil {
		o.g.queue.AddBias(y, o.bias.value, o.run.Rows*o.shape.OutH()*o.shape.OutW(), o.shape.Out)
	}
}

func (o *deviceConv2D) backward(dx, x []kernels.Ptr, _, dy kernels.Ptr) {
	o.gradients(dx[0], x[0], dy)
	if o.bias.node != nil {
		o.g.queue.BiasGrad(o.g.temp[0].Ptr, o.bias.grad, dy, 0, o.run.Rows*o.shape.OutH()*o.shape.OutW(), o.shape.Out)
	}
}

// batchNorm is Builder.BatchNorm on a device.
func (g *deviceGraph) batchNorm(b *Builder, x Images, name string) (Images, error) {
	n, err := g.norm(b, name, x.H, x.W, x.C)
	if err != nil {
		return Images{}, err
	}
	if err := g.reserve(0, b.run.Batch*x.size()); err != nil {
		return Images{}, err
	}
	return g.images(b, "batch norm "+name, x.H, x.W, x.C, &deviceBatchNorm{n}, []Images{x}, n.gamma, n.beta)
}

type deviceBatchNorm struct{ *deviceNorm }

func (o *deviceBatchNorm) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.statistics(x[0])
	o.apply(y, x[0], 0, false)
}

func (o *deviceBatchNorm) backward(dx, x []kernels.Ptr, _, dy kernels.Ptr) {
	d := o.g.temp[0].Ptr
	o.backwardSums(d, dy, 0, x[0])
	if dx[0] != 0 {
		o.backwardApply(dx[0], d, x[0])
	}
}

// relu is Builder.ReLU on a device.
func (g *deviceGraph) relu(b *Builder, x Images) (Images, error) {
	return g.images(b, "relu", x.H, x.W, x.C, &deviceReLU{g, b.run, x.size()}, []Images{x})
}

type deviceReLU struct {
	g     *deviceGraph
	run   *RunState
	image int
}

func (o *deviceReLU) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.g.queue.ReLU(y, x[0], o.run.Rows*o.image)
}

func (o *deviceReLU) backward(dx, _ []kernels.Ptr, y, dy kernels.Ptr) {
	if dx[0] != 0 {
		o.g.queue.ReLUGrad(dx[0], dy, y, o.run.Rows*o.image)
	}
}

// add is Builder.Add on a device.
func (g *deviceGraph) add(b *Builder, x, y Images) (Images, error) {
	return g.images(b, "add", x.H, x.W, x.C, &deviceSum{g, b.run, x.size()}, []Images{x, y})
}

type deviceSum struct {
	g     *deviceGraph
	run   *RunState
	image int
}

func (o *deviceSum) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.g.queue.Add(y, x[0], x[1], o.run.Rows*o.image)
}

func (o *deviceSum) backward(dx, _ []kernels.Ptr, _, dy kernels.Ptr) {
	for _, d := range dx {
		if d != 0 {
			o.g.queue.Copy(d, dy, uint64(o.run.Rows*o.image*o.g.queue.Elem().Size()))
		}
	}
}

// maxPool is Builder.MaxPool, and with size 0 Builder.AdaptiveMaxPool, on a
// device.
func (g *deviceGraph) maxPool(b *Builder, x Images, h, w, size, stride, pad int) (Images, error) {
	shape, err := poolShape(x, h, w, size, stride, pad)
	if err != nil {
		return Images{}, err
	}
	o := &deviceMaxPool{g: g, run: b.run, shape: shape}
	if o.argmax, err = g.places(b, shape); err != nil {
		return Images{}, err
	}
	return g.images(b, "max pool", shape.OutH, shape.OutW, x.C, o, []Images{x})
}

// poolShape checks a pooling as internal/kernel does, and returns its shape. h
// and w are of use with size 0.
func poolShape(x Images, h, w, size, stride, pad int) (kernels.PoolShape, error) {
	p, err := kernel.NewAdaptiveMaxPool[float32](x.H, x.W, x.C, h, w)
	if size != 0 {
		p, err = kernel.NewMaxPool[float32](x.H, x.W, x.C, size, stride, pad)
	}
	if err != nil {
		return kernels.PoolShape{}, fmt.Errorf("nn: %w", err)
	}
	return kernels.PoolShape{H: x.H, W: x.W, C: x.C, OutH: p.OutH(), OutW: p.OutW(), Size: size, Stride: stride, Pad: pad}, nil
}

// places returns room for the places of the maxima of a batch in training, 0 in
// evaluation.
func (g *deviceGraph) places(b *Builder, s kernels.PoolShape) (kernels.Ptr, error) {
	if !g.training {
		return 0, nil
	}
	return g.allocBytes(b.run.Batch * s.OutLen())
}

type deviceMaxPool struct {
	g      *deviceGraph
	run    *RunState
	shape  kernels.PoolShape
	argmax kernels.Ptr
}

func (o *deviceMaxPool) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.g.queue.MaxPool(y, o.argmax, x[0], 0, o.shape, o.run.Rows)
}

func (o *deviceMaxPool) backward(dx, _ []kernels.Ptr, _, dy kernels.Ptr) {
	if dx[0] != 0 {
		o.g.queue.MaxPoolGrad(dx[0], dy, 0, o.argmax, o.shape, o.run.Rows)
	}
}

// channelMean is Builder.ChannelMean on a device.
func (g *deviceGraph) channelMean(b *Builder, x Images) (Images, error) {
	return g.images(b, "channel mean", x.H, x.W, 1, &deviceChannelMean{g, b.run, x}, []Images{x})
}

type deviceChannelMean struct {
	g   *deviceGraph
	run *RunState
	x   Images
}

func (o *deviceChannelMean) forward(y kernels.Ptr, x []kernels.Ptr) {
	o.g.queue.ChannelMean(y, x[0], o.run.Rows*o.x.H*o.x.W, o.x.C)
}

func (o *deviceChannelMean) backward(dx, _ []kernels.Ptr, _, dy kernels.Ptr) {
	if dx[0] != 0 {
		o.g.queue.ChannelMeanGrad(dx[0], dy, o.run.Rows*o.x.H*o.x.W, o.x.C)
	}
}

// errWinograd refuses an algorithm that the device has not.
var errWinograd = errors.New("nn: winograd convolutions are computed by the processor only")
