package kernel

import (
	"fmt"
	"math"
	"testing"
)

// onShapes runs f for every number of columns, with few and with many rows.
func onShapes(f func(m, n int)) {
	for n := range maxLength {
		for _, m := range []int{0, 1, 2, 5} {
			f(m, n)
		}
	}
	f(300, 50)
	f(3, 5000)
}

// colSumsTwin adds column by column.
func colSumsTwin[T Float](db, dz []T, m, n int, accumulate bool) []T {
	out := make([]T, n)
	for j := range n {
		if accumulate {
			out[j] = db[j]
		}
		for i := range m {
			out[j] += dz[i*n+j]
		}
	}
	return out
}

func testColSums[T Float](t *testing.T) {
	r := newRand()
	onShapes(func(m, n int) {
		dz := newNormal[T](r, m*n)
		for _, accumulate := range []bool{false, true} {
			db := newNormal[T](r, n)
			want := colSumsTwin(db.x, dz.x, m, n, accumulate)
			ColSums(db.x, dz.x, m, n, accumulate)
			name := fmt.Sprintf("db for m=%d n=%d", m, n)
			wantSame(t, name, db.x, want)
			db.check(t, name)
		}
	})
}

func TestColSums(t *testing.T) { onTypes(t, testColSums[float32], testColSums[float64]) }

// reluGradTwin is the definition.
func reluGradTwin[T Float](dy, y []T) []T {
	dz := make([]T, len(dy))
	for i := range dz {
		if y[i] > 0 {
			dz[i] = dy[i]
		}
	}
	return dz
}

func testReLUGrad[T Float](t *testing.T) {
	r := newRand()
	onShapes(func(m, n int) {
		dy, y := newNormal[T](r, m*n), newNormal[T](r, m*n)
		for i := range y.x {
			switch r.IntN(6) {
			case 0:
				y.x[i] = 0
			case 1:
				y.x[i] = T(math.Copysign(0, -1))
			case 2:
				y.x[i] = T(math.NaN())
			}
		}
		name := fmt.Sprintf("m=%d n=%d", m, n)
		want := reluGradTwin(dy.x, y.x)
		dz := newGuarded[T](r, m*n)
		ReLUGrad(dz.x, dy.x, y.x)
		wantSame(t, "ReLUGrad "+name, dz.x, want)
		dz.check(t, "ReLUGrad "+name)

		for _, accumulate := range []bool{false, true} {
			dz, db := newGuarded[T](r, m*n), newNormal[T](r, n)
			wantDb := colSumsTwin(db.x, want, m, n, accumulate)
			ReLUGradColSums(dz.x, db.x, dy.x, y.x, m, n, accumulate)
			wantSame(t, "dz for "+name, dz.x, want)
			wantSame(t, "db for "+name, db.x, wantDb)
			dz.check(t, "dz for "+name)
			db.check(t, "db for "+name)
		}

		inPlace := append([]T(nil), dy.x...)
		ReLUGrad(inPlace, inPlace, y.x)
		wantSame(t, "ReLUGrad in place "+name, inPlace, want)
		ReLUGradColSums(dy.x, make([]T, n), dy.x, y.x, m, n, false)
		wantSame(t, "ReLUGradColSums in place "+name, dy.x, want)
	})
}

func TestReLUGrad(t *testing.T) { onTypes(t, testReLUGrad[float32], testReLUGrad[float64]) }
