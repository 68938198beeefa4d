package knapsack

import (
	"fmt"
	"math"

	"fedrspo/oracle"
)

// bracket holds the root of the excess, a decreasing function of tau: lo and
// hi with the excess there, positive at lo and negative at hi. An end that is
// infinite is not known.
type bracket struct{ lo, hi, atLo, atHi float64 }

var unknown = bracket{lo: math.Inf(-1), hi: math.Inf(1)}

// Within one bracket, the first patience passes prefer Newton's step to all
// else. After them every other pass bisects the float64s in the bracket, which
// ends.
const patience = 32

// findMultiplier finds tau with a.clip(p - tau a, 0, 1) = b, to fine or if that
// cannot be had to tolerance, and writes that point to dst. excess is known for
// tau = 0 unless the constraint is an equality. Info.Gap is in units of the
// objective over lambda.
//
// Each pass takes Newton's step where it stays in the bracket, and otherwise
// the secant of the bracket's ends kept away from both. The excess is
// piecewise linear, so Newton's step from the right piece is exact.
//
// Where p is large beside the width of a piece, no float64 tau may be fine
// enough. Once tau is known to half its digits or more, shift moves it into p,
// which loses nothing: entries that are not at a bound are then below 1, and
// the others only round away from it by their last digit. The search goes on
// for the remainder at full relative precision.
func (s *projector) findMultiplier(dst []float64, excess, start float64) (oracle.Info, error) {
	b := unknown
	if !s.equality {
		b.lo, b.atLo = 0, excess
	}
	info := oracle.Info{Status: oracle.IterationLimit}
	// polished: the point has been within tolerance, and one more step taken.
	polished := false
	tau := start
	if !b.holds(tau) {
		var err error
		if tau, err = s.split(&b, 0); err != nil {
			return oracle.Info{}, err
		}
	}
	for level := 1; ; level++ {
		info.Iterations++
		excess, slope := s.pass(dst, tau)
		if e := math.Abs(excess); e <= s.tolerance {
			if e <= s.fine || polished {
				info.Status = oracle.Optimal
				return info, nil
			}
			polished = true
		}
		if excess > 0 {
			b.lo, b.atLo = tau, excess
		} else {
			b.hi, b.atHi = tau, excess
		}
		if info.Iterations >= s.limit {
			// The optimal value has slope -tau* by the capacity, and dst is
			// optimal for the capacity that it uses.
			if err := s.findEnds(&b); err != nil {
				return oracle.Info{}, err
			}
			info.Gap = math.Abs(excess) * max(math.Abs(s.shifted+b.lo), math.Abs(s.shifted+b.hi))
			return info, nil
		}
		step := excess / slope
		next := tau + step
		if math.Abs(step) <= 0x1p-26*math.Abs(tau) {
			s.shift()
			b, tau, level = unknown, step, 0
			continue
		}
		if !b.holds(next) || level > patience && level%2 == 0 {
			var err error
			if next, err = s.split(&b, level); err != nil {
				return oracle.Info{}, err
			}
			if !b.holds(next) {
				// The ends are neighbours: the root is a fraction of the last
				// digit away, on the other end's side.
				s.shift()
				next = (b.hi - b.lo) / 2
				if excess < 0 {
					next = -next
				}
				b, level = unknown, 0
			}
		}
		tau = next
	}
}

// holds reports whether tau lies strictly inside the bracket.
func (b *bracket) holds(tau float64) bool { return tau > b.lo && tau < b.hi }

// split returns a point inside the bracket, whose unknown ends it finds first.
// It returns an end if no float64 lies inside.
func (s *projector) split(b *bracket, level int) (float64, error) {
	if math.IsInf(b.lo, 0) || math.IsInf(b.hi, 0) {
		if err := s.findEnds(b); err != nil {
			return 0, err
		}
	}
	if level > patience {
		return between(b.lo, b.hi), nil
	}
	f := min(max(b.atLo/(b.atLo-b.atHi), 0.3), 0.7)
	mid := float64((1-f)*b.lo) + float64(f*b.hi)
	if !b.holds(mid) {
		mid = between(b.lo, b.hi)
	}
	return mid, nil
}

// findEnds sets the unknown ends of b to the multipliers beyond which every
// entry is at its upper or its lower bound.
func (s *projector) findEnds(b *bracket) error {
	lo, hi, sum := math.Inf(1), math.Inf(-1), 0.0
	for i, q := range s.p {
		lo = min(lo, (q-1)/s.a[i])
		hi = max(hi, q/s.a[i])
		sum += s.a[i]
	}
	// One digit of slack covers the rounding of the quotients.
	if math.IsInf(b.lo, 0) {
		b.lo, b.atLo = lo-float64(0x1p-50*math.Abs(lo))-math.SmallestNonzeroFloat64, sum-s.b
	}
	if math.IsInf(b.hi, 0) {
		b.hi, b.atHi = hi+float64(0x1p-50*math.Abs(hi))+math.SmallestNonzeroFloat64, -s.b
	}
	if math.IsInf(b.lo, 0) || math.IsInf(b.hi, 0) {
		return fmt.Errorf("the capacity's multiplier overflows: %w", oracle.ErrNonFinite)
	}
	return nil
}

// shift moves the multiplier of the last pass into p.
func (s *projector) shift() {
	for i := range s.p {
		s.p[i] -= float64(s.tau * s.a[i])
	}
	s.shifted += s.tau
	s.tau = 0
}

// pass writes clip(p - tau a, 0, 1) to dst and returns a.dst - b and minus its
// derivative by tau, the sum of a² over the entries in [0, 1). Two chains of
// sums each hide the latency of additions; the conversions to float64 keep the
// compiler from fusing products and sums.
func (s *projector) pass(dst []float64, tau float64) (excess, slope float64) {
	s.tau = tau
	p := s.p
	a, aa := s.a[:len(p)], s.aa[:len(p)]
	dst = dst[:len(p)]
	var f0, f1, g0, g1 float64
	i := 0
	for ; i+1 < len(p); i += 2 {
		w, m := clip(p[i] - float64(tau*a[i]))
		dst[i] = w
		f0 += float64(a[i] * w)
		g0 += selected(aa[i], m)
		w, m = clip(p[i+1] - float64(tau*a[i+1]))
		dst[i+1] = w
		f1 += float64(a[i+1] * w)
		g1 += selected(aa[i+1], m)
	}
	if i < len(p) {
		w, m := clip(p[i] - float64(tau*a[i]))
		dst[i] = w
		f0 += float64(a[i] * w)
		g0 += selected(aa[i], m)
	}
	return f0 + f1 - s.b, g0 + g1
}
