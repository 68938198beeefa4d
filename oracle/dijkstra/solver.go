package dijkstra

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/oracle"
)

// Solver finds shortest paths on a Grid; it is the grid's oracle.Linear.
// Info.Iterations counts settled cells.
type Solver struct {
	g    *Grid
	cost []float64 // by place
	dist []float64 // cost of the path to a place, both ends included
	pred []int32   // the place before on that path
	free []uint8   // 1 where not yet reached (costs >= 0) or not yet settled
	near [8]int32
	// settled lists places in the order in which they became final.
	settled []int32
	queue   queue
	packed  *packed // nil unless wanted
	cover   *cover  // nil unless wanted
	by      search
}

// search is the algorithm that gave an answer.
type search uint8

const (
	byNone search = iota
	byLabels
	byPacked
	byCover
)

// NewSolver returns a solver for one goroutine.
func (g *Grid) NewSolver() *Solver {
	s := &Solver{
		g:       g,
		cost:    make([]float64, g.size),
		dist:    make([]float64, g.size),
		pred:    make([]int32, g.size),
		free:    make([]uint8, g.size),
		settled: make([]int32, 0, g.Dim()),
		queue:   newQueue(g.Dim()),
	}
	if g.cfg.Ties == AnyTies && g.dag == nil {
		s.packed = newPacked(g)
	}
	if g.cfg.Negative == Cycles {
		s.cover = newCover(g)
	}
	return s
}

// Solve writes the visited cells, source and sink included, as ones among
// zeros to dst [Height, Width]. theta [Height, Width] holds the costs of the
// cells, which a path pays at both ends too.
func (s *Solver) Solve(dst, theta []float64) (oracle.Info, error) {
	s.by = byNone
	if err := oracle.CheckSolve(dst, theta, s.g.Dim()); err != nil {
		return oracle.Info{}, err
	}
	if err := s.run(theta); err != nil {
		return oracle.Info{}, err
	}
	clear(dst)
	switch s.by {
	case byPacked:
		q := s.packed
		for p := q.sink; ; p = uint64(q.pred[p]) {
			dst[q.cell(p)] = 1
			if p == q.source {
				break
			}
		}
		return oracle.Info{Status: oracle.Optimal, Iterations: len(q.settled)}, nil
	case byCover:
		for v, p := range s.g.place {
			if s.cover.visits(p) {
				dst[v] = 1
			}
		}
	default:
		cell, pred := s.g.cell, s.pred
		for p := s.g.sink; p != s.g.source; p = pred[p] {
			dst[cell[p]] = 1
		}
		dst[cell[s.g.source]] = 1
	}
	return oracle.Info{Status: oracle.Optimal, Iterations: len(s.settled)}, nil
}

// Path appends the cells of the last Solve's path, from source to sink, to buf
// as row-major indices (row Width + column). It appends nothing when that
// failed.
func (s *Solver) Path(buf []int) []int {
	g := s.g
	start := len(buf)
	switch s.by {
	case byPacked:
		q := s.packed
		for p := q.sink; p != q.source; p = uint64(q.pred[p]) {
			buf = append(buf, q.cell(p))
		}
	case byCover:
		for p := g.sink; p != g.source; p = s.cover.out[p] {
			buf = append(buf, int(g.cell[p]))
		}
	case byLabels:
		for p := g.sink; p != g.source; p = s.pred[p] {
			buf = append(buf, int(g.cell[p]))
		}
	default:
		return buf
	}
	buf = append(buf, int(g.cell[g.source]))
	slices.Reverse(buf[start:])
	return buf
}

// Settled appends the cells whose distances the last Solve determined, nearest
// first, or in the order of the steps on an acyclic grid, to buf as row-major
// indices. It appends nothing when that failed, or found cycles.
func (s *Solver) Settled(buf []int) []int {
	switch s.by {
	case byPacked:
		for _, p := range s.packed.settled {
			buf = append(buf, s.packed.cell(uint64(p)))
		}
	case byLabels:
		for _, p := range s.settled {
			buf = append(buf, int(s.g.cell[p]))
		}
	}
	return buf
}

// run chooses the search that the signs of the costs call for.
func (s *Solver) run(theta []float64) error {
	g := s.g
	if s.packed != nil && s.packed.load(theta) {
		s.packed.run()
		s.by = byPacked
		return nil
	}
	least := 0.0
	for v, p := range g.place {
		x := theta[v] + 0 // no -0, whose bits would order last
		s.cost[p] = x
		least = min(least, x)
	}
	s.settled = s.settled[:0]
	s.by = byLabels
	if least < 0 && g.cfg.Negative == Reject {
		s.by = byNone
		for v, x := range theta {
			if x < 0 {
				return fmt.Errorf("cell %d costs %v: %w", v, x, ErrNegativeCost)
			}
		}
	}
	if g.dag != nil {
		s.settled = g.dag.sweep(s.dist, s.pred, s.cost, s.settled)
		return nil
	}
	copy(s.free, g.open)
	switch {
	case least >= 0:
		s.label()
	case g.cfg.Negative == AsIs:
		s.improve(0, 0)
	default:
		u, v := s.negativePair()
		switch {
		case u == 0:
			s.improve(0.5, least)
		case s.cover != nil:
			s.by = byCover
			s.cover.solve(s.cost)
		default:
			s.by = byNone
			return fmt.Errorf("cells %d and %d cost %v and %v: %w", g.cell[u], g.cell[v], s.cost[u], s.cost[v], ErrNegativeCycle)
		}
	}
	return nil
}

// negativePair returns two neighbouring places, neither an endpoint, whose
// costs sum to less than 0, or 0, 0.
func (s *Solver) negativePair() (u, v int32) {
	g := s.g
	for _, p := range g.place {
		if s.cost[p] >= 0 || p == g.source || p == g.sink {
			continue
		}
		for _, step := range g.steps {
			q := p + int32(step)
			if g.cell[q] >= 0 && q != g.source && q != g.sink && s.cost[p]+s.cost[q] < 0 {
				return p, q
			}
		}
	}
	return 0, 0
}

// gather collects the free neighbours of p into s.near and makes them taken.
// It has no branch on whether one is free, which no processor could predict.
func (s *Solver) gather(p int32) []int32 {
	n := 0
	free, near := s.free, &s.near
	for _, step := range s.g.steps {
		q := int(p) + step
		near[n&7] = int32(q)
		n += int(free[q])
		free[q] = 0
	}
	return near[:n]
}

// label is Dijkstra's algorithm for costs >= 0 in the paper's order. A cell is
// final when first reached, since no later settled cell is nearer.
func (s *Solver) label() {
	g, q := s.g, &s.queue
	q.clear()
	s.dist[g.source] = s.cost[g.source]
	s.free[g.source] = 0
	q.push(entry{math.Float64bits(s.dist[g.source]), uint64(g.source)})
	for {
		p := int32(q.e[1].id)
		s.settled = append(s.settled, p)
		if p == g.sink {
			return
		}
		near := s.gather(p)
		if len(near) == 0 {
			q.pop()
			continue
		}
		d := s.dist[p]
		for i, v := range near {
			x := d + s.cost[v]
			s.dist[v], s.pred[v] = x, p
			// The first takes the place of p.
			if e := (entry{math.Float64bits(x), uint64(v)}); i == 0 {
				q.fill(e)
			} else {
				q.push(e)
			}
		}
	}
}

// improve is Dijkstra's algorithm for costs of any sign in the paper's order,
// by distance minus share times a cell's own cost. With share 0 it is the
// paper's. With share 1/2 a step from u to v has the length
// (cost_u+cost_v)/2, and the algorithm is exact if no pair of neighbours has a
// negative sum. Pairs with an endpoint do not count, because every path has
// both endpoints once: the search ends at the sink, and what the source costs
// shifts all distances alike. Any cost of the sink gives the same paths; minus
// the least cost makes every step to it at least 0 long.
func (s *Solver) improve(share, least float64) {
	g, q := s.g, &s.queue
	q.clear()
	for p := range s.dist {
		s.dist[p] = math.Inf(1)
	}
	s.dist[g.source] = s.cost[g.source]
	q.push(entry{keyOf(s.dist[g.source]), uint64(g.source)})
	for {
		p := int32(q.pop().id)
		if s.free[p] == 0 {
			continue
		}
		s.free[p] = 0
		s.settled = append(s.settled, p)
		if p == g.sink {
			return
		}
		d := s.dist[p]
		for _, step := range g.steps {
			v := p + int32(step)
			x := d + s.cost[v]
			if s.free[v] == 0 || !(x < s.dist[v]) {
				continue
			}
			s.dist[v], s.pred[v] = x, p
			key := x - share*s.cost[v]
			if v == g.sink && share != 0 {
				key = d - share*least
			}
			q.push(entry{keyOf(key + 0), uint64(v)})
		}
	}
}
