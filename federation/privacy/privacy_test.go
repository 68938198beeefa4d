package privacy

import (
	"math"
	"math/big"
	"testing"
)

func near(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rel*math.Abs(want)) {
		t.Errorf("%s: got %.12g, want %.12g within %g of it", what, got, want, rel)
	}
}

// TestPoissonAgainstPublished: values in the tests of TensorFlow Privacy, and of
// its successor dp_accounting for the orders 5 and above, with the digits that
// are printed there. (At fractional orders the successor has a looser bound.)
func TestPoissonAgainstPublished(t *testing.T) {
	for _, c := range []struct {
		q, z  float64
		n     int
		alpha float64
		want  float64
		rel   float64
	}{
		{0.01, 2.5, 50, 1.5, 0.00065, 1e-3},
		{0.01, 2.5, 50, 2.5, 0.001085, 1e-3},
		{0.01, 2.5, 50, 5, 2.18075656e-03, 1e-8},
		{0.01, 2.5, 50, 50, 2.38460375e-02, 1e-8},
		{0.01, 2.5, 50, 100, 1.67416308e+02, 1e-8},
		{0.1, 2, 10, 5, 0.07737, 1e-4}, // five decimals are printed
		{1, 10, 1, 20, 0.1, 1e-15},
	} {
		near(t, "RDP", float64(c.n)*Poisson(c.q, c.z, c.alpha), c.want, c.rel)
	}
}

// TestWithoutReplacementAgainstPublished: the test of TensorFlow Privacy prints
// the bound with the factor 4 in place of 2^j. Ours is not below it, and equal
// where j = 2 decides or where the bound without subtraction does.
func TestWithoutReplacementAgainstPublished(t *testing.T) {
	orders := []float64{1.001, 1.5, 2.5, 5, 50, 100, 256}
	want := []float64{0.003470, 0.003470, 0.004638, 0.0087633, 0.098474, 167.766388, 792.838516}
	got := WithoutReplacement(0.01, 2.5, orders)
	for i := range got {
		v := 50 * got[i]
		// Six decimals are printed; the terms j >= 3 add a fifth at order 50.
		if v < want[i]-1e-6 || v > 1.25*want[i]+1e-6 {
			t.Errorf("order %v: %v, published %v", orders[i], v, want[i])
		}
	}
	near(t, "order 1.5", 50*got[1], want[1], 2e-4)
	near(t, "order 100", 50*got[5], want[5], 1e-6)
}

// TestEpsilonAgainstPublished compares ε after many releases.
func TestEpsilonAgainstPublished(t *testing.T) {
	opacus := Orders()[:99]
	for a := 12; a < 64; a++ {
		opacus = append(opacus, float64(a))
	}
	// Opacus, test_rdp_accountant: 7.32911117143 for 2250 steps.
	eps, _ := PoissonCurve(0.04, 1.5, opacus).Times(2250).Epsilon(1e-5)
	near(t, "Opacus", eps, 7.32911117143, 1e-10)

	// Abadi et al. 2016, section 3.2: q 0.01, z 4, 10,000 steps, δ 1e-5 give ε
	// about 1.26 by the moments accountant. The conversion here is tighter, and
	// cannot be below the best possible: δ(ε = 1) = 4.243484e-6 (Koskela, Jälkö
	// and Honkela 2019, example of their program), so that ε(4.243484e-6) >= 1.
	c := PoissonCurve(0.01, 4, Orders()).Times(10_000)
	if eps, _ := c.Epsilon(1e-5); !(eps <= 1.26 && eps > 0.9) {
		t.Errorf("Abadi et al.: ε %v, want at most 1.26", eps)
	}
	if eps, _ := c.Epsilon(4.243484012034273e-06); !(eps >= 1 && eps < 1.15) {
		t.Errorf("ε %v at the δ of the exact ε 1", eps)
	}

	// A Gaussian whose noise gives exactly (1, 1e-6): dp_accounting's
	// test_compute_epsilon_delta_gaussian, with orders every 0.001.
	var fine []float64
	for i := 1001; i < 100_000; i++ {
		fine = append(fine, 0.001*float64(i))
	}
	g := Curve{fine, make([]float64, len(fine))}
	for i, a := range fine {
		g.RDP[i] = Gaussian(4.530877117, a)
	}
	eps, _ = g.Epsilon(1e-6)
	near(t, "Gaussian ε", eps, 1, 1e-7)
	near(t, "Gaussian δ", g.Delta(1), 1e-6, 1e-6)

	// dp_accounting's test_compute_epsilon_delta_pure_dp, computed there by hand.
	pure := Curve{}
	for a := 2; a <= 32; a++ {
		pure.Orders, pure.RDP = append(pure.Orders, float64(a)), append(pure.RDP, 1.1)
	}
	eps, order := pure.Epsilon(1e-5)
	near(t, "constant RDP", eps, 1.32783806176, 1e-11)
	if order != 32 {
		t.Errorf("order %v, want 32", order)
	}
}

// TestPoissonAgainstBinomial: for an integer order the expectation is a sum of
// positive terms, Σ_k C(α,k) (1-q)^(α-k) q^k exp(k(k-1)/(2z²)) (Mironov, Talwar
// and Zhang 2019, section 3.3).
func TestPoissonAgainstBinomial(t *testing.T) {
	for _, q := range []float64{1e-4, 0.01, 0.1, 0.4, 0.9, 0.999} {
		for _, z := range []float64{0.1, 0.3, 0.7, 1, 2, 10, 100} {
			for _, a := range []int{2, 3, 5, 17, 64, 256} {
				sum := math.Inf(-1)
				for k := range a + 1 {
					n := float64(k)
					sum = logAdd(sum, logBinomial(a, k)+float64(a-k)*math.Log1p(-q)+n*math.Log(q)+n*(n-1)/(2*z*z))
				}
				got := Poisson(q, z, float64(a)) * float64(a-1)
				// Both are logarithms of sums near 1 when little is spent: the
				// rounding of some hundred terms of order 1 is absolute.
				if !(math.Abs(got-sum) <= 1e-11*sum+1e-12) {
					t.Errorf("q %v z %v order %v: %v, want %v", q, z, a, got, sum)
				}
			}
		}
	}
}

// TestMomentsAgainstExactSums compares B(l) with its alternating binomial sum
// Σ_i (-1)^i C(l,i) exp(i(i-1)/(2z²)) in arithmetic of 6000 bits.
func TestMomentsAgainstExactSums(t *testing.T) {
	const prec = 6000
	for _, z := range []float64{0.5, 1, 2, 10, 1000} {
		// r = exp(1/z²) by its Taylor series; exp(i(i-1)/(2z²)) = r^(0+1+...+(i-1)).
		x := new(big.Float).SetPrec(prec).Quo(big.NewFloat(1).SetPrec(prec), new(big.Float).SetPrec(prec).Mul(big.NewFloat(z), big.NewFloat(z)))
		r, term := big.NewFloat(1).SetPrec(prec), big.NewFloat(1).SetPrec(prec)
		for n := 1; n < 900; n++ {
			term.Mul(term, x).Quo(term, new(big.Float).SetPrec(prec).SetInt64(int64(n)))
			r.Add(r, term)
		}
		for _, l := range []int{2, 4, 10, 40, 128} {
			sum := new(big.Float).SetPrec(prec)
			power, rk := big.NewFloat(1).SetPrec(prec), big.NewFloat(1).SetPrec(prec)
			for i := range l + 1 {
				if i > 0 { // power = r^(i(i-1)/2), rk = r^(i-1)
					power.Mul(power, rk)
					rk.Mul(rk, r)
				}
				c := new(big.Float).SetPrec(prec).SetInt(new(big.Int).Binomial(int64(l), int64(i)))
				c.Mul(c, power)
				if i%2 == 1 {
					c.Neg(c)
				}
				sum.Add(sum, c)
			}
			mant := new(big.Float)
			exp := sum.MantExp(mant)
			m, _ := mant.Float64()
			want := math.Log(m) + float64(exp)*math.Ln2
			// logMoment sums some thousand terms in logarithms of size up to
			// want: relative rounding of want, plus that of the sum.
			if got := logMoment(z, l); !(math.Abs(got-want) <= 1e-11+1e-12*math.Abs(want)) {
				t.Errorf("z %v l %d: log B %v, want %v", z, l, got, want)
			}
		}
	}
}

// TestZeroOutHoldsForMixtures compares the bound with the exact divergence of
// every pair of three-point mixtures that zeroing out a unit can make in one
// dimension: the unit's vector is a, the one drawn in its place b, |a|, |b| <=
// 1, q the share; the rest of the sum is the same in both.
func TestZeroOutHoldsForMixtures(t *testing.T) {
	orders := []float64{1.5, 2, 3, 8, 20}
	for _, q := range []float64{0.05, 0.4, 0.9} {
		for _, z := range []float64{0.6, 1, 3} {
			bound := ZeroOut(q, z, orders)
			density := func(x, with, without float64) float64 {
				g := func(mu float64) float64 { return -(x - mu) * (x - mu) / (2 * z * z) }
				return logAdd(math.Log(q)+g(with), math.Log1p(-q)+g(without))
			}
			for _, a := range []float64{-1, -0.5, 1} {
				for _, b := range []float64{-1, 0, 1} {
					for i, alpha := range orders {
						for _, swap := range []bool{false, true} {
							d := logIntegral(-12*z-alpha-2, 12*z+alpha+2, z/40, func(x float64) float64 {
								p, r := density(x, a, b), density(x, 0, b)
								if swap {
									p, r = r, p
								}
								return alpha*p + (1-alpha)*r
							}) - math.Log(z) - 0.5*math.Log(2*math.Pi)
							// The integral is exact to rounding of its thousands of terms.
							if d /= alpha - 1; d > bound[i]+1e-9 {
								t.Errorf("q %v z %v a %v b %v order %v: divergence %v above the bound %v", q, z, a, b, alpha, d, bound[i])
							}
						}
					}
				}
			}
		}
	}
}

// TestMonotone: more noise, a smaller sample, fewer releases and a larger δ
// never cost more; a higher order never has less RDP.
func TestMonotone(t *testing.T) {
	orders := Orders()
	type curve func(q, z float64, orders []float64) Curve
	for name, of := range map[string]curve{"Poisson": PoissonCurve, "without replacement": WithoutReplacementCurve, "zero out": ZeroOutCurve} {
		last := math.Inf(1)
		for _, z := range []float64{0.05, 0.09, 0.11, 0.5, 0.9, 1.3, 4, 30} {
			c := of(0.1, z, orders)
			for i := 1; i < len(orders); i++ {
				// Rounding of sums near 1 is absolute.
				if c.RDP[i] < c.RDP[i-1]-1e-12 {
					t.Errorf("%s z %v: RDP falls from %v to %v at order %v", name, z, c.RDP[i-1], c.RDP[i], orders[i])
				}
			}
			eps, _ := c.Times(50).Epsilon(1e-5)
			if !(eps < last) {
				t.Errorf("%s z %v: ε %v, with less noise %v", name, z, eps, last)
			}
			last = eps
		}
		last = 0
		for _, q := range []float64{0, 0.001, 0.01, 0.1, 0.4, 0.8, 1} {
			eps, _ := of(q, 1, orders).Times(50).Epsilon(1e-5)
			if eps < last || q == 0 != (eps == 0) {
				t.Errorf("%s q %v: ε %v, with a smaller sample %v", name, q, eps, last)
			}
			last = eps
		}
		c, last := of(0.1, 1, orders), -1.0
		for _, n := range []int{0, 1, 2, 10, 1000} {
			eps, _ := c.Times(n).Epsilon(1e-5)
			if !(eps > last) || n == 0 && eps != 0 {
				t.Errorf("%s: ε %v after %d releases, %v before", name, eps, n, last)
			}
			if loose, _ := c.Times(n).Epsilon(1e-3); loose > eps {
				t.Errorf("%s: ε %v for δ 1e-3, %v for 1e-5", name, loose, eps)
			}
			last = eps
		}
	}
}

// TestComposition: n releases are one after the other, whatever their kind.
func TestComposition(t *testing.T) {
	a, b := PoissonCurve(0.1, 1.3, Orders()), ZeroOutCurve(0.4, 2, Orders())
	left, _ := a.Times(2).Add(b.Times(3)).Epsilon(1e-6)
	right, _ := b.Add(a).Add(b).Add(a).Add(b).Epsilon(1e-6)
	near(t, "order of releases", left, right, 1e-14)
	both, _ := a.Add(b).Epsilon(1e-6)
	ea, _ := a.Epsilon(5e-7)
	eb, _ := b.Epsilon(5e-7)
	// Basic composition (Dwork and Roth 2014, theorem 3.16).
	if both > ea+eb {
		t.Errorf("ε %v of both, %v and %v apart", both, ea, eb)
	}
	// Sampling everybody is not sampling, and two Gaussians are one of less noise.
	one, _ := PoissonCurve(1, math.Sqrt2, Orders()).Times(2).Epsilon(1e-5)
	two, _ := ZeroOutCurve(1, 1, Orders()).Epsilon(1e-5)
	near(t, "two Gaussians", one, two, 1e-14)
}

// TestEpsilonInvertsDelta: the two conversions agree.
func TestEpsilonInvertsDelta(t *testing.T) {
	for _, z := range []float64{0.5, 1, 4} {
		c := ZeroOutCurve(0.05, z, Orders()).Times(20)
		for _, delta := range []float64{1e-3, 1e-5, 1e-9} {
			eps, _ := c.Epsilon(delta)
			if eps == 0 {
				t.Fatalf("z %v: ε 0", z)
			}
			// ε moves by its rounding, δ by (α-1) times that.
			near(t, "δ", c.Delta(eps), delta, 1e-10)
		}
	}
	var nothing Curve
	if e, _ := nothing.Epsilon(1e-5); e != 0 || nothing.Delta(0.1) != 0 {
		t.Error("the zero curve spends something")
	}
	if e, _ := (Curve{[]float64{2}, []float64{math.Inf(1)}}).Epsilon(1e-5); !math.IsInf(e, 1) {
		t.Errorf("no noise: ε %v", e)
	}
}
