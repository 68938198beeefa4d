package nn

import (
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"
)

// Batch normalisation of the package's networks (paper, appendix C; PyTorch's
// defaults).
const (
	// NormEpsilon is added to variances.
	NormEpsilon = 1e-5
	// NormMomentum is the weight of a batch in the running statistics:
	// r ← (1 - NormMomentum) r + NormMomentum batch.
	NormMomentum = 0.1
)

// norm is a batch normalisation with its parameters and running statistics.
type norm[T graphop.Float] struct {
	*kernel.BatchNorm[T]
	run            *RunState
	scratch        *kernel.Scratch[T]
	pixels         int
	gamma, beta    parameter[T]
	mean, variance []T // running, in the session's buffer
}

// newNorm returns the normalisation of images of h x w x channels with the
// parameters name.weight and name.bias, and the buffers name.running_mean and
// name.running_var, all of one number a channel.
func newNorm[T graphop.Float](b *Builder, name string, h, w, channels int) (o *norm[T], err error) {
	o = &norm[T]{run: b.run, scratch: b.memory.(*memory[T]).scratch, pixels: h * w}
	prefix := prefixed(name)
	if o.gamma, err = param[T](b, prefix+"weight"); err != nil {
		return nil, err
	}
	if o.beta, err = param[T](b, prefix+"bias"); err != nil {
		return nil, err
	}
	if o.mean, err = buffer[T](b, prefix+"running_mean"); err != nil {
		return nil, err
	}
	if o.variance, err = buffer[T](b, prefix+"running_var"); err != nil {
		return nil, err
	}
	for _, v := range [][]T{o.gamma.value, o.beta.value, o.mean, o.variance} {
		if len(v) != channels {
			return nil, fmt.Errorf("nn: batch normalisation %q: array of length %d for %d channels", name, len(v), channels)
		}
	}
	if o.BatchNorm, err = kernel.NewBatchNorm[T](channels, NormEpsilon); err != nil {
		return nil, fmt.Errorf("nn: batch normalisation %q: %w", name, err)
	}
	return o, nil
}

// batch takes the statistics of n images and moves the running ones.
func (o *norm[T]) batch(x []T, n int) {
	o.Batch(o.scratch, x, n, o.pixels, o.gamma.value, o.beta.value)
	o.moveRunning()
}

// moveRunning moves the running statistics towards the batch's.
func (o *norm[T]) moveRunning() { o.UpdateRunning(o.mean, o.variance, NormMomentum) }

// behind makes a convolution's forward pass take the statistics of its output.
func (o *norm[T]) behind() kernel.Fusion[T] {
	return kernel.Fusion[T]{Out: o.BatchNorm, Gamma: o.gamma.value, Beta: o.beta.value}
}

// before makes a convolution's backward pass do the work of backwardSums, where
// the convolution's input is the ReLU of this normalisation and x what was
// normalised.
func (o *norm[T]) before(x []T) kernel.Fusion[T] {
	return kernel.Fusion[T]{Prev: o.BatchNorm, PrevX: x, Dgamma: o.gamma.grad, Dbeta: o.beta.grad}
}

// running takes the running statistics.
func (o *norm[T]) running() { o.Fixed(o.mean, o.variance, o.gamma.value, o.beta.value) }

// apply normalises n images, adds residual unless it is nil, and applies a ReLU
// if relu is set.
func (o *norm[T]) apply(y, x, residual []T, n int, relu bool) {
	o.Apply(o.scratch, y, x, residual, n, o.pixels, relu)
}

// backwardSums computes the gradients of gamma and beta, and d, the gradient
// behind the affine map; out is the output of the ReLU, or nil.
func (o *norm[T]) backwardSums(d, dy, out, x []T, n int) {
	o.BackwardSums(o.scratch, d, o.gamma.grad, o.beta.grad, dy, out, x, n, o.pixels)
}

// backwardApply computes dx from d; dx may be d or x.
func (o *norm[T]) backwardApply(dx, d, x []T, n int) {
	o.BackwardApply(o.scratch, dx, d, x, n, o.pixels)
}
