package kernel

import (
	"fmt"
	"testing"
	"time"

	"fedrspo/internal/cputime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// mlpStep is the products of one training step, in float64, of a network
// 8 -> 64 -> 50 on 64 samples: two forward, three backward (the first layer
// needs no gradient of its input).
var mlpStep = []struct {
	name           string
	transA, transB bool
	m, n, k        int
}{
	{"forward1", false, true, 64, 64, 8},
	{"forward2", false, true, 64, 50, 64},
	{"dW2", true, false, 50, 64, 64},
	{"dx2", false, false, 64, 64, 50},
	{"dW1", true, false, 64, 8, 64},
}

// benchLevels runs f at every level the machine has.
func benchLevels(b *testing.B, f func(b *testing.B)) {
	for l := levelGo; l <= best(); l++ {
		b.Run("impl="+l.String(), func(b *testing.B) {
			setLevel(b, l)
			f(b)
		})
	}
}

func reportGflops(b *testing.B, flop float64) {
	b.ReportMetric(flop*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOPS")
}

// reportRate reports GFLOPS per second of processor time, and their share of the
// peak unless that is zero.
func reportRate(b *testing.B, flop float64, cpu time.Duration, peak float64) {
	rate := flop * float64(b.N) / float64(cpu)
	b.ReportMetric(rate, "GFLOPS/cpu")
	if peak > 0 {
		b.ReportMetric(100*rate/peak, "%peak")
	}
}

// operands returns matrices for one product, and their leading dimensions.
func operands[T Float](transA, transB bool, m, n, k int) (a, b, c []T, lda, ldb int) {
	r := newRand()
	a, b, c = make([]T, m*k), make([]T, k*n), make([]T, m*n)
	fillNormal(r, a)
	fillNormal(r, b)
	lda, ldb = k, n
	if transA {
		lda = m
	}
	if transB {
		ldb = k
	}
	return a, b, c, lda, ldb
}

func trans(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

func BenchmarkGemmMLP(b *testing.B) {
	for _, s := range mlpStep {
		b.Run(fmt.Sprintf("%s=%dx%dx%d", s.name, s.m, s.n, s.k), func(b *testing.B) {
			flop := 2 * float64(s.m) * float64(s.n) * float64(s.k)
			x, y, z, lda, ldb := operands[float64](s.transA, s.transB, s.m, s.n, s.k)
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					Gemm(s.transA, s.transB, s.m, s.n, s.k, x, lda, y, ldb, z, s.n, Epilogue[float64]{})
				}
				reportGflops(b, flop)
			})
			b.Run("impl=gonum", func(b *testing.B) {
				for b.Loop() {
					gonum.Implementation{}.Dgemm(trans(s.transA), trans(s.transB), s.m, s.n, s.k, 1, x, lda, y, ldb, 0, z, s.n)
				}
				reportGflops(b, flop)
			})
		})
	}
}

// BenchmarkMLPStep is all products of one step, with bias and ReLU.
func BenchmarkMLPStep(b *testing.B) {
	type job struct {
		x, y, z  []float64
		lda, ldb int
		e        Epilogue[float64]
	}
	jobs := make([]job, len(mlpStep))
	flop := 0.0
	for i, s := range mlpStep {
		j := &jobs[i]
		j.x, j.y, j.z, j.lda, j.ldb = operands[float64](s.transA, s.transB, s.m, s.n, s.k)
		if i < 2 {
			j.e = Epilogue[float64]{Bias: make([]float64, s.n), ReLU: i == 0}
		}
		flop += 2 * float64(s.m) * float64(s.n) * float64(s.k)
	}
	benchLevels(b, func(b *testing.B) {
		for b.Loop() {
			for i, s := range mlpStep {
				j := &jobs[i]
				Gemm(s.transA, s.transB, s.m, s.n, s.k, j.x, j.lda, j.y, j.ldb, j.z, s.n, j.e)
			}
		}
		reportGflops(b, flop)
	})
	b.Run("impl=gonum", func(b *testing.B) {
		for b.Loop() {
			for i, s := range mlpStep {
				j := &jobs[i]
				gonum.Implementation{}.Dgemm(trans(s.transA), trans(s.transB), s.m, s.n, s.k, 1, j.x, j.lda, j.y, j.ldb, 0, j.z, s.n)
			}
		}
		reportGflops(b, flop)
	})
}

func benchSquare[T Float](b *testing.B, peer func(n int, x, y, z []T)) {
	const n = 512
	x, y, z, _, _ := operands[T](false, false, n, n, n)
	benchLevels(b, func(b *testing.B) {
		peak := fmaPeak()
		if isFloat64[T]() {
			peak /= 2
		}
		start := cputime.Now()
		for b.Loop() {
			Gemm(false, false, n, n, n, x, n, y, n, z, n, Epilogue[T]{})
		}
		reportRate(b, 2*n*n*n, cputime.Now()-start, peak)
	})
	// Gonum uses all CPUs at this size, Gemm one.
	b.Run("impl=gonum", func(b *testing.B) {
		for b.Loop() {
			peer(n, x, y, z)
		}
		reportGflops(b, 2*n*n*n)
	})
}

func BenchmarkGemm512(b *testing.B) {
	b.Run("type=float32", func(b *testing.B) {
		benchSquare(b, func(n int, x, y, z []float32) {
			gonum.Implementation{}.Sgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, y, n, 0, z, n)
		})
	})
	b.Run("type=float64", func(b *testing.B) {
		benchSquare(b, func(n int, x, y, z []float64) {
			gonum.Implementation{}.Dgemm(blas.NoTrans, blas.NoTrans, n, n, n, 1, x, n, y, n, 0, z, n)
		})
	})
}

// paramsMLP is the number of parameters of the network above.
const paramsMLP = 64*8 + 64 + 50*64 + 50

func benchElements[T Float](b *testing.B) {
	r := newRand()
	vec := func(n int) []T { return newNormal[T](r, n).x }
	p, g, m, v := vec(paramsMLP), vec(paramsMLP), make([]T, paramsMLP), make([]T, paramsMLP)
	s := AdamStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, GradScale: 1}
	dy, y, db := vec(64*64), vec(64*64), vec(64)
	dz := make([]T, 64*64)
	for _, op := range []struct {
		name string
		f    func()
	}{
		{"Adam=3826", func() { s.Step++; Adam(p, g, m, v, s) }},
		{"SumSquares=3826", func() { SumSquares(g) }},
		{"HasNonFinite=3826", func() { HasNonFinite(g) }},
		{"Axpy=3826", func() { Axpy(1e-3, g, p) }},
		{"ColSums=64x64", func() { ColSums(db, dz, 64, 64, false) }},
		{"ReLUGradColSums=64x64", func() { ReLUGradColSums(dz, db, dy, y, 64, 64, false) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					op.f()
				}
			})
		})
	}
}

func BenchmarkElements(b *testing.B) {
	b.Run("type=float32", benchElements[float32])
	b.Run("type=float64", benchElements[float64])
}
