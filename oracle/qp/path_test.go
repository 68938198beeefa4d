package qp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/oracletest"
	"fedrspo/oracle/synthetic"
)

// pathMeter collects the worst errors of answers.
type pathMeter struct {
	solves, interior, fallbacks, arbitrations, short int
	gap, violation, distance                         float64
}

func (m pathMeter) String() string {
	return fmt.Sprintf("%d projections, %d by interior point, of these %d after Wolfe's method and %d decided by maximum flow; %d short; worst gap %.2g, violation %.2g, distance %.2g",
		m.solves, m.interior, m.fallbacks, m.arbitrations, m.short, m.gap, m.violation, m.distance)
}

// certify projects, holds the answer against what Path promises of it, and
// returns it. Feasibility is a maximum flow, optimality an assignment problem;
// the solvers know neither.
func (m *pathMeter) certify(t *testing.T, q *PathProjector, l oracle.Linear, theta []float64, lambda float64, warm *oracle.Warm) []float64 {
	t.Helper()
	w := make([]float64, len(theta))
	before, arbitrations := q.fallbacks, q.arbitrations
	info, err := q.Project(w, theta, lambda, warm)
	if err != nil {
		t.Fatal(err)
	}
	m.solves++
	m.fallbacks += q.fallbacks - before
	m.arbitrations += q.arbitrations - arbitrations
	if q.method == pathByInterior {
		m.interior++
	}
	if info.Status != oracle.Optimal {
		m.short++
	}
	scale := 0.0
	g := make([]float64, len(theta))
	for v, x := range theta {
		g[v] = x/lambda + w[v]
		scale = max(scale, math.Abs(x)/lambda)
	}
	s := make([]float64, len(theta))
	if lp, err := l.Solve(s, g); err != nil || lp.Status != oracle.Optimal {
		t.Fatal(lp.Status, err)
	}
	gap, violation := pathDot(g, w)-pathDot(g, s), q.path.Violation(w)
	rounding := 4e-13 * (1 + scale)
	if limit := q.path.goal.gap + rounding; info.Status == oracle.Optimal && !(gap <= limit) {
		t.Errorf("lambda %v: gap %v, want at most %v", lambda, gap, limit)
	}
	if !(gap*lambda <= info.Gap+rounding*lambda) {
		t.Errorf("lambda %v: gap %v, but at most %v is reported", lambda, gap*lambda, info.Gap)
	}
	if !(violation <= 1e-9) {
		t.Errorf("lambda %v: violation %v", lambda, violation)
	}
	m.gap, m.violation = max(m.gap, gap), max(m.violation, violation)
	return w
}

// near compares with a reference of the given gap.
func (m *pathMeter) near(t *testing.T, w, reference []float64, gap float64) {
	t.Helper()
	worst := 0.0
	for v, x := range w {
		worst = max(worst, math.Abs(x-reference[v]))
	}
	if limit := 1e-5 + math.Sqrt(2*max(gap, 0)); !(worst <= limit) {
		t.Errorf("an entry is %v off, want at most %v", worst, limit)
	}
	m.distance = max(m.distance, worst)
}

// Paper, section 3.4, on small grids of all shapes against the reference.
func TestPathAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 1))
	var m pathMeter
	for range 1500 {
		cfg := dijkstra.Config{Height: 1 + r.IntN(5), Width: 1 + r.IntN(5), Neighbours: dijkstra.Neighbours(r.IntN(2)), Negative: dijkstra.Cycles}
		cfg.Source = dijkstra.Cell{Row: r.IntN(cfg.Height), Col: r.IntN(cfg.Width)}
		cfg.Sink = dijkstra.Cell{Row: r.IntN(cfg.Height), Col: r.IntN(cfg.Width)}
		if cfg.Source == cfg.Sink {
			continue
		}
		path := mustPath(cfg)
		theta := make([]float64, path.Dim())
		bias := 2*r.Float64() - 1
		for v := range theta {
			theta[v] = r.NormFloat64() + bias
		}
		lambda := math.Pow(10, 3*r.Float64()-2)
		l := path.NewLinear()
		w := m.certify(t, newPathProjector(path), l, theta, lambda, nil)
		p := make([]float64, len(theta))
		for v, x := range theta {
			p[v] = -x / lambda
		}
		reference, gap := pathReference(l, p)
		if !(math.Abs(gap) <= 1e-9) {
			continue // the reference has no accuracy left to compare with
		}
		m.near(t, w, reference, gap)
		if t.Failed() {
			t.Fatalf("%+v, lambda %v, theta %v", cfg, lambda, theta)
		}
	}
	t.Log(m)
	if m.short > 0 || m.interior < 200 || m.interior > m.solves-200 {
		t.Error("some fell short, or one method was hardly tried")
	}
}

// The paper's problems: 12 x 12 cells, all 44 pairs of opposite border cells,
// predictions of all qualities, lambda from 0.05 to 100, cold and warm.
// FEDRSPO_PATH_INSTANCES sets their number.
func TestPathContract(t *testing.T) {
	n := 120
	if s := os.Getenv("FEDRSPO_PATH_INSTANCES"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal(err)
		}
	}
	ends := pathEnds(12, 12)
	type pair struct {
		q *PathProjector
		l oracle.Linear
	}
	var pairs []pair
	for _, end := range ends {
		path := pathBetween(12, 12, end)
		pairs = append(pairs, pair{newPathProjector(path), path.NewLinear()})
	}
	r := rand.New(rand.NewPCG(34, 2))
	var m pathMeter
	var byQuality [pathQualities]pathMeter
	for k := range n {
		quality := synthetic.Quality(k % int(pathQualities))
		pick := pairs[k/int(pathQualities)%len(pairs)]
		c := synthetic.Terrain(r, 12, 12)
		lambda := 0.05 * math.Pow(2000, r.Float64())
		predicted := synthetic.Predict(r, 12, 12, c, quality)
		b := &byQuality[quality]
		var warm oracle.Warm
		cold := b.certify(t, pick.q, pick.l, synthetic.LossPoint(c, predicted), lambda, nil)
		b.near(t, b.certify(t, pick.q, pick.l, synthetic.LossPoint(c, predicted), lambda, &warm), cold, 0)
		theta := synthetic.LossPoint(c, pathMoved(r, predicted, 0.03))
		b.near(t, b.certify(t, pick.q, pick.l, theta, lambda, &warm), b.certify(t, pick.q, pick.l, theta, lambda, nil), 0)
		if t.Failed() {
			t.Fatalf("instance %d: %v predictions at lambda %v", k, quality, lambda)
		}
	}
	for quality, b := range byQuality {
		t.Logf("%v: %v", synthetic.Quality(quality), b)
		m.short += b.short
		m.solves += b.solves
	}
	if m.short > 0 {
		t.Errorf("%d of %d fell short", m.short, m.solves)
	}
}

// NewExactPath reaches a gap of 1e-12 and agrees with NewPath.
func TestExactPath(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 6))
	ends := pathEnds(12, 12)
	var m pathMeter
	for k := range 120 {
		path := pathBetween(12, 12, ends[k%len(ends)])
		exact, err := NewExactPath(path.Grid())
		if err != nil {
			t.Fatal(err)
		}
		c := synthetic.Terrain(r, 12, 12)
		theta := synthetic.LossPoint(c, synthetic.Predict(r, 12, 12, c, synthetic.Quality(k%int(pathQualities))))
		lambda := 0.05 * math.Pow(2000, r.Float64())
		l := path.NewLinear()
		reference := m.certify(t, newPathProjector(exact), l, theta, lambda, nil)
		var meter pathMeter
		meter.near(t, meter.certify(t, newPathProjector(path), l, theta, lambda, nil), reference, 1e-12)
		m.distance = max(m.distance, meter.distance)
	}
	t.Log(m)
	if m.short > 0 {
		t.Errorf("%d fell short", m.short)
	}
}

// On larger grids, and narrow ones, nothing is special about 12.
func TestPathSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 3))
	var m pathMeter
	for _, size := range [][2]int{{1, 30}, {30, 1}, {2, 40}, {18, 18}, {30, 30}, {7, 25}, {24, 10}} {
		height, width := size[0], size[1]
		for quality := range pathQualities {
			path := pathBetween(height, width, dijkstra.Cell{})
			c := synthetic.Terrain(r, height, width)
			theta := synthetic.LossPoint(c, synthetic.Predict(r, height, width, c, quality))
			m.certify(t, newPathProjector(path), path.NewLinear(), theta, pathNorm(c)/path.Radius(), nil)
			if t.Failed() {
				t.Fatalf("%d x %d, %v predictions", height, width, quality)
			}
		}
	}
	t.Log(m)
	if m.short > 0 {
		t.Errorf("%d fell short", m.short)
	}
}

func TestPathConformance(t *testing.T) {
	var cases []oracletest.Case
	add := func(name string, path *Path, rounds int, bias float64, c oracletest.Case) {
		c.Name, c.Polytope, c.Rounds, c.LooseRadius = name, path, rounds, true
		c.Lambdas, c.Violation = []float64{0.2, 1, 4}, 1e-9
		c.Cost = func(dst []float64, r *rand.Rand) {
			for v := range dst {
				dst[v] = r.NormFloat64() + bias
			}
		}
		cases = append(cases, c)
	}
	// The contracts in the suite's units: a gap relative to at least R² > 1, and
	// the distance sqrt(2 gap) that it implies.
	plain := oracletest.Case{Gap: 1e-9, Accuracy: 4.5e-5, JVP: 1e-2, Step: 1e-2}
	exact := oracletest.Case{Gap: 1e-12, Accuracy: 1.5e-6, JVP: 1e-3, Step: 4e-3}
	small, err := NewExactPath(pathBetween(4, 3, dijkstra.Cell{}).Grid())
	if err != nil {
		t.Fatal(err)
	}
	for _, bias := range []float64{2, 0, -2} {
		add(fmt.Sprintf("grid=4x3/exact/bias=%v", bias), small, 20, bias, exact)
	}
	add("grid=12x12/bias=2", pathBetween(12, 12, dijkstra.Cell{Col: 4}), 3, 2, plain)
	add("grid=7x6/bias=-2", pathBetween(7, 6, dijkstra.Cell{Col: 4}), 3, -2, plain)
	oracletest.Run(t, cases...)
}

func TestPathErrors(t *testing.T) {
	if _, err := NewPath(nil); err == nil {
		t.Error("NewPath accepts nil")
	}
	huge, err := dijkstra.NewGrid(dijkstra.Config{Height: 400, Width: 400, Sink: dijkstra.Cell{Row: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPath(huge); !errors.Is(err, dijkstra.ErrShape) {
		t.Errorf("NewPath of 400 x 400 cells: %v", err)
	}
	path := pathBetween(3, 3, dijkstra.Cell{})
	q := path.NewProjector()
	theta, dst := make([]float64, 9), make([]float64, 9)
	theta[4] = 1e300
	if _, err := q.Project(dst, theta, 1e-300, nil); !errors.Is(err, oracle.ErrNonFinite) {
		t.Errorf("theta/lambda overflows: %v", err)
	}
	if err := q.JVP(dst, theta); !errors.Is(err, oracle.ErrNoProjection) {
		t.Errorf("JVP after an error: %v", err)
	}
	// Any finite costs: no panic, no NaN, and a feasible answer.
	r := rand.New(rand.NewPCG(34, 4))
	for k := range 400 {
		for v := range theta {
			theta[v] = r.NormFloat64() * math.Pow(10, float64(k%40-20)*float64(1+r.IntN(5)))
		}
		info, err := q.Project(dst, theta, 1, nil)
		if err != nil || !(path.Violation(dst) <= 1e-9) || !(info.Gap >= 0) {
			t.Errorf("costs %v: %v, %v, violation %v", theta, info, err, path.Violation(dst))
		}
	}
}

// A warm start that belongs to another grid, or is damaged, is a cold start.
func TestPathWarmStartsAreChecked(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 5))
	a, b := newPathProjector(pathBetween(5, 5, dijkstra.Cell{})), newPathProjector(pathBetween(5, 5, dijkstra.Cell{Col: 1}))
	c := synthetic.Terrain(r, 5, 5)
	cold, got := make([]float64, 25), make([]float64, 25)
	var warm oracle.Warm
	for _, q := range []*PathProjector{a, b} {
		if _, err := q.Project(cold, c, 1, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Project(got, c, 1, &warm); err != nil {
			t.Fatal(err)
		}
		for i := range cold {
			if got[i] != cold[i] {
				t.Fatalf("entry %d differs from a cold start: %v, want %v", i, got[i], cold[i])
			}
		}
	}
	saved := append([]uint64(nil), warm.Words...)
	for i := range saved {
		for _, words := range [][]uint64{saved[:i], append(append(append([]uint64(nil), saved[:i]...), saved[i]^1<<(i%64)), saved[i+1:]...)} {
			bad := oracle.Warm{Words: append([]uint64(nil), words...)}
			if _, err := b.Project(got, c, 1, &bad); err != nil {
				t.Fatal(err)
			}
			for i := range cold {
				if got[i] != cold[i] {
					t.Fatalf("a damaged warm start changes entry %d: %v, want %v", i, got[i], cold[i])
				}
			}
		}
	}
}
