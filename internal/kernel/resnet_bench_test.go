package kernel

import (
	"fmt"
	"testing"
)

// A resNet is the truncated ResNet-18 of the paper's section 6.3 on 96x96
// images: forward and backward pass of one training step.
type resNet struct {
	n, version     int
	conv           [5]*Conv[float32]
	norm           [5]*BatchNorm[float32]
	pool, last     *MaxPool[float32]
	w, dw          [5][]float32
	gamma, beta    []float32
	dgamma, dbeta  []float32
	x              []float32
	c              [5][]float32 // outputs of the convolutions
	a              [5][]float32 // after batch norm, residual and ReLU; a[0] pooled
	arg, argLast   []uint8
	head, dhead    []float32
	y, dy          []float32
	d, din, dImage []float32
}

func newResNet(b *testing.B, n int, algorithm Algorithm) *resNet {
	r := newRand()
	vec := func(n int) []float32 { return make([]float32, n) }
	net := &resNet{n: n, gamma: vec(64), beta: vec(64), dgamma: vec(64), dbeta: vec(64)}
	for i := range net.gamma {
		net.gamma[i] = 1
	}
	var err error
	if net.pool, err = NewMaxPool[float32](48, 48, 64, 3, 2, 1); err != nil {
		b.Fatal(err)
	}
	if net.last, err = NewAdaptiveMaxPool[float32](24, 24, 64, 12, 12); err != nil {
		b.Fatal(err)
	}
	for i := range net.conv {
		shape, a := shapeConv3x3, algorithm
		if i == 0 {
			shape, a = shapeConv1, Direct
		}
		net.conv[i], net.norm[i] = newConv[float32](b, shape, a), newNorm[float32](b, 64)
		net.w[i], net.dw[i] = alignedNormal(r, shape.WeightLen()), vec(shape.WeightLen())
		Scale(0.05, net.w[i])
		net.c[i], net.a[i] = vec(n*shape.OutLen()), vec(n*net.pool.OutLen())
	}
	net.x = alignedNormal(r, n*shapeConv1.InLen())
	net.arg, net.argLast = make([]uint8, n*net.pool.OutLen()), make([]uint8, n*net.last.OutLen())
	net.head, net.dhead = vec(n*net.last.OutLen()), vec(n*net.last.OutLen())
	net.y, net.dy = vec(n*144), alignedNormal(r, n*144)
	net.d, net.din, net.dImage = vec(n*net.pool.OutLen()), vec(n*net.pool.OutLen()), vec(n*net.pool.InLen())
	return net
}

func (net *resNet) weights(i int) Weights[float32] {
	return Weights[float32]{Data: net.w[i], Version: uint64(net.version)}
}

func (net *resNet) step(s *Scratch[float32]) {
	n := net.n
	net.version++
	out := func(i int) Fusion[float32] {
		return Fusion[float32]{Out: net.norm[i], Gamma: net.gamma, Beta: net.beta}
	}
	net.conv[0].ForwardFused(s, net.c[0], net.x, n, net.weights(0), out(0))
	net.pool.ForwardNorm(s, net.a[0], net.arg, net.c[0], n, net.norm[0], true)
	for i := 1; i < 5; i++ {
		f, x := out(i), net.a[0]
		if i > 1 {
			f.In, f.ReLU, f.Store, x = net.norm[i-1], true, net.a[i-1], net.c[i-1]
		}
		if i == 3 {
			f.Residual = net.a[0]
		}
		net.conv[i].ForwardFused(s, net.c[i], x, n, net.weights(i), f)
	}
	net.norm[4].Apply(s, net.a[4], net.c[4], net.a[2], n, 576, true)
	net.last.Forward(s, net.head, net.argLast, net.a[4], n)
	ChannelMean(net.y, net.head, 64)

	ChannelMeanGrad(net.dhead, net.dy, 64)
	net.last.Backward(s, net.din, net.dhead, net.argLast, n)
	for i := 4; i > 0; i-- {
		d := net.d
		if i%2 == 1 {
			// The gradient of the residual waits in net.d.
			d = net.dImage[:len(net.d)]
		}
		net.norm[i].BackwardSums(s, d, net.dgamma, net.dbeta, net.din, net.a[i], net.c[i], n, 576)
		net.conv[i].BackwardFused(s, net.din, net.dw[i], net.a[i-1], d, n, net.weights(i), Fusion[float32]{Out: net.norm[i], Y: net.c[i]})
		if i%2 == 1 {
			Axpy(1, net.d, net.din)
		}
	}
	net.norm[0].BackwardSumsPool(s, net.dImage, net.dgamma, net.dbeta, net.din, net.a[0], net.c[0], n, net.pool, net.arg)
	net.conv[0].BackwardFused(s, nil, net.dw[0], net.x, net.dImage, n, Weights[float32]{}, Fusion[float32]{Out: net.norm[0], Y: net.c[0]})
}

// BenchmarkResNetStep reports images per second of processor time, which is
// what one core does, and per second.
func BenchmarkResNetStep(b *testing.B) {
	for _, batch := range []int{16, 64} {
		for _, a := range []Algorithm{Direct, Winograd} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("batch=%d/algo=%v/threads=%d", batch, a, threads), func(b *testing.B) {
					net, s := newResNet(b, batch, a), NewScratch[float32](threads)
					net.step(s)
					start := cpuTime()
					for b.Loop() {
						net.step(s)
					}
					b.ReportMetric(float64(b.N*batch)/(cpuTime()-start).Seconds(), "images/cpu-s")
					b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "images/s")
				})
			}
		}
	}
}
