package dijkstra

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/oracletest"
)

// solved returns the visits that l finds, which must be Optimal.
func solved(t *testing.T, l oracle.Linear, theta []float64) []float64 {
	t.Helper()
	w := make([]float64, len(theta))
	info, err := l.Solve(w, theta)
	if err != nil || info.Status != oracle.Optimal {
		t.Fatalf("Solve: %v, %v", info.Status, err)
	}
	return w
}

// The paper, section 3.3: which of the shortest paths is found, and which path
// where costs are negative.
func TestPaperTies(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 1))
	for k := range 3000 {
		cfg := randomConfig(r, []int{6, 30, 144}[k%3])
		theta := randomCosts(r, cfg.Height*cfg.Width, k%2 == 0)
		if got, want := solved(t, mustGrid(cfg).NewLinear(), theta), paperDijkstra(cfg, theta); !slices.Equal(got, want) {
			t.Fatalf("%+v, costs %v:\n got %v\nwant %v", cfg, theta, got, want)
		}
	}
}

// Every path is simple, joins the endpoints by steps between neighbours, and is
// what the visit vector says.
func TestPath(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 2))
	for k := range 2000 {
		cfg := randomConfig(r, 40)
		cfg.Negative, cfg.Ties = []Negative{AsIs, Cycles}[k%2], Ties(k/2%2)
		g := mustGrid(cfg)
		s := g.NewSolver()
		if got := s.Path([]int{7}); len(got) != 1 {
			t.Fatalf("Path before Solve: %v", got)
		}
		theta := randomCosts(r, g.Dim(), k%3 == 0)
		w := solved(t, s, theta)
		path := s.Path([]int{-1})[1:]
		seen := map[int]bool{}
		for i, v := range path {
			if seen[v] || w[v] != 1 {
				t.Fatalf("%+v: path %v of visits %v", cfg, path, w)
			}
			seen[v] = true
			at := Cell{v / cfg.Width, v % cfg.Width}
			if i+1 < len(path) && !slices.Contains(neighbours(cfg, at), Cell{path[i+1] / cfg.Width, path[i+1] % cfg.Width}) {
				t.Fatalf("%+v: path %v jumps at step %d", cfg, path, i)
			}
		}
		index := func(c Cell) int { return c.Row*cfg.Width + c.Col }
		if path[0] != index(cfg.Source) || path[len(path)-1] != index(cfg.Sink) {
			t.Fatalf("%+v: path %v does not join the endpoints", cfg, path)
		}
		order := s.Settled(nil)
		if s.by == byCover != (len(order) == 0) || len(order) > 0 && (order[0] != path[0] || order[len(order)-1] != path[len(path)-1]) {
			t.Fatalf("%+v: path %v, settled %v", cfg, path, order)
		}
		if cfg.Negative == AsIs && sumOver(w, w) != float64(len(path)) {
			t.Fatalf("%+v: path %v, visits %v", cfg, path, w)
		}
		if _, err := s.Solve(w, w[1:]); err == nil || len(s.Path(nil)) != 0 {
			t.Fatalf("Path after a failed Solve: %v", s.Path(nil))
		}
	}
}

// Costs >= 0: all variants are exact, against Bellman and Ford.
func TestShortest(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 3))
	for k := range 600 {
		cfg := randomConfig(r, []int{12, 144, 200}[k%3])
		theta := randomCosts(r, cfg.Height*cfg.Width, false)
		want := bellmanFord(cfg, theta)
		for _, ties := range []Ties{PaperTies, AnyTies} {
			cfg.Ties = ties
			w := solved(t, mustGrid(cfg).NewLinear(), theta)
			// The cells of a path are added in another order here.
			if got, tol := sumOver(theta, w), 1e-12*want; !(math.Abs(got-want) <= tol) {
				t.Fatalf("%+v: cost %v, want %v", cfg, got, want)
			}
		}
	}
}

// A solver's answers do not depend on what it solved before.
func TestSolverHistory(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 9))
	for k := range 200 {
		cfg := randomConfig(r, 12)
		cfg.Ties = Ties(k % 2)
		used := mustGrid(cfg).NewLinear()
		for range 20 {
			theta := randomCosts(r, cfg.Height*cfg.Width, false)
			if got, want := solved(t, used, theta), solved(t, mustGrid(cfg).NewLinear(), theta); !slices.Equal(got, want) {
				t.Fatalf("%+v, costs %v: a used solver finds %v, want %v", cfg, theta, got, want)
			}
		}
	}
}

// Negative costs under every policy, against all simple paths.
func TestNegativeCosts(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 4))
	exact, refused := 0, 0
	for range 1500 {
		cfg := randomConfig(r, 12)
		theta := randomCosts(r, cfg.Height*cfg.Width, true)
		best, scale := math.Inf(1), 0.0
		for _, x := range theta {
			scale += math.Abs(x)
		}
		simplePaths(cfg, func(path []Cell) {
			sum := 0.0
			for _, c := range path {
				sum += theta[c.Row*cfg.Width+c.Col]
			}
			best = min(best, sum)
		})
		inner := func(c Cell) bool { return c != cfg.Source && c != cfg.Sink }
		cycle := false
		for v, x := range theta {
			at := Cell{v / cfg.Width, v % cfg.Width}
			for _, n := range neighbours(cfg, at) {
				cycle = cycle || inner(at) && inner(n) && x+theta[n.Row*cfg.Width+n.Col] < 0
			}
		}
		cfg.Negative = Exact
		w := make([]float64, len(theta))
		_, err := mustGrid(cfg).NewLinear().Solve(w, theta)
		switch {
		case cycle:
			refused++
			if !errors.Is(err, ErrNegativeCycle) {
				t.Fatalf("%+v, costs %v: error %v, want ErrNegativeCycle", cfg, theta, err)
			}
		case err != nil:
			t.Fatalf("%+v, costs %v: %v", cfg, theta, err)
		default:
			exact++
			if got := sumOver(theta, w); !(math.Abs(got-best) <= 1e-14*scale) {
				t.Fatalf("%+v, costs %v: cost %v, want %v", cfg, theta, got, best)
			}
		}
		cfg.Negative = Reject
		if _, err := mustGrid(cfg).NewLinear().Solve(w, theta); (slices.Min(theta) < 0) != errors.Is(err, ErrNegativeCost) {
			t.Fatalf("costs %v: Reject gives %v", theta, err)
		}
	}
	if exact < 200 || refused < 200 {
		t.Errorf("%d exact and %d refused problems test too little", exact, refused)
	}
}

// smallGrids are grids whose vertices can be listed.
func smallGrids() []Config {
	return []Config{
		{Height: 1, Width: 2, Sink: Cell{0, 1}},
		{Height: 1, Width: 5, Source: Cell{0, 4}, Sink: Cell{0, 1}},
		{Height: 4, Width: 1, Sink: Cell{3, 0}, Neighbours: Four},
		{Height: 2, Width: 3, Source: Cell{1, 0}, Sink: Cell{0, 2}},
		{Height: 3, Width: 3, Sink: Cell{2, 2}, Neighbours: Four},
		{Height: 3, Width: 3, Source: Cell{1, 1}, Sink: Cell{0, 2}},
	}
}

func (c Config) name() string {
	return fmt.Sprintf("grid=%dx%d/neighbours=%d/ends=%v-%v/negative=%d/ties=%d/acyclic=%v", c.Height, c.Width, []int{8, 4}[c.Neighbours], c.Source, c.Sink, c.Negative, c.Ties, c.Acyclic)
}

func TestConformance(t *testing.T) {
	nonNegative := func(dst []float64, r *rand.Rand) {
		for i := range dst {
			dst[i] = r.ExpFloat64()
		}
	}
	var cases []oracletest.Case
	for _, cfg := range smallGrids() {
		cfg.Negative = Cycles
		cases = append(cases, oracletest.Case{Name: cfg.name(), Polytope: mustGrid(cfg), Vertices: covers(cfg)})
	}
	for _, cfg := range []Config{
		{Height: 12, Width: 12, Source: Cell{0, 3}, Sink: Cell{11, 8}},
		{Height: 12, Width: 12, Source: Cell{11, 3}, Sink: Cell{0, 8}, Ties: AnyTies},
		{Height: 5, Width: 70, Sink: Cell{4, 69}, Ties: AnyTies},
		{Height: 9, Width: 4, Sink: Cell{5, 3}, Neighbours: Four, Ties: AnyTies},
	} {
		cases = append(cases, oracletest.Case{Name: cfg.name(), Polytope: mustGrid(cfg), Cost: nonNegative, LooseRadius: true})
	}
	big := Config{Height: 12, Width: 12, Source: Cell{0, 3}, Sink: Cell{11, 8}, Negative: Cycles}
	cases = append(cases, oracletest.Case{Name: big.name(), Polytope: mustGrid(big), Rounds: 5, LooseRadius: true})
	oracletest.Run(t, cases...)
}

// Paper, section 3.4: 12 for each of the 44 border cells with its opposite.
func TestRadius(t *testing.T) {
	for _, c := range border(12, 12) {
		if r := mustGrid(Config{Height: 12, Width: 12, Source: c, Sink: Cell{11 - c.Row, 11 - c.Col}}).Radius(); r != 12 {
			t.Errorf("radius from %v is %v, want 12", c, r)
		}
	}
	if r := mustGrid(Config{Height: 1, Width: 5000, Sink: Cell{0, 1}}).Radius(); r != math.Sqrt(5000) {
		t.Errorf("radius of a long grid is %v, want the bound", r)
	}
	r := rand.New(rand.NewPCG(33, 5))
	for range 60 {
		cfg := randomConfig(r, 9)
		want := 0.0
		for _, v := range covers(cfg) {
			want = max(want, math.Sqrt(sumOver(v, v)))
		}
		if got := mustGrid(cfg).Radius(); got != want {
			t.Errorf("%+v: radius %v, want %v", cfg, got, want)
		}
	}
}

// Violation against all its sets of cells.
func TestViolation(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 6))
	for k := range 400 {
		cfg := randomConfig(r, 9)
		cfg.Acyclic = k%2 == 1
		g := mustGrid(cfg)
		after, before := map[Cell][]Cell{}, map[Cell][]Cell{}
		for v := range g.Dim() {
			at := Cell{v / cfg.Width, v % cfg.Width}
			after[at] = neighbours(cfg, at)
			for _, n := range after[at] {
				before[n] = append(before[n], at)
			}
		}
		w := make([]float64, g.Dim())
		for v := range w {
			w[v] = r.Float64() * 1.1
		}
		s, e := cfg.Source.Row*cfg.Width+cfg.Source.Col, cfg.Sink.Row*cfg.Width+cfg.Sink.Col
		want := max(math.Abs(w[s]-1), math.Abs(w[e]-1))
		for v := range w {
			want = max(want, w[v]-1)
		}
		for set := range 1 << len(w) {
			sent := [2]float64{}
			var taken [2]map[Cell]bool
			for k, ends := range [2][2]Cell{{cfg.Sink, cfg.Source}, {cfg.Source, cfg.Sink}} {
				near := []map[Cell][]Cell{after, before}[k]
				taken[k] = map[Cell]bool{}
				for v := range w {
					at := Cell{v / cfg.Width, v % cfg.Width}
					if set>>v&1 == 0 || at == ends[0] {
						continue
					}
					sent[k] += w[v]
					for _, n := range near[at] {
						if n != ends[1] && !taken[k][n] {
							taken[k][n] = true
							sent[k] -= w[n.Row*cfg.Width+n.Col]
						}
					}
				}
				want = max(want, sent[k])
			}
		}
		if got := g.Violation(w); math.Abs(got-want) > 1e-14 {
			t.Fatalf("%+v: violation of %v is %v, want %v", cfg, w, got, want)
		}
	}
}

func TestMeterAllocatesNothing(t *testing.T) {
	cfg := Config{Height: 6, Width: 6, Sink: Cell{5, 5}}
	g := mustGrid(cfg)
	m, w := g.NewMeter(), make([]float64, 36)
	for v := range w {
		w[v] = 0.5
	}
	want := g.Violation(w)
	if n := testing.AllocsPerRun(20, func() {
		if got := m.Violation(w); got != want {
			t.Fatalf("a used Meter measures %v, want %v", got, want)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBadGrids(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Height: 1, Width: 1},
		{Height: -3, Width: -3, Sink: Cell{1, 1}},
		{Height: 1 << 40, Width: 1 << 40, Sink: Cell{1, 1}},
		{Height: 2, Width: 2},
		{Height: 2, Width: 2, Sink: Cell{2, 0}},
		{Height: 2, Width: 2, Sink: Cell{0, -1}},
		{Height: 2, Width: 2, Source: Cell{0, 5}, Sink: Cell{1, 1}},
		{Height: 2, Width: 2, Sink: Cell{1, 1}, Neighbours: 2},
		{Height: 2, Width: 2, Sink: Cell{1, 1}, Negative: 4},
		{Height: 2, Width: 2, Sink: Cell{1, 1}, Negative: Cycles, Acyclic: true},
		{Height: 2, Width: 2, Sink: Cell{1, 1}, Ties: 2},
	} {
		if _, err := NewGrid(cfg); !errors.Is(err, ErrShape) {
			t.Errorf("%+v: error %v, want ErrShape", cfg, err)
		}
	}
	if cfg := mustGrid(smallGrids()[1]).Config(); cfg != smallGrids()[1] {
		t.Errorf("Config returns %+v", cfg)
	}
}
