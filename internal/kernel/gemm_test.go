package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
)

// gemmCase is one call of Gemm on guarded matrices.
type gemmCase[T Float] struct {
	transA, transB bool
	m, n, k        int
	a, b, c, bias  guarded[T]
	lda, ldb, ldc  int
	Epilogue[T]
}

func coin(r *rand.Rand) bool { return r.IntN(2) == 0 }

func randomGemm[T Float](r *rand.Rand, transA, transB bool, m, n, k int) gemmCase[T] {
	g := gemmCase[T]{transA: transA, transB: transB, m: m, n: n, k: k}
	matrix := func(trans bool, rows, cols int) (guarded[T], int) {
		if trans {
			rows, cols = cols, rows
		}
		ld := cols + r.IntN(4)
		return newNormal[T](r, max(0, (rows-1)*ld+cols)), ld
	}
	g.a, g.lda = matrix(g.transA, m, k)
	g.b, g.ldb = matrix(g.transB, k, n)
	g.c, g.ldc = matrix(false, m, n)
	g.ReLU = coin(r)
	switch r.IntN(3) {
	case 0:
		g.Accumulate = true
	case 1:
		g.bias = newNormal[T](r, n)
		g.Bias = g.bias.x
	}
	return g
}

func (g *gemmCase[T]) String() string {
	return fmt.Sprintf("m=%d n=%d k=%d transA=%v transB=%v ld=%d,%d,%d accumulate=%v bias=%v relu=%v",
		g.m, g.n, g.k, g.transA, g.transB, g.lda, g.ldb, g.ldc, g.Accumulate, g.Bias != nil, g.ReLU)
}

func (g *gemmCase[T]) run() {
	Gemm(g.transA, g.transB, g.m, g.n, g.k, g.a.x, g.lda, g.b.x, g.ldb, g.c.x, g.ldc, g.Epilogue)
}

// want is the definition in Gemm's comment, one element at a time. mulAdd(x,
// y, s) is x*y + s in the rounding of the level.
func (g *gemmCase[T]) want(mulAdd func(x, y, s T) T) []T {
	out := append([]T(nil), g.c.x...)
	for i := range g.m {
		for j := range g.n {
			var s T
			switch {
			case g.Accumulate:
				s = g.c.x[i*g.ldc+j]
			case g.Bias != nil:
				s = g.Bias[j]
			}
			for p := range g.k {
				x, y := i*g.lda+p, p*g.ldb+j
				if g.transA {
					x = p*g.lda + i
				}
				if g.transB {
					y = j*g.ldb + p
				}
				s = mulAdd(g.a.x[x], g.b.x[y], s)
			}
			if g.ReLU && s < 0 {
				s = 0
			}
			out[i*g.ldc+j] = s
		}
	}
	return out
}

func rounded[T Float](x, y, s T) T { return T(x*y) + s }

func fused64(x, y, s float64) float64 { return math.FMA(x, y, s) }

// fused32 rounds x*y + s once: the product is exact in float64, and the sum is
// rounded to odd there (Boldo and Melquiond 2008), so that the second rounding
// is right.
func fused32(x, y, s float32) float32 {
	p, q := float64(x)*float64(y), float64(s)
	sum := p + q
	back := sum - p
	err := (p - (sum - back)) + (q - back)
	if bits := math.Float64bits(sum); err != 0 && bits&1 == 0 {
		if (err > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}

func testGemm[T Float](fused func(x, y, s T) T) func(t *testing.T) {
	return func(t *testing.T) {
		mulAdd := fused
		if active == levelGo {
			mulAdd = rounded[T]
		}
		r := newRand()
		check := func(transA, transB bool, m, n, k int) {
			t.Helper()
			g := randomGemm[T](r, transA, transB, m, n, k)
			want := g.want(mulAdd)
			g.run()
			wantSame(t, g.String(), g.c.x, want)
			g.c.check(t, g.String())
		}
		// Every number of rows of a tile with every number of columns of a
		// panel.
		for m := range 18 {
			for n := range 36 {
				check(coin(r), coin(r), m, n, r.IntN(3))
				check(coin(r), coin(r), m, n, 3+r.IntN(8))
			}
		}
		// Several blocks in every direction, sizes that are packed and sizes
		// that are not.
		for _, trans := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			check(trans[0], trans[1], rowStep+3, 5, 2*blockK+3)
			check(trans[0], trans[1], 3, blockN+37, blockK+1)
			check(trans[0], trans[1], 131, 130, 129)
			check(trans[0], trans[1], 40, 50, 64)
		}
		// Many rows of a block of k too short to be copied.
		check(true, false, 800, 65, blockK+1)
	}
}

func TestGemm(t *testing.T) { onTypes(t, testGemm(fused32), testGemm(fused64)) }

// The rows of C do not depend on which other rows are in the batch.
func TestGemmRowsIndependent(t *testing.T) {
	run := func(t *testing.T) {
		r := newRand()
		for range 30 {
			g := randomGemm[float64](r, coin(r), coin(r), 1+r.IntN(90), 1+r.IntN(70), r.IntN(400))
			parts := append([]float64(nil), g.c.x...)
			for i := 0; i < g.m; {
				rows := 1 + r.IntN(g.m-i)
				a := g.a.x
				if g.k > 0 && g.transA {
					a = a[i:]
				} else if g.k > 0 {
					a = a[i*g.lda:]
				}
				Gemm(g.transA, g.transB, rows, g.n, g.k, a, g.lda, g.b.x, g.ldb, parts[i*g.ldc:], g.ldc, g.Epilogue)
				i += rows
			}
			g.run()
			wantSame(t, g.String(), parts, g.c.x)
		}
	}
	onLevels(t, run)
}

// The error of a chain of k rounded steps is at most (k+1) u sum |a||b| to
// first order (Higham 2002, section 3.1), u half the distance from 1 to the
// next float32; the factor 2 covers the rest.
func TestGemmAccuracy(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		const m, n, k = 33, 41, 300
		r := newRand()
		a, b := newNormal[float32](r, m*k).x, newNormal[float32](r, k*n).x
		c := make([]float32, m*n)
		Gemm(false, false, m, n, k, a, k, b, n, c, n, Epilogue[float32]{})
		for i := range m {
			for j := range n {
				var s, abs float64
				for p := range k {
					x := float64(a[i*k+p]) * float64(b[p*n+j])
					s += x
					abs += math.Abs(x)
				}
				if e := math.Abs(float64(c[i*n+j]) - s); e > 2*(k+1)*0x1p-24*abs {
					t.Fatalf("element %d,%d is %v, want %v", i, j, c[i*n+j], s)
				}
			}
		}
	})
}

// NaN and infinities in an input reach the output, through ReLU too, and stale
// ones in C do not. A negative zero is not negative.
func TestGemmNonFinite(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		nan, inf := math.NaN(), math.Inf(1)
		a := []float64{1, nan, 2, inf}
		b := []float64{1, 1, 1, 1}
		for _, relu := range []bool{false, true} {
			c := []float64{nan, nan, nan, nan}
			Gemm(false, false, 2, 2, 2, a, 2, b, 2, c, 2, Epilogue[float64]{ReLU: relu})
			wantSame(t, "c", c, []float64{nan, nan, inf, inf})
			c = []float64{nan, nan, nan, nan}
			Gemm(false, false, 2, 2, 0, nil, 0, nil, 2, c, 2, Epilogue[float64]{ReLU: relu})
			wantSame(t, "c for k=0", c, []float64{0, 0, 0, 0})
			zero := math.Copysign(0, -1)
			Gemm(false, false, 2, 2, 0, nil, 0, nil, 2, c, 2, Epilogue[float64]{ReLU: relu, Bias: []float64{zero, 1}})
			wantSame(t, "c for a bias of -0", c, []float64{zero, 1, zero, 1})
		}
	})
}

func TestGemmConcurrent(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		r := newRand()
		g := randomGemm[float64](r, coin(r), true, 50, 70, 64)
		g.Accumulate = false
		run := func() []float64 {
			c := make([]float64, len(g.c.x))
			Gemm(g.transA, g.transB, g.m, g.n, g.k, g.a.x, g.lda, g.b.x, g.ldb, c, g.ldc, g.Epilogue)
			return c
		}
		want := run()
		got := make([][]float64, 8)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				for range 20 {
					got[i] = run()
				}
			})
		}
		wg.Wait()
		for _, c := range got {
			wantSame(t, "c", c, want)
		}
	})
}

func TestGemmPanics(t *testing.T) {
	x := make([]float64, 12)
	type e = Epilogue[float64]
	wantPanic(t, "negative m", func() { Gemm(false, false, -1, 3, 4, x, 4, x, 3, x, 3, e{}) })
	wantPanic(t, "short a", func() { Gemm(false, false, 3, 3, 4, x[:11], 4, x, 3, x, 3, e{}) })
	wantPanic(t, "small lda", func() { Gemm(false, false, 3, 3, 4, x, 3, x, 3, x, 3, e{}) })
	wantPanic(t, "small lda transposed", func() { Gemm(true, false, 3, 3, 4, x, 2, x, 3, x, 3, e{}) })
	wantPanic(t, "short b", func() { Gemm(false, true, 3, 3, 4, x, 4, x[:11], 4, x, 3, e{}) })
	wantPanic(t, "short c", func() { Gemm(false, false, 3, 3, 4, x, 4, x, 3, x[:8], 3, e{}) })
	wantPanic(t, "lda whose product overflows", func() { Gemm(false, false, 5, 1, 1, x, 1<<62, x, 1, x, 1, e{}) })
	wantPanic(t, "rows whose product overflows", func() { Gemm(false, false, 1<<32, 1, 1, x, 1<<32, x, 1, x, 1<<32, e{}) })
	wantPanic(t, "bias length", func() { Gemm(false, false, 3, 3, 4, x, 4, x, 3, x, 3, e{Bias: x[:2]}) })
	wantPanic(t, "bias and accumulate", func() { Gemm(false, false, 3, 3, 4, x, 4, x, 3, x, 3, e{Bias: x[:3], Accumulate: true}) })
}
