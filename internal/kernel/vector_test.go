package kernel

import (
	"math"
	"testing"
)

// maxLength passes every block of the vector code several times; longLength
// passes the bound of one assembly call.
const maxLength, longLength = 140, 10007

// onLengths runs f for every length of interest.
func onLengths(f func(n int)) {
	for n := range maxLength + 1 {
		f(n)
	}
	f(longLength)
}

func testAxpy[T Float](t *testing.T) {
	r := newRand()
	onLengths(func(n int) {
		x, y := newNormal[T](r, n), newNormal[T](r, n)
		alpha := T(r.NormFloat64())
		want := make([]T, n)
		for i := range want {
			want[i] = y.x[i] + T(alpha*x.x[i])
		}
		Axpy(alpha, x.x, y.x)
		wantSame(t, "y", y.x, want)
		y.check(t, "y")
	})
}

func TestAxpy(t *testing.T) { onTypes(t, testAxpy[float32], testAxpy[float64]) }

func testScale[T Float](t *testing.T) {
	r := newRand()
	x := newNormal[T](r, 37)
	want := append([]T(nil), x.x...)
	for i := range want {
		want[i] *= 0.3
	}
	Scale(0.3, x.x)
	wantSame(t, "x", x.x, want)
	x.check(t, "x")
}

func TestScale(t *testing.T) { onTypes(t, testScale[float32], testScale[float64]) }

// sumSquaresTwin is the order of SumSquares' comment, written as a recursion.
func sumSquaresTwin[T Float](x []T, first, step int) float64 {
	if step < sumLanes {
		return sumSquaresTwin(x, first, 2*step) + sumSquaresTwin(x, first+step, 2*step)
	}
	var s float64
	for i := first; i < len(x); i += step {
		square := float64(x[i]) * float64(x[i])
		s += float64(square)
	}
	return s
}

func testSumSquares[T Float](t *testing.T) {
	r := newRand()
	onLengths(func(n int) {
		x := newNormal[T](r, n)
		got, want := SumSquares(x.x), sumSquaresTwin(x.x, 0, 1)
		if !sameBits(got, want) {
			t.Fatalf("n=%d: got %v, want %v", n, got, want)
		}
	})
	for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
		x := newNormal[T](r, 77)
		x.x[41] = T(bad)
		if s := SumSquares(x.x); s-s == 0 {
			t.Errorf("an element is %v, but the sum is %v", bad, s)
		}
	}
}

func TestSumSquares(t *testing.T) { onTypes(t, testSumSquares[float32], testSumSquares[float64]) }

func testHasNonFinite[T Float](t *testing.T) {
	r := newRand()
	largest := math.MaxFloat64
	if !isFloat64[T]() {
		largest = math.MaxFloat32
	}
	onLengths(func(n int) {
		// The bands hold what must not be seen.
		x := newNormal[T](r, n)
		for i := range x.whole {
			if i < x.lo || i >= x.lo+n {
				x.whole[i] = T(math.NaN())
			}
		}
		if n > 0 {
			x.x[r.IntN(n)] = T(largest)
		}
		if HasNonFinite(x.x) {
			t.Fatalf("n=%d: finite numbers reported", n)
		}
		for i := range n {
			if n == longLength && i%997 != 0 {
				continue
			}
			old := x.x[i]
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				x.x[i] = T(bad)
				if !HasNonFinite(x.x) {
					t.Fatalf("n=%d: %v at %d missed", n, bad, i)
				}
			}
			x.x[i] = old
		}
	})
}

func TestHasNonFinite(t *testing.T) {
	onTypes(t, testHasNonFinite[float32], testHasNonFinite[float64])
}

func TestVectorPanics(t *testing.T) {
	x := make([]float64, 6)
	wantPanic(t, "Axpy", func() { Axpy(1, x, x[:5]) })
	wantPanic(t, "ColSums", func() { ColSums(x[:2], x[:5], 3, 2, false) })
	wantPanic(t, "ReLUGrad", func() { ReLUGrad(x, x, x[:5]) })
	wantPanic(t, "ReLUGradColSums", func() { ReLUGradColSums(x, x[:2], x, x[:5], 3, 2, false) })
	wantPanic(t, "Adam", func() { Adam(x, x, x, x[:5], AdamStep{Step: 1}) })
	wantPanic(t, "Adam at step 0", func() { Adam(x, x, x, x, AdamStep{}) })
	wantPanic(t, "Adam with beta2 = 1", func() { Adam(x, x, x, x, AdamStep{Step: 1, Beta2: 1}) })
}
