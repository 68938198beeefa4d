// Package oracletest is the conformance suite that every oracle of this module
// passes: what package oracle promises of a Polytope and its solvers, as tests.
//
// The checks certify answers rather than compare them with remembered ones.
// For a projection w of theta at lambda, the gradient g = theta + lambda w has
// the duality gap
//
//	g.w - min over s in S of g.s >= (lambda/2) |w - P_lambda(theta)|²
//
// which the polytope's own linear minimiser computes, and that minimiser is
// held against random feasible points and, where the case lists them, all
// vertices.
package oracletest

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
)

// Case is one polytope to test, and what it claims. The zero values are right
// for solvers that are exact up to rounding.
type Case struct {
	// Name names the subtest.
	Name string
	// Polytope is the set under test. If its NewProjector returns nil, the
	// checks of projections are skipped.
	Polytope oracle.Polytope

	// Cost writes a random cost vector to dst; nil means standard normal
	// entries. Solvers are tried near such costs only, but the certificate of
	// a projection calls Linear at theta + lambda w, and the search for the
	// longest point at -w.
	Cost func(dst []float64, r *rand.Rand)
	// Lambdas are the regularisation weights to try; nil means 0.1, 1 and 10.
	// They should span the regimes of the set at the scale of Cost.
	Lambdas []float64
	// Rounds is the number of random problems of each check; 0 means 40.
	Rounds int
	// Vertices, if given, are all vertices of the set.
	Vertices [][]float64

	// Violation is the largest Violation of an answer; 0 means 1e-12 times
	// the larger of 1 and the radius.
	Violation float64
	// Gap bounds the error of an objective, relative to |theta|R for Linear
	// and to |theta|R + lambda R² for the duality gap of a projection; 0 means
	// 1e-12.
	Gap float64
	// Accuracy bounds |w - P_lambda(theta)|₂ of a projection; 0 means 1e-9.
	Accuracy float64
	// JVP bounds the error of a Jacobian-vector product, relative to |v|; 0
	// means 1e-6.
	JVP float64
	// Step is the length of the step of central differences in units of w; it
	// should exceed Accuracy/JVP. 0 means 1e-3.
	Step float64
	// LooseRadius: Radius is only an upper bound of |w|, or is attained where a
	// search does not find it. Otherwise a point of that length must be found.
	LooseRadius bool
	// Allocates: solves may allocate memory.
	Allocates bool
}

// Run runs every check on every case as a subtest.
func Run(t *testing.T, cases ...Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			for _, k := range checks {
				if k.projection && c.Polytope.NewProjector() == nil {
					continue
				}
				t.Run(k.name, func(t *testing.T) { k.run(newSuite(t, c)) })
			}
		})
	}
}

// check is one promise of package oracle.
type check struct {
	name string
	// projection: the check needs a Projector.
	projection bool
	run        func(s *suite)
}

var checks = []check{
	{"Set", false, (*suite).set},
	{"Linear", false, (*suite).linear},
	{"Radius", false, (*suite).radius},
	{"LinearHistory", false, (*suite).linearHistory},
	{"LinearBadInput", false, (*suite).linearBadInput},
	{"SolveAll", false, (*suite).solveAll},
	{"LinearConcurrent", false, (*suite).linearConcurrent},
	{"LinearAllocations", false, (*suite).linearAllocations},
	{"Projection", true, (*suite).projection},
	{"Nonexpansive", true, (*suite).nonexpansive},
	{"Limits", true, (*suite).limits},
	{"JVP", true, (*suite).jvp},
	{"JVPErrors", true, (*suite).jvpErrors},
	{"ProjectHistory", true, (*suite).projectHistory},
	{"WarmStart", true, (*suite).warmStart},
	{"ProjectBadInput", true, (*suite).projectBadInput},
	{"ProjectAll", true, (*suite).projectAll},
	{"ProjectBatch", true, (*suite).projectBatch},
	{"ProjectConcurrent", true, (*suite).projectConcurrent},
	{"ProjectAllocations", true, (*suite).projectAllocations},
}

// suite runs one check of one case.
type suite struct {
	testing.TB
	Case
	d         int
	r         *rand.Rand
	minimiser oracle.Linear
}

// newSuite returns the suite of c with its defaults filled in and a random
// stream of its own.
func newSuite(tb testing.TB, c Case) *suite {
	if c.Cost == nil {
		c.Cost = func(dst []float64, r *rand.Rand) {
			for i := range dst {
				dst[i] = r.NormFloat64()
			}
		}
	}
	if c.Lambdas == nil {
		c.Lambdas = []float64{0.1, 1, 10}
	}
	radius := c.Polytope.Radius()
	for _, o := range []struct {
		option *float64
		value  float64
	}{
		{&c.Violation, 1e-12 * max(1, radius)},
		{&c.Gap, 1e-12},
		{&c.Accuracy, 1e-9},
		{&c.JVP, 1e-6},
		{&c.Step, 1e-3},
	} {
		if *o.option == 0 {
			*o.option = o.value
		}
	}
	if c.Rounds == 0 {
		c.Rounds = 40
	}
	h := fnv.New64a()
	h.Write([]byte(c.Name))
	return &suite{
		TB:        tb,
		Case:      c,
		d:         c.Polytope.Dim(),
		r:         rand.New(rand.NewPCG(h.Sum64(), 0)),
		minimiser: c.Polytope.NewLinear(),
	}
}

// cost returns a random cost vector.
func (s *suite) cost() []float64 {
	theta := make([]float64, s.d)
	s.Cost(theta, s.r)
	return theta
}

// lambda returns one of the case's regularisation weights.
func (s *suite) lambda() float64 { return s.Lambdas[s.r.IntN(len(s.Lambdas))] }

// normal returns a vector of standard normal entries.
func (s *suite) normal() []float64 {
	v := make([]float64, s.d)
	for i := range v {
		v[i] = s.r.NormFloat64()
	}
	return v
}

// solve returns l's answer at theta, which must be Optimal.
func (s *suite) solve(l oracle.Linear, theta []float64) []float64 {
	s.Helper()
	w := make([]float64, s.d)
	info, err := l.Solve(w, theta)
	if err != nil || info.Status != oracle.Optimal {
		s.Fatalf("Solve: %v, %v", info.Status, err)
	}
	return w
}

// project returns p's answer at theta and lambda, which must be Optimal.
func (s *suite) project(p oracle.Projector, theta []float64, lambda float64, warm *oracle.Warm) []float64 {
	s.Helper()
	w := make([]float64, s.d)
	info, err := p.Project(w, theta, lambda, warm)
	if err != nil || info.Status != oracle.Optimal {
		s.Fatalf("Project at lambda %v: %v, %v", lambda, info.Status, err)
	}
	return w
}

// differentiate returns p's Jacobian-vector product.
func (s *suite) differentiate(p oracle.Projector, v []float64) []float64 {
	s.Helper()
	out := make([]float64, s.d)
	if err := p.JVP(out, v); err != nil {
		s.Fatalf("JVP: %v", err)
	}
	return out
}

// point returns a random convex combination of three linear minimisers.
func (s *suite) point() []float64 {
	s.Helper()
	w, sum := make([]float64, s.d), 0.0
	for range 3 {
		x := s.r.ExpFloat64()
		sum += x
		for i, y := range s.solve(s.minimiser, s.cost()) {
			w[i] += x * y
		}
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// feasible checks that w is in the set and in its radius.
func (s *suite) feasible(what string, w []float64) {
	s.Helper()
	if v := s.Polytope.Violation(w); !(v >= 0 && v <= s.Violation) {
		s.Errorf("%s violates the set by %v, want at most %v", what, v, s.Violation)
	}
	if n, r := norm(w), s.Polytope.Radius(); !(n <= r+2*s.Violation*math.Sqrt(float64(s.d))) {
		s.Errorf("%s has norm %v, above the radius %v", what, n, r)
	}
}

// same checks that two answers are the same bits.
func (s *suite) same(what string, got, want []float64) {
	s.Helper()
	for i := range got {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			s.Errorf("%s: entry %d is %v, want exactly %v", what, i, got[i], want[i])
			return
		}
	}
}

// near checks that |got - want|₂ <= tol.
func (s *suite) near(what string, got, want []float64, tol float64) {
	s.Helper()
	if e := distance(got, want); !(e <= tol) {
		s.Errorf("%s: distance %v, want at most %v", what, e, tol)
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

func distance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return math.Sqrt(sum)
}

// along returns a + t b.
func along(a []float64, t float64, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] + t*b[i]
	}
	return out
}
