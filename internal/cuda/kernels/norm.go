package kernels

import (
	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/driver"
)

// The blocks of the kernels that sum columns, as common.cuh has them.
const (
	sumX, sumY  = 32, 8
	sumRows     = 512
	sumFinishes = 128 // threads that add the blocks' sums
)

// columnSums makes room for the partial sums of a matrix [rows, columns], and
// returns it with the launch and the number of blocks along the rows.
func (q *Queue) columnSums(rows, columns int) (partial Ptr, grid, block driver.Dim, blocks int) {
	blocks = (rows + sumRows - 1) / sumRows
	partial = q.grow(&q.sums, blocks*2*columns*8)
	return partial, driver.Dim{X: uint32((columns + sumX - 1) / sumX), Y: uint32(blocks), Z: 1}, driver.Dim{X: sumX, Y: sumY, Z: 1}, blocks
}

// finish queues a kernel with a block for each column.
func (q *Queue) finish(k *cuda.Kernel, columns int, args ...cuda.Arg) {
	q.Launch(k, driver.Dim{X: uint32(columns), Y: 1, Z: 1}, driver.Dim{X: sumFinishes, Y: 1, Z: 1}, args...)
}

// BiasGrad computes dz = dy where y > 0, else 0, or dy if y is 0, and the sums
// db of its columns, for [rows, columns]. dz may be dy.
func (q *Queue) BiasGrad(dz, db, dy, y Ptr, rows, columns int) {
	partial, grid, block, blocks := q.columnSums(rows, columns)
	q.Launch(q.biasSums, grid, block, cuda.P(partial), cuda.P(dz), cuda.P(dy), cuda.P(y), cuda.L(rows), cuda.I(columns))
	q.finish(q.biasGradient, columns, cuda.P(db), cuda.P(partial), cuda.I(blocks), cuda.I(columns))
}

// Norm is a batch normalisation over the channels of x [rows, channels], with
// addresses of its parameters and of the running statistics. The operations are
// those of the type of internal/kernel.
type Norm struct {
	Channels                     int
	Epsilon, Momentum            float64
	Gamma, Beta                  Ptr
	RunningMean, RunningVariance Ptr
	GammaGrad, BetaGrad          Ptr
	stats, factors, slopes       Ptr // doubles [2, C]; elements [3, C] and [3, C]
	memory                       cuda.Memory
}

// NewNorm returns a normalisation with room for what lies between its passes.
func (q *Queue) NewNorm(n Norm) (*Norm, error) {
	c := n.Channels
	m, err := q.Device().Alloc(uint64(2*c*8 + 6*c*q.elem.Size()))
	if err != nil {
		return nil, err
	}
	n.memory = m
	n.stats = m.Ptr
	n.factors = m.Ptr + Ptr(2*c*8)
	n.slopes = q.at(n.factors, 3*c)
	return &n, nil
}

// Free gives the room back.
func (n *Norm) Free(d *cuda.Device) { d.Free(n.memory) }

// Factors is the address of scale [C] and shift [C].
func (n *Norm) Factors() Ptr { return n.factors }

// NormBatch takes the statistics of x and moves the running ones.
func (q *Queue) NormBatch(n *Norm, x Ptr, rows int) {
	partial, grid, block, blocks := q.columnSums(rows, n.Channels)
	q.Launch(q.normSums, grid, block, cuda.P(partial), cuda.P(x), cuda.L(rows), cuda.I(n.Channels))
	q.finish(q.normBatch, n.Channels, cuda.P(n.stats), cuda.P(n.factors), cuda.P(n.RunningMean), cuda.P(n.RunningVariance), cuda.P(partial),
		cuda.P(n.Gamma), cuda.P(n.Beta), cuda.I(blocks), cuda.I(n.Channels), cuda.D(float64(rows)), cuda.D(n.Epsilon), cuda.D(n.Momentum))
}

// NormRunning takes the running statistics.
func (q *Queue) NormRunning(n *Norm) {
	q.each(q.normRunning, n.Channels, cuda.P(n.factors), cuda.P(n.RunningMean), cuda.P(n.RunningVariance), cuda.P(n.Gamma), cuda.P(n.Beta),
		cuda.I(n.Channels), cuda.D(n.Epsilon))
}

// NormApply normalises: y = scale x + shift, plus residual unless it is 0,
// through a ReLU if relu is set. y may be x or residual.
func (q *Queue) NormApply(n *Norm, y, x, residual Ptr, rows int, relu bool) {
	total := rows * n.Channels
	q.each(q.normApply, total, cuda.P(y), cuda.P(x), cuda.P(residual), cuda.P(n.factors), cuda.L(total), cuda.I(n.Channels), cuda.B(relu))
}

// NormBackwardSums computes, after NormBatch, the gradients of gamma and beta,
// and d = dy where out > 0, else 0, or dy if out is 0. d may be dy.
func (q *Queue) NormBackwardSums(n *Norm, d, dy, out, x Ptr, rows int) {
	partial, grid, block, blocks := q.columnSums(rows, n.Channels)
	q.Launch(q.normGradientSums, grid, block, cuda.P(partial), cuda.P(d), cuda.P(dy), cuda.P(x), cuda.P(out), cuda.P(q.at(n.factors, 2*n.Channels)),
		cuda.L(rows), cuda.I(n.Channels))
	q.finish(q.normGradient, n.Channels, cuda.P(n.GammaGrad), cuda.P(n.BetaGrad), cuda.P(n.slopes), cuda.P(partial), cuda.P(n.stats), cuda.P(n.factors),
		cuda.P(n.Gamma), cuda.I(blocks), cuda.I(n.Channels), cuda.D(float64(rows)), cuda.D(n.Epsilon))
}

// NormBackwardApply computes dx from d; dx may be d or x.
func (q *Queue) NormBackwardApply(n *Norm, dx, d, x Ptr, rows int) {
	total := rows * n.Channels
	q.each(q.normGradientApply, total, cuda.P(dx), cuda.P(d), cuda.P(x), cuda.P(n.slopes), cuda.L(total), cuda.I(n.Channels))
}
