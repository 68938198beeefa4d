package kernel

import (
	"fmt"
	"math"
	"testing"
)

// onChannels runs f for every number of channels near the blocks of the vector
// code, with few rows and with more than one call takes.
func onChannels(f func(channels, rows int)) {
	for c := 1; c <= 70; c++ {
		for _, rows := range []int{1, 3} {
			f(c, rows)
		}
	}
	f(64, 2*chunk/64+5)
	f(50, chunk/50+1)
}

// sprinkle replaces some elements by zeros of both signs and NaN.
func sprinkle[T Float](x []T) {
	r := newRand()
	for i := range x {
		switch r.IntN(12) {
		case 0:
			x[i] = 0
		case 1:
			x[i] = T(math.Copysign(0, -1))
		case 2:
			x[i] = T(math.NaN())
		}
	}
}

// Every level returns the bits of the definitions, element by element.
func testChannels[T Float](t *testing.T) {
	r := newRand()
	onChannels(func(channels, rows int) {
		name := fmt.Sprintf("channels=%d rows=%d", channels, rows)
		n := channels * rows
		vec := func(n int) []T { return newNormal[T](r, n).x }
		x, residual, out := vec(n), vec(n), vec(n)
		sprinkle(out)
		p, q, s := vec(channels), vec(channels), vec(channels)
		want := make([]T, n)
		for _, res := range [][]T{nil, residual} {
			for _, relu := range []bool{false, true} {
				for i := range want {
					want[i] = T(p[i%channels]*x[i]) + q[i%channels]
					if res != nil {
						want[i] += res[i]
					}
					if relu && want[i] < 0 {
						want[i] = 0
					}
				}
				y := newGuarded[T](r, n)
				scaleShift(y.x, x, res, p, q, relu)
				wantSame(t, "scaleShift "+name, y.x, want)
				y.check(t, "scaleShift "+name)
			}
		}

		for i := range want {
			want[i] = T(p[i%channels]*x[i]) + T(q[i%channels]*residual[i]) + s[i%channels]
		}
		y := newGuarded[T](r, n)
		affine2(y.x, x, residual, p, q, s)
		wantSame(t, "affine2 "+name, y.x, want)
		y.check(t, "affine2 "+name)

		sum, squares := newNormal[T](r, channels), newNormal[T](r, channels)
		wantSum, wantSquares := append([]T(nil), sum.x...), append([]T(nil), squares.x...)
		for i, v := range x {
			wantSum[i%channels] += v
			wantSquares[i%channels] += T(v * v)
		}
		columnSums(sum.x, squares.x, x)
		wantSame(t, "sum "+name, sum.x, wantSum)
		wantSame(t, "squares "+name, squares.x, wantSquares)
		sum.check(t, name)
		squares.check(t, name)

		for _, out := range [][]T{nil, out} {
			sum, product, d := newNormal[T](r, channels), newNormal[T](r, channels), newGuarded[T](r, n)
			wantSum, wantProduct := append([]T(nil), sum.x...), append([]T(nil), product.x...)
			for i, v := range residual {
				if out != nil && !(out[i] > 0) {
					v = 0
				}
				want[i] = v
				wantSum[i%channels] += v
				wantProduct[i%channels] += T(v * (x[i] - p[i%channels]))
			}
			gradientSums(sum.x, product.x, d.x, residual, x, out, p)
			wantSame(t, "d "+name, d.x, want)
			wantSame(t, "sum of d "+name, sum.x, wantSum)
			wantSame(t, "product "+name, product.x, wantProduct)
			for _, g := range []guarded[T]{sum, product, d} {
				g.check(t, name)
			}
		}
	})
}

func TestChannels(t *testing.T) { onTypes(t, testChannels[float32], testChannels[float64]) }

// A ReLU keeps NaN and the zero's sign, in every form of it.
func testReLU[T Float](t *testing.T) {
	r := newRand()
	const n = 77
	x, residual := newNormal[T](r, n).x, newNormal[T](r, n).x
	sprinkle(x)
	relu := func(v T) T {
		if v < 0 {
			return 0
		}
		return v
	}
	want, wantSum := make([]T, n), make([]T, n)
	for i, v := range x {
		want[i], wantSum[i] = relu(v), relu(v+residual[i])
	}
	y := newGuarded[T](r, n)
	ReLU(y.x, x)
	wantSame(t, "ReLU", y.x, want)
	AddReLU(y.x, x, residual)
	wantSame(t, "AddReLU", y.x, wantSum)
	y.check(t, "ReLU")
	one, zero := make([]T, n), make([]T, n)
	for i := range one {
		one[i] = 1
	}
	scaleShift(y.x, x, residual, one, zero, true)
	wantSame(t, "scaleShift", y.x, wantSum)
}

func TestReLU(t *testing.T) { onTypes(t, testReLU[float32], testReLU[float64]) }
