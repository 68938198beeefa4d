package dijkstra

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/oracle"
)

// Arc leads from one node to another; nodes count from 0.
type Arc struct{ From, To int }

// GraphConfig describes a shortest path problem on a directed graph.
type GraphConfig struct {
	// Nodes counts the nodes.
	Nodes int
	// Arcs may be parallel. Arcs that no path from source to sink without
	// repeated endpoints can use always have flow 0.
	Arcs []Arc
	// Source and Sink are distinct.
	Source, Sink int
	// Negative is AsIs, Exact or Reject.
	Negative Negative
}

// Graph is the set of flows of one unit from a source to a sink, with entries
// in [0, 1], one for each arc. Costs of arcs without a negative cycle are least
// at a path. It is an oracle.Polytope of dimension len(Arcs).
type Graph struct {
	cfg GraphConfig
	// Useful arcs by the node they leave: those of node v are
	// arc[first[v]:first[v+1]] and lead to head.
	first     []int32
	arc, head []int32
	useful    []bool // by arc
	radius    float64
}

// NewGraph returns the graph that cfg describes, ErrShape, or
// oracle.ErrInfeasible if no path leads from source to sink.
func NewGraph(cfg GraphConfig) (*Graph, error) {
	n := cfg.Nodes
	inside := func(v int) bool { return v >= 0 && v < n }
	if n > maxCells || len(cfg.Arcs) > maxCells {
		return nil, fmt.Errorf("%d nodes and %d arcs, want at most %d of each: %w", n, len(cfg.Arcs), maxCells, ErrShape)
	}
	if !inside(cfg.Source) || !inside(cfg.Sink) || cfg.Source == cfg.Sink {
		return nil, fmt.Errorf("source %d and sink %d, want distinct nodes among %d: %w", cfg.Source, cfg.Sink, n, ErrShape)
	}
	if cfg.Negative != AsIs && cfg.Negative != Exact && cfg.Negative != Reject {
		return nil, fmt.Errorf("policy %d for negative costs, want AsIs, Exact or Reject: %w", cfg.Negative, ErrShape)
	}
	for i, a := range cfg.Arcs {
		if !inside(a.From) || !inside(a.To) {
			return nil, fmt.Errorf("arc %d from %d to %d, want nodes below %d: %w", i, a.From, a.To, n, ErrShape)
		}
	}
	cfg.Arcs = append([]Arc(nil), cfg.Arcs...)
	g := &Graph{cfg: cfg}
	g.prune()
	if g.first[cfg.Source] == g.first[cfg.Source+1] {
		return nil, fmt.Errorf("no path from node %d to node %d: %w", cfg.Source, cfg.Sink, oracle.ErrInfeasible)
	}
	g.radius = g.maxNorm()
	return g, nil
}

// reachable marks the nodes that a walk from start reaches along the arcs that
// next maps to their two ends.
func (g *Graph) reachable(start int, ends func(a Arc) (from, to int)) []bool {
	out := make([][]int, g.cfg.Nodes)
	for _, a := range g.cfg.Arcs {
		if a.To != g.cfg.Source && a.From != g.cfg.Sink {
			from, to := ends(a)
			out[from] = append(out[from], to)
		}
	}
	seen := make([]bool, g.cfg.Nodes)
	seen[start] = true
	for stack := []int{start}; len(stack) > 0; {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, u := range out[v] {
			if !seen[u] {
				seen[u] = true
				stack = append(stack, u)
			}
		}
	}
	return seen
}

// prune keeps the useful arcs.
func (g *Graph) prune() {
	n := g.cfg.Nodes
	ahead := g.reachable(g.cfg.Source, func(a Arc) (int, int) { return a.From, a.To })
	behind := g.reachable(g.cfg.Sink, func(a Arc) (int, int) { return a.To, a.From })
	g.useful = make([]bool, len(g.cfg.Arcs))
	g.first = make([]int32, n+1)
	for i, a := range g.cfg.Arcs {
		g.useful[i] = a.From != a.To && a.To != g.cfg.Source && a.From != g.cfg.Sink && ahead[a.From] && behind[a.To]
		if g.useful[i] {
			g.first[a.From+1]++
		}
	}
	for v := range n {
		g.first[v+1] += g.first[v]
	}
	g.arc = make([]int32, g.first[n])
	g.head = make([]int32, g.first[n])
	next := append([]int32(nil), g.first[:n]...)
	for i, a := range g.cfg.Arcs {
		if g.useful[i] {
			g.arc[next[a.From]], g.head[next[a.From]] = int32(i), int32(a.To)
			next[a.From]++
		}
	}
}

// maxNorm returns the root of the most arcs of a path if the useful arcs have
// no cycle, and of the number of useful arcs otherwise.
func (g *Graph) maxNorm() float64 {
	n := g.cfg.Nodes
	before := make([]int, n)
	for _, v := range g.head {
		before[v]++
	}
	longest := make([]int, n)
	ordered := 0
	for stack := []int{g.cfg.Source}; len(stack) > 0; {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, u := range g.head[g.first[v]:g.first[v+1]] {
			ordered++
			longest[u] = max(longest[u], longest[v]+1)
			if before[u]--; before[u] == 0 {
				stack = append(stack, int(u))
			}
		}
	}
	if ordered < len(g.arc) {
		return math.Sqrt(float64(len(g.arc)))
	}
	return math.Sqrt(float64(longest[g.cfg.Sink]))
}

// Dim is the number of arcs.
func (g *Graph) Dim() int { return len(g.cfg.Arcs) }

// Radius is the root of the most arcs on a path, which is exact, if the graph
// has no cycle between its endpoints, and otherwise an upper bound, the root of
// the number of arcs of use.
func (g *Graph) Radius() float64 { return g.radius }

// Violation is the largest distance of an entry from [0, 1], of an arc of no
// use from 0, or of a node's flow out minus flow in from 1 at the source, -1 at
// the sink and 0 elsewhere.
func (g *Graph) Violation(w []float64) float64 {
	if len(w) != g.Dim() {
		return math.Inf(1)
	}
	worst := 0.0
	excess := make([]float64, g.cfg.Nodes)
	excess[g.cfg.Source], excess[g.cfg.Sink] = -1, 1
	for i, a := range g.cfg.Arcs {
		if math.IsNaN(w[i]) || math.IsInf(w[i], 0) {
			return math.Inf(1)
		}
		worst = max(worst, -w[i], w[i]-1)
		if !g.useful[i] {
			worst = max(worst, w[i])
			continue
		}
		excess[a.From] += w[i]
		excess[a.To] -= w[i]
	}
	for _, x := range excess {
		worst = max(worst, math.Abs(x))
	}
	return worst
}

// NewProjector returns nil.
func (g *Graph) NewProjector() oracle.Projector { return nil }

// NewLinear returns a *GraphSolver.
func (g *Graph) NewLinear() oracle.Linear { return g.NewSolver() }

// GraphSolver finds shortest paths on a Graph; it is the graph's
// oracle.Linear. Info.Iterations counts scanned nodes.
type GraphSolver struct {
	g    *Graph
	dist []float64
	pred []int32 // position in g.arc of the arc taken to a node
	done []bool
	q    queue
	// The nodes of Bellman and Ford whose distance changed, in a ring.
	ring   []int32
	rounds []int32 // steps of the path to a node
	solved bool
}

// NewSolver returns a solver for one goroutine.
func (g *Graph) NewSolver() *GraphSolver {
	n := g.cfg.Nodes
	return &GraphSolver{
		g:    g,
		dist: make([]float64, n), pred: make([]int32, n), done: make([]bool, n),
		q: newQueue(len(g.arc) + 1), ring: make([]int32, n), rounds: make([]int32, n),
	}
}

// Solve writes ones for the arcs of the path among zeros to dst.
func (s *GraphSolver) Solve(dst, theta []float64) (oracle.Info, error) {
	s.solved = false
	g := s.g
	if err := oracle.CheckSolve(dst, theta, g.Dim()); err != nil {
		return oracle.Info{}, err
	}
	negative := int32(-1)
	for _, a := range g.arc {
		if theta[a] < 0 {
			negative = a
			break
		}
	}
	if negative >= 0 && g.cfg.Negative == Reject {
		return oracle.Info{}, fmt.Errorf("arc %d costs %v: %w", negative, theta[negative], ErrNegativeCost)
	}
	scans := 0
	if negative >= 0 && g.cfg.Negative == Exact {
		var err error
		if scans, err = s.correct(theta); err != nil {
			return oracle.Info{}, err
		}
	} else {
		scans = s.settle(theta)
	}
	s.solved = true
	clear(dst)
	for v := g.cfg.Sink; v != g.cfg.Source; {
		a := g.arc[s.pred[v]]
		dst[a] = 1
		v = g.cfg.Arcs[a].From
	}
	return oracle.Info{Status: oracle.Optimal, Iterations: scans}, nil
}

// Path appends the arcs of the last Solve's path, from source to sink, to buf.
// It appends nothing when that failed.
func (s *GraphSolver) Path(buf []int) []int {
	if !s.solved {
		return buf
	}
	start := len(buf)
	for v := s.g.cfg.Sink; v != s.g.cfg.Source; {
		a := s.g.arc[s.pred[v]]
		buf = append(buf, int(a))
		v = s.g.cfg.Arcs[a].From
	}
	slices.Reverse(buf[start:])
	return buf
}

func (s *GraphSolver) reset() {
	for v := range s.dist {
		s.dist[v] = math.Inf(1)
	}
	s.dist[s.g.cfg.Source] = 0
	clear(s.done)
}

// settle is Dijkstra's algorithm: nodes in the order of (distance, node), arcs
// in their own, strict improvements only.
func (s *GraphSolver) settle(theta []float64) (scans int) {
	g := s.g
	s.reset()
	s.q.clear()
	s.q.push(entry{keyOf(0), uint64(g.cfg.Source)})
	for {
		v := int(s.q.pop().id)
		if s.done[v] {
			continue
		}
		s.done[v] = true
		scans++
		if v == g.cfg.Sink {
			return scans
		}
		for i := g.first[v]; i < g.first[v+1]; i++ {
			u := g.head[i]
			// Adding 0 turns -0, whose key would come before 0's, into 0.
			if x := s.dist[v] + theta[g.arc[i]] + 0; !s.done[u] && x < s.dist[u] {
				s.dist[u], s.pred[u] = x, i
				s.q.push(entry{keyOf(x), uint64(u)})
			}
		}
	}
}

// correct is the algorithm of Bellman (1958) and Ford (1956) with a queue of
// the nodes to scan. A path of as many steps as there are nodes has a cycle,
// and its last improvement shows that the cycle is negative.
func (s *GraphSolver) correct(theta []float64) (scans int, err error) {
	g := s.g
	s.reset()
	s.rounds[g.cfg.Source] = 0
	head, waiting := 0, 1
	s.ring[0] = int32(g.cfg.Source)
	s.done[g.cfg.Source] = true // done means waiting here
	for ; waiting > 0; scans++ {
		v := s.ring[head]
		if head++; head == len(s.ring) {
			head = 0
		}
		waiting--
		s.done[v] = false
		for i := g.first[v]; i < g.first[v+1]; i++ {
			u := g.head[i]
			x := s.dist[v] + theta[g.arc[i]]
			if !(x < s.dist[u]) {
				continue
			}
			s.dist[u], s.pred[u], s.rounds[u] = x, i, s.rounds[v]+1
			if int(s.rounds[u]) >= g.cfg.Nodes {
				return scans, fmt.Errorf("through node %d: %w", u, ErrNegativeCycle)
			}
			if !s.done[u] {
				s.done[u] = true
				at := head + waiting
				if at >= len(s.ring) {
					at -= len(s.ring)
				}
				s.ring[at] = u
				waiting++
			}
		}
	}
	return scans, nil
}
