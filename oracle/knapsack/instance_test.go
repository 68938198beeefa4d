package knapsack

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"

	"fedrspo/oracle"
)

// instance is a random problem: costs and lambda with a knapsack and a top-k
// set to solve them over.
type instance struct {
	a      []float64
	b, k   float64
	theta  []float64
	lambda float64
}

// region is one set of an instance in plain terms.
type plainSet struct {
	a        []float64
	b        float64
	equality bool
	polytope oracle.Polytope
}

func (c plainSet) String() string {
	return fmt.Sprintf("{a=%v b=%v equality=%v}", c.a, c.b, c.equality)
}

func (in instance) sets() []plainSet {
	return []plainSet{
		{in.a, in.b, false, mustSet(in.a, in.b)},
		{ones(len(in.theta)), in.k, true, mustTopK(len(in.theta), in.k)},
	}
}

// randomInstance draws problems of extreme and of ordinary scale: costs from
// 1e-12 to 1e12, lambda from 1e-6 to 1e6, weights from 1e-9 to 1e3, ties,
// capacities from nothing to more than everything.
func randomInstance(r *rand.Rand, d int) instance {
	pow := func(lo, hi float64) float64 { return math.Pow(10, lo+(hi-lo)*r.Float64()) }
	in := instance{a: make([]float64, d), theta: make([]float64, d), lambda: pow(-6, 6)}
	if r.IntN(3) == 0 {
		in.lambda = pow(-1, 1)
	}
	weights, costs := r.IntN(4), r.IntN(5)
	scale := pow(-12, 12)
	if r.IntN(3) == 0 {
		scale = in.lambda * pow(-2, 2)
	}
	for i := range d {
		switch weights {
		case 0:
			in.a[i] = 0.5 + r.Float64()
		case 1:
			in.a[i] = 1e-9 * (0.5 + r.Float64())
		case 2:
			in.a[i] = pow(-9, 3)
		case 3:
			in.a[i] = float64(1 + r.IntN(3))
		}
		switch costs {
		case 0:
			in.theta[i] = -scale * r.Float64()
		case 1:
			in.theta[i] = scale * r.NormFloat64()
		case 2:
			in.theta[i] = math.Copysign(pow(-12, 12), r.NormFloat64())
		case 3:
			in.theta[i] = scale * float64(r.IntN(5)-3)
		case 4:
			// Ties in the order of the knapsack.
			in.theta[i] = -scale * in.a[i] * float64(1+r.IntN(2))
		}
	}
	switch total := sum(in.a); r.IntN(6) {
	case 0:
		in.b = 0
	case 1:
		in.b = total
	case 2:
		in.b = pow(-9, 0) * total
	case 3:
		in.b = sum(in.a[:r.IntN(d)+1])
	default:
		in.b = 1.2 * r.Float64() * total
	}
	in.k = float64(d) * r.Float64()
	switch r.IntN(4) {
	case 0:
		in.k = math.Floor(in.k)
	case 1:
		in.k = float64(d)
	case 2:
		in.k *= pow(-9, 0)
	}
	return in
}

// exact returns x as a big.Float of a precision in which the checks below do
// not round.
func exact(x float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(x) }

// capacityError returns by how much w breaks the constraint, the sum taken
// without rounding.
func (c plainSet) capacityError(w []float64) float64 {
	s := exact(-c.b)
	for i := range w {
		s.Add(s, new(big.Float).Mul(exact(c.a[i]), exact(w[i])))
	}
	e, _ := s.Float64()
	if c.equality {
		return math.Abs(e)
	}
	return max(e, 0)
}

// roundoff is the documented capacity error.
func (c plainSet) roundoff() float64 { return float64(len(c.a)+8) * 0x1p-52 * c.b }

// residual returns an error unless w satisfies, within tol, the optimality
// conditions of min theta.w + (lambda/2)|w|² over the set: for one multiplier
// mu, and mu >= 0 with mu (a.w - b) = 0 for an inequality,
//
//	theta_i + lambda w_i + mu a_i   = 0 where 0 < w_i < 1,
//	                               >= 0 where w_i = 0,
//	                               <= 0 where w_i = 1.
//
// It works out which mu each entry allows, without rounding, and asks that one
// is left.
func (c plainSet) residual(theta []float64, lambda float64, w []float64, tol float64) error {
	var lo, hi *big.Float
	raise := func(x *big.Float) {
		if lo == nil || x.Cmp(lo) > 0 {
			lo = x
		}
	}
	lower := func(x *big.Float) {
		if hi == nil || x.Cmp(hi) < 0 {
			hi = x
		}
	}
	spare := exact(c.b)
	for i, x := range w {
		if !(x >= 0 && x <= 1) {
			return fmt.Errorf("w[%d] = %v is outside [0, 1]", i, x)
		}
		spare.Sub(spare, new(big.Float).Mul(exact(c.a[i]), exact(x)))
		force := new(big.Float).Mul(exact(lambda), exact(x))
		force.Add(force, exact(theta[i])).Neg(force)
		if x < 1 {
			raise(new(big.Float).Quo(new(big.Float).Sub(force, exact(tol)), exact(c.a[i])))
		}
		if x > 0 {
			lower(new(big.Float).Quo(new(big.Float).Add(force, exact(tol)), exact(c.a[i])))
		}
	}
	if !c.equality {
		raise(exact(0))
		if spare.Cmp(exact(c.roundoff())) > 0 {
			lower(exact(0))
		}
	}
	if lo != nil && hi != nil && lo.Cmp(hi) > 0 {
		return fmt.Errorf("no multiplier meets all conditions within %v: one needs at least %v, another at most %v", tol, lo.Text('g', 17), hi.Text('g', 17))
	}
	if e := c.capacityError(w); e > c.roundoff() {
		return fmt.Errorf("the capacity %v is off by %v, want at most %v", c.b, e, c.roundoff())
	}
	return nil
}
