package knapsack

import (
	"math"

	"fedrspo/oracle"
)

// linear minimises a linear function over a region by the greedy rule.
type linear struct {
	*region
	// ratio orders the items: theta_i/a_i, or +Inf for an item that no
	// minimiser takes.
	ratio []float64
	// below and above are the two sides of a partition of the candidates.
	below, above items
}

// items are the ratios and weights of some candidates.
type items struct{ ratio, weight []float64 }

func newLinear(r *region) *linear {
	d := len(r.a)
	buf := make([]float64, 5*d)
	cut := func(k int) []float64 { return buf[k*d : (k+1)*d : (k+1)*d] }
	return &linear{
		region: r,
		ratio:  cut(0),
		below:  items{cut(1), cut(2)},
		above:  items{cut(3), cut(4)},
	}
}

// Solve implements oracle.Linear.
//
// The items taken whole are those with a ratio below a threshold, that of the
// critical item, which a weighted quickselect finds without sorting (Balas and
// Zemel 1980). Only the items at the threshold are looked at in order.
func (s *linear) Solve(dst, theta []float64) (oracle.Info, error) {
	if err := oracle.CheckSolve(dst, theta, len(s.a)); err != nil {
		return oracle.Info{}, err
	}
	if s.fixed {
		for i := range dst {
			dst[i] = s.fill
		}
		return oracle.Info{Status: oracle.Optimal}, nil
	}
	n, total := s.candidates(theta)
	threshold, passes := math.Inf(1), 0
	if s.equality || !s.slack && total > s.b {
		threshold, passes = s.threshold(n, total)
	}
	s.take(dst, threshold)
	return oracle.Info{Status: oracle.Optimal, Iterations: passes}, nil
}

// candidates sets the ratios and lists the items a minimiser may take, all of
// them for an equality and else those of negative cost. It returns their
// number and total weight.
func (s *linear) candidates(theta []float64) (n int, total float64) {
	a := s.a
	ratio, theta := s.ratio[:len(a)], theta[:len(a)]
	keys, weights := s.below.ratio[:len(a)], s.below.weight[:len(a)]
	if s.equality {
		// The weights are equal, and the order of the ratios that of the costs.
		copy(keys, theta)
		copy(ratio, theta)
		copy(weights, a)
		return len(a), float64(len(a)) * a[0]
	}
	inf := math.Float64bits(math.Inf(1))
	for i, x := range theta {
		q := x / a[i]
		take := maskOf(x < 0)
		ratio[i] = math.Float64frombits(math.Float64bits(q)&take | inf&^take)
		keys[n] = q
		weights[n] = a[i]
		n += int(take & 1)
		total += selected(a[i], take)
	}
	return n, total
}

// threshold returns the smallest ratio t among the first n items of below such
// that the items up to and including t outweigh b, given that all of them,
// weighing total, do. Where that is true but for rounding, t is the largest
// ratio. It also returns the number of partitions.
func (s *linear) threshold(n int, total float64) (t float64, passes int) {
	rest := s.b
	for n > 1 {
		passes++
		pivot := choosePivot(s.below.ratio[:n], rest/total)
		lo, hi, light, upTo := s.partition(n, pivot)
		switch {
		case light > rest:
			n, total = lo, light
		case upTo > rest || hi == 0:
			return pivot, passes
		default:
			s.below, s.above = s.above, s.below
			n, total, rest = hi, total-upTo, rest-upTo
		}
	}
	return s.below.ratio[0], passes
}

// choosePivot returns an element of r, near its quantile q as far as a sample
// of five tells.
func choosePivot(r []float64, q float64) float64 {
	n := len(r)
	if n < 5 {
		return r[n/2]
	}
	x0, x1, x2, x3, x4 := r[0], r[n/4], r[n/2], r[n-1-n/4], r[n-1]
	// A sorting network, without branches on the data.
	x0, x1 = min(x0, x1), max(x0, x1)
	x3, x4 = min(x3, x4), max(x3, x4)
	x2, x4 = min(x2, x4), max(x2, x4)
	x2, x3 = min(x2, x3), max(x2, x3)
	x1, x4 = min(x1, x4), max(x1, x4)
	x0, x3 = min(x0, x3), max(x0, x3)
	x0, x2 = min(x0, x2), max(x0, x2)
	x1, x3 = min(x1, x3), max(x1, x3)
	x1, x2 = min(x1, x2), max(x1, x2)
	switch {
	case q < 0.2:
		return x0
	case q < 0.4:
		return x1
	case q < 0.6:
		return x2
	case q < 0.8:
		return x3
	}
	return x4
}

// partition splits the first n items of below about the pivot into those with
// smaller ratios, which stay in below, and those with larger ones, which go to
// above. It returns the numbers of both, the weight of the smaller, and the
// weight of those up to and including the pivot.
func (s *linear) partition(n int, pivot float64) (lo, hi int, light, upTo float64) {
	r, w := s.below.ratio[:n], s.below.weight[:n]
	ra, wa := s.above.ratio[:n], s.above.weight[:n]
	for i, q := range r {
		x := w[i]
		less, more := maskOf(q < pivot), maskOf(q > pivot)
		// lo <= i: the write never overtakes the read.
		r[lo], w[lo] = q, x
		ra[hi], wa[hi] = q, x
		lo += int(less & 1)
		hi += int(more & 1)
		light += selected(x, less)
		upTo += selected(x, ^more)
	}
	return lo, hi, light, upTo
}

// take writes the minimiser to dst: 1 below the threshold, and at it, in
// order of index, what capacity is left.
func (s *linear) take(dst []float64, threshold float64) {
	ratio := s.ratio
	a, dst := s.a[:len(ratio)], dst[:len(ratio)]
	var used [2]float64
	i := 0
	for ; i+1 < len(ratio); i += 2 {
		less := maskOf(ratio[i] < threshold)
		dst[i] = selected(1, less)
		used[0] += selected(a[i], less)
		less = maskOf(ratio[i+1] < threshold)
		dst[i+1] = selected(1, less)
		used[1] += selected(a[i+1], less)
	}
	if i < len(ratio) {
		less := maskOf(ratio[i] < threshold)
		dst[i] = selected(1, less)
		used[0] += selected(a[i], less)
	}
	if math.IsInf(threshold, 1) {
		return
	}
	rest := max(s.b-(used[0]+used[1]), 0)
	for i, q := range ratio {
		if q != threshold {
			continue
		}
		if a[i] > rest {
			dst[i] = rest / a[i]
			return
		}
		dst[i] = 1
		rest -= a[i]
	}
}
