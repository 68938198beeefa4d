package kernels

import (
	"errors"
	"fmt"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cublas"
	"fedrspo/internal/cuda/driver"
)

// Ptr is an address in device memory.
type Ptr = driver.Ptr

// Options say how a queue computes.
type Options struct {
	// TF32 rounds float32 matrices to 10 bits of fraction on the way into tensor
	// cores. It needs cuBLAS.
	TF32 bool
	// OwnProducts computes matrix products without cuBLAS.
	OwnProducts bool
}

// Queue queues the operations on one element type in a stream. Like the stream
// it belongs to one goroutine at a time and keeps the first error. Addresses are
// those of elements of its type unless a comment says otherwise; sizes are
// numbers of elements. A shape that does not fit is a programmer's error and
// panics.
type Queue struct {
	*cuda.Stream
	elem Elem
	blas *cublas.Handle // nil: own products
	scratch
	kernelSet
}

// kernelSet is the kernels of a module.
type kernelSet struct {
	add, relu, reluGradient, fromDouble, toDouble, biasReLU, channelMean, channelMeanGradient *cuda.Kernel
	gemm, gemmReduce                                                                          *cuda.Kernel
	im2col, col2im, packWeights, unpackWeights                                                *cuda.Kernel
	normSums, normGradientSums, biasSums, biasGradient                                        *cuda.Kernel
	normBatch, normRunning, normApply, normGradient, normGradientApply                        *cuda.Kernel
	maxPool, maxPoolGradient                                                                  *cuda.Kernel
	chunkSquares, clipFactors, adam, proximal                                                 *cuda.Kernel
}

// NewQueue loads the kernels for the stream's device. With Options.TF32 a
// missing cuBLAS is an error; without, own kernels compute matrix products.
func NewQueue(s *cuda.Stream, elem Elem, o Options) (*Queue, error) {
	loaded, err := s.Device().Load(elem.String(), elem.PTX())
	if err != nil {
		return nil, err
	}
	q := &Queue{Stream: s, elem: elem}
	for name, at := range q.named() {
		if *at = loaded[name]; *at == nil {
			return nil, fmt.Errorf("the PTX for %v has no kernel %s", elem, name)
		}
	}
	if o.OwnProducts {
		return q, nil
	}
	switch q.blas, err = cublas.Open(s, o.TF32); {
	case errors.Is(err, cublas.ErrMissing) && !o.TF32:
	case err != nil && o.TF32:
		return nil, fmt.Errorf("TF32: %w", err)
	case err != nil:
		return nil, err
	}
	return q, nil
}

func (k *kernelSet) named() map[string]**cuda.Kernel {
	return map[string]**cuda.Kernel{
		"add": &k.add, "relu": &k.relu, "relu_gradient": &k.reluGradient, "from_double": &k.fromDouble, "to_double": &k.toDouble,
		"bias_relu": &k.biasReLU, "channel_mean": &k.channelMean, "channel_mean_gradient": &k.channelMeanGradient,
		"gemm": &k.gemm, "gemm_reduce": &k.gemmReduce,
		"im2col": &k.im2col, "col2im": &k.col2im, "pack_weights": &k.packWeights, "unpack_weights": &k.unpackWeights,
		"norm_sums": &k.normSums, "norm_gradient_sums": &k.normGradientSums, "bias_sums": &k.biasSums, "bias_gradient": &k.biasGradient,
		"norm_batch": &k.normBatch, "norm_running": &k.normRunning, "norm_apply": &k.normApply,
		"norm_gradient": &k.normGradient, "norm_gradient_apply": &k.normGradientApply,
		"max_pool": &k.maxPool, "max_pool_gradient": &k.maxPoolGradient,
		"chunk_squares": &k.chunkSquares, "clip_factors": &k.clipFactors, "adam": &k.adam, "proximal": &k.proximal,
	}
}

// Elem returns the element type.
func (q *Queue) Elem() Elem { return q.elem }

// Products names what computes large matrix products: "cuBLAS" or "own kernels".
func (q *Queue) Products() string {
	if q.blas == nil {
		return "own kernels"
	}
	return "cuBLAS"
}

// Close waits for the work and frees what the queue allocated. The stream stays
// open.
func (q *Queue) Close() error {
	err := q.Sync()
	if q.blas != nil {
		err = errors.Join(err, q.blas.Close())
		q.blas = nil
	}
	for _, m := range q.buffers() {
		q.Device().Free(*m)
		*m = cuda.Memory{}
	}
	return err
}

// scratch is memory of operations in progress. The stream's order makes it safe
// to use again in the next one.
type scratch struct {
	// sums holds partial sums of columns, columns the rows of a convolution's
	// product and products partial sums of matrix products.
	sums, columns, products cuda.Memory
}

func (s *scratch) buffers() []*cuda.Memory {
	return []*cuda.Memory{&s.sums, &s.columns, &s.products}
}

// grow returns memory of at least n bytes.
func (q *Queue) grow(m *cuda.Memory, n int) Ptr {
	if m.Bytes >= uint64(n) {
		return m.Ptr
	}
	// What is queued may still use the old one.
	if q.Sync() != nil {
		return 0
	}
	q.Device().Free(*m)
	*m = cuda.Memory{}
	next, err := q.Device().Alloc(uint64(n))
	if err != nil {
		q.Fail(err)
		return 0
	}
	*m = next
	return m.Ptr
}

// at returns the address of element i of a vector at p.
func (q *Queue) at(p Ptr, i int) Ptr { return p + Ptr(i*q.elem.Size()) }

// threads is the size of the blocks of elementwise kernels.
const threads = 256

// flat returns the grid and the block of a kernel over n elements: a thread for
// each up to a bound, above which threads take several.
func flat(n int) (grid, block driver.Dim) {
	blocks := min((n+threads-1)/threads, 1<<16)
	return driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, driver.Dim{X: threads, Y: 1, Z: 1}
}

// each queues an elementwise kernel over n elements.
func (q *Queue) each(k *cuda.Kernel, n int, args ...cuda.Arg) {
	if n == 0 {
		return
	}
	grid, block := flat(n)
	q.Launch(k, grid, block, args...)
}
