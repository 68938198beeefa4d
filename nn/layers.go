package nn

import (
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"

	"gorgonia.org/tensor"
)

// Conv2D adds a convolution (a correlation, as in every network library) with
// the given stride and zero padding on both axes:
//
//	y[h,w,o] = sum_{r,s,i} x[h stride + r - pad, w stride + s - pad, i] weight[o,i,r,s] + bias[o]
//
// The parameters are name.weight [out, in, height, width] and, if the layout
// has it, name.bias [out].
func (b *Builder) Conv2D(x Images, name string, stride, pad int) (Images, error) {
	if b.device != nil {
		return b.device.conv2D(b, x, name, stride, pad)
	}
	if b.dtype == tensor.Float32 {
		return addConv2D[float32](b, x, name, stride, pad)
	}
	return addConv2D[float64](b, x, name, stride, pad)
}

// conv2D is the state of a Conv2D's operations.
type conv2D[T graphop.Float] struct {
	convolution[T]
	bias *parameter[T]
}

func addConv2D[T graphop.Float](b *Builder, x Images, name string, stride, pad int) (Images, error) {
	c, err := newConvolution[T](b, x, name, stride, pad)
	if err != nil {
		return Images{}, err
	}
	o := &conv2D[T]{convolution: c}
	params := []parameter[T]{c.parameter}
	if bias := prefixed(name) + "bias"; b.has(bias) {
		p, err := param[T](b, bias)
		if err != nil {
			return Images{}, err
		}
		if len(p.value) != c.shape.OutC {
			return Images{}, fmt.Errorf("nn: convolution %q: bias of length %d, want %d", name, len(p.value), c.shape.OutC)
		}
		o.bias, params = &p, append(params, p)
	}
	return addImages(b, "conv2d "+name, c.shape.OutH(), c.shape.OutW(), c.shape.OutC, o, []Images{x}, params...)
}

func (o *conv2D[T]) forward(y []T, x [][]T) {
	n := o.run.Rows
	o.convolution.forward(y, x[0], n)
	if o.bias == nil {
		return
	}
	c := o.shape.OutC
	for lo := 0; lo < n*o.shape.OutLen(); lo += c {
		kernel.Axpy(1, o.bias.value, y[lo:lo+c])
	}
}

func (o *conv2D[T]) backward(dx, x [][]T, _, dy []T) {
	n := o.run.Rows
	o.convolution.backward(dx[0], x[0], dy, n)
	if o.bias != nil {
		live := n * o.shape.OutLen()
		kernel.ColSums(o.bias.grad, dy[:live], live/o.shape.OutC, o.shape.OutC, false)
	}
}

// BatchNorm adds batch normalisation over the channels (Ioffe and Szegedy
// 2015): y = weight (x - mean) / √(variance + NormEpsilon) + bias. In training
// mean and variance are those of the live rows, the variance divided by the
// number of pixels n, and the running statistics move towards them, the
// variance times n/(n-1) (1 for n = 1). In evaluation they are the running
// statistics. The parameters are name.weight and name.bias [C], the buffers
// name.running_mean and name.running_var [C].
func (b *Builder) BatchNorm(x Images, name string) (Images, error) {
	if b.device != nil {
		return b.device.batchNorm(b, x, name)
	}
	if b.dtype == tensor.Float32 {
		return addBatchNorm[float32](b, x, name)
	}
	return addBatchNorm[float64](b, x, name)
}

// batchNorm is the state of a BatchNorm's operations.
type batchNorm[T graphop.Float] struct {
	*norm[T]
	mem   *memory[T]
	image int
}

func addBatchNorm[T graphop.Float](b *Builder, x Images, name string) (Images, error) {
	n, err := newNorm[T](b, name, x.H, x.W, x.C)
	if err != nil {
		return Images{}, err
	}
	o := &batchNorm[T]{norm: n, mem: b.memory.(*memory[T]), image: x.size()}
	return addImages(b, "batch norm "+name, x.H, x.W, x.C, o, []Images{x}, n.gamma, n.beta)
}

func (o *batchNorm[T]) forward(y []T, x [][]T) {
	if o.run.Train {
		o.batch(x[0], o.run.Rows)
	} else {
		o.running()
	}
	o.apply(y, x[0], nil, o.run.Rows, false)
}

func (o *batchNorm[T]) backward(dx, x [][]T, _, dy []T) {
	n := o.run.Rows
	d := need(&o.mem.temp[0], n*o.image)
	o.backwardSums(d, dy, nil, x[0], n)
	if dx[0] != nil {
		o.backwardApply(dx[0], d, x[0], n)
	}
}

// ReLU adds y = max(0, x).
func (b *Builder) ReLU(x Images) (Images, error) {
	if b.device != nil {
		return b.device.relu(b, x)
	}
	if b.dtype == tensor.Float32 {
		return addImages[float32](b, "relu", x.H, x.W, x.C, &relu[float32]{b.run, x.size()}, []Images{x})
	}
	return addImages[float64](b, "relu", x.H, x.W, x.C, &relu[float64]{b.run, x.size()}, []Images{x})
}

type relu[T graphop.Float] struct {
	run   *RunState
	image int
}

func (o *relu[T]) forward(y []T, x [][]T) {
	live := o.run.Rows * o.image
	kernel.ReLU(y[:live], x[0][:live])
}

func (o *relu[T]) backward(dx, _ [][]T, y, dy []T) {
	live := o.run.Rows * o.image
	if dx[0] != nil {
		kernel.ReLUGrad(dx[0][:live], dy[:live], y[:live])
	}
}

// Add adds the sum x + y of images of one size.
func (b *Builder) Add(x, y Images) (Images, error) {
	if x.H != y.H || x.W != y.W || x.C != y.C {
		return Images{}, fmt.Errorf("nn: sum of images of %dx%dx%d and %dx%dx%d", x.H, x.W, x.C, y.H, y.W, y.C)
	}
	if b.device != nil {
		return b.device.add(b, x, y)
	}
	if b.dtype == tensor.Float32 {
		return addImages[float32](b, "add", x.H, x.W, x.C, &sum[float32]{b.run, x.size()}, []Images{x, y})
	}
	return addImages[float64](b, "add", x.H, x.W, x.C, &sum[float64]{b.run, x.size()}, []Images{x, y})
}

type sum[T graphop.Float] struct {
	run   *RunState
	image int
}

func (o *sum[T]) forward(y []T, x [][]T) {
	live := o.run.Rows * o.image
	copy(y, x[0][:live])
	kernel.Axpy(1, x[1][:live], y[:live])
}

func (o *sum[T]) backward(dx, _ [][]T, _, dy []T) {
	for _, d := range dx {
		if d != nil {
			copy(d, dy[:o.run.Rows*o.image])
		}
	}
}

// MaxPool adds max pooling over square windows: window i covers rows (columns)
// [i stride - pad, i stride - pad + size), cut at the border. Of equal elements
// the first in row-major order has the gradient. size is at most 16, pad at most
// half of it.
func (b *Builder) MaxPool(x Images, size, stride, pad int) (Images, error) {
	if b.device != nil {
		return b.device.maxPool(b, x, 1, 1, size, stride, pad)
	}
	if b.dtype == tensor.Float32 {
		p, err := kernel.NewMaxPool[float32](x.H, x.W, x.C, size, stride, pad)
		return addMaxPool(b, x, p, err)
	}
	p, err := kernel.NewMaxPool[float64](x.H, x.W, x.C, size, stride, pad)
	return addMaxPool(b, x, p, err)
}

// AdaptiveMaxPool adds max pooling to h x w: window i covers rows (columns)
// [floor(i in / out), ceil((i+1) in / out)), at most 16.
func (b *Builder) AdaptiveMaxPool(x Images, h, w int) (Images, error) {
	if b.device != nil {
		return b.device.maxPool(b, x, h, w, 0, 0, 0)
	}
	if b.dtype == tensor.Float32 {
		p, err := kernel.NewAdaptiveMaxPool[float32](x.H, x.W, x.C, h, w)
		return addMaxPool(b, x, p, err)
	}
	p, err := kernel.NewAdaptiveMaxPool[float64](x.H, x.W, x.C, h, w)
	return addMaxPool(b, x, p, err)
}

// maxPool is the state of the operations of a MaxPool or an AdaptiveMaxPool.
type maxPool[T graphop.Float] struct {
	run     *RunState
	scratch *kernel.Scratch[T]
	pool    *kernel.MaxPool[T]
	argmax  []uint8
}

func addMaxPool[T graphop.Float](b *Builder, x Images, p *kernel.MaxPool[T], err error) (Images, error) {
	if err != nil {
		return Images{}, fmt.Errorf("nn: %w", err)
	}
	o := &maxPool[T]{run: b.run, scratch: b.memory.(*memory[T]).scratch, pool: p}
	return addImages(b, "max pool", p.OutH(), p.OutW(), x.C, o, []Images{x})
}

func (o *maxPool[T]) forward(y []T, x [][]T) {
	var argmax []uint8
	if o.run.Train {
		argmax = need(&o.argmax, o.run.Batch*o.pool.OutLen())
	}
	o.pool.Forward(o.scratch, y, argmax, x[0], o.run.Rows)
}

func (o *maxPool[T]) backward(dx, _ [][]T, _, dy []T) {
	if dx[0] != nil {
		o.pool.Backward(o.scratch, dx[0], dy, o.argmax, o.run.Rows)
	}
}

// ChannelMean adds the mean over the channels of each pixel.
func (b *Builder) ChannelMean(x Images) (Images, error) {
	if b.device != nil {
		return b.device.channelMean(b, x)
	}
	if b.dtype == tensor.Float32 {
		return addImages[float32](b, "channel mean", x.H, x.W, 1, &channelMean[float32]{b.run, x}, []Images{x})
	}
	return addImages[float64](b, "channel mean", x.H, x.W, 1, &channelMean[float64]{b.run, x}, []Images{x})
}

type channelMean[T graphop.Float] struct {
	run *RunState
	x   Images
}

func (o *channelMean[T]) forward(y []T, x [][]T) {
	pixels := o.run.Rows * o.x.H * o.x.W
	kernel.ChannelMean(y[:pixels], x[0][:pixels*o.x.C], o.x.C)
}

func (o *channelMean[T]) backward(dx, _ [][]T, _, dy []T) {
	pixels := o.run.Rows * o.x.H * o.x.W
	if dx[0] != nil {
		kernel.ChannelMeanGrad(dx[0][:pixels*o.x.C], dy[:pixels], o.x.C)
	}
}
