package oracletest

import (
	"math"
	"slices"

	"fedrspo/oracle"
)

// projection checks that answers are feasible, repeatable, certified by their
// duality gap, and that a projection projects to itself.
func (s *suite) projection() {
	p, radius := s.Polytope.NewProjector(), s.Polytope.Radius()
	for _, lambda := range s.Lambdas {
		for range s.Rounds {
			theta := s.cost()
			before := slices.Clone(theta)
			w := s.project(p, theta, lambda, nil)
			s.same("theta after Project", theta, before)
			s.feasible("the projection", w)
			s.same("a second Project", s.project(p, theta, lambda, nil), w)

			g := along(theta, lambda, w)
			gap := dot(g, w) - dot(g, s.solve(s.minimiser, g))
			if tol := s.Gap * (norm(theta)*radius + lambda*radius*radius); !(gap <= tol) {
				s.Errorf("lambda %v: the duality gap is %v, want at most %v", lambda, gap, tol)
			}
			for _, v := range s.Vertices {
				if z := dot(g, v); !(dot(g, w)-z <= s.Gap*(norm(theta)*radius+lambda*radius*radius)) {
					s.Errorf("lambda %v: a vertex has gap %v", lambda, dot(g, w)-z)
				}
			}
			again := s.project(p, along(make([]float64, s.d), -1, w), 1, nil)
			s.near("the projection of a projection", again, w, 2*s.Accuracy)
		}
	}
}

// nonexpansive checks |Π(p) - Π(q)| <= |p - q|, for far and for near points.
func (s *suite) nonexpansive() {
	p := s.Polytope.NewProjector()
	for range s.Rounds {
		lambda, a := s.lambda(), s.cost()
		for _, t := range []float64{1, 0.01} {
			b := along(a, t, along(s.cost(), -1, a))
			moved := distance(s.project(p, a, lambda, nil), s.project(p, b, lambda, nil))
			if from := distance(a, b) / lambda; !(moved <= from*(1+1e-12)+2*s.Accuracy) {
				s.Errorf("lambda %v: points %v apart have projections %v apart", lambda, from, moved)
			}
		}
	}
}

// limits checks the two ends of lambda against what is exact there:
//
//	theta.P_lambda(theta) <= min theta.s + (lambda/2) R²,
//	|P_lambda(theta) - Π(0)| <= |theta|/lambda.
func (s *suite) limits() {
	p, radius := s.Polytope.NewProjector(), s.Polytope.Radius()
	centre := s.project(p, make([]float64, s.d), 1, nil)
	for range s.Rounds {
		theta := s.cost()
		for _, lambda := range s.Lambdas {
			w := s.project(p, theta, lambda, nil)
			over := dot(theta, w) - dot(theta, s.solve(s.minimiser, theta))
			if tol := lambda/2*radius*radius + s.Gap*(norm(theta)*radius+lambda*radius*radius); !(over <= tol) {
				s.Errorf("lambda %v: the projection costs %v more than the minimiser, want at most %v", lambda, over, tol)
			}
			if e, tol := distance(w, centre), norm(theta)/lambda+2*s.Accuracy; !(e <= tol) {
				s.Errorf("lambda %v: the projection is %v from that of 0, want at most %v", lambda, e, tol)
			}
		}
	}
}

// jvp checks that Jacobians are symmetric, contractions and positive
// semidefinite, and that they agree with central differences wherever the two
// one-sided differences agree.
func (s *suite) jvp() {
	p, q := s.Polytope.NewProjector(), s.Polytope.NewProjector()
	smooth := 0
	for range s.Rounds {
		lambda, theta := s.lambda(), s.cost()
		w := s.project(p, theta, lambda, nil)
		u, v := s.normal(), s.normal()
		ju, jv := s.differentiate(p, u), s.differentiate(p, v)
		tol := s.JVP * norm(u) * norm(v)
		if e := math.Abs(dot(u, jv) - dot(v, ju)); !(e <= tol) {
			s.Errorf("u.Jv and v.Ju differ by %v, want at most %v", e, tol)
		}
		if x, vv := dot(v, jv), dot(v, v); !(x >= -s.JVP*vv && x <= vv*(1+s.JVP)) {
			s.Errorf("v.Jv is %v for |v|² = %v, want a value from 0 to it", x, vv)
		}
		h := s.Step / norm(v)
		ahead := s.project(q, along(theta, -lambda*h, v), lambda, nil)
		behind := s.project(q, along(theta, lambda*h, v), lambda, nil)
		tol = s.JVP*norm(v) + 2*s.Accuracy/h
		if kink := distance(along(ahead, -1, w), along(w, -1, behind)) / h; kink > tol {
			continue
		}
		smooth++
		central := along(ahead, -1, behind)
		for i := range central {
			central[i] /= 2 * h
		}
		s.near("Jv against central differences", jv, central, tol)
	}
	if smooth < s.Rounds/4 {
		s.Errorf("only %d of %d points were differentiable: choose a smaller Step", smooth, s.Rounds)
	}
}

// jvpErrors checks what JVP refuses.
func (s *suite) jvpErrors() {
	p, dst, theta := s.Polytope.NewProjector(), make([]float64, s.d), s.cost()
	s.isError("JVP before Project", p.JVP(dst, theta), oracle.ErrNoProjection)
	if _, err := p.Project(dst, theta, math.NaN(), nil); err == nil {
		s.Errorf("Project accepts a NaN lambda")
	}
	s.isError("JVP after a failed first Project", p.JVP(dst, theta), oracle.ErrNoProjection)
	s.project(p, theta, 1, nil)
	v := s.normal()
	want := s.differentiate(p, v)
	for _, bad := range badCosts(v) {
		s.isError("JVP with a bad v", p.JVP(dst, bad.theta), bad.err)
	}
	s.isError("JVP with a short dst", p.JVP(dst[1:], v), oracle.ErrDimension)
	s.same("JVP after errors", s.differentiate(p, v), want)
}

// projectHistory checks that a cold solve does not depend on earlier ones.
func (s *suite) projectHistory() {
	used := s.Polytope.NewProjector()
	for range s.Rounds {
		lambda, theta, v := s.lambda(), s.cost(), s.normal()
		fresh := s.Polytope.NewProjector()
		s.same("Project of a used solver", s.project(used, theta, lambda, nil), s.project(fresh, theta, lambda, nil))
		s.same("JVP of a used solver", s.differentiate(used, v), s.differentiate(fresh, v))
	}
}

// warmStart checks that warm starts, from the same, a near and a far problem,
// change an answer within its accuracy, and that an error leaves them alone.
func (s *suite) warmStart() {
	p, radius := s.Polytope.NewProjector(), s.Polytope.Radius()
	var warm oracle.Warm
	for range s.Rounds {
		lambda, theta := s.lambda(), s.cost()
		near := along(theta, 0.01, along(s.cost(), -1, theta))
		for _, x := range [][]float64{theta, theta, near, s.cost()} {
			cold := s.project(s.Polytope.NewProjector(), x, lambda, nil)
			w := s.project(p, x, lambda, &warm)
			s.feasible("a warm-started projection", w)
			s.near("a warm-started projection", w, cold, 2*s.Accuracy)
			g := along(x, lambda, w)
			gap := dot(g, w) - dot(g, s.solve(s.minimiser, g))
			if tol := s.Gap * (norm(x)*radius + lambda*radius*radius); !(gap <= tol) {
				s.Errorf("warm start: the duality gap is %v, want at most %v", gap, tol)
			}
		}
		before := slices.Clone(warm.Words)
		if _, err := p.Project(make([]float64, s.d), theta, -1, &warm); err == nil {
			s.Errorf("Project accepts lambda -1")
		}
		if !slices.Equal(before, warm.Words) {
			s.Errorf("a failed Project changed its warm start")
		}
	}
}

// projectBadInput checks the error of every wrong input, and that the solver
// survives it.
func (s *suite) projectBadInput() {
	p, theta, dst := s.Polytope.NewProjector(), s.cost(), make([]float64, s.d)
	lambda := s.lambda()
	want := s.project(p, theta, lambda, nil)
	for _, bad := range badCosts(theta) {
		_, err := p.Project(dst, bad.theta, lambda, nil)
		s.isError("Project with "+bad.name, err, bad.err)
		s.same("Project after "+bad.name, s.project(p, theta, lambda, nil), want)
	}
	for _, x := range []float64{0, math.Copysign(0, -1), -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := p.Project(dst, theta, x, nil)
		s.isError("Project with a bad lambda", err, oracle.ErrLambda)
		s.same("Project after a bad lambda", s.project(p, theta, lambda, nil), want)
	}
	for _, n := range []int{0, s.d - 1, s.d + 1} {
		_, err := p.Project(make([]float64, n), theta, lambda, nil)
		s.isError("Project with a dst of the wrong length", err, oracle.ErrDimension)
	}
	s.same("Project after a wrong dst", s.project(p, theta, lambda, nil), want)
}

func (s *suite) projectAllocations() {
	p, theta, dst := s.Polytope.NewProjector(), s.cost(), make([]float64, s.d)
	var warm oracle.Warm
	for _, lambda := range s.Lambdas {
		s.allocations("Project", func() error { _, err := p.Project(dst, theta, lambda, nil); return err })
		s.allocations("Project from a warm start", func() error { _, err := p.Project(dst, theta, lambda, &warm); return err })
		s.allocations("JVP", func() error { return p.JVP(dst, theta) })
	}
}
