package privacy

import "math"

// Gaussian returns the RDP of order alpha > 1 of the Gaussian mechanism with
// noise multiplier z, without sampling: alpha/(2z²) (Mironov 2017, corollary
// 3). It is infinite for z = 0.
func Gaussian(z, alpha float64) float64 { return alpha / (2 * z * z) }

// smallNoise is the noise multiplier below which sampling is not credited: ε is
// astronomically large there, and the integrands need ever finer steps.
const smallNoise = 0.1

// Poisson returns the RDP of order alpha > 1 of the Gaussian mechanism with
// noise multiplier z over a Poisson sample of rate q, for adding or removing a
// unit (Mironov, Talwar and Zhang 2019, theorems 4 and 5):
//
//	1/(alpha-1) log E[((1-q) + q exp((2x-1)/(2z²)))^alpha],  x ~ N(0, z²).
//
// q is in [0, 1]; below z = 0.1 the bound is that without sampling.
func Poisson(q, z, alpha float64) float64 {
	switch {
	case q == 0:
		return 0
	case q >= 1 || z < smallNoise:
		return Gaussian(z, alpha)
	}
	lq, l1q := math.Log(q), math.Log1p(-q)
	// As a function of complex x the integrand is analytic for |Im x| < πz²:
	// the error is exp(-2π·πz²/h) at most. It is below a mixture of N(k, z²),
	// 0 <= k <= alpha, so that 10 z beyond either end nothing is left.
	h := min(z/6, z*z/2)
	a := logIntegral(-10*z, alpha+10*z, h, func(x float64) float64 {
		return alpha*logAdd(l1q, lq+(2*x-1)/(2*z*z)) - x*x/(2*z*z)
	}) - math.Log(z) - 0.5*math.Log(2*math.Pi)
	// Rounding must not turn a tiny divergence into a negative one.
	return max(a, 0) / (alpha - 1)
}

// logIntegral returns the logarithm of the trapezoidal sum of exp(f) over
// [lo, hi] with about the given step.
func logIntegral(lo, hi, step float64, f func(x float64) float64) float64 {
	n := int(math.Ceil((hi - lo) / step))
	h := (hi - lo) / float64(n)
	top, sum := math.Inf(-1), 0.0
	for i := range n + 1 {
		v := f(lo + float64(i)*h)
		switch {
		case v <= top:
			sum += math.Exp(v - top)
		case !math.IsInf(v, -1):
			sum = float64(sum*math.Exp(top-v)) + 1
			top = v
		}
	}
	return top + math.Log(sum) + math.Log(h)
}

// logAdd returns log(exp(a) + exp(b)).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// logBinomial returns log C(n, k).
func logBinomial(n, k int) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return lg(n) - lg(k) - lg(n-k)
}
