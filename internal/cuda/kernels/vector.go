package kernels

import "fedrspo/internal/cuda"

// Add computes y = a + b for n elements; y may be either.
func (q *Queue) Add(y, a, b Ptr, n int) {
	q.each(q.add, n, cuda.P(y), cuda.P(a), cuda.P(b), cuda.L(n))
}

// ReLU computes y = max(0, x); NaN stays NaN. y may be x.
func (q *Queue) ReLU(y, x Ptr, n int) { q.each(q.relu, n, cuda.P(y), cuda.P(x), cuda.L(n)) }

// ReLUGrad computes dx = dy where y > 0, else 0. dx may be dy.
func (q *Queue) ReLUGrad(dx, dy, y Ptr, n int) {
	q.each(q.reluGradient, n, cuda.P(dx), cuda.P(dy), cuda.P(y), cuda.L(n))
}

// FromDouble rounds n doubles at src to elements.
func (q *Queue) FromDouble(dst, src Ptr, n int) {
	q.each(q.fromDouble, n, cuda.P(dst), cuda.P(src), cuda.L(n))
}

// ToDouble converts n elements to doubles at dst.
func (q *Queue) ToDouble(dst, src Ptr, n int) {
	q.each(q.toDouble, n, cuda.P(dst), cuda.P(src), cuda.L(n))
}

// ChannelMean computes the mean over the channels of each pixel of
// x [pixels, channels].
func (q *Queue) ChannelMean(y, x Ptr, pixels, channels int) {
	q.each(q.channelMean, pixels, cuda.P(y), cuda.P(x), cuda.L(pixels), cuda.I(channels))
}

// ChannelMeanGrad computes dx[p,c] = dy[p] / channels.
func (q *Queue) ChannelMeanGrad(dx, dy Ptr, pixels, channels int) {
	n := pixels * channels
	q.each(q.channelMeanGradient, n, cuda.P(dx), cuda.P(dy), cuda.L(n), cuda.I(channels))
}

// AddBias adds bias [columns] to each row of y [rows, columns].
func (q *Queue) AddBias(y, bias Ptr, rows, columns int) {
	n := rows * columns
	q.each(q.biasReLU, n, cuda.P(y), cuda.P(bias), cuda.L(n), cuda.I(columns), cuda.B(false))
}
