package kernel

import (
	"fmt"
	"testing"

	"fedrspo/internal/cputime"
)

// BenchmarkImage is the operations around the convolutions of the truncated
// ResNet-18, on a batch of 16 images and one thread, at the best level.
func BenchmarkImage(b *testing.B) {
	const n, channels = 16, 64
	r := newRand()
	s := NewScratch[float32](1)
	gamma, beta := alignedNormal(r, channels), alignedNormal(r, channels)
	dgamma, dbeta := make([]float32, channels), make([]float32, channels)
	for _, side := range []int{48, 24} {
		pixels := side * side
		size := n * pixels * channels
		vec := func() []float32 { return alignedNormal(r, size) }
		x, y, residual, d := vec(), vec(), vec(), vec()
		norm := newNorm[float32](b, channels)
		norm.Batch(s, x, n, pixels, gamma, beta)
		pool, err := NewMaxPool[float32](side, side, channels, 3, 2, 1)
		if err != nil {
			b.Fatal(err)
		}
		half, err := NewAdaptiveMaxPool[float32](side, side, channels, side/2, side/2)
		if err != nil {
			b.Fatal(err)
		}
		argmax := make([]uint8, n*pool.OutLen())
		pool.Forward(s, y, argmax, x, n)
		for _, op := range []struct {
			name string
			f    func()
		}{
			{"Batch", func() { norm.Batch(s, x, n, pixels, gamma, beta) }},
			{"Apply", func() { norm.Apply(s, y, x, nil, n, pixels, true) }},
			{"ApplyResidual", func() { norm.Apply(s, y, x, residual, n, pixels, true) }},
			{"BackwardSums", func() { norm.BackwardSums(s, d, dgamma, dbeta, residual, y, x, n, pixels) }},
			{"BackwardApply", func() { norm.BackwardApply(s, y, d, x, n, pixels) }},
			{"MaxPool", func() { pool.Forward(s, y, argmax, x, n) }},
			{"MaxPoolBackward", func() { pool.Backward(s, d, y, argmax, n) }},
			{"AdaptiveMaxPool", func() { half.Forward(s, y, argmax, x, n) }},
			{"AdaptiveMaxPoolBackward", func() { half.Backward(s, d, y, argmax, n) }},
			{"ChannelMean", func() { ChannelMean(y[:n*pixels], x, channels) }},
			{"ChannelMeanGrad", func() { ChannelMeanGrad(d, y[:n*pixels], channels) }},
		} {
			b.Run(fmt.Sprintf("op=%s/image=%dx%dx%d", op.name, side, side, channels), func(b *testing.B) {
				start := cputime.Now()
				for b.Loop() {
					op.f()
				}
				b.ReportMetric(float64((cputime.Now()-start).Nanoseconds())/float64(b.N)/n/1000, "cpu-us/image")
			})
		}
	}
}
