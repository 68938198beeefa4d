package qp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"fedrspo/oracle"
	"fedrspo/oracle/knapsack"
	"fedrspo/oracle/oracletest"
)

func TestPolyhedronConformance(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	cases := []struct {
		name string
		c    Constraints
		// enumerate: few enough constraints to list all vertices.
		enumerate, loose bool
		rounds           int
	}{
		{"box", polyBox01(4), true, false, 0},
		{"simplex", polySimplex(5), true, false, 0},
		{"cross polytope", polyCrossPolytope(3), true, true, 0},
		{"knapsack", Constraints{Dim: 4, Lower: make([]float64, 4), Upper: polyFill(4, 1),
			AtMost: []Constraint{{Value: []float64{0.5, 1.5, 1, 0.7}, RHS: 1.6}}}, true, true, 0},
		{"one variable", Constraints{Dim: 1, Lower: []float64{-2}, AtMost: []Constraint{{Value: []float64{3}, RHS: 4}}}, true, false, 0},
		{"a point", Constraints{Dim: 2, Lower: []float64{1, 2}, Upper: []float64{1, 2}}, false, false, 5},
		{"a segment", Constraints{Dim: 3, Upper: []float64{9, 1, 7}, Lower: []float64{-9, 0, 7},
			Equal: []Constraint{{Value: []float64{1, 2, 1}, RHS: 10}, {Value: []float64{2, 4, 2}, RHS: 20}}}, true, false, 0},
		{"degenerate", polyRandom(r, 4, 8, true), false, true, 0},
		{"bad scale", polyScale(r, polyRandom(r, 6, 9, true)), false, true, 0},
		{"assignment", polyAssignment(4), false, false, 15},
		{"allocation", polyAllocation(r, 30, 12), false, true, 10},
	}
	grid, _ := polyGrid(4)
	cases = append(cases, cases[0])
	cases[len(cases)-1].name, cases[len(cases)-1].c, cases[len(cases)-1].enumerate, cases[len(cases)-1].rounds = "path", grid, false, 10
	var suite []oracletest.Case
	for _, c := range cases {
		k := oracletest.Case{Name: c.name, Polytope: polyMust(t, c.c), LooseRadius: c.loose, Rounds: c.rounds}
		if c.enumerate {
			k.Vertices = polyVertices(c.c)
		}
		suite = append(suite, k)
	}
	oracletest.Run(t, suite...)
}

// Projections and linear programs certify one another: a projection w by the
// duality gap g.w - min g.s with g = theta + lambda w, and a minimiser of theta
// by being the projection of itself moved along -theta.
func TestPolyhedronRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	rounds := 6000
	if testing.Short() {
		rounds = 600
	}
	statuses := map[oracle.Status]int{}
	for round := range rounds {
		d, m := 1+r.IntN(10), r.IntN(16)
		if round%100 == 0 {
			d, m = 20+r.IntN(40), r.IntN(60)
		}
		bounded := round%2 == 0
		c := polyRandom(r, d, m, bounded)
		if round%3 == 0 {
			c = polyScale(r, c)
		}
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("round %d, d=%d, m=%d: %s\n%+v", round, d, m, fmt.Sprintf(format, args...), c)
		}
		p, err := NewPolyhedron(c)
		if err != nil {
			fail("%v", err)
		}
		theta, lambda := polyNormal(r, d), math.Pow(10, 3*r.Float64()-2)
		// Optimality holds to rounding, which the distance of the point
		// projected and some ill-conditioned vertices amplify.
		far := 1 + polyNorm(theta)/lambda
		tol := 1e-11 * far

		project := newPolyProjector(p.sys)
		w, s := make([]float64, d), make([]float64, d)
		info, err := project.Project(w, theta, lambda, nil)
		if err != nil || info.Status != oracle.Optimal || !(info.Gap <= 1e-9*lambda*far) {
			fail("Project: %+v, %v", info, err)
		}
		if v, u := p.Violation(w), polyOutside(c, w); !(v <= 1e-10) || math.Abs(u-v) > 1e-12 {
			fail("the projection violates the set by %v, plainly %v", v, u)
		}
		if e := polyResidual(project); !(e <= tol) {
			fail("optimality conditions are off by %v", e)
		}
		linear := p.NewLinear()
		if bounded {
			g := slices.Clone(theta)
			for i := range g {
				g[i] += lambda * w[i]
			}
			if info, err := linear.Solve(s, g); err != nil || info.Status != oracle.Optimal {
				fail("Solve at the gradient: %+v, %v", info, err)
			}
			if gap := polyDot(g, w) - polyDot(g, s); !(math.Abs(gap) <= 1e-9*lambda*far*far) {
				fail("the projection's duality gap is %v", gap)
			}
		}

		info, err = linear.Solve(s, theta)
		statuses[info.Status]++
		if !bounded && errors.Is(err, oracle.ErrUnbounded) && info.Status == oracle.Unbounded {
			continue
		}
		if err != nil || info.Status != oracle.Optimal || !(info.Gap <= 1e-10*far) {
			fail("Solve: %+v, %v", info, err)
		}
		if v := p.Violation(s); !(v <= 1e-10) {
			fail("the minimiser violates the set by %v", v)
		}
		for i := range theta {
			w[i] = theta[i] - s[i]
		}
		back := make([]float64, d)
		if _, err := project.Project(back, w, 1, nil); err != nil {
			fail("projecting the minimiser: %v", err)
		}
		for i := range back {
			back[i] -= s[i]
		}
		if e := polyNorm(back); !(e <= 1e-9*(1+polyNorm(s))) {
			fail("the minimiser moves by %v along -theta", e)
		}
		// The smallest faces of a polyhedron, its vertices if it has any, are cut
		// out by constraints that span all normals.
		if rank, all := polyTightRank(c, s), polyTightRank(c, nil); rank < all {
			fail("%v is not on a smallest face: rank %d of %d", s, rank, all)
		}
	}
	if !testing.Short() && (statuses[oracle.Unbounded] < 50 || statuses[oracle.Optimal] < rounds/2) {
		t.Errorf("not much was tested: %v", statuses)
	}
}

func TestPolyhedronAgainstAllVertices(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 3))
	for round := range 300 {
		d := 1 + r.IntN(4)
		c := polyRandom(r, d, r.IntN(6), true)
		p := polyMust(t, c)
		vertices := polyVertices(c)
		longest := 0.0
		for _, v := range vertices {
			longest = max(longest, polyNorm(v))
		}
		if !(p.Radius() >= longest*(1-1e-9)) || !(p.Radius() <= 2*longest*math.Sqrt(float64(d))+1e-9) {
			t.Fatalf("round %d: radius %v, longest vertex %v of %+v", round, p.Radius(), longest, c)
		}
		l, w := p.NewLinear(), make([]float64, d)
		for range 5 {
			theta := polyNormal(r, d)
			if r.IntN(2) == 0 {
				for i := range theta {
					theta[i] = float64(r.IntN(3) - 1)
				}
			}
			if info, err := l.Solve(w, theta); err != nil || info.Status != oracle.Optimal {
				t.Fatalf("round %d: %+v, %v", round, info, err)
			}
			best, nearest := math.Inf(1), math.Inf(1)
			for _, v := range vertices {
				best = min(best, polyDot(theta, v))
				e := 0.0
				for i := range v {
					e = max(e, math.Abs(v[i]-w[i]))
				}
				nearest = min(nearest, e)
			}
			if z := polyDot(theta, w); math.Abs(z-best) > 1e-9 || nearest > 1e-9 {
				t.Fatalf("round %d: minimum %v at %v, want %v; the nearest vertex is %v away\n%+v", round, z, w, best, nearest, c)
			}
		}
	}
}

// polyPair checks both solvers of a set against those of a twin.
func polyPair(t *testing.T, r *rand.Rand, p, twin oracle.Polytope, tol float64) {
	t.Helper()
	d := p.Dim()
	a, b := make([]float64, d), make([]float64, d)
	s, u := oracle.NewSolver(p), oracle.NewSolver(twin)
	for range 100 {
		theta, lambda := polyNormal(r, d), math.Pow(10, 2*r.Float64()-1)
		x, err := s.Minimize(a, theta)
		y, err2 := u.Minimize(b, theta)
		if err != nil || err2 != nil || math.Abs(x-y) > tol {
			t.Fatalf("minimum %v, %v; twin %v, %v", x, err, y, err2)
		}
		err, err2 = s.Regularize(a, theta, lambda, nil), u.Regularize(b, theta, lambda, nil)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for i := range a {
			if math.Abs(a[i]-b[i]) > tol {
				t.Fatalf("lambda %v: projection\n%v\ntwin\n%v", lambda, a, b)
			}
		}
	}
}

func TestPolyhedronTwins(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 4))
	t.Run("knapsack", func(t *testing.T) {
		for _, d := range []int{1, 7, 50} {
			c := polyBox01(d)
			a := make([]float64, d)
			for i := range a {
				a[i] = 0.5 + r.Float64()
			}
			c.AtMost = []Constraint{{Value: a, RHS: 0.6 * float64(d)}}
			twin, err := knapsack.New(a, c.AtMost[0].RHS)
			if err != nil {
				t.Fatal(err)
			}
			polyPair(t, r, polyMust(t, c), twin, 1e-11)
		}
	})
	t.Run("top-k", func(t *testing.T) {
		c := polyBox01(24)
		c.Equal = []Constraint{{Value: polyFill(24, 1), RHS: 8}}
		twin, err := knapsack.NewTopK(24, 8)
		if err != nil {
			t.Fatal(err)
		}
		p := polyMust(t, c)
		polyPair(t, r, p, twin, 1e-11)
		if x, y := p.Radius(), twin.Radius(); math.Abs(x-y) > 1e-10 {
			t.Errorf("radius %v, want %v", x, y)
		}
	})
	// The projection onto the simplex by sorting (Held, Wolfe and Crowder 1974)
	// gives that onto the ball of the 1-norm (Duchi et al. 2008).
	simplex := func(p []float64, sum float64) []float64 {
		u := slices.Clone(p)
		slices.Sort(u)
		slices.Reverse(u)
		total, tau := 0.0, 0.0
		for k, x := range u {
			total += x
			if s := (total - sum) / float64(k+1); x > s {
				tau = s
			}
		}
		w := make([]float64, len(p))
		for i, x := range p {
			w[i] = max(x-tau, 0)
		}
		return w
	}
	ball := func(p []float64) []float64 {
		size := make([]float64, len(p))
		sum := 0.0
		for i, x := range p {
			size[i] = math.Abs(x)
			sum += size[i]
		}
		if sum <= 1 {
			return slices.Clone(p)
		}
		w := simplex(size, 1)
		for i, x := range p {
			w[i] = math.Copysign(w[i], x)
		}
		return w
	}
	for name, c := range map[string]struct {
		c    Constraints
		want func(p []float64) []float64
	}{
		"simplex":      {polySimplex(20), func(p []float64) []float64 { return simplex(p, 1) }},
		"1-norm ball":  {polyCrossPolytope(6), ball},
		"whole space":  {Constraints{Dim: 3}, slices.Clone[[]float64]},
		"half bounded": {Constraints{Dim: 3, Lower: []float64{0, 1, math.Inf(-1)}}, func(p []float64) []float64 { return []float64{max(p[0], 0), max(p[1], 1), p[2]} }},
		"hyperplane": {Constraints{Dim: 2, Equal: []Constraint{{Value: []float64{3, 4}, RHS: 5}}}, func(p []float64) []float64 {
			t := (3*p[0] + 4*p[1] - 5) / 25
			return []float64{p[0] - 3*t, p[1] - 4*t}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 5))
			q := polyMust(t, c.c).NewProjector()
			d := c.c.Dim
			w := make([]float64, d)
			for range 300 {
				theta := polyNormal(r, d)
				lambda := math.Pow(10, 2*r.Float64()-1)
				p := make([]float64, d)
				for i := range p {
					p[i] = -theta[i] / lambda
				}
				info, err := q.Project(w, theta, lambda, nil)
				if err != nil || info.Err() != nil {
					t.Fatal(info, err)
				}
				for i, x := range c.want(p) {
					if math.Abs(w[i]-x) > 1e-13*(1+polyNorm(p)) {
						t.Fatalf("projection of %v is %v, want %v", p, w, c.want(p))
					}
				}
			}
		})
	}
}

// The ball of the 1-norm with variables t >= |x|, sum t <= 1.
func TestPolyhedronLiftedBall(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 6))
	const d = 12
	c := Constraints{Dim: 2 * d}
	sum := Constraint{RHS: 1}
	for i := range d {
		for _, sign := range []float64{1, -1} {
			c.AtMost = append(c.AtMost, Constraint{Index: []int{i, d + i}, Value: []float64{sign, -1}})
		}
		sum.Index, sum.Value = append(sum.Index, d+i), append(sum.Value, 1)
	}
	c.AtMost = append(c.AtMost, sum)
	p := polyMust(t, c)
	l, w := p.NewLinear(), make([]float64, 2*d)
	for range 100 {
		theta := append(polyNormal(r, d), make([]float64, d)...)
		if info, err := l.Solve(w, theta); err != nil || info.Err() != nil {
			t.Fatal(info, err)
		}
		if z := polyDot(theta, w); math.Abs(z+polyMaxAbs(theta)) > 1e-13*polyMaxAbs(theta) {
			t.Fatalf("minimum %v, want %v", z, -polyMaxAbs(theta))
		}
	}
}

// Minimisers over the assignment and path polytopes are 0/1 points, exactly,
// and as good as brute force and dynamic programming; costs with ties too.
func TestPolyhedronCombinatorial(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	costs := func(d int) []float64 {
		theta := polyNormal(r, d)
		if r.IntN(2) == 0 {
			for i := range theta {
				theta[i] = float64(r.IntN(4))
			}
		}
		return theta
	}
	check := func(t *testing.T, p *Polyhedron, want func(theta []float64) float64) {
		t.Helper()
		l, w := p.NewLinear(), make([]float64, p.Dim())
		for range 60 {
			theta := costs(p.Dim())
			if info, err := l.Solve(w, theta); err != nil || info.Err() != nil {
				t.Fatal(info, err)
			}
			for i, x := range w {
				if x != 0 && x != 1 {
					t.Fatalf("w[%d] is %v", i, x)
				}
			}
			if z, best := polyDot(theta, w), want(theta); math.Abs(z-best) > 1e-12*(1+math.Abs(best)) || p.Violation(w) != 0 {
				t.Fatalf("minimum %v, want %v", z, best)
			}
		}
	}
	t.Run("assignment", func(t *testing.T) {
		const n = 5
		p := polyMust(t, polyAssignment(n))
		if math.Abs(p.Radius()-math.Sqrt(n)) > 1e-10 {
			t.Errorf("radius %v, want sqrt %d", p.Radius(), n)
		}
		check(t, p, func(theta []float64) float64 {
			var best func(i int, used uint) float64
			best = func(i int, used uint) float64 {
				if i == n {
					return 0
				}
				z := math.Inf(1)
				for j := range n {
					if used>>j&1 == 0 {
						z = min(z, theta[i*n+j]+best(i+1, used|1<<j))
					}
				}
				return z
			}
			return best(0, 0)
		})
	})
	t.Run("path", func(t *testing.T) {
		const n = 7
		c, arcs := polyGrid(n)
		check(t, polyMust(t, c), func(theta []float64) float64 {
			dist := polyFill(n*n, math.Inf(1))
			dist[0] = 0
			// Arcs are in topological order of their tails.
			for e, a := range arcs {
				dist[a[1]] = min(dist[a[1]], dist[a[0]]+theta[e])
			}
			return dist[n*n-1]
		})
	})
}

// A set is empty, by the theorem of Farkas, where a combination of rows with
// positive weights is contradicted by another row.
func TestPolyhedronInfeasible(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for round := range 400 {
		d := 1 + r.IntN(8)
		c := polyRandom(r, d, 1+r.IntN(8), round%2 == 0)
		w := make([]float64, d)
		if info, err := polyMust(t, c).NewProjector().Project(w, polyNormal(r, d), 1, nil); err != nil || info.Err() != nil {
			t.Fatal(info, err)
		}
		a, b := make([]float64, d), 0.0
		for k, rows := range [][]Constraint{c.AtMost, c.Equal} {
			for _, row := range rows {
				y := r.ExpFloat64()
				if k == 1 {
					y = r.NormFloat64()
				}
				for i, x := range row.dense(d) {
					a[i] -= y * x
				}
				b -= y * row.RHS
			}
		}
		norm := polyNorm(a)
		c.AtMost = append(c.AtMost, Constraint{Value: a, RHS: b - 1e-6*(norm+math.Abs(b)) - 1e-300})
		if _, err := NewPolyhedron(c); !errors.Is(err, oracle.ErrInfeasible) {
			t.Fatalf("round %d: %v of %+v", round, err, c)
		}
		// The same row through a point of the set leaves it that point, up to
		// rounding.
		c.AtMost[len(c.AtMost)-1].RHS = polyDot(a, w)
		p := polyMust(t, c)
		if info, err := p.NewProjector().Project(w, polyNormal(r, d), 1, nil); err != nil || info.Err() != nil || p.Violation(w) > 1e-10 {
			t.Fatalf("round %d: %+v, %v, violation %v of %+v", round, info, err, p.Violation(w), c)
		}
	}
	for name, c := range map[string]struct {
		c    Constraints
		says string
	}{
		"0.w <= -1":       {Constraints{Dim: 2, AtMost: []Constraint{{}, {RHS: -1}}}, "AtMost[1]"},
		"0.w = 1":         {Constraints{Dim: 2, Equal: []Constraint{{Value: []float64{0, 0}, RHS: 1}}}, "Equal[0]"},
		"tiny":            {Constraints{Dim: 1, Equal: []Constraint{{RHS: 1e-30}}}, "Equal[0]"},
		"bounds":          {Constraints{Dim: 2, Upper: []float64{1, 1}, AtMost: []Constraint{{Value: []float64{-1, -1}, RHS: -3}}}, "AtMost[0]"},
		"single":          {Constraints{Dim: 1, Lower: []float64{0}, AtMost: []Constraint{{Value: []float64{1}, RHS: -1}}}, "AtMost[0]"},
		"fixed":           {Constraints{Dim: 2, Lower: []float64{1, 1}, Upper: []float64{1, 1}, Equal: []Constraint{{Value: []float64{1, 1}, RHS: 3}}}, "Equal[0]"},
		"parallel planes": {Constraints{Dim: 2, Equal: []Constraint{{Value: []float64{1, 1}, RHS: 1}, {Value: []float64{2, 2}, RHS: 1}}}, "Equal["},
	} {
		if _, err := NewPolyhedron(c.c); !errors.Is(err, oracle.ErrInfeasible) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want one about %s", name, err, c.says)
		}
	}
}

func TestPolyhedronUnbounded(t *testing.T) {
	inf := math.Inf(1)
	cone := Constraints{Dim: 2, Lower: []float64{0, 0}, AtMost: []Constraint{{Value: []float64{1, -1}, RHS: 1}}}
	line := Constraints{Dim: 3, Lower: []float64{-inf, -inf, 0}, Upper: []float64{inf, inf, 1},
		Equal: []Constraint{{Value: []float64{1, -1, 0}, RHS: 2}}}
	for _, c := range []struct {
		name  string
		c     Constraints
		theta []float64
		want  float64
	}{
		{"down the cone", cone, []float64{-1, -1}, -inf},
		{"along an edge of the cone", cone, []float64{-1, 1}, -1},
		{"beyond it", cone, []float64{-1, 0.999}, -inf},
		{"up the cone", cone, []float64{1, 1}, 0},
		{"no cost", cone, []float64{0, 0}, 0},
		{"across the line", line, []float64{1, -1, -1}, 1},
		{"along the line", line, []float64{1, 1, 0}, -inf},
		{"against the line", line, []float64{-1, -1, 0}, -inf},
		{"a tiny slope", line, []float64{1e-200, 0, 0}, -inf},
		{"a big slope", line, []float64{1e200, 1e200, 0}, -inf},
		{"the whole space", Constraints{Dim: 2}, []float64{0, 1}, -inf},
		{"the whole space, no cost", Constraints{Dim: 2}, []float64{0, 0}, 0},
	} {
		p := polyMust(t, c.c)
		if r := p.Radius(); !math.IsInf(r, 1) {
			t.Errorf("%s: radius %v", c.name, r)
		}
		w := make([]float64, c.c.Dim)
		info, err := p.NewLinear().Solve(w, c.theta)
		if math.IsInf(c.want, -1) {
			if info.Status != oracle.Unbounded || !errors.Is(err, oracle.ErrUnbounded) {
				t.Errorf("%s: %+v, %v", c.name, info, err)
			}
			continue
		}
		if z := polyDot(c.theta, w); err != nil || info.Status != oracle.Optimal || math.Abs(z-c.want) > 1e-14 || p.Violation(w) > 1e-14 {
			t.Errorf("%s: %v at %v, want %v; %+v, %v", c.name, z, w, c.want, info, err)
		}
	}
	cone.Radius = 5
	if r := polyMust(t, cone).Radius(); r != 5 {
		t.Errorf("a given radius of 5 reads %v", r)
	}
}

func TestPolyhedronBadInput(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	row := func(k Constraint) Constraints { return Constraints{Dim: 2, AtMost: []Constraint{{}, k}} }
	for says, c := range map[string]Constraints{
		"Dim is 0":                           {},
		"Dim is 9223372036854775807, want 1": {Dim: math.MaxInt},
		"Dim is 134217729, want 1 to":        {Dim: 1<<27 + 1},
		"Radius is -1":                       {Dim: 1, Radius: -1},
		"Radius is NaN":                      {Dim: 1, Radius: nan},
		"Radius is +Inf":                     {Dim: 1, Radius: inf},
		"Lower has length 1":                 {Dim: 2, Lower: []float64{0}},
		"Upper has length 3":                 {Dim: 2, Upper: []float64{0, 1, 2}},
		"Lower[1] is NaN":                    {Dim: 2, Lower: []float64{0, nan}},
		"Lower[0] is +Inf":                   {Dim: 2, Lower: []float64{inf, 0}},
		"Upper[1] is -Inf":                   {Dim: 2, Upper: []float64{0, -inf}},
		"Lower[1] is 2, above Upper[1]":      {Dim: 2, Lower: []float64{0, 2}, Upper: []float64{1, 1}},
		"AtMost[1]: RHS is NaN":              row(Constraint{Value: []float64{1, 1}, RHS: nan}),
		"AtMost[1]: RHS is +Inf":             row(Constraint{Value: []float64{1, 1}, RHS: inf}),
		"AtMost[1]: a dense row of 1 values": row(Constraint{Value: []float64{1}}),
		"AtMost[1]: 1 indices for 2 values":  row(Constraint{Index: []int{1}, Value: []float64{1, 2}}),
		"AtMost[1]: 2 indices for 0 values":  row(Constraint{Index: []int{1, 0}}),
		"AtMost[1]: Value[1] is NaN":         row(Constraint{Value: []float64{1, nan}}),
		"AtMost[1]: Value[0] is -Inf":        row(Constraint{Index: []int{1}, Value: []float64{-inf}}),
		"AtMost[1]: Index[1] is 2":           row(Constraint{Index: []int{0, 2}, Value: []float64{1, 1}}),
		"AtMost[1]: Index[0] is -1":          row(Constraint{Index: []int{-1}, Value: []float64{1}}),
		"AtMost[1]: index 1 is given twice":  row(Constraint{Index: []int{1, 0, 1}, Value: []float64{1, 1, 1}}),
		"AtMost[1]: RHS 1e+300 overflows":    row(Constraint{Value: []float64{1e-200, 1e-200}, RHS: 1e300}),
		"Equal[0]: RHS is NaN":               {Dim: 1, Equal: []Constraint{{Value: []float64{1}, RHS: nan}}},
	} {
		if p, err := NewPolyhedron(c); p != nil || !errors.Is(err, ErrConstraints) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want an error that says %q", err, says)
		}
	}
}

// Sparse constraints whose table would take the machine's memory are an error.
func TestPolyhedronTooLarge(t *testing.T) {
	const d = 1 << 14
	c := Constraints{Dim: d}
	for i := range d {
		c.AtMost = append(c.AtMost, Constraint{Index: []int{i, (i + 1) % d}, Value: []float64{1, 1}, RHS: 1})
	}
	if p, err := NewPolyhedron(c); p != nil || !errors.Is(err, ErrConstraints) || !strings.Contains(err.Error(), "16384 variables by 16385 rows") {
		t.Errorf("error %v", err)
	}
}

// The input is copied.
func TestPolyhedronKeepsItsData(t *testing.T) {
	c := polySimplex(3)
	p := polyMust(t, c)
	c.Lower[0], c.Equal[0].Value[1] = 99, 99
	w := make([]float64, 3)
	if info, err := p.NewLinear().Solve(w, []float64{1, 2, 3}); err != nil || info.Err() != nil || !slices.Equal(w, []float64{1, 0, 0}) {
		t.Errorf("%v, %+v, %v", w, info, err)
	}
}

// A warm start is data from outside: whatever it holds, the answer is right.
func TestPolyhedronWarmStarts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	for range 300 {
		d := 1 + r.IntN(10)
		c := polyRandom(r, d, r.IntN(12), r.IntN(2) == 0)
		p := polyMust(t, c)
		q, cold, warm := p.NewProjector(), make([]float64, d), make([]float64, d)
		theta := polyNormal(r, d)
		if info, err := q.Project(cold, theta, 0.5, nil); err != nil || info.Err() != nil {
			t.Fatal(info, err)
		}
		for n := range 4 {
			start := oracle.Warm{Words: make([]uint64, n)}
			for k := range start.Words {
				start.Words[k] = r.Uint64()
			}
			info, err := q.Project(warm, theta, 0.5, &start)
			if err != nil || info.Err() != nil {
				t.Fatal(info, err)
			}
			for i := range warm {
				if math.Abs(warm[i]-cold[i]) > 1e-10*(1+polyNorm(cold)) {
					t.Fatalf("warm %v, cold %v of %+v", warm, cold, c)
				}
			}
			steps := info.Iterations
			if info, err = q.Project(warm, theta, 0.5, &start); err != nil || info.Iterations > min(steps, 1) {
				t.Fatalf("restarting at the solution: %+v, %v", info, err)
			}
		}
	}
}

// Costs and regularisation of extreme scale.
func TestPolyhedronExtremeScales(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 10))
	p := polyMust(t, polyAllocation(r, 12, 5))
	q, l := p.NewProjector(), p.NewLinear()
	w, s, at := make([]float64, 12), make([]float64, 12), make([]float64, 12)
	for _, exp := range []int{-900, -300, -40, 40, 300, 900} {
		theta := polyNormal(r, 12)
		if _, err := l.Solve(s, theta); err != nil {
			t.Fatal(err)
		}
		big := make([]float64, 12)
		for i := range big {
			big[i] = math.Ldexp(theta[i], exp)
		}
		// Scaling all costs by a power of two changes no bit.
		if info, err := l.Solve(w, big); err != nil || info.Err() != nil || !slices.Equal(w, s) {
			t.Errorf("2^%d: %v, want %v; %+v, %v", exp, w, s, info, err)
		}
		if _, err := q.Project(s, theta, 0.25, nil); err != nil {
			t.Fatal(err)
		}
		if info, err := q.Project(w, big, math.Ldexp(0.25, exp), nil); err != nil || info.Err() != nil || !slices.Equal(w, s) {
			t.Errorf("2^%d: %v, want %v; %+v, %v", exp, w, s, info, err)
		}
	}
	// As lambda falls, the projection becomes the minimiser (unique here), and
	// a point so far away costs no accuracy.
	theta := polyNormal(r, 12)
	if _, err := l.Solve(s, theta); err != nil {
		t.Fatal(err)
	}
	for _, lambda := range []float64{1e-4, 1e-8, 1e-12} {
		info, err := q.Project(at, theta, lambda, nil)
		if err != nil || info.Err() != nil || p.Violation(at) > 1e-12 {
			t.Fatalf("lambda %v: %+v, %v, violation %v", lambda, info, err, p.Violation(at))
		}
		for i := range at {
			if math.Abs(at[i]-s[i]) > 1e-12 {
				t.Fatalf("lambda %v: %v, want %v", lambda, at, s)
			}
		}
	}
	if _, err := q.Project(at, polyFill(12, 1e200), 1e-200, nil); !errors.Is(err, oracle.ErrNonFinite) {
		t.Errorf("a point beyond float64: %v", err)
	}
}

// At the apex of a pyramid with four sides, two opposite multipliers can carry
// all of the force, but the projection stays there when the point moves
// anywhere.
func TestPolyhedronJVPAtADegenerateVertex(t *testing.T) {
	c := Constraints{Dim: 3, AtMost: []Constraint{
		{Value: []float64{1, 0, 1}}, {Value: []float64{-1, 0, 1}},
		{Value: []float64{0, 1, 1}}, {Value: []float64{0, -1, 1}},
	}}
	q := polyMust(t, c).NewProjector()
	w := make([]float64, 3)
	for _, theta := range [][]float64{{0, 0, -2}, {0.5, 0, -2}, {0.3, -0.4, -2}} {
		info, err := q.Project(w, theta, 1, nil)
		if err != nil || info.Err() != nil || polyNorm(w) > 1e-15 {
			t.Fatal(w, info, err)
		}
		for i := range 3 {
			v, j := make([]float64, 3), make([]float64, 3)
			v[i] = 1
			if err := q.JVP(j, v); err != nil || polyNorm(j) > 1e-15 {
				t.Errorf("theta %v: J e_%d is %v, want 0; %v", theta, i, j, err)
			}
		}
	}
}

// The rule of Bland alone finds the same minima, also where the largest reduced
// cost cycles (Beale 1955).
func TestPolyhedronBlandsRule(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	check := func(c Constraints, theta []float64) (z float64) {
		t.Helper()
		p := polyMust(t, c)
		w := make([]float64, c.Dim)
		var minima [2]float64
		for k, patience := range []int{-1, 1000} {
			l := newPolyLinear(p)
			l.t.patience = patience
			if info, err := l.Solve(w, theta); err != nil || info.Err() != nil || p.Violation(w) > 1e-11 {
				t.Fatalf("patience %d: %+v, %v", patience, info, err)
			}
			minima[k] = polyDot(theta, w)
		}
		if math.Abs(minima[0]-minima[1]) > 1e-11*(1+math.Abs(minima[1])) {
			t.Fatalf("minimum %v by the rule of Bland, %v by the largest reduced cost", minima[0], minima[1])
		}
		return minima[0]
	}
	beale := Constraints{Dim: 4, Lower: make([]float64, 4), AtMost: []Constraint{
		{Value: []float64{0.25, -8, -1, 9}}, {Value: []float64{0.5, -12, -0.5, 3}}, {Index: []int{2}, Value: []float64{1}, RHS: 1},
	}}
	if z := check(beale, []float64{-0.75, 20, -0.5, 6}); math.Abs(z+1.25) > 1e-14 {
		t.Errorf("minimum %v, want -1.25", z)
	}
	for range 200 {
		d := 2 + r.IntN(8)
		check(polyRandom(r, d, r.IntN(12), true), polyNormal(r, d))
	}
	check(polyAssignment(5), polyNormal(r, 25))
}

// A tableau spoilt by rounding is found out by the original rows, and made
// anew.
func TestPolyhedronRefactors(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 12))
	for range 100 {
		d := 2 + r.IntN(10)
		c := polyAllocation(r, d, 1+r.IntN(8))
		p := polyMust(t, c)
		theta, w, s := polyNormal(r, d), make([]float64, d), make([]float64, d)
		if info, err := p.NewLinear().Solve(w, theta); err != nil || info.Err() != nil {
			t.Fatal(info, err)
		}
		l := newPolyLinear(p)
		if _, err := l.Solve(s, polyNormal(r, d)); err != nil {
			t.Fatal(err)
		}
		for i := range l.t.t {
			l.t.t[i] += 0.3 * r.NormFloat64()
		}
		if info, err := l.solve(s, theta); err != nil || info.Err() != nil || p.Violation(s) > 1e-12 {
			t.Fatal(info, err)
		}
		if a, b := polyDot(theta, s), polyDot(theta, w); math.Abs(a-b) > 1e-12 {
			t.Fatalf("minimum %v, want %v", a, b)
		}
	}
}

// Solvers that are stopped say so, and how good what they have is.
func TestPolyhedronIterationLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 13))
	p := polyMust(t, polyAllocation(r, 12, 6))
	best, w := make([]float64, 12), make([]float64, 12)
	for limit := range 4 {
		theta := polyNormal(r, 12)
		l := newPolyLinear(p)
		if info, err := l.Solve(best, theta); err != nil || info.Err() != nil {
			t.Fatal(info, err)
		}
		l.limit = limit
		info, err := l.Solve(w, theta)
		over := polyDot(theta, w) - polyDot(theta, best)
		if err != nil || info.Status != oracle.IterationLimit || !errors.Is(info.Err(), oracle.ErrNotSolved) || !(over > 1e-6 && over <= info.Gap) {
			t.Errorf("Solve stopped after %d: %+v, %v, off by %v", limit, info, err, over)
		}
		q := newPolyProjector(p.sys)
		q.limit = limit
		for i := range theta {
			theta[i] -= 3
		}
		if info, err := q.Project(w, theta, 1, nil); err != nil || info.Status != oracle.IterationLimit || !math.IsInf(info.Gap, 1) {
			t.Errorf("Project stopped after %d: %+v, %v", limit, info, err)
		}
	}
}

// A simplex method of somebody else.
func TestPolyhedronAgainstGonum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 14))
	const d, m = 8, 5
	for range 40 {
		c := polyAllocation(r, d, m)
		// Standard form, with a slack for each resource and each upper bound.
		a, b := mat.NewDense(m+d, 2*d+m, nil), make([]float64, m+d)
		for i, k := range c.AtMost {
			for j, x := range k.Value {
				a.Set(i, j, x)
			}
			a.Set(i, d+i, 1)
			b[i] = k.RHS
		}
		for j := range d {
			a.Set(m+j, j, 1)
			a.Set(m+j, d+m+j, 1)
			b[m+j] = 1
		}
		theta, w := polyNormal(r, d), make([]float64, d)
		want, _, err := lp.Simplex(append(slices.Clone(theta), make([]float64, m+d)...), a, b, 1e-12, nil)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := polyMust(t, c).NewLinear().Solve(w, theta); err != nil || info.Err() != nil || math.Abs(polyDot(theta, w)-want) > 1e-12 {
			t.Errorf("minimum %v, want %v; %+v, %v", polyDot(theta, w), want, info, err)
		}
	}
}
