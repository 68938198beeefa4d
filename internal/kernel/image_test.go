package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A blockNet is one of each operation on images, as a network uses them:
// convolution, batch norm with ReLU, max pool, convolution, batch norm with
// residual, adaptive max pool, channel mean.
type blockNet[T Float] struct {
	conv1, conv2  *Conv[T]
	norm1, norm2  *BatchNorm[T]
	pool, last    *MaxPool[T]
	w1, w2        []T
	gamma, beta   []T
	version       uint64
	c1, a1, p1    []T // outputs of conv1, norm1, pool with ReLU
	large1        []T // elements of c1 at the maxima
	c2, a2, p2    []T // of conv2, norm2, last
	y             []T
	arg1, arg2    []uint8
	dp2, da2, dc2 []T
	dp1, da1, dc1 []T
	skip          []T // gradient of the residual, from norm2
	dx, dw1, dw2  []T
	dgamma, dbeta [2][]T
}

const netChannels = 33

func newBlockNet[T Float](t testing.TB, r *rand.Rand, a Algorithm, n int) *blockNet[T] {
	t.Helper()
	shape1 := ConvShape{InH: 17, InW: 15, InC: 3, OutC: netChannels, KernelH: 5, KernelW: 5, StrideH: 2, StrideW: 2, PadH: 2, PadW: 2}
	pool, err := NewMaxPool[T](shape1.OutH(), shape1.OutW(), netChannels, 3, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	shape2 := ConvShape{InH: pool.OutH(), InW: pool.OutW(), InC: netChannels, OutC: netChannels, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
	last, err := NewAdaptiveMaxPool[T](shape2.OutH(), shape2.OutW(), netChannels, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	vec := func(n int) []T { return make([]T, n) }
	normal := func(n int, scale float64) []T {
		x := newNormal[T](r, n).x
		Scale(T(scale), x)
		return x
	}
	b := &blockNet[T]{
		conv1: newConv[T](t, shape1, Direct), conv2: newConv[T](t, shape2, a),
		norm1: newNorm[T](t, netChannels), norm2: newNorm[T](t, netChannels),
		pool: pool, last: last,
		w1: normal(shape1.WeightLen(), 0.1), w2: normal(shape2.WeightLen(), 0.1),
		gamma: normal(netChannels, 1), beta: normal(netChannels, 1),
		dx: vec(n * shape1.InLen()), dw1: vec(shape1.WeightLen()), dw2: vec(shape2.WeightLen()),
		arg1: make([]uint8, n*pool.OutLen()), arg2: make([]uint8, n*last.OutLen()),
		y: vec(n * last.OutH() * last.OutW()),
	}
	for _, x := range []*[]T{&b.c1, &b.a1, &b.da1, &b.dc1} {
		*x = vec(n * shape1.OutLen())
	}
	for _, x := range []*[]T{&b.p1, &b.large1, &b.c2, &b.a2, &b.da2, &b.dc2, &b.dp1, &b.skip} {
		*x = vec(n * shape2.OutLen())
	}
	b.p2, b.dp2 = vec(n*last.OutLen()), vec(n*last.OutLen())
	for i := range 2 {
		b.dgamma[i], b.dbeta[i] = vec(netChannels), vec(netChannels)
	}
	return b
}

func pixelsOf(s ConvShape) int { return s.OutH() * s.OutW() }

func (b *blockNet[T]) forward(s *Scratch[T], x []T, n int) {
	b.version++
	pixels1, pixels2 := pixelsOf(b.conv1.Shape()), pixelsOf(b.conv2.Shape())
	b.conv1.Forward(s, b.c1, x, n, Weights[T]{b.w1, b.version})
	b.norm1.Batch(s, b.c1, n, pixels1, b.gamma, b.beta)
	b.norm1.Apply(s, b.a1, b.c1, nil, n, pixels1, false)
	b.pool.Forward(s, b.p1, b.arg1, b.a1, n)
	ReLU(b.p1, b.p1)
	b.gatherLargest(n)
	b.conv2.Forward(s, b.c2, b.p1, n, Weights[T]{b.w2, b.version})
	b.norm2.Batch(s, b.c2, n, pixels2, b.gamma, b.beta)
	b.norm2.Apply(s, b.a2, b.c2, b.p1, n, pixels2, true)
	b.last.Forward(s, b.p2, b.arg2, b.a2, n)
	ChannelMean(b.y[:n*b.last.OutLen()/netChannels], b.p2[:n*b.last.OutLen()], netChannels)
}

func (b *blockNet[T]) backward(s *Scratch[T], x, dy []T, n int) {
	pixels1, pixels2 := pixelsOf(b.conv1.Shape()), pixelsOf(b.conv2.Shape())
	ChannelMeanGrad(b.dp2[:n*b.last.OutLen()], dy[:n*b.last.OutLen()/netChannels], netChannels)
	b.last.Backward(s, b.da2, b.dp2, b.arg2, n)
	b.norm2.BackwardSums(s, b.skip, b.dgamma[1], b.dbeta[1], b.da2, b.a2, b.c2, n, pixels2)
	b.norm2.BackwardApply(s, b.dc2, b.skip, b.c2, n, pixels2)
	b.conv2.BackwardWeights(s, b.dw2, b.p1, b.dc2, n, false)
	b.conv2.BackwardData(s, b.dp1, b.dc2, n, Weights[T]{b.w2, b.version})
	Axpy(1, b.skip, b.dp1)
	b.norm1.BackwardSumsPool(s, b.dp1, b.dgamma[0], b.dbeta[0], b.dp1, b.p1, b.large1, n, b.pool)
	b.pool.Backward(s, b.da1, b.dp1, b.arg1, n)
	b.norm1.BackwardApply(s, b.dc1, b.da1, b.c1, n, pixels1)
	b.conv1.BackwardWeights(s, b.dw1, x, b.dc1, n, false)
	b.conv1.BackwardData(s, b.dx, b.dc1, n, Weights[T]{b.w1, b.version})
}

// forwardFused and backwardFused are forward and backward by fused operations.
func (b *blockNet[T]) forwardFused(s *Scratch[T], x []T, n int) {
	b.version++
	pixels2 := pixelsOf(b.conv2.Shape())
	b.conv1.ForwardFused(s, b.c1, x, n, Weights[T]{b.w1, b.version}, Fusion[T]{Out: b.norm1, Gamma: b.gamma, Beta: b.beta})
	b.pool.ForwardNorm(s, b.p1, b.arg1, b.large1, b.c1, n, b.norm1, true)
	b.conv2.ForwardFused(s, b.c2, b.p1, n, Weights[T]{b.w2, b.version}, Fusion[T]{Out: b.norm2, Gamma: b.gamma, Beta: b.beta})
	b.norm2.Apply(s, b.a2, b.c2, b.p1, n, pixels2, true)
	b.last.Forward(s, b.p2, b.arg2, b.a2, n)
	ChannelMean(b.y[:n*b.last.OutLen()/netChannels], b.p2[:n*b.last.OutLen()], netChannels)
}

func (b *blockNet[T]) backwardFused(s *Scratch[T], x, dy []T, n int) {
	ChannelMeanGrad(b.dp2[:n*b.last.OutLen()], dy[:n*b.last.OutLen()/netChannels], netChannels)
	b.last.BackwardFused(s, b.skip, b.dp2, b.arg2, b.a2, n, Fusion[T]{Prev: b.norm2, PrevX: b.c2, Dgamma: b.dgamma[1], Dbeta: b.dbeta[1]})
	b.conv2.BackwardFused(s, b.dp1, b.dw2, b.p1, b.skip, n, Weights[T]{b.w2, b.version}, Fusion[T]{
		Out: b.norm2, Y: b.c2, Shortcut: b.skip,
		Prev: b.norm1, PrevX: b.large1, Dgamma: b.dgamma[0], Dbeta: b.dbeta[0],
	})
	b.conv1.BackwardFused(s, b.dx, b.dw1, x, b.dp1, n, Weights[T]{b.w1, b.version}, Fusion[T]{
		Out: b.norm1, Y: b.c1, Pool: b.pool, Argmax: b.arg1,
	})
}

// gatherLargest sets large1 to the elements of c1 at the maxima of the pool.
func (b *blockNet[T]) gatherLargest(n int) {
	p := b.pool
	for i := range n * p.OutLen() {
		img, at := i/p.OutLen(), i%p.OutLen()
		pixel, c := at/p.channels, at%p.channels
		code := int(b.arg1[i])
		h, w := p.rows[pixel/p.OutW()].lo+code/p.stride, p.cols[pixel%p.OutW()].lo+code%p.stride
		b.large1[i] = b.c1[img*p.InLen()+(h*p.inW+w)*p.channels+c]
	}
}

// results are the outputs and every gradient.
func (b *blockNet[T]) results() map[string][]T {
	return map[string][]T{
		"y": b.y, "dx": b.dx, "dw1": b.dw1, "dw2": b.dw2, "c2": b.c2, "p1": b.p1, "dp1": b.dp1, "large1": b.large1,
		"dgamma1": b.dgamma[0], "dbeta1": b.dbeta[0], "dgamma2": b.dgamma[1], "dbeta2": b.dbeta[1],
	}
}

func onAlgorithms(t *testing.T, f func(t *testing.T, a Algorithm)) {
	for _, a := range []Algorithm{Direct, Winograd} {
		t.Run(a.String(), func(t *testing.T) { f(t, a) })
	}
}

// The bits do not depend on the number of threads, nor on what is fused, and a
// dirty Scratch changes nothing. Levels avx512 and avx2 return the same bits.
func testImageBits[T Float](t *testing.T) {
	onAlgorithms(t, func(t *testing.T, a Algorithm) {
		// A whole chunk of the weight gradient and a short one.
		const n = gradientChunk + 3
		run := func(threads int, fused bool) map[string][]T {
			r := newRand()
			b := newBlockNet[T](t, r, a, n)
			x, dy := newNormal[T](r, n*b.conv1.Shape().InLen()).x, newNormal[T](r, len(b.y)).x
			s := NewScratch[T](threads)
			for range 2 {
				if fused {
					b.forwardFused(s, x, n)
					b.backwardFused(s, x, dy, n)
				} else {
					b.forward(s, x, n)
					b.backward(s, x, dy, n)
				}
			}
			return b.results()
		}
		want := run(1, false)
		same := func(name string, got map[string][]T) {
			t.Helper()
			for k, v := range got {
				wantSame(t, fmt.Sprintf("%s with %s", k, name), v, want[k])
			}
		}
		for _, threads := range []int{2, 3} {
			same(fmt.Sprintf("%d threads", threads), run(threads, threads != 2))
		}
		if active == levelAVX512 {
			setLevel(t, levelAVX2)
			same("AVX2", run(1, true))
		}
	})
}

func TestImageBits(t *testing.T) { onTypes(t, testImageBits[float32], testImageBits[float64]) }

// An image's output and gradient depend on no other image, nor on what lies
// behind the live ones.
func testImageSplit[T Float](t *testing.T) {
	onAlgorithms(t, func(t *testing.T, a Algorithm) {
		const n = 7
		r := newRand()
		b := newBlockNet[T](t, r, a, n)
		shape, s := b.conv2.Shape(), NewScratch[T](2)
		x, dy := newNormal[T](r, n*shape.InLen()).x, newNormal[T](r, n*shape.OutLen()).x
		w := Weights[T]{b.w2, 1}
		y, dx := make([]T, len(dy)), make([]T, len(x))
		b.conv2.Forward(s, y, x, n, w)
		b.conv2.BackwardData(s, dx, dy, n, w)
		y2, dx2 := newNormal[T](r, len(dy)).x, newNormal[T](r, len(x)).x
		for lo := 0; lo < n; {
			m := 1 + r.IntN(n-lo)
			in, out := lo*shape.InLen(), lo*shape.OutLen()
			after, afterX := slices.Clone(y2[out+m*shape.OutLen():]), slices.Clone(dx2[in+m*shape.InLen():])
			b.conv2.Forward(s, y2[out:], x[in:], m, w)
			b.conv2.BackwardData(s, dx2[in:], dy[out:], m, w)
			wantSame(t, "y behind", y2[out+m*shape.OutLen():], after)
			wantSame(t, "dx behind", dx2[in+m*shape.InLen():], afterX)
			lo += m
		}
		wantSame(t, "y", y2, y)
		wantSame(t, "dx", dx2, dx)
	})
}

func TestImageSplit(t *testing.T) { onTypes(t, testImageSplit[float32], testImageSplit[float64]) }

// Every gradient agrees with central differences, in float64. With step h the
// error of the difference is about h² times a third derivative, and 1e-16/h
// times the loss, which is of order one; h = 1e-5 makes both below 1e-8, and the
// curvature of batch norm takes the rest of 1e-6. A step that moves a maximum or
// a sign of a ReLU is no derivative: the differences of two steps tell.
func TestImageGradients(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		onAlgorithms(t, func(t *testing.T, a Algorithm) {
			const n, h = 3, 1e-5
			r := newRand()
			b := newBlockNet[float64](t, r, a, n)
			x, dy := newNormal[float64](r, n*b.conv1.Shape().InLen()).x, newNormal[float64](r, len(b.y)).x
			s := NewScratch[float64](1)
			loss := func() float64 {
				b.forward(s, x, n)
				sum := 0.0
				for i, v := range b.y {
					sum += v * dy[i]
				}
				return sum
			}
			loss()
			b.backward(s, x, dy, n)
			// Both layers read gamma and beta.
			dgamma, dbeta := slices.Clone(b.dgamma[0]), slices.Clone(b.dbeta[0])
			Axpy(1, b.dgamma[1], dgamma)
			Axpy(1, b.dbeta[1], dbeta)
			checked := 0
			for _, v := range []struct {
				name string
				x, g []float64
			}{{"x", x, b.dx}, {"w1", b.w1, b.dw1}, {"w2", b.w2, b.dw2}, {"gamma", b.gamma, dgamma}, {"beta", b.beta, dbeta}} {
				g := slices.Clone(v.g)
				for range 7 {
					i := r.IntN(len(v.x))
					at := func(h float64) float64 {
						old := v.x[i]
						v.x[i] = old + h
						l := loss()
						v.x[i] = old
						return l
					}
					d1, d2 := (at(h)-at(-h))/(2*h), (at(h/2)-at(-h/2))/h
					if math.Abs(d1-d2) > 1e-7 {
						continue
					}
					checked++
					if math.Abs(d2-g[i]) > 1e-6 {
						t.Errorf("d%s[%d] = %v, central difference %v", v.name, i, g[i], d2)
					}
				}
			}
			if checked < 25 {
				t.Errorf("only %d of 35 differences are derivatives", checked)
			}
		})
	})
}

// Steady state allocates nothing, on one thread and on several.
func testImageAllocs[T Float](t *testing.T) {
	onAlgorithms(t, func(t *testing.T, a Algorithm) {
		for _, threads := range []int{1, 3} {
			const n = gradientChunk + 1
			r := newRand()
			b := newBlockNet[T](t, r, a, n)
			x, dy := newNormal[T](r, n*b.conv1.Shape().InLen()).x, newNormal[T](r, len(b.y)).x
			s := NewScratch[T](threads)
			step := func() {
				b.forward(s, x, n)
				b.backward(s, x, dy, n)
				b.forwardFused(s, x, n)
				b.backwardFused(s, x, dy, n)
			}
			step()
			// Now every thread gets the room that one of them needed.
			step()
			held := s.Bytes()
			if allocs := testing.AllocsPerRun(1, step); allocs != 0 {
				t.Errorf("%d threads: a step allocates %v times", threads, allocs)
			}
			if s.Threads() != threads || s.Bytes() != held {
				t.Errorf("%d threads: scratch of %d threads went from %d to %d bytes", threads, s.Threads(), held, s.Bytes())
			}
		}
	})
}

func TestImageAllocs(t *testing.T) { onTypes(t, testImageAllocs[float32], testImageAllocs[float64]) }

// A convolution that normalises its input as it loads it, residual and ReLU
// included, has the bits of the separate operations, and keeps the input if
// asked to.
func testFusedInput[T Float](t *testing.T) {
	onAlgorithms(t, func(t *testing.T, a Algorithm) {
		const n = gradientChunk + 2
		shape := ConvShape{InH: 7, InW: 6, InC: 19, OutC: 5, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
		r := newRand()
		vec := func(n int) []T { return newNormal[T](r, n).x }
		x, residual, dy := vec(n*shape.InLen()), vec(n*shape.InLen()), vec(n*shape.OutLen())
		w, gamma, beta := Weights[T]{vec(shape.WeightLen()), 1}, vec(shape.InC), vec(shape.InC)
		pixels := shape.InH * shape.InW
		s, c, norm := NewScratch[T](2), newConv[T](t, shape, a), newNorm[T](t, shape.InC)
		norm.Batch(s, x, n, pixels, gamma, beta)
		for _, f := range []Fusion[T]{{In: norm}, {In: norm, ReLU: true}, {In: norm, Residual: residual, ReLU: true, Store: vec(len(x))}} {
			in, y, wantY := vec(len(x)), vec(len(dy)), vec(len(dy))
			dx, wantDX, dw, wantDW := vec(len(x)), vec(len(x)), vec(len(w.Data)), vec(len(w.Data))
			norm.Apply(s, in, x, f.Residual, n, pixels, f.ReLU)
			c.Forward(s, wantY, in, n, w)
			c.BackwardData(s, wantDX, dy, n, w)
			c.BackwardWeights(s, wantDW, in, dy, n, false)
			c.ForwardFused(s, y, x, n, w, f)
			c.BackwardFused(s, dx, dw, x, dy, n, w, f)
			wantSame(t, "y", y, wantY)
			wantSame(t, "dx", dx, wantDX)
			wantSame(t, "dw", dw, wantDW)
			clear(dw)
			c.BackwardFused(s, nil, dw, x, dy, n, Weights[T]{}, f)
			wantSame(t, "dw without dx", dw, wantDW)
			if f.Store != nil {
				wantSame(t, "stored input", f.Store, in)
			}
		}
	})
}

func TestFusedInput(t *testing.T) { onTypes(t, testFusedInput[float32], testFusedInput[float64]) }

func TestFusedPanics(t *testing.T) {
	shape := ConvShape{InH: 4, InW: 4, InC: 2, OutC: 3, KernelH: 1, KernelW: 1, StrideH: 1, StrideW: 1}
	c, s := newConv[float32](t, shape, Direct), NewScratch[float32](1)
	x, y, p := make([]float32, shape.InLen()), make([]float32, shape.OutLen()), make([]float32, 3)
	w := Weights[float32]{Data: make([]float32, shape.WeightLen())}
	two, three := newNorm[float32](t, 2), newNorm[float32](t, 3)
	wantPanic(t, "channels before", func() { c.ForwardFused(s, y, x, 1, w, Fusion[float32]{In: three}) })
	wantPanic(t, "short residual", func() { c.ForwardFused(s, y, x, 1, w, Fusion[float32]{In: two, Residual: x[1:]}) })
	wantPanic(t, "short store", func() { c.ForwardFused(s, y, x, 1, w, Fusion[float32]{In: two, Store: x[1:]}) })
	wantPanic(t, "channels behind", func() { c.ForwardFused(s, y, x, 1, w, Fusion[float32]{Out: two, Gamma: p, Beta: p}) })
	wantPanic(t, "gamma", func() { c.ForwardFused(s, y, x, 1, w, Fusion[float32]{Out: three, Gamma: p[1:], Beta: p}) })
	wantPanic(t, "no Y", func() { c.BackwardFused(s, nil, w.Data, x, y, 1, w, Fusion[float32]{Out: three}) })
	wantPanic(t, "short dx", func() { c.BackwardFused(s, x[1:], w.Data, x, y, 1, w, Fusion[float32]{}) })
	pool, err := NewMaxPool[float32](4, 4, 3, 2, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	small, argmax := make([]float32, pool.OutLen()), make([]uint8, pool.OutLen())
	wantPanic(t, "pool of other channels", func() { pool.ForwardNorm(s, small, argmax, nil, y, 1, two, true) })
	wantPanic(t, "short largest", func() { pool.ForwardNorm(s, small, argmax, small[1:], y, 1, three, true) })
	wantPanic(t, "sums of a pool of other channels", func() { two.BackwardSumsPool(s, small, p[:2], p[:2], small, nil, small, 1, pool) })
	wantPanic(t, "short maxima", func() { three.BackwardSumsPool(s, small, p, p, small, nil, small[1:], 1, pool) })
	dx := make([]float32, len(x))
	poolDX := make([]float32, pool.InLen())
	before3 := Fusion[float32]{Prev: three, PrevX: y, Dgamma: p, Dbeta: p}
	wantPanic(t, "pool without work", func() { pool.BackwardFused(s, poolDX, small, argmax, y, 1, Fusion[float32]{}) })
	wantPanic(t, "pool behind of other channels", func() {
		pool.BackwardFused(s, poolDX, small, argmax, y, 1, Fusion[float32]{Prev: two, PrevX: y, Dgamma: p[:2], Dbeta: p[:2]})
	})
	wantPanic(t, "pool with short input", func() { pool.BackwardFused(s, poolDX, small, argmax, y[1:], 1, before3) })
	behind := func(f Fusion[float32]) func() {
		f.Y = y
		return func() { c.BackwardFused(s, dx, w.Data, x, small, 1, w, f) }
	}
	wantPanic(t, "pool without batch norm", behind(Fusion[float32]{Pool: pool, Argmax: argmax}))
	wantPanic(t, "pool with short argmax", behind(Fusion[float32]{Out: three, Pool: pool, Argmax: argmax[1:]}))
	before := func(f Fusion[float32]) func() {
		return func() { c.BackwardFused(s, dx, w.Data, x, y, 1, w, f) }
	}
	wantPanic(t, "short shortcut", before(Fusion[float32]{Shortcut: x[1:]}))
	wantPanic(t, "batch norm of other channels", before(Fusion[float32]{Prev: three, PrevX: x, Dgamma: p, Dbeta: p}))
	wantPanic(t, "short dgamma", before(Fusion[float32]{Prev: two, PrevX: x, Dgamma: p[:1], Dbeta: p[:2]}))
	wantPanic(t, "short PrevX", before(Fusion[float32]{Prev: two, PrevX: x[1:], Dgamma: p[:2], Dbeta: p[:2]}))
	wantPanic(t, "shortcut without dx", func() { c.BackwardFused(s, nil, w.Data, x, y, 1, w, Fusion[float32]{Shortcut: x}) })
}

// The sums over the windows of a max pool are those over its pixels, up to
// rounding: each is one of at most 4 x pixels numbers, in two orders.
func testPoolSums[T Float](t *testing.T) {
	const n = 3
	r := newRand()
	b := newBlockNet[T](t, r, Direct, n)
	x, dy := newNormal[T](r, n*b.conv1.Shape().InLen()).x, newNormal[T](r, len(b.p1)).x
	s, pixels := NewScratch[T](1), pixelsOf(b.conv1.Shape())
	b.forward(s, x, n)
	d, dgamma, dbeta := make([]T, len(b.p1)), make([]T, netChannels), make([]T, netChannels)
	b.norm1.BackwardSumsPool(s, d, dgamma, dbeta, dy, b.p1, b.large1, n, b.pool)
	b.norm1.Apply(s, b.a1, b.c1, nil, n, pixels, true)
	b.pool.Backward(s, b.da1, dy, b.arg1, n)
	b.norm1.BackwardSums(s, b.da1, b.dgamma[0], b.dbeta[0], b.da1, b.a1, b.c1, n, pixels)
	abs, absX := make([]float64, netChannels), make([]float64, netChannels)
	for i, v := range b.da1 {
		c := i % netChannels
		v := math.Abs(float64(v))
		abs[c] += v
		absX[c] += v * math.Abs(float64(b.c1[i])-b.norm1.mean[c]) / math.Sqrt(b.norm1.variance[c]+b.norm1.epsilon)
	}
	slack := float64(4 * n * pixels)
	for c := range abs {
		absX[c] += abs[c] // the rounded mean
	}
	wantClose(t, "dbeta", dbeta, toFloat64(b.dbeta[0]), abs, slack)
	wantClose(t, "dgamma", dgamma, toFloat64(b.dgamma[0]), absX, slack)
	b.pool.Backward(s, b.dc1, d, b.arg1, n)
	for i, v := range b.dc1 {
		// Gradients that meet are added in one order.
		if v != b.da1[i] {
			t.Fatalf("d[%d] is %v, want %v", i, v, b.da1[i])
		}
	}
}

func TestPoolSums(t *testing.T) { onTypes(t, testPoolSums[float32], testPoolSums[float64]) }

func toFloat64[T Float](x []T) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
