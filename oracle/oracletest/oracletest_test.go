package oracletest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"fedrspo/oracle"
)

// box is [0, 1]^d, an oracle simple enough to be seen right, with one fault
// built in on demand.
type box struct {
	d       int
	fault   string
	solvers atomic.Int64
}

func (b *box) has(fault string) bool { return b.fault == fault }

func (b *box) Dim() int { return b.d }

func (b *box) Radius() float64 {
	switch {
	case b.has("radius too small"):
		return 0.9 * math.Sqrt(float64(b.d))
	case b.has("radius too large"):
		return 1.1 * math.Sqrt(float64(b.d))
	case b.has("radius NaN"):
		return math.NaN()
	}
	return math.Sqrt(float64(b.d))
}

func (b *box) Violation(w []float64) float64 {
	if b.has("everything is feasible") {
		return 0
	}
	if len(w) != b.d && !b.has("violation ignores length") {
		return math.Inf(1)
	}
	worst := 0.0
	for _, x := range w {
		if math.IsNaN(x) {
			if b.has("violation ignores NaN") {
				continue
			}
			return math.Inf(1)
		}
		worst = max(worst, -x, x-1)
	}
	return worst
}

func (b *box) NewLinear() oracle.Linear {
	return &boxSolver{box: b, id: b.solvers.Add(1)}
}

func (b *box) NewProjector() oracle.Projector {
	if b.has("no projector") {
		return nil
	}
	return &boxSolver{box: b, id: b.solvers.Add(1)}
}

type boxSolver struct {
	*box
	p []float64
	// id numbers the solvers of a box, and calls the calls of a solver.
	id, calls int64
	broken    bool
}

var sink []float64

func (s *boxSolver) Solve(dst, theta []float64) (oracle.Info, error) {
	s.calls++
	if err := oracle.CheckSolve(dst, theta, s.d); err != nil && !(s.has("Solve accepts NaN") && errors.Is(err, oracle.ErrNonFinite)) {
		s.broken = s.has("Solve breaks after an error")
		if s.has("Solve has its own errors") {
			err = errors.New("bad")
		}
		return oracle.Info{}, err
	}
	if s.has("Solve allocates") {
		sink = make([]float64, s.d)
	}
	for i, x := range theta {
		dst[i] = 0
		if (x < 0) != s.has("Solve maximises") {
			dst[i] = 1
		}
	}
	switch {
	case s.has("Solve leaves the set"):
		dst[0] *= 1 + 1e-6
	case s.has("Solve misses an item"):
		dst[s.d-1] = 0
	case s.has("Solve depends on its history"):
		dst[0] = 1e-15 * float64(s.calls%3)
	case s.has("Solve depends on the solver"):
		dst[0] = 1e-15 * float64(s.id)
	case s.has("Solve overwrites theta"):
		theta[0] = -theta[0]
	case s.has("Solve says iteration limit"):
		return oracle.Info{Status: oracle.IterationLimit}, nil
	case s.broken:
		clear(dst)
	}
	return oracle.Info{Status: oracle.Optimal}, nil
}

func (s *boxSolver) Project(dst, theta []float64, lambda float64, warm *oracle.Warm) (oracle.Info, error) {
	s.calls++
	err := oracle.CheckProject(dst, theta, lambda, s.d)
	if s.has("Project accepts any lambda") && errors.Is(err, oracle.ErrLambda) {
		lambda, err = 1, nil
	}
	if err != nil {
		if warm != nil && s.has("an error spoils the warm start") {
			warm.Words = append(warm.Words, 1)
		}
		s.broken = s.has("Project breaks after an error")
		return oracle.Info{}, err
	}
	if s.p == nil || s.has("Project allocates") {
		s.p = make([]float64, s.d)
	}
	for i, x := range theta {
		s.p[i] = -x / lambda
		dst[i] = min(max(s.p[i], 0), 1)
		switch {
		case s.has("Project forgets lambda"):
			dst[i] = min(max(-x, 0), 1)
		case s.has("Project forgets the bounds"):
			dst[i] = s.p[i]
		case s.has("Project is off by 1e-4"):
			dst[i] *= 1 - 1e-4
		case s.has("Project returns the linear minimiser"):
			dst[i] = math.Round(dst[i])
		case s.has("Project depends on its history"):
			dst[i] *= 1 - 1e-15*float64(s.calls%3)
		case s.has("Project depends on the solver"):
			dst[i] *= 1 - 1e-15*float64(s.id)
		}
	}
	if warm != nil {
		if s.has("a warm start is the answer") && len(warm.Words) == s.d {
			for i := range dst {
				dst[i] = math.Float64frombits(warm.Words[i])
			}
		}
		warm.Words = warm.Words[:0]
		for _, x := range dst {
			warm.Words = append(warm.Words, math.Float64bits(x))
		}
		if s.has("a warm start depends on the worker") {
			warm.Words[0] = uint64(s.calls)
		}
	}
	if s.broken {
		clear(dst)
	}
	return oracle.Info{Status: oracle.Optimal}, nil
}

func (s *boxSolver) JVP(dst, v []float64) error {
	if err := oracle.CheckSolve(dst, v, s.d); err != nil {
		return err
	}
	if s.p == nil && !s.has("JVP works before Project") {
		return oracle.ErrNoProjection
	}
	clear(dst)
	for i := range s.p {
		if s.p[i] > 0 && s.p[i] < 1 {
			dst[i] = v[i]
		}
		switch {
		case s.has("JVP forgets the bounds"):
			dst[i] = v[i]
		case s.has("JVP has the wrong sign"):
			dst[i] = -dst[i]
		case s.has("JVP is not symmetric"):
			dst[i] += 1e-3 * v[0]
		}
	}
	return nil
}

func (s *boxSolver) ProjectBatch(rows []oracle.Projection) {
	for i := range rows {
		r := &rows[i]
		r.Info, r.Err = s.Project(r.Dst, r.Theta, r.Lambda, r.Warm)
		if r.V != nil && !s.has("a batch forgets derivatives") {
			r.Err = s.JVP(r.JV, r.V)
		}
		if s.has("a batch depends on its rows") {
			r.Dst[0] *= 1 - 1e-15*float64(i%3)
		}
	}
}

// cube returns the vertices of [0, 1]^d.
func cube(d int) [][]float64 {
	var vs [][]float64
	for bits := range 1 << d {
		v := make([]float64, d)
		for i := range v {
			v[i] = float64(bits >> i & 1)
		}
		vs = append(vs, v)
	}
	return vs
}

func boxCase(fault string) Case {
	return Case{Name: fault, Polytope: &box{d: 4, fault: fault}, Vertices: cube(4)}
}

func TestRunPassesACorrectOracle(t *testing.T) {
	one := Case{Name: "d=1", Polytope: &box{d: 1}}
	Run(t, boxCase("none"), one, boxCase("no projector"), Case{
		Name:     "costs of another scale",
		Polytope: &box{d: 4},
		Cost: func(dst []float64, r *rand.Rand) {
			for i := range dst {
				dst[i] = 1e6 * r.NormFloat64()
			}
		},
		Lambdas: []float64{1e5, 1e6, 1e7},
	})
}

// recorder is a testing.TB that keeps failures to itself.
type recorder struct {
	testing.TB
	failed bool
	log    string
}

type abort struct{}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.log += fmt.Sprintf(format, args...) + "\n"
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(abort{})
}

// fails reports whether the named check fails on c.
func fails(t *testing.T, name string, c Case) bool {
	t.Helper()
	for _, k := range checks {
		if k.name != name {
			continue
		}
		r := &recorder{}
		func() {
			defer func() {
				if x := recover(); x != nil && x != (abort{}) {
					panic(x)
				}
			}()
			k.run(newSuite(r, c))
		}()
		return r.failed
	}
	t.Fatalf("no check %q", name)
	return false
}

func TestEveryFaultFailsItsCheck(t *testing.T) {
	faultsOf := map[string][]string{
		"Set":                {"everything is feasible", "violation ignores length", "violation ignores NaN", "radius NaN"},
		"Linear":             {"Solve maximises", "Solve leaves the set", "Solve misses an item", "Solve depends on its history", "Solve overwrites theta", "Solve says iteration limit"},
		"Radius":             {"radius too small", "radius too large"},
		"LinearHistory":      {"Solve depends on its history"},
		"LinearBadInput":     {"Solve accepts NaN", "Solve breaks after an error", "Solve has its own errors"},
		"SolveAll":           {"Solve depends on the solver", "Solve says iteration limit"},
		"LinearConcurrent":   {"Solve depends on its history"},
		"LinearAllocations":  {"Solve allocates"},
		"Projection":         {"Project forgets lambda", "Project forgets the bounds", "Project is off by 1e-4", "Project returns the linear minimiser", "Project depends on its history"},
		"Nonexpansive":       {"Project returns the linear minimiser"},
		"Limits":             {"Project forgets lambda"},
		"JVP":                {"JVP forgets the bounds", "JVP has the wrong sign", "JVP is not symmetric"},
		"JVPErrors":          {"JVP works before Project", "Project accepts any lambda"},
		"ProjectHistory":     {"Project depends on its history"},
		"WarmStart":          {"a warm start is the answer", "an error spoils the warm start"},
		"ProjectBadInput":    {"Project accepts any lambda", "Project breaks after an error"},
		"ProjectAll":         {"Project depends on the solver", "a warm start depends on the worker"},
		"ProjectBatch":       {"a batch forgets derivatives", "a batch depends on its rows"},
		"ProjectConcurrent":  {"Project depends on its history"},
		"ProjectAllocations": {"Project allocates"},
	}
	for _, k := range checks {
		if len(faultsOf[k.name]) == 0 {
			t.Errorf("no fault is known to fail %s", k.name)
		}
	}
	for check, faults := range faultsOf {
		for _, fault := range faults {
			t.Run(check+"/"+fault, func(t *testing.T) {
				if fails(t, check, boxCase("none")) {
					t.Fatal("fails without the fault")
				}
				if !fails(t, check, boxCase(fault)) {
					t.Error("passes")
				}
			})
		}
	}
}

func TestOptionsLoosenTheirChecks(t *testing.T) {
	for fault, c := range map[string]struct {
		check  string
		loosen func(*Case)
	}{
		"radius too large":       {"Radius", func(c *Case) { c.LooseRadius = true }},
		"Solve leaves the set":   {"Linear", func(c *Case) { c.Violation = 1e-5 }},
		"Solve allocates":        {"LinearAllocations", func(c *Case) { c.Allocates = true }},
		"Project is off by 1e-4": {"Projection", func(c *Case) { c.Gap, c.Accuracy = 1e-2, 1e-3 }},
		"JVP is not symmetric":   {"JVP", func(c *Case) { c.JVP = 1e-1 }},
	} {
		loose := boxCase(fault)
		c.loosen(&loose)
		if !fails(t, c.check, boxCase(fault)) || fails(t, c.check, loose) {
			t.Errorf("%s: want %s to fail until loosened", fault, c.check)
		}
	}
}
