package oracletest

import (
	"math"

	"fedrspo/oracle"
)

// set checks Dim, Radius and Violation.
func (s *suite) set() {
	if s.d < 1 {
		s.Fatalf("Dim is %d", s.d)
	}
	r := s.Polytope.Radius()
	if !(r >= 0) || math.IsInf(r, 1) {
		s.Errorf("Radius is %v", r)
	}
	w := s.point()
	s.feasible("a convex combination of minimisers", w)
	for _, v := range s.Vertices {
		s.feasible("a vertex", v)
	}
	if v := s.Polytope.Violation(w[1:]); !math.IsInf(v, 1) {
		s.Errorf("Violation of a short vector is %v, want +Inf", v)
	}
	if v := s.Polytope.Violation(append(w, 0)); !math.IsInf(v, 1) {
		s.Errorf("Violation of a long vector is %v, want +Inf", v)
	}
	for i := range w {
		x := w[i]
		w[i] = math.NaN()
		if v := s.Polytope.Violation(w); !math.IsInf(v, 1) {
			s.Errorf("Violation with a NaN at %d is %v, want +Inf", i, v)
		}
		for _, far := range []float64{2*r + 1, -2*r - 1} {
			w[i] = far
			if v := s.Polytope.Violation(w); !(v > s.Violation) {
				s.Errorf("Violation with %v at %d, beyond the radius, is %v", far, i, v)
			}
		}
		w[i] = x
	}
}

// linear checks that answers are feasible, repeatable, and no worse than any
// other point we know.
func (s *suite) linear() {
	l, radius := s.Polytope.NewLinear(), s.Polytope.Radius()
	for range s.Rounds {
		theta := s.cost()
		before := append([]float64(nil), theta...)
		w := s.solve(l, theta)
		s.same("theta after Solve", theta, before)
		s.feasible("the minimiser", w)
		s.same("a second Solve", s.solve(l, theta), w)
		z, slack := dot(theta, w), s.Gap*norm(theta)*radius
		better := func(what string, x []float64) {
			if v := dot(theta, x); !(z <= v+slack) {
				s.Errorf("the minimum is %v, but %s has %v", z, what, v)
			}
		}
		for range 5 {
			better("a feasible point", s.point())
		}
		for _, v := range s.Vertices {
			better("a vertex", v)
		}
	}
}

// radius checks that no point is longer than Radius and, unless LooseRadius,
// that one is as long. It climbs |w|², a convex function, by repeated linear
// maximisation from many starts.
func (s *suite) radius() {
	r, longest := s.Polytope.Radius(), 0.0
	for _, v := range s.Vertices {
		s.feasible("a vertex", v)
		longest = max(longest, norm(v))
	}
	for range s.Rounds {
		w := s.solve(s.minimiser, s.cost())
		s.feasible("a minimiser", w)
		for climbs := 0; climbs < 20 && !s.LooseRadius; climbs++ {
			s.feasible("a minimiser", w)
			longest = max(longest, norm(w))
			w = s.solve(s.minimiser, along(make([]float64, s.d), -1, w))
		}
	}
	if !s.LooseRadius && !(longest >= r*(1-1e-9)) {
		s.Errorf("Radius is %v, but the longest point found has norm %v", r, longest)
	}
}

// linearHistory checks that an answer does not depend on earlier ones.
func (s *suite) linearHistory() {
	used := s.Polytope.NewLinear()
	for range s.Rounds {
		theta := s.cost()
		s.same("a used solver", s.solve(used, theta), s.solve(s.Polytope.NewLinear(), theta))
	}
}

// linearBadInput checks the error of every wrong input, and that the solver
// survives it.
func (s *suite) linearBadInput() {
	l, theta, dst := s.Polytope.NewLinear(), s.cost(), make([]float64, s.d)
	want := s.solve(l, theta)
	for _, bad := range badCosts(theta) {
		_, err := l.Solve(dst, bad.theta)
		s.isError("Solve with "+bad.name, err, bad.err)
		s.same("Solve after "+bad.name, s.solve(l, theta), want)
	}
	for _, n := range []int{0, s.d - 1, s.d + 1} {
		_, err := l.Solve(make([]float64, n), theta)
		s.isError("Solve with a dst of the wrong length", err, oracle.ErrDimension)
	}
	s.same("Solve after a wrong dst", s.solve(l, theta), want)
}

func (s *suite) linearAllocations() {
	l, theta, dst := s.Polytope.NewLinear(), s.cost(), make([]float64, s.d)
	s.allocations("Solve", func() error { _, err := l.Solve(dst, theta); return err })
}
