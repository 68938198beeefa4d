package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/internal/kernel"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TestProducts compares with Gonum, over shapes, transpositions, factors and
// leading dimensions, and looks at what lies between rows.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	normal := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = r.NormFloat64()
		}
		return x
	}
	single := func(x []float64) []float32 {
		y := make([]float32, len(x))
		for i, v := range x {
			y[i] = float32(v)
		}
		return y
	}
	for range 200 {
		m, n, k := 1+r.IntN(40), 1+r.IntN(40), r.IntN(40)
		ta, tb := []blas.Transpose{blas.NoTrans, blas.Trans}[r.IntN(2)], []blas.Transpose{blas.NoTrans, blas.Trans}[r.IntN(2)]
		alpha, beta := []float64{1, 1, -0.5}[r.IntN(3)], []float64{0, 1, 2}[r.IntN(3)]
		size := func(trans blas.Transpose, rows, cols int) (length, ld int) {
			if trans == blas.Trans {
				rows, cols = cols, rows
			}
			ld = max(1, cols) + r.IntN(3)
			return rows * ld, ld
		}
		na, lda := size(ta, m, k)
		nb, ldb := size(tb, k, n)
		nc, ldc := size(blas.NoTrans, m, n)
		a, b, c := normal(na), normal(nb), normal(nc)
		name := fmt.Sprintf("%dx%dx%d, %c %c, alpha %v, beta %v", m, n, k, ta, tb, alpha, beta)

		got, want := append([]float64(nil), c...), append([]float64(nil), c...)
		products{}.Dgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, got, ldc)
		gonum.Implementation{}.Dgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, want, ldc)
		got32, want32 := single(c), single(c)
		products{}.Sgemm(ta, tb, m, n, k, float32(alpha), single(a), lda, single(b), ldb, float32(beta), got32, ldc)
		gonum.Implementation{}.Sgemm(ta, tb, m, n, k, float32(alpha), single(a), lda, single(b), ldb, float32(beta), want32, ldc)
		for i := range want {
			// Sums of at most 41 normal numbers and products of two: far below 100.
			if math.Abs(got[i]-want[i]) > 100*41*0x1p-53 || math.Abs(float64(got32[i]-want32[i])) > 100*41*0x1p-24 {
				t.Fatalf("%s: element %d is %v and %v, want %v", name, i, got[i], got32[i], want[i])
			}
			if i%ldc >= n && (got[i] != c[i] || got32[i] != float32(c[i])) {
				t.Fatalf("%s: wrote between rows", name)
			}
		}
	}
	for name, f := range map[string]func(){
		"transposition": func() {
			products{}.Dgemm('X', blas.NoTrans, 1, 1, 1, 1, []float64{1}, 1, []float64{1}, 1, 0, []float64{1}, 1)
		},
		"negative size": func() {
			products{}.Sgemm(blas.NoTrans, blas.NoTrans, -1, 1, 1, 1, []float32{1}, 1, []float32{1}, 1, 0, []float32{1}, 1)
		},
		"short a": func() {
			products{}.Dgemm(blas.NoTrans, blas.NoTrans, 2, 1, 1, 1, []float64{1}, 1, []float64{1}, 1, 0, []float64{1, 1}, 1)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// TestGorgoniaProducts: Gorgonia's own multiplication runs on the kernels, where
// they have assembly: an element is the fused chain that Gonum's is not.
func TestGorgoniaProducts(t *testing.T) {
	if kernel.Level() == "go" {
		if _, ok := gorgonia.WhichBLAS().(products); ok {
			t.Error("plain Go kernels took the place of Gonum")
		}
		t.Skip("no assembly")
	}
	if _, ok := gorgonia.WhichBLAS().(products); !ok {
		t.Fatalf("Gorgonia uses %T", gorgonia.WhichBLAS())
	}
	const e = 0x1p-30
	x := tensor.New(tensor.WithShape(1, 2), tensor.WithBacking([]float64{1, 1 + e}))
	y := tensor.New(tensor.WithShape(2, 1), tensor.WithBacking([]float64{-1, 1 - e}))
	z, err := tensor.MatMul(x, y)
	if err != nil {
		t.Fatal(err)
	}
	// (1+e)(1-e) - 1 = -e², which is lost if the product is rounded first.
	if got := z.Data().([]float64)[0]; got != -e*e {
		t.Errorf("product %v, want %v", got, -e*e)
	}
}
