package kernel

import (
	"fmt"
	"testing"

	"fedrspo/internal/cputime"
)

// A resNet is the truncated ResNet-18 of the paper's section 6.3 on 96x96
// images: forward and backward pass of one training step.
type resNet struct {
	n, version    int
	conv          [5]*Conv[float32]
	norm          [5]*BatchNorm[float32]
	pool, last    *MaxPool[float32]
	w, dw         [5][]float32
	gamma, beta   []float32
	dgamma, dbeta []float32
	x             []float32
	c             [5][]float32 // outputs of the convolutions
	a             [5][]float32 // after batch norm, residual and ReLU; a[0] pooled; a[1] and a[3] are not kept
	arg, argLast  []uint8
	head, dhead   []float32
	y, dy         []float32
	large         []float32
	d, din, d1    []float32
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
	net.d, net.din, net.d1, net.large = vec(n*net.pool.OutLen()), vec(n*net.pool.OutLen()), vec(n*net.pool.OutLen()), vec(n*net.pool.OutLen())
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
	net.pool.ForwardNorm(s, net.a[0], net.arg, net.large, net.c[0], n, net.norm[0], true)
	for i := 1; i < 5; i += 2 {
		net.conv[i].ForwardFused(s, net.c[i], net.a[i-1], n, net.weights(i), out(i))
		f := out(i + 1)
		f.In, f.ReLU = net.norm[i], true
		net.conv[i+1].ForwardFused(s, net.c[i+1], net.c[i], n, net.weights(i+1), f)
		net.norm[i+1].Apply(s, net.a[i+1], net.c[i+1], net.a[i-1], n, 576, true)
	}
	net.last.Forward(s, net.head, net.argLast, net.a[4], n)
	ChannelMean(net.y, net.head, 64)

	ChannelMeanGrad(net.dhead, net.dy, 64)
	d, next := net.d, net.din
	before := func(i int, x []float32) Fusion[float32] {
		return Fusion[float32]{Prev: net.norm[i], PrevX: x, Dgamma: net.dgamma, Dbeta: net.dbeta}
	}
	net.last.BackwardFused(s, d, net.dhead, net.argLast, net.a[4], n, before(4, net.c[4]))
	for i := 3; i > 0; i -= 2 {
		f := before(i, net.c[i])
		f.In, f.ReLU, f.Out, f.Y = net.norm[i], true, net.norm[i+1], net.c[i+1]
		net.conv[i+1].BackwardFused(s, net.d1, net.dw[i+1], net.c[i], d, n, net.weights(i+1), f)
		prevX := net.large
		if i > 1 {
			prevX = net.c[i-1]
		}
		f = before(i-1, prevX)
		f.Out, f.Y, f.Shortcut = net.norm[i], net.c[i], d
		net.conv[i].BackwardFused(s, next, net.dw[i], net.a[i-1], net.d1, n, net.weights(i), f)
		d, next = next, d
	}
	net.conv[0].BackwardFused(s, nil, net.dw[0], net.x, d, n, Weights[float32]{}, Fusion[float32]{Out: net.norm[0], Y: net.c[0], Pool: net.pool, Argmax: net.arg})
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
					start := cputime.Now()
					for b.Loop() {
						net.step(s)
					}
					b.ReportMetric(float64(b.N*batch)/(cputime.Now()-start).Seconds(), "images/cpu-s")
					b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "images/s")
				})
			}
		}
	}
}
