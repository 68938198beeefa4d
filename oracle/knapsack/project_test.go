package knapsack

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle"
)

func project(t *testing.T, p oracle.Projector, theta []float64, lambda float64) []float64 {
	t.Helper()
	w := make([]float64, len(theta))
	if info, err := p.Project(w, theta, lambda, nil); err != nil || info.Status != oracle.Optimal {
		t.Fatalf("Project: %v, %v", info, err)
	}
	return w
}

func maxAbs(v []float64) float64 {
	m := 0.0
	for _, x := range v {
		m = max(m, math.Abs(x))
	}
	return m
}

// The accuracy that the package documents, at every scale.
func TestProjectMeetsTheOptimalityConditions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	most, solves, loose := 0, 0, 0
	for range 6000 {
		in := randomInstance(r, 1+r.IntN(40))
		for _, c := range in.sets() {
			w := make([]float64, len(in.theta))
			info, err := c.polytope.NewProjector().Project(w, in.theta, in.lambda, nil)
			if err != nil || info.Status != oracle.Optimal {
				t.Fatalf("%v theta=%v lambda=%v: %v, %v", c, in.theta, in.lambda, info, err)
			}
			most = max(most, info.Iterations)
			solves++
			if c.capacityError(w) > 4*0x1p-52*c.b {
				loose++
			}
			if err := c.residual(in.theta, in.lambda, w, 1e-10*(1+maxAbs(in.theta))); err != nil {
				t.Fatalf("%v theta=%v lambda=%v: w=%v: %v", c, in.theta, in.lambda, w, err)
			}
		}
	}
	t.Logf("at most %d passes", most)
	// A few dozen passes a level, and few levels.
	if most > 1000 {
		t.Errorf("a solve took %d passes", most)
	}
	// The error of the sum a.w, for at most 40 items, hardly ever exceeds two
	// ulps beside the two that the solver allows itself.
	if loose > solves/100 {
		t.Errorf("%d of %d solves miss the capacity by more than 4 ulps", loose, solves)
	}
}

// breakpoints is the projection of the paper, sections 3.1 and 3.2, by
// sorting: the capacity used is linear in mu between neighbouring breakpoints
// -theta_i/a_i and -(theta_i + lambda)/a_i.
func breakpoints(a []float64, b float64, equality bool, theta []float64, lambda float64) []float64 {
	at := func(mu float64) (w []float64, used float64) {
		w = make([]float64, len(a))
		for i := range a {
			w[i] = min(max(-(theta[i]+mu*a[i])/lambda, 0), 1)
			used += a[i] * w[i]
		}
		return w, used
	}
	if w, used := at(0); !equality && used <= b {
		return w
	}
	var mus []float64
	for i := range a {
		mus = append(mus, -theta[i]/a[i], -(theta[i]+lambda)/a[i])
	}
	slices.Sort(mus)
	for k := 1; k < len(mus); k++ {
		_, before := at(mus[k-1])
		_, after := at(mus[k])
		if after <= b && before > b {
			w, _ := at(mus[k-1] + (mus[k]-mus[k-1])*(before-b)/(before-after))
			return w
		}
	}
	w, _ := at(mus[0])
	return w
}

func TestProjectAgreesWithSortedBreakpoints(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	for range 3000 {
		d := 1 + r.IntN(50)
		theta := make([]float64, d)
		for i := range theta {
			theta[i] = r.NormFloat64()
		}
		lambda := math.Exp(3 * r.NormFloat64())
		in := instance{a: uniform(r, d, 0.5, 1.5), theta: theta, k: float64(d) * r.Float64()}
		in.b = 1.1 * r.Float64() * float64(d)
		for _, c := range in.sets() {
			got := project(t, c.polytope.NewProjector(), theta, lambda)
			want := breakpoints(c.a, c.b, c.equality, theta, lambda)
			// The twin's mu is good to some 1e-15 of the largest cost, and w to
			// that over lambda.
			tol := 1e-13 * float64(d) * (1 + 1/lambda)
			for i := range got {
				if math.Abs(got[i]-want[i]) > tol {
					t.Fatalf("%v theta=%v lambda=%v: w[%d] = %v, want %v", c, theta, lambda, i, got[i], want[i])
				}
			}
		}
	}
}

func TestProjectByHand(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    oracle.Polytope
		theta  []float64
		lambda float64
		want   []float64
	}{
		{"slack", mustSet([]float64{1, 1}, 5), []float64{-1, 4}, 2, []float64{0.5, 0}},
		{"zero capacity", mustSet([]float64{1, 1}, 0), []float64{-1, -4}, 2, []float64{0, 0}},
		{"capacity met with multiplier zero", mustSet([]float64{1, 1}, 1), []float64{-1, -1}, 2, []float64{0.5, 0.5}},
		{"d=1", mustSet([]float64{4}, 1), []float64{-100}, 1, []float64{0.25}},
		{"one multiplier", mustSet([]float64{1, 2}, 1), []float64{-2, -3}, 2, []float64{0.4, 0.3}},
		{"top-k, positive costs", mustTopK(2, 1), []float64{3, 4}, 2, []float64{0.75, 0.25}},
		{"top-k, k=0", mustTopK(2, 0), []float64{3, -4}, 2, []float64{0, 0}},
		{"top-k, k=d", mustTopK(2, 2), []float64{3, -4}, 2, []float64{1, 1}},
		{"ties share", mustTopK(4, 1), []float64{-1e12, -1e12, -1e12, -1e12}, 1e-6, []float64{0.25, 0.25, 0.25, 0.25}},
		{"the last bit of huge costs decides", mustTopK(2, 1), []float64{-1e18, -1e18 + 128}, 1, []float64{1, 0}},
	} {
		got := project(t, c.set.NewProjector(), c.theta, c.lambda)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 4e-16 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

func TestOverflowIsAnError(t *testing.T) {
	set, top := mustSet([]float64{1, 1e-100}, 1e-101), mustTopK(2, 1)
	for name, c := range map[string]struct {
		p      oracle.Projector
		theta  []float64
		lambda float64
	}{
		"knapsack, theta over lambda": {set.NewProjector(), []float64{-1, -1e300}, 1e-10},
		"top-k, theta over lambda":    {top.NewProjector(), []float64{1, 1e300}, 1e-10},
		"the multiplier":              {set.NewProjector(), []float64{-1, -1e300}, 1},
	} {
		if _, err := c.p.Project(make([]float64, 2), c.theta, c.lambda, nil); !errors.Is(err, oracle.ErrNonFinite) {
			t.Errorf("%s: %v, want ErrNonFinite", name, err)
		}
		if err := c.p.JVP(make([]float64, 2), make([]float64, 2)); !errors.Is(err, oracle.ErrNoProjection) {
			t.Errorf("%s: JVP after the error: %v, want ErrNoProjection", name, err)
		}
	}
	p := top.NewProjector()
	project(t, p, []float64{0.1, 0.2}, 1)
	if err := p.JVP(make([]float64, 2), []float64{math.MaxFloat64, math.MaxFloat64}); err != nil && !errors.Is(err, oracle.ErrNonFinite) {
		t.Errorf("JVP of huge v: %v", err)
	}
}

// A solve that stops short says so and bounds its error.
func TestIterationLimit(t *testing.T) {
	top := mustTopK(3, 1)
	theta := []float64{-3, -1, 2}
	p := newProjector(&top.region)
	exact := project(t, p, theta, 1)
	p.limit = 1
	w := make([]float64, 3)
	info, err := p.Project(w, theta, 1, nil)
	if err != nil || info.Status != oracle.IterationLimit || !(info.Gap > 0) {
		t.Fatalf("got %+v, %v", info, err)
	}
	objective := func(w []float64) float64 {
		z := 0.0
		for i, x := range w {
			z += theta[i]*x + x*x/2
		}
		return z
	}
	if gap := math.Abs(objective(w) - objective(exact)); gap > info.Gap {
		t.Errorf("the objective is off by %v, above Info.Gap %v", gap, info.Gap)
	}
}

// jacobian is the closed form of the paper, section 2, for free entries F and
// an active or inactive constraint, as a matrix.
func jacobian(a, w []float64, active bool) [][]float64 {
	square := 0.0
	free := func(i int) bool { return w[i] > 0 && w[i] < 1 }
	for i := range a {
		if free(i) {
			square += a[i] * a[i]
		}
	}
	j := make([][]float64, len(a))
	for i := range j {
		j[i] = make([]float64, len(a))
		for k := range j[i] {
			if !free(i) || !free(k) {
				continue
			}
			if i == k {
				j[i][k] = 1
			}
			if active {
				j[i][k] -= a[i] * a[k] / square
			}
		}
	}
	return j
}

func TestJVPIsTheClosedForm(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	for range 2000 {
		d := 1 + r.IntN(20)
		theta := make([]float64, d)
		for i := range theta {
			theta[i] = r.NormFloat64()
		}
		in := instance{a: uniform(r, d, 0.5, 1.5), theta: theta, k: float64(d) * r.Float64()}
		in.b = r.Float64() * float64(d) / 2
		for _, c := range in.sets() {
			p := c.polytope.NewProjector()
			w := project(t, p, theta, 0.7)
			used := 0.0
			for i := range w {
				used += c.a[i] * w[i]
			}
			j := jacobian(c.a, w, c.equality || math.Abs(used-c.b) < 1e-12)
			v, got := uniform(r, d, -1, 1), make([]float64, d)
			if err := p.JVP(got, v); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				want := 0.0
				for k := range v {
					want += j[i][k] * v[k]
				}
				if math.Abs(got[i]-want) > 1e-13 {
					t.Fatalf("%v: (Jv)[%d] = %v, want %v", c, i, got[i], want)
				}
			}
		}
	}
}

// At points without a derivative the documented choice holds: entries at a
// bound stay there, a capacity met with multiplier zero is slack.
func TestJVPAtDegeneratePoints(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   oracle.Polytope
		theta []float64
		v     []float64
		want  []float64
	}{
		{"an entry at 0 and one at 1 with no force", mustSet([]float64{1, 1, 1}, 5), []float64{0, -1, -0.5}, []float64{1, 1, 1}, []float64{0, 0, 1}},
		{"the capacity met with multiplier zero", mustSet([]float64{1, 1}, 1), []float64{-0.5, -0.5}, []float64{1, 0}, []float64{1, 0}},
		{"a vertex", mustTopK(2, 1), []float64{-3, 3}, []float64{1, 2}, []float64{0, 0}},
		{"one free entry on an active capacity", mustSet([]float64{2, 1}, 1), []float64{-3, 1}, []float64{1, 1}, []float64{0, 0}},
		{"a single point", mustSet([]float64{1, 1}, 0), []float64{-3, 1}, []float64{1, 1}, []float64{0, 0}},
	} {
		p := c.set.NewProjector()
		project(t, p, c.theta, 1)
		got := make([]float64, len(c.v))
		if err := p.JVP(got, c.v); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
