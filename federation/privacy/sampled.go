package privacy

import "math"

// maxFixedOrder is the largest order for which sampling without replacement is
// credited; the work grows with its square.
const maxFixedOrder = 256

// WithoutReplacement returns, for each order, an RDP bound of the Gaussian
// mechanism with noise multiplier z over a sample of a fixed share q drawn
// without replacement, for replacing a unit; z is the noise over the
// sensitivity under replacement. Orders are above 1, q is in [0, 1].
//
// For an integer order α it is the bound of Wang, Balle and Kasiviswanathan
// (2019, theorem 9 and its proof),
//
//	1/(α-1) log(1 + Σ_{j=2..α} C(α,j) q^j ζ_j),
//
// where ζ_j bounds E_R|(P-Q)/R|^j over the mechanism's outputs P, Q, R at three
// data sets that differ pairwise in one unit:
//
//	ζ_j = min(2^j sqrt(B(2⌊j/2⌋) B(2⌈j/2⌉)), 2 exp((j-1) j/(2z²))),
//	B(l) = E[(exp((2x-1)/(2z²)) - 1)^l],  x ~ N(0, z²), l even.
//
// The first form is Minkowski's inequality, |P-Q| <= |P-R| + |Q-R|, and for odd
// j that of Cauchy and Schwarz; for j = 2 it is the article's 4(e^{ε(2)} - 1).
// (Their theorem 27 has the factor 4 in place of 2^j.) Between integers the
// bound of (α-1)·RDP is interpolated, as that is convex (their corollary 10).
// It is never above the bound without sampling, which holds for any sample.
func WithoutReplacement(q, z float64, orders []float64) []float64 {
	out := make([]float64, len(orders))
	highest := 2
	for _, a := range orders {
		if a <= maxFixedOrder {
			highest = max(highest, int(math.Ceil(a)))
		}
	}
	var cgf []float64 // of integer orders; nil: sampling is not credited
	if q > 0 && q < 1 && z >= smallNoise {
		cgf = fixedSize(q, z, highest)
	}
	for i, a := range orders {
		switch {
		case q == 0:
			continue
		case cgf == nil || a > maxFixedOrder:
			out[i] = Gaussian(z, a)
			continue
		}
		lo := int(math.Floor(a))
		bound := cgf[lo]
		if t := a - float64(lo); t > 0 {
			bound = (1-t)*cgf[lo] + t*cgf[lo+1]
		}
		out[i] = min(bound/(a-1), Gaussian(z, a))
	}
	return out
}

// fixedSize returns the bound of (α-1)·RDP for α = 0 to highest.
func fixedSize(q, z float64, highest int) []float64 {
	logB := make([]float64, highest+2) // even indices
	for l := range logB {
		switch {
		case l == 0: // B(0) = 1
		case l == 2: // exactly exp(1/z²) - 1
			logB[l] = math.Log(math.Expm1(1 / (z * z)))
		case l%2 == 0:
			logB[l] = logMoment(z, l)
		}
	}
	logZeta := make([]float64, highest+1)
	for j := 2; j <= highest; j++ {
		n := float64(j)
		minkowski := n*math.Ln2 + 0.5*(logB[j-j%2]+logB[j+j%2])
		logZeta[j] = min(minkowski, math.Ln2+(n-1)*n/(2*z*z))
	}
	cgf := make([]float64, highest+1)
	for a := 2; a <= highest; a++ {
		sum := math.Inf(-1)
		for j := 2; j <= a; j++ {
			sum = logAdd(sum, logBinomial(a, j)+float64(j)*math.Log(q)+logZeta[j])
		}
		cgf[a] = logAdd(0, sum)
	}
	return cgf
}

// logMoment returns log B(l) for even l > 0.
func logMoment(z float64, l int) float64 {
	if z < 0.5 {
		return math.Inf(1) // the other bound is smaller, for a tenth of the work
	}
	n := float64(l)
	// The integrand is |x|^l times a Gaussian for large z, with its peaks at
	// ±z√l, and a Gaussian around l for small z. It is entire; the step keeps
	// the error below the cancellation between its binomial terms.
	reach := (math.Sqrt(n) + 10) * z
	return logIntegral(-reach, n+reach, z/12, func(x float64) float64 {
		return n*logAbsExpm1((2*x-1)/(2*z*z)) - x*x/(2*z*z)
	}) - math.Log(z) - 0.5*math.Log(2*math.Pi)
}

// logAbsExpm1 returns log|exp(t) - 1|; exp(t) may overflow.
func logAbsExpm1(t float64) float64 {
	if t > 40 {
		return t // the rest is below the rounding error
	}
	return math.Log(math.Abs(math.Expm1(t)))
}

// ZeroOut returns, for each order, an RDP bound of noise z S on the sum over a
// sample of a fixed share q of the units, drawn without replacement, where
// every unit contributes a vector of norm at most S, for zeroing out a unit:
// its vector becomes 0, while it is drawn as before (Kairouz et al. 2021).
//
// It is the smaller of two bounds. Given the sample, the sums differ by at most
// S, so that Gaussian(z) holds whatever the sample, which decides when much of
// the population takes part. And any two vectors, 0 among them, differ by at
// most 2S, so that WithoutReplacement holds with the noise multiplier z/2,
// which decides for small q.
func ZeroOut(q, z float64, orders []float64) []float64 {
	out := WithoutReplacement(q, z/2, orders)
	for i, a := range orders {
		out[i] = min(out[i], Gaussian(z, a))
	}
	return out
}
