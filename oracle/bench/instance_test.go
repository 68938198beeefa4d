package bench

import (
	"errors"
	"math"
	"slices"
	"testing"

	"fedrspo/internal/stream"
	"fedrspo/oracle/synthetic"
)

// problemOf is a small problem of every oracle.
func problemOf(name string) Problem {
	return Problem{Oracle: name, Height: 6, Width: 7, Dim: 9, Predictions: Good, Lambda: Calibrated(1), Batch: 4, Instances: 48, Seed: 3}
}

func mustWorkload(t *testing.T, p Problem) *workload {
	t.Helper()
	w, err := newWorkload(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// An instance depends on the seed and its number alone, so that a sample of
// instances is the same in longer runs.
func TestInstancesAreNamed(t *testing.T) {
	for _, name := range Oracles() {
		p := problemOf(name)
		long := mustWorkload(t, p)
		p.Instances = 12
		short := mustWorkload(t, p)
		if !slices.Equal(long.costs[:len(short.costs)], short.costs) {
			t.Errorf("%s: the first costs depend on the number of instances", name)
		}
		p.Seed++
		if slices.Equal(mustWorkload(t, p).costs, short.costs) {
			t.Errorf("%s: another seed draws the same costs", name)
		}
	}
}

// Maps have five kinds of ground in regions: most neighbours are equal, which
// independent cells would be in a fifth of all cases or little more.
func TestMapsAreSmooth(t *testing.T) {
	r := stream.New(stream.Key{Purpose: "test"})
	same, pairs := 0, 0
	for range 50 {
		c := synthetic.Terrain(r, 12, 12)
		kinds := map[float64]bool{}
		for v, x := range c {
			kinds[x] = true
			if v%12 < 11 {
				pairs++
				if x == c[v+1] {
					same++
				}
			}
		}
		if len(kinds) > len(synthetic.Kinds) {
			t.Fatalf("%d kinds of ground", len(kinds))
		}
	}
	if share := float64(same) / float64(pairs); share < 0.4 {
		t.Errorf("only %.2f of the neighbours are equal", share)
	}
}

// The paper has 44 clients on a 12 x 12 grid, and opposite cells are distinct on
// any grid.
func TestBorder(t *testing.T) {
	if n := len(synthetic.Border(12, 12)); n != maxClients {
		t.Errorf("%d border cells, want %d", n, maxClients)
	}
	for _, size := range [][2]int{{2, 2}, {2, 5}, {3, 3}, {9, 14}} {
		p := problemOf(Path)
		p.Height, p.Width = size[0], size[1]
		f, err := gridFamily(p, maxClients)
		if want := min(maxClients, 2*(size[0]+size[1])-4); err != nil || len(f.sets) != want {
			t.Errorf("%v: %d sets, want %d, %v", size, len(f.sets), want, err)
		}
	}
}

// Qualities are ordered by their error, and no path cost is predicted below 0.
func TestQualities(t *testing.T) {
	for _, name := range []string{Path, Knapsack} {
		f, err := newFamily(problemOf(name), 1)
		if err != nil {
			t.Fatal(err)
		}
		last := -1.0
		for _, q := range Qualities() {
			r := stream.New(stream.Key{Purpose: "test", Client: int(q)})
			off, size := 0.0, 0.0
			for range 200 {
				c := f.costs(r)
				for v, x := range f.predict(r, c, q) {
					off += math.Abs(x - c[v])
					size += math.Abs(c[v])
					if name == Path && x < 0 {
						t.Fatalf("%v predicts %v", q, x)
					}
				}
			}
			if off/size <= last {
				t.Errorf("%s: %v predictions are off by %.3f, the quality before by %.3f", name, q, off/size, last)
			}
			last = off / size
			back, err := ParseQuality(q.String())
			if back != q || err != nil {
				t.Errorf("%v reads as %v, %v", q, back, err)
			}
		}
	}
}

// The calibrated lambda is the client's mean |c| over the radius (paper,
// section 3.1).
func TestCalibratedLambda(t *testing.T) {
	p := problemOf(Path)
	p.Lambda = Calibrated(10)
	w := mustWorkload(t, p)
	for k, set := range w.sets {
		sum, n := 0.0, 0.0
		for i := range w.total {
			if w.client(i) == k {
				sum += norm(w.row(w.costs, i))
				n++
			}
		}
		if want := sum / n / set.Radius() / 10; math.Abs(w.lambda[k]-want) > 1e-12*want {
			t.Errorf("client %d: lambda %v, want %v", k, w.lambda[k], want)
		}
	}
}

func TestParseLambda(t *testing.T) {
	for _, text := range []string{"0.05", "2", "calibrated", "calibrated/10"} {
		l, err := ParseLambda(text)
		if err != nil || l.String() != text {
			t.Errorf("%q reads as %v, %v", text, l, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "NaN", "Inf", "x", "calibrated/", "calibrated/0", "calibrated2", "calibratedx"} {
		if l, err := ParseLambda(text); !errors.Is(err, ErrProblem) {
			t.Errorf("%q reads as %v, %v", text, l, err)
		}
	}
	if _, err := ParseQuality("perfect"); !errors.Is(err, ErrProblem) {
		t.Error(err)
	}
}

func TestCheckProblem(t *testing.T) {
	for name, spoil := range map[string]func(*Problem){
		"oracle":      func(p *Problem) { p.Oracle = "matching" },
		"thin grid":   func(p *Problem) { p.Height = 1 },
		"huge grid":   func(p *Problem) { p.Width = 65 },
		"lambda":      func(p *Problem) { p.Lambda = Lambda{} },
		"infinity":    func(p *Problem) { p.Lambda = Fixed(math.Inf(1)) },
		"predictions": func(p *Problem) { p.Predictions = 6 },
		"warm":        func(p *Problem) { p.Warm = math.NaN() },
		"batch":       func(p *Problem) { p.Batch = p.Instances + 1 },
		"no batch":    func(p *Problem) { p.Batch = 0 },
		"instances":   func(p *Problem) { p.Instances = 1 << 30 },
		"memory":      func(p *Problem) { p.Height, p.Width, p.Instances = 64, 64, 1<<18 },
		"dimension":   func(p *Problem) { p.Oracle, p.Dim = Knapsack, 1 },
		"polyhedron":  func(p *Problem) { p.Oracle, p.Dim = Polyhedron, 2000 },
	} {
		p := problemOf(Path)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(&p)
		if _, err := Measure(t.Context(), p, 1, 1); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
