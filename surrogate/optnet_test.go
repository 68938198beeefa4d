package surrogate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/knapsack"
	"fedrspo/surrogate"
)

// decisionCost is c·P_ε(ĉ).
func (p point) decisionCost(t *testing.T, chat []float64) float64 {
	return dot(p.c, p.project(t, chat, p.lambda))
}

// TestOptNet: the loss is c·P_ε(ĉ), and where P_ε is differentiable the gradient
// is its derivative. P_ε is piecewise linear: central differences are exact
// where a smaller step gives the same ones, and elsewhere a kink is near.
func TestOptNet(t *testing.T) {
	smooth, kinks := 0, 0
	eachPoint(t, 61, func(t *testing.T, p point) {
		v, g := p.loss(t, surrogate.OptNet{}, p.c, p.chat, p.lambda)
		if want := p.decisionCost(t, p.chat); v != want {
			t.Errorf("lambda %g: loss %v, want %v", p.lambda, v, want)
		}
		step := 1e-4 * p.lambda // moves w by 1e-4
		tol := norm(p.c) * p.decisionRoundoff() / step
		x := scaled(1, p.chat)
		for i, old := range x {
			difference := func(step float64) float64 {
				x[i] = old + step
				up := p.decisionCost(t, x)
				x[i] = old - step
				down := p.decisionCost(t, x)
				x[i] = old
				return (up - down) / (2 * step)
			}
			wide, narrow := difference(step), difference(step/3)
			if math.Abs(wide-narrow) > 6*tol {
				kinks++
				continue
			}
			smooth++
			if !(math.Abs(g[i]-wide) <= 6*tol) {
				t.Errorf("lambda %g: derivative %d is %v, central differences give %v (tolerance %g)", p.lambda, i, g[i], wide, 6*tol)
				return
			}
		}
	})
	if kinks > smooth/20 || smooth < 5000 {
		t.Errorf("%d smooth derivatives, %d near kinks: the case shows little", smooth, kinks)
	}
}

// TestOptNetClosedForm: with A the entries strictly between 0 and 1, the
// gradient is -(1/ε)c_A, less its part along a_A where a·w = b binds, and 0 off A
// (Amos and Kolter 2017, section 3, for this set).
func TestOptNetClosedForm(t *testing.T) {
	active, free := 0, 0
	eachPoint(t, 62, func(t *testing.T, p point) {
		var a []float64
		var binds bool
		w := p.project(t, p.chat, p.lambda)
		switch s := p.polytope.(type) {
		case *knapsack.Set:
			for _, x := range s.Weights() {
				a = append(a, x)
			}
			binds = math.Abs(dot(a, w)-s.Capacity()) < 1e-9
		case *knapsack.TopK:
			a = make([]float64, len(w))
			for i := range a {
				a[i] = 1
			}
			binds = true
		default:
			return
		}
		want, along, square := make([]float64, len(w)), 0.0, 0.0
		for i, x := range w {
			if 0 < x && x < 1 {
				want[i] = -p.c[i] / p.lambda
				along += a[i] * p.c[i]
				square += a[i] * a[i]
			}
		}
		if binds && square > 0 {
			active++
			for i, x := range w {
				if 0 < x && x < 1 {
					want[i] += a[i] * along / square / p.lambda
				}
			}
		} else {
			free++
		}
		_, g := p.loss(t, surrogate.OptNet{}, p.c, p.chat, p.lambda)
		if gap := norm(sub(g, want)); !(gap <= 1e-13*(1+norm(p.c)/p.lambda)) {
			t.Errorf("lambda %g: gradient %v, want %v", p.lambda, g, want)
		}
	})
	if active < 20 || free < 20 {
		t.Errorf("%d points on the constraint, %d off it: the case shows little", active, free)
	}
}

// TestOptNetDegenerate: where P_ε has a kink (entries that just reach a bound, a
// constraint that just binds, the zero prediction, ties) the gradient is still
// finite, and no longer than that of the identity, |c|/ε, as every element of
// the generalised Jacobian of a projection is a contraction.
func TestOptNetDegenerate(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 63))
	set := func(b float64, a ...float64) oracle.Polytope {
		s, err := knapsack.New(a, b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	topK := func(d int, k float64) oracle.Polytope {
		s, err := knapsack.NewTopK(d, k)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, s := range []oracle.Polytope{cube(3, 0, 1), set(1, 1, 1, 1), set(0, 1, 1, 1), set(3, 1, 1, 1), set(1e-9, 1, 2, 1), set(9, 1, 1, 1),
		topK(3, 1), topK(3, 0), topK(3, 3), topK(3, 2.5)} {
		e := newEvaluator(s)
		for _, epsilon := range []float64{1e-6, 1, 1e6} {
			for _, chat := range [][]float64{{0, 0, 0}, {-1, -1, -1}, {-1, 0, 1}, {-2, -1, 0}, {-0.5, -0.5, 0}, {1, 1, 1}} {
				c := normals(r, 3, 1)
				v, g := e.loss(t, surrogate.OptNet{}, c, scaled(epsilon, chat), epsilon)
				if !(math.Abs(v) <= norm(c)*e.r+1e-12) || !(norm(g) <= norm(c)/epsilon*(1+1e-12)) {
					t.Errorf("%T, ε %g, ĉ %v: loss %v, gradient %v", s, epsilon, chat, v, g)
				}
			}
		}
	}
}
