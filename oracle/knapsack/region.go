package knapsack

import (
	"math"
	"slices"
)

// region is the box cut by one constraint, a.w <= b or a.w = b, that Set and
// TopK share. Weights and capacity are scaled by a power of two, which is
// exact, so that the largest weight lies in [1/2, 1): squares of weights then
// neither overflow nor underflow.
type region struct {
	a        []float64
	aa       []float64 // a_i²
	b        float64
	exp      int // a weight is a_i 2^exp
	equality bool
	// slack: the constraint never binds. fixed: the set is the one point with
	// every entry at fill.
	slack, fixed bool
	fill         float64
	// fine is the capacity error, as computed, at which the multiplier is exact
	// beyond doubt, two ulps of b. tolerance is what can be had for certain: the
	// rounding error of a.w summed in two chains is at most half of it, and a
	// Newton step from a sum with that error leaves at most as much.
	fine, tolerance float64
	radius          float64
}

// newRegion returns the region of positive weights and the capacity b >= 0,
// with 2^exp just above the largest weight.
func newRegion(weights []float64, b float64, exp int, equality bool) region {
	d := len(weights)
	r := region{
		a:        make([]float64, d),
		aa:       make([]float64, d),
		b:        math.Ldexp(b, -exp),
		exp:      exp,
		equality: equality,
	}
	sum := 0.0
	for i, w := range weights {
		r.a[i] = math.Ldexp(w, -exp)
		r.aa[i] = r.a[i] * r.a[i]
		sum += r.a[i]
	}
	switch full := r.b >= sum; {
	case b == 0:
		r.fixed = true
	case full && equality:
		r.fixed, r.fill = true, 1
	case full:
		r.slack = true
	}
	// The floors keep the iteration finite for capacities that are nothing
	// beside the weights.
	r.fine = max(0x1p-51*r.b, 0x1p-900)
	r.tolerance = max(float64(d+8)*0x1p-53*r.b, r.fine)
	r.radius = maxNorm(r.a, r.b)
	return r
}

// maxNorm returns max |w|₂ over { w in [0,1]^d : a.w <= b }. A convex function
// is largest at a vertex, and filling by weight ascending gives both the most
// whole items and, among vertices with as many, the largest fraction.
func maxNorm(a []float64, b float64) float64 {
	whole, rest := 0.0, b
	for _, w := range slices.Sorted(slices.Values(a)) {
		if w > rest {
			f := rest / w
			return math.Sqrt(whole + float64(f*f))
		}
		rest -= w
		whole++
	}
	return math.Sqrt(whole)
}

func (r *region) violation(w []float64) float64 {
	if len(w) != len(r.a) {
		return math.Inf(1)
	}
	worst, sum := 0.0, 0.0
	for i, x := range w {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return math.Inf(1)
		}
		worst = max(worst, -x, x-1)
		sum += float64(r.a[i] * x)
	}
	excess := sum - r.b
	if r.equality {
		excess = math.Abs(excess)
	}
	return max(worst, math.Ldexp(excess, r.exp))
}
