package dijkstra

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle/oracletest"
	"fedrspo/oracle/synthetic"
)

// visitsOf returns the visits of a path.
func visitsOf(cfg Config, path []Cell) []float64 {
	w := make([]float64, cfg.Height*cfg.Width)
	for _, c := range path {
		w[c.Row*cfg.Width+c.Col] = 1
	}
	return w
}

// randomAcyclic draws an acyclic grid and its cyclic twin.
func randomAcyclic(r *rand.Rand, limit int) (acyclic, cyclic Config) {
	cyclic = randomConfig(r, limit)
	acyclic = cyclic
	acyclic.Acyclic, acyclic.Negative, acyclic.Ties = true, []Negative{AsIs, Exact}[r.IntN(2)], Ties(r.IntN(2))
	return acyclic, cyclic
}

// On acyclic grids every answer is exact, whatever the signs of the costs,
// against all paths, and where those are too many against Bellman and Ford.
func TestAcyclic(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 10))
	for k := range 1500 {
		limit := []int{12, 20, 144}[k%3]
		cfg, _ := randomAcyclic(r, limit)
		theta := randomCosts(r, cfg.Height*cfg.Width, k%2 == 0)
		scale := 0.0
		for v := range theta {
			if k%4 == 0 {
				theta[v] = -theta[v]
			}
			scale += math.Abs(theta[v])
		}
		w := solved(t, mustGrid(cfg).NewLinear(), theta)
		want := math.Inf(1)
		if limit < 144 {
			isPath := false
			simplePaths(cfg, func(path []Cell) {
				visits := visitsOf(cfg, path)
				want = min(want, sumOver(theta, visits))
				isPath = isPath || slices.Equal(w, visits)
			})
			if !isPath {
				t.Fatalf("%+v: %v is not a path", cfg, w)
			}
		} else {
			want = bellmanFord(cfg, theta)
		}
		if got := sumOver(theta, w); !(math.Abs(got-want) <= 1e-14*scale) {
			t.Fatalf("%+v, costs %v: cost %v, want %v", cfg, theta, got, want)
		}
		cfg.Negative = Reject
		if _, err := mustGrid(cfg).NewLinear().Solve(w, theta); (slices.Min(theta) < 0) != errors.Is(err, ErrNegativeCost) {
			t.Fatalf("costs %v: Reject gives %v", theta, err)
		}
	}
}

// Paper, section 3.3: ties on acyclic grids are resolved as Dijkstra's algorithm
// on the steps that are left resolves them, if costs are > 0.
func TestAcyclicTies(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 11))
	for k := range 1500 {
		cfg, _ := randomAcyclic(r, []int{6, 30, 144}[k%3])
		theta := randomCosts(r, cfg.Height*cfg.Width, false)
		for v, x := range theta {
			theta[v] = max(x, 0.5*float64(k%2)+1e-6)
		}
		if got, want := solved(t, mustGrid(cfg).NewLinear(), theta), paperDijkstra(cfg, theta); !slices.Equal(got, want) {
			t.Fatalf("%+v, costs %v:\n got %v\nwant %v", cfg, theta, got, want)
		}
	}
}

// Where no step of the paper's path turns back, the acyclic grid has the same.
func TestAcyclicKeepsPathsThatAdvance(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 12))
	kept, lost := 0, 0
	for k := range 800 {
		acyclic, cyclic := randomAcyclic(r, 60)
		theta := synthetic.Terrain(r, cyclic.Height, cyclic.Width)
		for v := range theta {
			theta[v] *= math.Exp(float64(k%3) * r.NormFloat64())
		}
		s := mustGrid(cyclic).NewSolver()
		w := solved(t, s, theta)
		path := s.Path(nil)
		advance := true
		for i, v := range path[1:] {
			u := path[i]
			advance = advance && advances(acyclic, v/cyclic.Width-u/cyclic.Width, v%cyclic.Width-u%cyclic.Width)
		}
		got := solved(t, mustGrid(acyclic).NewLinear(), theta)
		if advance {
			kept++
			if !slices.Equal(got, w) {
				t.Fatalf("%+v, costs %v:\n got %v\nwant %v", acyclic, theta, got, w)
			}
			continue
		}
		lost++
		if a, b := sumOver(theta, got), sumOver(theta, w); !(a >= b*(1-1e-14)) {
			t.Fatalf("%+v, costs %v: cost %v is below the least %v of all paths", acyclic, theta, a, b)
		}
	}
	t.Logf("%d paths advance, %d turn back", kept, lost)
	if kept < 200 || lost < 60 {
		t.Error("too few of one kind")
	}
}

// Before lists the steps of all paths, and Radius is exact.
func TestAcyclicSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 13))
	for k := range 300 {
		cfg, cyclic := randomAcyclic(r, 12)
		if k%3 == 0 {
			cfg = cyclic
		}
		type step struct{ from, to int }
		steps, longest := map[step]bool{}, 0
		index := func(c Cell) int { return c.Row*cfg.Width + c.Col }
		if cfg.Acyclic {
			simplePaths(cfg, func(path []Cell) {
				longest = max(longest, len(path))
				for i, c := range path[1:] {
					steps[step{index(path[i]), index(c)}] = true
				}
			})
		} else {
			for v := range cfg.Height * cfg.Width {
				for _, n := range neighbours(cfg, Cell{v / cfg.Width, v % cfg.Width}) {
					if v != index(cfg.Sink) && n != cfg.Source {
						steps[step{v, index(n)}] = true
					}
				}
			}
		}
		g := mustGrid(cfg)
		n := 0
		for v := range g.Dim() {
			for _, u := range g.Before([]int{-1}, v)[1:] {
				n++
				if !steps[step{u, v}] {
					t.Fatalf("%+v: no step from %d to %d", cfg, u, v)
				}
			}
		}
		if n != len(steps) {
			t.Fatalf("%+v: %d steps, want %d", cfg, n, len(steps))
		}
		if got, want := g.Radius(), math.Sqrt(float64(longest)); cfg.Acyclic && got != want {
			t.Fatalf("%+v: radius %v, want %v", cfg, got, want)
		}
	}
}

func TestAcyclicConformance(t *testing.T) {
	var cases []oracletest.Case
	for _, cfg := range append(smallGrids(), Config{Height: 4, Width: 5, Source: Cell{3, 4}, Sink: Cell{1, 0}}) {
		cfg.Acyclic = true
		var vertices [][]float64
		simplePaths(cfg, func(path []Cell) { vertices = append(vertices, visitsOf(cfg, path)) })
		cases = append(cases, oracletest.Case{Name: cfg.name(), Polytope: mustGrid(cfg), Vertices: vertices})
	}
	big := Config{Height: 12, Width: 12, Source: Cell{0, 3}, Sink: Cell{11, 8}, Acyclic: true}
	cases = append(cases, oracletest.Case{Name: big.name(), Polytope: mustGrid(big), LooseRadius: true})
	oracletest.Run(t, cases...)
}
