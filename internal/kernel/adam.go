package kernel

import (
	"fmt"
	"math"
)

// AdamStep is the settings of one update of Adam (Kingma and Ba 2015,
// algorithm 1). No field has a default.
type AdamStep struct {
	// Rate is the learning rate alpha; Beta1 and Beta2 in [0, 1) are the decay
	// rates of the two moments; Epsilon is added to the root of the corrected
	// second moment.
	Rate, Beta1, Beta2, Epsilon float64
	// Step is the number of this update, t = 1, 2, ...
	Step int
	// GradScale multiplies the gradient first: the factor of gradient clipping,
	// 1 for none.
	GradScale float64
}

// adamScalars is AdamStep made ready for the loop, in the element type:
//
//	h = scale g
//	m = beta1 m + rest1 h
//	v = beta2 v + (rest2 h) h
//	p = p - (rate m) / (root sqrt(v) + epsilon)
//
// The field order and the absence of padding are fixed: assembly reads it.
type adamScalars[T Float] struct {
	scale, beta1, rest1, beta2, rest2, rate, root, epsilon T
}

func newAdamScalars[T Float](s AdamStep) adamScalars[T] {
	rate, root := s.Corrected()
	return adamScalars[T]{
		scale:   T(s.GradScale),
		beta1:   T(s.Beta1),
		rest1:   T(1 - s.Beta1),
		beta2:   T(s.Beta2),
		rest2:   T(1 - s.Beta2),
		rate:    T(rate),
		root:    T(root),
		epsilon: T(s.Epsilon),
	}
}

// Corrected returns what corrects the moments' start at zero,
// Rate/(1-Beta1^Step) and 1/sqrt(1-Beta2^Step).
func (s AdamStep) Corrected() (rate, root float64) {
	return s.Rate / (1 - power(s.Beta1, s.Step)), 1 / math.Sqrt(1-power(s.Beta2, s.Step))
}

// power returns x to the power n >= 0 by repeated squaring. It has the same
// bits on every architecture, which math.Pow does not promise.
func power(x float64, n int) float64 {
	y := 1.0
	for ; n > 0; n /= 2 {
		if n%2 == 1 {
			y *= x
		}
		x *= x
	}
	return y
}

// Adam updates the parameters p, and the moments m and v of the gradient g, in
// one pass:
//
//	h = GradScale g
//	m = Beta1 m + (1-Beta1) h
//	v = Beta2 v + (1-Beta2) h²
//	p = p - Rate m̂ / (sqrt(v̂) + Epsilon),  m̂ = m/(1-Beta1^t), v̂ = v/(1-Beta2^t)
//
// The four slices have one length and do not overlap; g is not changed. The
// scalar factors are computed in float64 and rounded once to T; in the loop
// every operation is rounded, so all levels return the same bits.
func Adam[T Float](p, g, m, v []T, s AdamStep) {
	if len(g) != len(p) || len(m) != len(p) || len(v) != len(p) {
		panic(fmt.Sprintf("kernel.Adam: lengths p %d, g %d, m %d and v %d differ", len(p), len(g), len(m), len(v)))
	}
	if s.Step < 1 || !(s.Beta1 >= 0 && s.Beta1 < 1 && s.Beta2 >= 0 && s.Beta2 < 1) {
		panic(fmt.Sprintf("kernel.Adam: step %d, beta1 %v, beta2 %v: want a step of at least 1 and rates in [0, 1)", s.Step, s.Beta1, s.Beta2))
	}
	c := newAdamScalars[T](s)
	n := adamVector(p, g, m, v, &c)
	adamGeneric(p[n:], g[n:], m[n:], v[n:], &c)
}

func adamGeneric[T Float](p, g, m, v []T, c *adamScalars[T]) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i, x := range p {
		h := T(c.scale * g[i])
		m[i] = T(c.beta1*m[i]) + T(c.rest1*h)
		v[i] = T(c.beta2*v[i]) + T(T(c.rest2*h)*h)
		// The float64 root of a float32, rounded to float32, is the correctly
		// rounded float32 root.
		p[i] = x - T(c.rate*m[i])/(T(c.root*T(math.Sqrt(float64(v[i]))))+c.epsilon)
	}
}
