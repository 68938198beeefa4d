package qp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/oracletest"
	"fedrspo/oracle/synthetic"
)

// pathVertices lists the visits of all paths of an acyclic grid.
func pathVertices(p *Path) [][]float64 {
	cfg := p.Grid().Config()
	source := cfg.Source.Row*cfg.Width + cfg.Source.Col
	w := make([]float64, p.Dim())
	var all [][]float64
	var back func(v int)
	back = func(v int) {
		w[v] = 1
		if v == source {
			all = append(all, slices.Clone(w))
		}
		for _, u := range p.Grid().Before(nil, v) {
			back(u)
		}
		w[v] = 0
	}
	back(cfg.Sink.Row*cfg.Width + cfg.Sink.Col)
	return all
}

// randomAcyclicPath draws an acyclic grid of at most limit rows and columns.
func randomAcyclicPath(r *rand.Rand, limit int) *Path {
	for {
		cfg := dijkstra.Config{Height: 1 + r.IntN(limit), Width: 1 + r.IntN(limit), Neighbours: dijkstra.Neighbours(r.IntN(2)), Acyclic: true}
		cfg.Source = dijkstra.Cell{Row: r.IntN(cfg.Height), Col: r.IntN(cfg.Width)}
		cfg.Sink = dijkstra.Cell{Row: r.IntN(cfg.Height), Col: r.IntN(cfg.Width)}
		if cfg.Source != cfg.Sink {
			return mustPath(cfg)
		}
	}
}

// vertexMinimizer minimises over a list of vertices.
type vertexMinimizer [][]float64

func (m vertexMinimizer) Solve(dst, theta []float64) (oracle.Info, error) {
	best := math.Inf(1)
	for _, v := range m {
		if x := pathDot(theta, v); x < best {
			best = x
			copy(dst, v)
		}
	}
	return oracle.Info{Status: oracle.Optimal}, nil
}

// On small acyclic grids, projections by either method are those onto the hull
// of all paths, by the reference.
func TestAcyclicPathAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 11))
	var m, inner pathMeter
	smooth := 0
	for range 600 {
		path := randomAcyclicPath(r, 5)
		theta, p := make([]float64, path.Dim()), make([]float64, path.Dim())
		bias := 4*r.Float64() - 2
		lambda := math.Pow(10, 3*r.Float64()-2)
		for v := range theta {
			theta[v] = r.NormFloat64() + bias
			p[v] = -theta[v] / lambda
		}
		all := vertexMinimizer(pathVertices(path))
		q := newPathProjector(path)
		w := m.certify(t, q, all, theta, lambda, nil)
		reference, gap := pathReference(all, p)
		if !(math.Abs(gap) <= 1e-9) {
			t.Fatalf("the reference has a gap of %v", gap)
		}
		m.near(t, w, reference, gap)

		// q.p has the projected point by place.
		interior, scale := newPathInterior(path, 1), 0.0
		for _, x := range q.p {
			scale = max(scale, math.Abs(x))
		}
		bound := interior.project(q.p, scale, q.limit)
		for v, place := range path.frame.place {
			w[v] = interior.visits[place]
		}
		inner.near(t, w, reference, gap)
		inner.violation = max(inner.violation, path.Violation(w))
		if !(bound <= q.limit) || !(inner.violation <= 1e-9) {
			t.Errorf("interior point: gap %v, want at most %v; violation %v", bound, q.limit, inner.violation)
		}
		// Where the projection is smooth the methods agree on its Jacobian.
		jv, other := make([]float64, len(w)), make([]float64, len(w))
		if err := q.JVP(jv, theta); err != nil {
			t.Fatal(err)
		}
		interior.jvp(other, theta)
		worst, size := 0.0, pathNorm(theta)
		for v, x := range other {
			worst = max(worst, math.Abs(x-jv[v])/size)
			if x != 0 && len(path.Grid().Before(nil, v)) == 0 {
				t.Errorf("the derivative at cell %d, which is on no path, is %v", v, x)
			}
		}
		if worst <= 1e-3 {
			smooth++
		}
		if t.Failed() {
			t.Fatalf("%+v, lambda %v, theta %v", path.Grid().Config(), lambda, theta)
		}
	}
	t.Logf("%d of 600 Jacobians agree", smooth)
	if smooth < 580 {
		t.Error("too few Jacobians agree")
	}
	t.Logf("%v; interior point: distance %.2g, violation %.2g", m, inner.distance, inner.violation)
	if m.short > 0 || m.fallbacks > 0 {
		t.Error("Wolfe's method fell short")
	}
}

// The paper's problems on acyclic grids: predictions of all qualities, cold and
// warm.
func TestAcyclicPathContract(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 12))
	ends := pathEnds(12, 12)
	var m pathMeter
	for k := range 120 {
		cfg := pathBetween(12, 12, ends[k%len(ends)]).Grid().Config()
		cfg.Negative, cfg.Acyclic = dijkstra.Exact, true
		path := mustPath(cfg)
		quality := synthetic.Quality(k % int(pathQualities))
		q, l := newPathProjector(path), path.NewLinear()
		c := synthetic.Terrain(r, 12, 12)
		lambda := 0.05 * math.Pow(2000, r.Float64())
		predicted := synthetic.Predict(r, 12, 12, c, quality)
		var warm oracle.Warm
		cold := m.certify(t, q, l, synthetic.LossPoint(c, predicted), lambda, nil)
		m.near(t, m.certify(t, q, l, synthetic.LossPoint(c, predicted), lambda, &warm), cold, 0)
		theta := synthetic.LossPoint(c, pathMoved(r, predicted, 0.03))
		m.near(t, m.certify(t, q, l, theta, lambda, &warm), m.certify(t, q, l, theta, lambda, nil), 0)
		if t.Failed() {
			t.Fatalf("instance %d: %v predictions at lambda %v", k, quality, lambda)
		}
	}
	t.Log(m)
	if m.short > 0 {
		t.Errorf("%d of %d fell short", m.short, m.solves)
	}
}

// Where no cycle pays and the projection onto the acyclic set has no cheaper
// path, with steps back or not, the projection onto the cyclic set is the same.
func TestAcyclicPathAgreesWhereNothingTurnsBack(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 13))
	agreed := 0
	for range 300 {
		path := randomAcyclicPath(r, 6)
		cfg := path.Grid().Config()
		cfg.Acyclic, cfg.Negative = false, dijkstra.Cycles
		cyclic := mustPath(cfg)
		theta := make([]float64, path.Dim())
		for v := range theta {
			theta[v] = 0.2 + r.ExpFloat64()
		}
		a, c, s := make([]float64, len(theta)), make([]float64, len(theta)), make([]float64, len(theta))
		lambda := 0.1 + r.Float64()
		if _, err := path.NewProjector().Project(a, theta, lambda, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := cyclic.NewProjector().Project(c, theta, lambda, nil); err != nil {
			t.Fatal(err)
		}
		g := make([]float64, len(theta))
		for v := range g {
			g[v] = theta[v]/lambda + a[v]
		}
		if _, err := cyclic.NewLinear().Solve(s, g); err != nil {
			t.Fatal(err)
		}
		gap := pathDot(g, a) - pathDot(g, s)
		distance := 0.0
		for v := range a {
			distance += (a[v] - c[v]) * (a[v] - c[v])
		}
		if gap <= 1e-9 {
			agreed++
		}
		// The duality gap bounds the squared distance to the projection.
		if limit := math.Sqrt(2*max(gap, 0)) + 1e-4; !(math.Sqrt(distance) <= limit) {
			t.Fatalf("%+v, lambda %v, theta %v: %v apart, want at most %v", cfg, lambda, theta, math.Sqrt(distance), limit)
		}
	}
	if t.Logf("%d of 300 agree", agreed); agreed < 100 {
		t.Error("too few agree")
	}
}

func TestAcyclicPathConformance(t *testing.T) {
	var cases []oracletest.Case
	for _, c := range []struct {
		name   string
		cfg    dijkstra.Config
		rounds int
	}{
		{"grid=4x3", dijkstra.Config{Height: 4, Width: 3, Sink: dijkstra.Cell{Row: 3, Col: 2}}, 20},
		{"grid=3x5/flipped", dijkstra.Config{Height: 3, Width: 5, Source: dijkstra.Cell{Row: 2, Col: 4}, Sink: dijkstra.Cell{Row: 1}}, 20},
		{"grid=12x12", dijkstra.Config{Height: 12, Width: 12, Source: dijkstra.Cell{Col: 4}, Sink: dijkstra.Cell{Row: 11, Col: 7}}, 3},
	} {
		c.cfg.Acyclic = true
		path := mustPath(c.cfg)
		var vertices [][]float64
		if c.rounds > 10 {
			vertices = pathVertices(path)
		}
		for _, bias := range []float64{1, -1} {
			cases = append(cases, oracletest.Case{
				Name: c.name, Polytope: path, Vertices: vertices, Rounds: c.rounds, LooseRadius: c.rounds <= 10,
				Lambdas: []float64{0.2, 1, 4}, Violation: 1e-9,
				// The contract, and the distance sqrt(2 gap) that it implies.
				Gap: 1e-9, Accuracy: 4.5e-5, JVP: 1e-2, Step: 1e-2,
				Cost: func(dst []float64, r *rand.Rand) {
					for v := range dst {
						dst[v] = r.NormFloat64() + bias
					}
				},
			})
		}
	}
	oracletest.Run(t, cases...)
}
