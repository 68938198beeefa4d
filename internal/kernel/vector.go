package kernel

import "fmt"

// Axpy computes y += alpha x. Each product and each sum is rounded.
func Axpy[T Float](alpha T, x, y []T) {
	if len(x) != len(y) {
		panic(fmt.Sprintf("kernel.Axpy: lengths %d and %d differ", len(x), len(y)))
	}
	n := axpyVector(alpha, x, y)
	axpyGeneric(alpha, x[n:], y[n:])
}

func axpyGeneric[T Float](alpha T, x, y []T) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += T(alpha * v)
	}
}

// Scale computes x *= alpha.
func Scale[T Float](alpha T, x []T) {
	for i := range x {
		x[i] *= alpha
	}
}

// chunk bounds the elements of one assembly call, which cannot be preempted,
// to a few microseconds. It is a multiple of every block.
const chunk = 4096

// sumLanes is the number of partial sums of SumSquares.
const sumLanes = 16

// SumSquares returns the sum of the squares of x, computed in float64: element
// i goes to partial sum i mod 16, and the partial sums are added pairwise, l
// and l+8, then l and l+4, l+2, l+1. Each square and each sum is rounded. It is
// not guarded against overflow: the result is +Inf or NaN exactly when an
// element is not finite or a float64 square or sum overflows.
func SumSquares[T Float](x []T) float64 {
	var s [sumLanes]float64
	n := sumSquaresVector(&s, x)
	sumSquaresGeneric(&s, x[n:])
	for half := sumLanes / 2; half > 0; half /= 2 {
		for l := range half {
			s[l] += s[l+half]
		}
	}
	return s[0]
}

func sumSquaresGeneric[T Float](s *[sumLanes]float64, x []T) {
	for i, v := range x {
		s[i%sumLanes] += float64(float64(v) * float64(v))
	}
}

// HasNonFinite says whether x has an element that is NaN or infinite.
func HasNonFinite[T Float](x []T) bool {
	n, bad := nonFiniteVector(x)
	return bad || nonFiniteGeneric(x[n:])
}

func nonFiniteGeneric[T Float](x []T) bool {
	for _, v := range x {
		// Zero for finite v, else NaN.
		if v-v != 0 {
			return true
		}
	}
	return false
}

// checkLengths panics unless two lengths agree.
func checkLengths(op string, want, got int) {
	if want != got {
		panic(fmt.Sprintf("kernel.%s: length %d, want %d", op, got, want))
	}
}
