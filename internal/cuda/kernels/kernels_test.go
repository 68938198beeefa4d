package kernels_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cudatest"
	"fedrspo/internal/cuda/driver"
	"fedrspo/internal/cuda/kernels"
	"fedrspo/internal/kernel"
)

// TestSource: the compiled kernels are those of the sources.
func TestSource(t *testing.T) {
	for _, e := range []kernels.Elem{kernels.Float32, kernels.Float64} {
		text := string(e.PTX())
		for _, want := range []string{kernels.SourceHash(), "-DREAL=" + e.CType() + " ", ".target sm_75", "--fmad=false"} {
			if !strings.Contains(text, want) {
				t.Errorf("the PTX for %v lacks %q: run make cuda-kernels", e, want)
			}
		}
	}
}

func TestVectors(t *testing.T) { both(t, testVectors[float32], testVectors[float64]) }

func testVectors[T float](g *rig[T]) {
	for _, n := range []int{1, 31, 255, 256, 257, 70_001} {
		a, b := g.random(n), g.random(n)
		a[0] = T(math.NaN())
		pa, pb, py := up(g, a), up(g, b), g.fresh(n)
		want := make([]T, n)
		g.Add(py, pa, pb, n)
		for i := range want {
			want[i] = a[i] + b[i]
		}
		g.same("Add", down[T](g, py, n), want)
		g.ReLU(py, pa, n)
		kernel.ReLU(want, a)
		g.same("ReLU", down[T](g, py, n), want)
		g.ReLUGrad(py, pb, pa, n)
		kernel.ReLUGrad(want, b, a)
		g.same("ReLUGrad", down[T](g, py, n), want)

		wide := make([]float64, n)
		for i, v := range b {
			wide[i] = float64(v) * (1 + 0x1p-40)
			want[i] = T(wide[i])
		}
		pw := up(g, wide)
		g.FromDouble(py, pw, n)
		g.same("FromDouble", down[T](g, py, n), want)
		g.ToDouble(pw, pb, n)
		for i, v := range down[float64](g, pw, n) {
			if v != float64(b[i]) {
				g.t.Fatalf("ToDouble: element %d is %v, want %v", i, v, b[i])
			}
		}
	}
}

func TestChannelMean(t *testing.T) { both(t, testChannelMean[float32], testChannelMean[float64]) }

func testChannelMean[T float](g *rig[T]) {
	for _, c := range []int{1, 2, 3, 4, 7, 64} {
		const pixels = 301
		x, dy := g.random(pixels*c), g.random(pixels)
		y, dx := make([]T, pixels), make([]T, pixels*c)
		kernel.ChannelMean(y, x, c)
		kernel.ChannelMeanGrad(dx, dy, c)
		py, pdx := g.fresh(pixels), g.fresh(pixels*c)
		g.ChannelMean(py, up(g, x), pixels, c)
		g.ChannelMeanGrad(pdx, up(g, dy), pixels, c)
		g.same("ChannelMean", down[T](g, py, pixels), y)
		g.same("ChannelMeanGrad", down[T](g, pdx, pixels*c), dx)
	}
}

// TestGemm: own kernels, cuBLAS, and the switch between them, over sizes around
// the tiles, all orientations and epilogues.
func TestGemm(t *testing.T) {
	for _, own := range []bool{true, false} {
		o := kernels.Options{OwnProducts: own}
		t.Run(fmt.Sprintf("float32/own=%v", own), func(t *testing.T) { testGemm(newRig[float32](t, o)) })
		t.Run(fmt.Sprintf("float64/own=%v", own), func(t *testing.T) { testGemm(newRig[float64](t, o)) })
	}
}

func testGemm[T float](g *rig[T]) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 7}, {64, 64, 16}, {65, 63, 17}, {129, 1, 33}, {1, 130, 40}, {20, 12, 5000}, {70, 3, 1025}, {300, 130, 129}} {
		m, n, k := s[0], s[1], s[2]
		for variant := range 8 {
			ta, tb, full := variant&1 != 0, variant&2 != 0, variant&4 != 0
			a, b, c, bias := g.random(m*k), g.random(k*n), g.random(m*n), g.random(n)
			lda, ldb := k, n
			if ta {
				lda = m
			}
			if tb {
				ldb = k
			}
			want := slices.Clone(c)
			e, de := kernel.Epilogue[T]{}, kernels.Epilogue{}
			if full {
				e, de = kernel.Epilogue[T]{Bias: bias, ReLU: true}, kernels.Epilogue{Bias: up(g, bias), ReLU: true}
			}
			kernel.Gemm(ta, tb, m, n, k, a, lda, b, ldb, want, n, e)
			if variant == 0 {
				for i, v := range c {
					want[i] += v
				}
				de.Accumulate = true
			}
			pc := up(g, c)
			g.Gemm(m, n, k, kernels.Matrix{Ptr: up(g, a), Stride: lda, Transposed: ta}, kernels.Matrix{Ptr: up(g, b), Stride: ldb, Transposed: tb}, pc, n, de)
			g.near(fmt.Sprintf("%dx%dx%d variant %d", m, n, k, variant), down[T](g, pc, m*n), want, k, math.Sqrt(float64(k))*4)
		}
	}
}

// TestConv: forward, both gradients, and the packing, against the CPU's direct
// convolution.
func TestConv(t *testing.T) { both(t, testConv[float32], testConv[float64]) }

func testConv[T float](g *rig[T]) {
	for _, s := range []kernels.ConvShape{
		{H: 16, W: 14, C: 3, Out: 10, KernelH: 7, KernelW: 7, Stride: 2, Pad: 3},
		{H: 9, W: 11, C: 8, Out: 5, KernelH: 3, KernelW: 3, Stride: 1, Pad: 1},
		{H: 7, W: 7, C: 4, Out: 3, KernelH: 1, KernelW: 1, Stride: 1, Pad: 0},
		{H: 10, W: 13, C: 2, Out: 3, KernelH: 3, KernelW: 2, Stride: 3, Pad: 0},
		{H: 5, W: 4, C: 1, Out: 1, KernelH: 5, KernelW: 4, Stride: 2, Pad: 2},
	} {
		for _, n := range []int{1, 3} {
			twin, err := kernel.NewConv[T](kernel.ConvShape{InH: s.H, InW: s.W, InC: s.C, OutC: s.Out, KernelH: s.KernelH, KernelW: s.KernelW,
				StrideH: s.Stride, StrideW: s.Stride, PadH: s.Pad, PadW: s.Pad}, kernel.Direct)
			check(g.t, err)
			sc := kernel.NewScratch[T](1)
			x, w, dy := g.random(n*s.InLen()), g.random(s.WeightLen()), g.random(n*s.OutLen())
			y, dx, dw := make([]T, n*s.OutLen()), make([]T, n*s.InLen()), make([]T, s.WeightLen())
			twin.Forward(sc, y, x, n, kernel.Weights[T]{Data: w})
			twin.BackwardData(sc, dx, dy, n, kernel.Weights[T]{Data: w})
			twin.BackwardWeights(sc, dw, x, dy, n, false)

			px, pdy, packed, dpacked := up(g, x), up(g, dy), g.fresh(len(w)), g.fresh(len(w))
			py, pdx, pdw := g.fresh(len(y)), g.fresh(len(dx)), g.fresh(len(dw))
			g.PackWeights(packed, up(g, w), s)
			g.Conv(py, px, packed, s, n)
			g.ConvBackwardData(pdx, pdy, packed, s, n)
			g.ConvBackwardWeights(pdw, dpacked, px, pdy, s, n)
			what, area := fmt.Sprintf("%+v, %d images", s, n), s.KernelH*s.KernelW
			g.near(what+": y", down[T](g, py, len(y)), y, area*s.C, 4*math.Sqrt(float64(area*s.C)))
			g.near(what+": dx", down[T](g, pdx, len(dx)), dx, area*s.Out, 4*math.Sqrt(float64(area*s.Out)))
			g.near(what+": dw", down[T](g, pdw, len(dw)), dw, n*s.OutLen()/s.Out, 4*math.Sqrt(float64(n*s.OutLen()/s.Out)))
		}
	}
}

// TestNorm: statistics, running statistics, gradients and the maps between them.
func TestNorm(t *testing.T) { both(t, testNorm[float32], testNorm[float64]) }

func testNorm[T float](g *rig[T]) {
	for _, shape := range [][3]int{{1, 1, 1}, {1, 7, 3}, {2, 301, 5}, {3, 200, 33}, {2, 300, 64}} {
		n, pixels, c := shape[0], shape[1], shape[2]
		rows, total := n*pixels, n*pixels*c
		twin, err := kernel.NewBatchNorm[T](c, 1e-5)
		check(g.t, err)
		sc := kernel.NewScratch[T](1)
		x, res, dy, gamma, beta := g.random(total), g.random(total), g.random(total), g.random(c), g.random(c)
		mean, variance := g.random(c), g.random(c)
		for i := range variance {
			variance[i] = variance[i]*variance[i] + 1
		}
		pg, pb, pm, pv, pdg, pdb := up(g, gamma), up(g, beta), up(g, mean), up(g, variance), g.fresh(c), g.fresh(c)
		norm, err := g.NewNorm(kernels.Norm{Channels: c, Epsilon: 1e-5, Momentum: 0.1, Gamma: pg, Beta: pb, RunningMean: pm, RunningVariance: pv, GammaGrad: pdg, BetaGrad: pdb})
		check(g.t, err)
		px, pres, pdy, py, pd, pdx := up(g, x), up(g, res), up(g, dy), g.fresh(total), g.fresh(total), g.fresh(total)
		what := fmt.Sprintf("%dx%dx%d", n, pixels, c)

		y := make([]T, total)
		twin.Fixed(mean, variance, gamma, beta)
		twin.Apply(sc, y, x, res, n, pixels, true)
		g.NormRunning(norm)
		g.NormApply(norm, py, px, pres, rows, true)
		g.same(what+" running", down[T](g, py, total), y)

		twin.Batch(sc, x, n, pixels, gamma, beta)
		twin.UpdateRunning(mean, variance, 0.1)
		twin.Apply(sc, y, x, nil, n, pixels, false)
		g.NormBatch(norm, px, rows)
		g.NormApply(norm, py, px, 0, rows, false)
		// A channel of few rows has a small variance now and then, and a large
		// scale.
		g.near(what+" y", down[T](g, py, total), y, rows, 100)
		g.near(what+" mean", down[T](g, pm, c), mean, rows, 4)
		g.near(what+" variance", down[T](g, pv, c), variance, rows, 8)

		if rows == 1 {
			continue // variance 0: every gradient is rounding error times 1/√ε
		}
		d, dx, dg, db := make([]T, total), make([]T, total), make([]T, c), make([]T, c)
		twin.BackwardSums(sc, d, dg, db, dy, res, x, n, pixels)
		twin.BackwardApply(sc, dx, d, x, n, pixels)
		g.NormBackwardSums(norm, pd, pdy, pres, px, rows)
		g.NormBackwardApply(norm, pdx, pd, px, rows)
		g.same(what+" d", down[T](g, pd, total), d)
		g.near(what+" dgamma", down[T](g, pdg, c), dg, rows, 100*math.Sqrt(float64(rows)))
		g.near(what+" dbeta", down[T](g, pdb, c), db, rows, 8*math.Sqrt(float64(rows)))
		g.near(what+" dx", down[T](g, pdx, total), dx, rows, 100)
		norm.Free(g.Device())
	}
}

func TestBiasGrad(t *testing.T) { both(t, testBiasGrad[float32], testBiasGrad[float64]) }

func testBiasGrad[T float](g *rig[T]) {
	for _, s := range [][2]int{{1, 1}, {64, 50}, {513, 33}, {1500, 3}} {
		rows, n := s[0], s[1]
		dy, y := g.random(rows*n), g.random(rows*n)
		dz, db := make([]T, rows*n), make([]T, n)
		pdz, pdb := g.fresh(rows*n), g.fresh(n)
		kernel.ReLUGradColSums(dz, db, dy, y, rows, n, false)
		g.BiasGrad(pdz, pdb, up(g, dy), up(g, y), rows, n)
		g.same("dz", down[T](g, pdz, rows*n), dz)
		g.near("db", down[T](g, pdb, n), db, rows, 8*math.Sqrt(float64(rows)))
		kernel.ColSums(db, dy, rows, n, false)
		g.BiasGrad(pdz, pdb, up(g, dy), 0, rows, n)
		g.same("dz without ReLU", down[T](g, pdz, rows*n), dy)
		g.near("db without ReLU", down[T](g, pdb, n), db, rows, 8*math.Sqrt(float64(rows)))
	}
}

// TestMaxPool: maxima, their places, ties, NaN, and gradients that meet.
func TestMaxPool(t *testing.T) { both(t, testMaxPool[float32], testMaxPool[float64]) }

func testMaxPool[T float](g *rig[T]) {
	for _, s := range []kernels.PoolShape{
		{H: 12, W: 10, C: 3, OutH: 6, OutW: 5, Size: 3, Stride: 2, Pad: 1},
		{H: 9, W: 7, C: 5, OutH: 4, OutW: 3, Size: 2, Stride: 2, Pad: 0},
		{H: 7, W: 7, C: 2, OutH: 5, OutW: 5, Size: 3, Stride: 1, Pad: 0},
		{H: 7, W: 11, C: 4, OutH: 3, OutW: 4},
		{H: 24, W: 24, C: 2, OutH: 12, OutW: 12},
		{H: 5, W: 3, C: 1, OutH: 9, OutW: 3},
	} {
		const n = 2
		twin, err := kernel.NewAdaptiveMaxPool[T](s.H, s.W, s.C, s.OutH, s.OutW)
		if s.Size > 0 {
			twin, err = kernel.NewMaxPool[T](s.H, s.W, s.C, s.Size, s.Stride, s.Pad)
		}
		check(g.t, err)
		if twin.OutH() != s.OutH || twin.OutW() != s.OutW {
			g.t.Fatalf("%+v: the twin's output is %dx%d", s, twin.OutH(), twin.OutW())
		}
		sc := kernel.NewScratch[T](1)
		x, dy := g.random(n*s.InLen()), g.random(n*s.OutLen())
		for i := range x {
			x[i] = T(math.Round(float64(x[i]) * 2)) // ties
		}
		x[len(x)/2], x[len(x)/3] = T(math.NaN()), T(math.Inf(1))
		y, dx, argmax := make([]T, n*s.OutLen()), make([]T, n*s.InLen()), make([]uint8, n*s.OutLen())
		twin.Forward(sc, y, argmax, x, n)
		twin.Backward(sc, dx, dy, argmax, n)
		py, pdx, parg := g.fresh(len(y)), g.fresh(len(dx)), up(g, make([]uint8, len(argmax)))
		px, pdy := up(g, x), up(g, dy)
		g.MaxPool(py, parg, px, 0, s, n)
		g.same(fmt.Sprintf("%+v: y", s), down[T](g, py, len(y)), y)
		if got := down[uint8](g, parg, len(argmax)); !bytes.Equal(got, argmax) {
			g.t.Errorf("%+v: places %v, want %v", s, got, argmax)
		}
		g.MaxPoolGrad(pdx, pdy, 0, parg, s, n)
		g.same(fmt.Sprintf("%+v: dx", s), down[T](g, pdx, len(dx)), dx)
		g.MaxPool(py, 0, px, 0, s, n)
		g.same(fmt.Sprintf("%+v: y without places", s), down[T](g, py, len(y)), y)

		// With a normalisation and ReLU before it, and their gradient.
		norm, err := kernel.NewBatchNorm[T](s.C, 1e-5)
		check(g.t, err)
		gamma, beta, mean, variance := g.random(s.C), g.random(s.C), g.random(s.C), make([]T, s.C)
		for i := range variance {
			variance[i] = T(i) + 1
		}
		norm.Fixed(mean, variance, gamma, beta)
		x = g.random(len(x))
		normalised := make([]T, len(x))
		norm.Apply(sc, normalised, x, nil, n, s.H*s.W, true)
		twin.Forward(sc, y, argmax, normalised, n)
		masked := make([]T, len(dy))
		kernel.ReLUGrad(masked, dy, y)
		twin.Backward(sc, dx, masked, argmax, n)
		dn, err := g.NewNorm(kernels.Norm{Channels: s.C, Epsilon: 1e-5, Gamma: up(g, gamma), Beta: up(g, beta), RunningMean: up(g, mean), RunningVariance: up(g, variance)})
		check(g.t, err)
		g.NormRunning(dn)
		g.MaxPool(py, parg, up(g, x), dn.Factors(), s, n)
		g.MaxPoolGrad(pdx, pdy, py, parg, s, n)
		g.same(fmt.Sprintf("%+v: normalised y", s), down[T](g, py, len(y)), y)
		g.same(fmt.Sprintf("%+v: masked dx", s), down[T](g, pdx, len(dx)), dx)
		dn.Free(g.Device())
	}
}

// TestAdam: several steps over arrays of odd lengths have the CPU's bits, with
// clipping by array, by the whole and not at all; a gradient that is not finite
// changes nothing.
func TestAdam(t *testing.T) { both(t, testAdam[float32], testAdam[float64]) }

func testAdam[T float](g *rig[T]) {
	lengths := []int{3, 9000, 1, 4096, 64}
	n := 0
	for _, l := range lengths {
		n += l
	}
	a, err := g.NewArrays(lengths)
	check(g.t, err)
	defer a.Free(g.Device())
	for _, global := range []bool{false, true} {
		for _, clip := range []float64{0, 1.5} {
			p, m, v := g.random(n), make([]T, n), make([]T, n)
			pp, pm, pv := up(g, p), up(g, m), up(g, v)
			for step := 1; step <= 3; step++ {
				grad := g.random(n)
				pg := up(g, grad)
				g.Clip(a, pg, clip, global)
				squares := down[float64](g, a.Squares(), len(lengths))
				s := kernel.AdamStep{Rate: 0.01, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Step: step}
				g.Adam(a, pp, pg, pm, pv, kernels.AdamStep{Beta1: 0.9, Rest1: 1 - s.Beta1, Beta2: 0.999, Rest2: 1 - s.Beta2,
					Rate: s.Rate / (1 - math.Pow(0.9, float64(step))), Root: 1 / math.Sqrt(1-math.Pow(0.999, float64(step))), Epsilon: 1e-8})
				total := 0.0
				for _, sq := range squares {
					total += sq
				}
				lo := 0
				for j, l := range lengths {
					want := kernel.SumSquares(grad[lo : lo+l])
					if math.Abs(squares[j]-want) > 1e-13*want {
						g.t.Errorf("sum of squares %v, want %v", squares[j], want)
					}
					sq := squares[j]
					if global {
						sq = total
					}
					s.GradScale = 1
					if norm := math.Sqrt(sq); clip > 0 && norm > clip {
						s.GradScale = clip / norm
					}
					kernel.Adam(p[lo:lo+l], grad[lo:lo+l], m[lo:lo+l], v[lo:lo+l], s)
					lo += l
				}
				what := fmt.Sprintf("clip %v global %v step %d", clip, global, step)
				g.near(what+": p", down[T](g, pp, n), p, 1, 4)
				g.same(what+": m", down[T](g, pm, n), m)
				g.same(what+": v", down[T](g, pv, n), v)
			}
			grad := g.random(n)
			grad[5000] = T(math.NaN())
			pg := up(g, grad)
			before := down[T](g, pp, n)
			g.Clip(a, pg, clip, global)
			g.Adam(a, pp, pg, pm, pv, kernels.AdamStep{Rate: 1, Root: 1, Epsilon: 1})
			if sq := down[float64](g, a.Squares(), len(lengths)); !math.IsNaN(sq[1]) || math.IsNaN(sq[0]) {
				g.t.Errorf("sums of squares %v of a gradient with a NaN in array 1", sq)
			}
			g.same("parameters after NaN", down[T](g, pp, n), before)
		}
	}
}

func TestProximal(t *testing.T) { both(t, testProximal[float32], testProximal[float64]) }

func testProximal[T float](g *rig[T]) {
	const n, mu = 1001, 0.3
	grad, p := g.random(n), g.random(n)
	ref := make([]float64, n)
	for i := range ref {
		ref[i] = g.r.NormFloat64()
	}
	pg := up(g, grad)
	g.Proximal(pg, up(g, p), up(g, ref), mu, n)
	for i := range grad {
		grad[i] += T(mu * (float64(p[i]) - ref[i]))
	}
	g.same("gradient", down[T](g, pg, n), grad)
}

// TestBits: the same work twice has the same bits.
func TestBits(t *testing.T) {
	g := newRig[float32](t, kernels.Options{})
	s := kernels.ConvShape{H: 20, W: 20, C: 8, Out: 16, KernelH: 3, KernelW: 3, Stride: 1, Pad: 1}
	x, dy := up(g, g.random(5*s.InLen())), up(g, g.random(5*s.OutLen()))
	var first []float32
	for range 2 {
		dw, dp := g.fresh(s.WeightLen()), g.fresh(s.WeightLen())
		g.ConvBackwardWeights(dw, dp, x, dy, s, 5)
		got := down[float32](g, dw, s.WeightLen())
		if first == nil {
			first = got
		}
		g.same("dw", got, first)
	}
}

// TestQueueErrors: a wrong address is an error of the stream, which stays; with
// TF32 a missing cuBLAS is one.
func TestQueueErrors(t *testing.T) {
	g := newRig[float32](t, kernels.Options{})
	if cudatest.Real() {
		t.Skip("an illegal address ends a real context")
	}
	s, err := g.Device().NewStream()
	check(t, err)
	host, err := cuda.NewHost[float32](g.Device(), 4)
	check(t, err)
	cuda.Upload(s, 64, host.Data)
	var e *driver.Error
	if err := s.Sync(); !errors.As(err, &e) || e.Call != "cuMemcpyHtoDAsync" || !strings.Contains(err.Error(), "device 0") {
		t.Errorf("a copy to nowhere: %v", err)
	}
	first := s.Err()
	s.Zero(64, 4)
	if s.Err() != first {
		t.Errorf("the first error was %v, now it is %v", first, s.Err())
	}
	check(t, host.Close(), s.Close())
	if got := g.Products(); got != "cuBLAS" {
		t.Errorf("products by %s", got)
	}
}

// TestAllocations: operations allocate nothing once scratch memory is there.
func TestAllocations(t *testing.T) {
	if race {
		t.Skip("the race detector allocates")
	}
	g := newRig[float32](t, kernels.Options{})
	s := kernels.ConvShape{H: 6, W: 6, C: 4, Out: 4, KernelH: 3, KernelW: 3, Stride: 1, Pad: 1}
	x, y, w := up(g, g.random(2*s.InLen())), g.fresh(2*s.OutLen()), up(g, g.random(s.WeightLen()))
	a, err := g.NewArrays([]int{s.WeightLen()})
	check(t, err)
	defer a.Free(g.Device())
	f := func() {
		g.Conv(y, x, w, s, 2)
		g.ReLU(y, y, 2*s.OutLen())
		g.Clip(a, w, 1, false)
		if err := g.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	f()
	if n := testing.AllocsPerRun(10, f); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
