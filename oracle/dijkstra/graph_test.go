package dijkstra

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/oracletest"
)

func mustGraph(cfg GraphConfig) *Graph {
	g, err := NewGraph(cfg)
	if err != nil {
		panic(err)
	}
	return g
}

// randomGraph draws a graph, with loops and parallel arcs, that has a path.
func randomGraph(r *rand.Rand, acyclic bool) GraphConfig {
	for {
		n := 2 + r.IntN(6)
		cfg := GraphConfig{Nodes: n, Sink: n - 1}
		for range n + r.IntN(2*n) {
			a := Arc{r.IntN(n), r.IntN(n)}
			if acyclic && a.From > a.To {
				a.From, a.To = a.To, a.From
			}
			cfg.Arcs = append(cfg.Arcs, a)
		}
		if len(arcPaths(cfg)) > 0 {
			return cfg
		}
	}
}

// arcPaths lists all simple paths as flows.
func arcPaths(cfg GraphConfig) [][]float64 {
	var out [][]float64
	flow := make([]float64, len(cfg.Arcs))
	seen := make([]bool, cfg.Nodes)
	var walk func(v int)
	walk = func(v int) {
		if v == cfg.Sink {
			out = append(out, append([]float64(nil), flow...))
			return
		}
		seen[v] = true
		for i, a := range cfg.Arcs {
			if a.From == v && !seen[a.To] {
				flow[i] = 1
				walk(a.To)
				flow[i] = 0
			}
		}
		seen[v] = false
	}
	walk(cfg.Source)
	return out
}

// negativeCycle says by the rounds of Bellman and Ford whether arcs on walks
// from source to sink have one.
func negativeCycle(g *Graph, theta []float64) bool {
	dist := make([]float64, g.cfg.Nodes)
	for round := range g.cfg.Nodes + 1 {
		changed := false
		for i, a := range g.cfg.Arcs {
			if g.useful[i] && dist[a.From]+theta[i] < dist[a.To]-1e-12 {
				dist[a.To] = dist[a.From] + theta[i]
				changed = true
			}
		}
		if !changed {
			return false
		}
		if round == g.cfg.Nodes {
			return true
		}
	}
	return false
}

func TestGraphAgainstAllPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 7))
	exact, refused := 0, 0
	for k := range 4000 {
		cfg := randomGraph(r, k%3 == 0)
		paths := arcPaths(cfg)
		theta := make([]float64, len(cfg.Arcs))
		for i := range theta {
			theta[i] = float64(r.IntN(9))
			if k%2 == 0 && r.IntN(2) == 0 {
				theta[i] = -theta[i]
			}
		}
		best := math.Inf(1)
		for _, p := range paths {
			best = min(best, sumOver(theta, p))
		}
		cfg.Negative = Exact
		g := mustGraph(cfg)
		s := g.NewSolver()
		w := make([]float64, len(theta))
		_, err := s.Solve(w, theta)
		if negativeCycle(g, theta) {
			refused++
			if !errors.Is(err, ErrNegativeCycle) || s.Path(nil) != nil {
				t.Fatalf("%+v, costs %v: %v, want ErrNegativeCycle", cfg, theta, err)
			}
			continue
		}
		exact++
		if got := sumOver(theta, w); err != nil || got != best || g.Violation(w) != 0 {
			t.Fatalf("%+v, costs %v: flow %v of cost %v, want %v: %v", cfg, theta, w, got, best, err)
		}
		at := cfg.Source
		for _, i := range s.Path(nil) {
			if cfg.Arcs[i].From != at || w[i] != 1 {
				t.Fatalf("%+v: path %v of flow %v", cfg, s.Path(nil), w)
			}
			at = cfg.Arcs[i].To
		}
		if at != cfg.Sink {
			t.Fatalf("%+v: path %v ends at %d", cfg, s.Path(nil), at)
		}
		cfg.Negative = AsIs
		if _, err := mustGraph(cfg).NewLinear().Solve(w, theta); err != nil || g.Violation(w) != 0 {
			t.Fatalf("%+v, costs %v: AsIs gives %v, %v", cfg, theta, w, err)
		}
		if k%2 != 0 && sumOver(theta, w) != best {
			t.Fatalf("%+v, costs %v: cost %v, want %v", cfg, theta, sumOver(theta, w), best)
		}
	}
	if exact < 1000 || refused < 100 {
		t.Errorf("%d exact and %d refused problems test too little", exact, refused)
	}
}

func TestGraphConformance(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 8))
	var cases []oracletest.Case
	for k := range 6 {
		// Without cycles, paths are all vertices.
		cfg := randomGraph(r, true)
		cfg.Negative = Exact
		cases = append(cases, oracletest.Case{Name: fmt.Sprint("acyclic ", k), Polytope: mustGraph(cfg), Vertices: arcPaths(cfg)})
		cfg = randomGraph(r, false)
		cases = append(cases, oracletest.Case{
			Name: fmt.Sprint("cyclic ", k), Polytope: mustGraph(cfg), LooseRadius: true,
			Cost: func(dst []float64, r *rand.Rand) {
				for i := range dst {
					dst[i] = r.ExpFloat64()
				}
			},
		})
	}
	oracletest.Run(t, cases...)
}

func TestBadGraphs(t *testing.T) {
	arcs := []Arc{{0, 1}, {1, 2}}
	for name, c := range map[string]struct {
		cfg  GraphConfig
		want error
	}{
		"no nodes":          {GraphConfig{}, ErrShape},
		"source is sink":    {GraphConfig{Nodes: 3, Arcs: arcs}, ErrShape},
		"sink out of range": {GraphConfig{Nodes: 3, Arcs: arcs, Sink: 3}, ErrShape},
		"arc out of range":  {GraphConfig{Nodes: 2, Arcs: arcs, Sink: 1}, ErrShape},
		"a policy of grids": {GraphConfig{Nodes: 3, Arcs: arcs, Sink: 2, Negative: Cycles}, ErrShape},
		"no path":           {GraphConfig{Nodes: 4, Arcs: arcs, Sink: 3}, oracle.ErrInfeasible},
	} {
		if _, err := NewGraph(c.cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	g := mustGraph(GraphConfig{Nodes: 3, Arcs: arcs, Sink: 2, Negative: Reject})
	if _, err := g.NewLinear().Solve(make([]float64, 2), []float64{1, -1}); !errors.Is(err, ErrNegativeCost) {
		t.Errorf("Reject gives %v", err)
	}
}
