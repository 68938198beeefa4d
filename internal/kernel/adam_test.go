package kernel

import (
	"math"
	"testing"
)

// adamTwin is algorithm 1 of Kingma and Ba (2015) word for word, in float64.
type adamTwin struct{ p, m, v float64 }

func (a *adamTwin) step(g float64, s AdamStep) {
	g *= s.GradScale
	a.m = s.Beta1*a.m + (1-s.Beta1)*g
	a.v = s.Beta2*a.v + (1-s.Beta2)*g*g
	mHat := a.m / (1 - math.Pow(s.Beta1, float64(s.Step)))
	vHat := a.v / (1 - math.Pow(s.Beta2, float64(s.Step)))
	a.p -= s.Rate * mHat / (math.Sqrt(vHat) + s.Epsilon)
}

func testAdam[T Float](t *testing.T) {
	r := newRand()
	unit := 0x1p-53
	if !isFloat64[T]() {
		unit = 0x1p-24
	}
	const steps = 20
	s := AdamStep{Rate: 1e-2, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, GradScale: 0.7}
	onLengths(func(n int) {
		p, m, v := newNormal[T](r, n), newGuarded[T](r, n), newGuarded[T](r, n)
		clear(m.x)
		clear(v.x)
		twin := make([]adamTwin, n)
		for i := range twin {
			twin[i].p = float64(p.x[i])
		}
		for s.Step = 1; s.Step <= steps; s.Step++ {
			g := newNormal[T](r, n)
			old := append([]T(nil), g.x...)
			for i := range twin {
				twin[i].step(float64(g.x[i]), s)
			}
			Adam(p.x, g.x, m.x, v.x, s)
			wantSame(t, "g", g.x, old)
		}
		for i := range twin {
			// A step moves p by less than 10 Rate here and carries a dozen
			// roundings, and each sum adds one of |p| < 6; m sums terms of
			// both signs, of size below 1. (1-0.999 in T is what float64
			// gives, rounded once.)
			tol := steps * unit * (6 + 10*12*s.Rate)
			if e := math.Abs(float64(p.x[i]) - twin[i].p); e > tol {
				t.Fatalf("n=%d: p[%d] = %v, want %v", n, i, p.x[i], twin[i].p)
			}
			if e := math.Abs(float64(m.x[i]) - twin[i].m); e > steps*unit*4 {
				t.Fatalf("n=%d: m[%d] = %v, want %v", n, i, m.x[i], twin[i].m)
			}
			if e := math.Abs(float64(v.x[i]) - twin[i].v); e > steps*unit*4*twin[i].v {
				t.Fatalf("n=%d: v[%d] = %v, want %v", n, i, v.x[i], twin[i].v)
			}
		}
		for name, x := range map[string]guarded[T]{"p": p, "m": m, "v": v} {
			x.check(t, name)
		}
	})
}

func TestAdam(t *testing.T) { onTypes(t, testAdam[float32], testAdam[float64]) }

// All levels return the bits of the plain Go code.
func testAdamLevels[T Float](t *testing.T) {
	r := newRand()
	s := AdamStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Step: 3, GradScale: 0.25}
	onLengths(func(n int) {
		p, g, m, v := newNormal[T](r, n).x, newNormal[T](r, n).x, newNormal[T](r, n).x, newNormal[T](r, n).x
		for i := range v {
			v[i] *= v[i]
		}
		twin := func(x []T) []T { return append([]T(nil), x...) }
		p2, m2, v2 := twin(p), twin(m), twin(v)
		c := newAdamScalars[T](s)
		adamGeneric(p2, g, m2, v2, &c)
		Adam(p, g, m, v, s)
		wantSame(t, "p", p, p2)
		wantSame(t, "m", m, m2)
		wantSame(t, "v", v, v2)
	})
}

func TestAdamLevels(t *testing.T) { onTypes(t, testAdamLevels[float32], testAdamLevels[float64]) }

// Each of the at most 2 log2(n) products adds a relative rounding of 2^-53,
// and squaring doubles what came before, so n bounds them all.
func TestPower(t *testing.T) {
	for _, x := range []float64{0, 0.5, 0.9, 0.999} {
		for _, n := range []int{0, 1, 2, 3, 10, 1000, 12345} {
			got, want := power(x, n), math.Pow(x, float64(n))
			if math.Abs(got-want) > float64(2*n)*0x1p-53*want {
				t.Errorf("power(%v, %d) = %v, want %v", x, n, got, want)
			}
		}
	}
}
