package privacy

import (
	"math"
	"slices"
)

// Orders returns the orders that accounting minimises over unless told
// otherwise: 1.1 to 10.9 in steps of 0.1, 11 to 64, and powers of 2 to 1024.
// More orders never hurt: ε is the least over them.
func Orders() []float64 {
	var out []float64
	for i := 1; i < 100; i++ {
		out = append(out, 1+float64(i)/10)
	}
	for a := 11; a <= 64; a++ {
		out = append(out, float64(a))
	}
	return append(out, 128, 256, 512, 1024)
}

// Curve is RDP as a function of its order: RDP[i] bounds the Rényi divergence
// of order Orders[i] > 1. The zero value spends nothing.
type Curve struct{ Orders, RDP []float64 }

// PoissonCurve returns the curve of one release over a Poisson sample; see
// [Poisson].
func PoissonCurve(q, z float64, orders []float64) Curve {
	c := Curve{slices.Clone(orders), make([]float64, len(orders))}
	for i, a := range orders {
		c.RDP[i] = Poisson(q, z, a)
	}
	return c
}

// WithoutReplacementCurve returns the curve of one release over a sample of a
// fixed size, for replacing a unit; see [WithoutReplacement].
func WithoutReplacementCurve(q, z float64, orders []float64) Curve {
	return Curve{slices.Clone(orders), WithoutReplacement(q, z, orders)}
}

// ZeroOutCurve returns the curve of one release over a sample of a fixed size,
// for zeroing out a unit; see [ZeroOut].
func ZeroOutCurve(q, z float64, orders []float64) Curve {
	return Curve{slices.Clone(orders), ZeroOut(q, z, orders)}
}

// Times returns the curve of n releases, each of which may depend on those
// before: RDP adds up (Mironov 2017, proposition 1).
func (c Curve) Times(n int) Curve {
	out := Curve{slices.Clone(c.Orders), make([]float64, len(c.RDP))}
	for i, r := range c.RDP {
		// Nothing of an unbounded loss is still nothing.
		if n > 0 {
			out.RDP[i] = float64(n) * r
		}
	}
	return out
}

// Add returns the curve of the releases of both, over the orders of c that d
// has too.
func (c Curve) Add(d Curve) Curve {
	var out Curve
	for i, a := range c.Orders {
		if k := slices.Index(d.Orders, a); k >= 0 {
			out.Orders, out.RDP = append(out.Orders, a), append(out.RDP, c.RDP[i]+d.RDP[k])
		}
	}
	return out
}

// Epsilon returns the least ε for which the curve proves (ε, delta)-differential
// privacy, and the order that proves it (Canonne, Kamath and Steinke 2020,
// proposition 12; Balle et al. 2020, theorem 21):
//
//	ε = RDP(α) + log(1 - 1/α) - (log δ + log α)/(α-1).
//
// delta is in (0, 1). ε is 0, of order 0, if nothing is spent, and infinite if
// no order is finite.
func (c Curve) Epsilon(delta float64) (epsilon, order float64) {
	if !slices.ContainsFunc(c.RDP, func(r float64) bool { return r != 0 }) {
		return 0, 0
	}
	epsilon = math.Inf(1)
	for i, a := range c.Orders {
		if e := c.RDP[i] + math.Log1p(-1/a) - (math.Log(delta)+math.Log(a))/(a-1); e < epsilon {
			epsilon, order = e, a
		}
	}
	return max(epsilon, 0), order
}

// Delta returns the least δ for which the curve proves (epsilon, δ)-differential
// privacy: the inverse of [Curve.Epsilon]. It is 0 if nothing is spent.
func (c Curve) Delta(epsilon float64) float64 {
	if !slices.ContainsFunc(c.RDP, func(r float64) bool { return r != 0 }) {
		return 0
	}
	least := 0.0 // log δ
	for i, a := range c.Orders {
		least = min(least, (a-1)*(c.RDP[i]-epsilon+math.Log1p(-1/a))-math.Log(a))
	}
	return math.Exp(least)
}
