// Package dijkstra finds shortest paths: on grids whose cells have costs, with
// one 0/1 entry per visited cell (paper, section 3.3), and on directed graphs
// whose arcs have costs, with one entry per arc.
//
// # Set
//
// A [Grid] describes the relaxed path polytope of the paper, section 3.4. With
// x_v in [0, 1] for every cell v and a flow e >= 0 on the ordered pairs of
// neighbours,
//
//	x_v = sum of e into v for v != source,   x_source = 1, no flow into the source,
//	x_v = sum of e out of v for v != sink,   x_sink = 1,   no flow out of the sink.
//
// It is an assignment system (each cell's outgoing half to a neighbour's
// incoming half, or to its own for x_v = 0), so its vertices are integral: a
// path, and possibly cycles that touch neither it nor one another; going to a
// neighbour and back is a cycle. With costs >= 0 cycles cost something and the
// minimiser is a shortest path. [Negative] says what happens with others.
//
// Config.Acyclic is the set without cycles: the mixtures of the paths that
// never turn back. Its minimiser is a path whatever the signs of the costs.
//
// # Ties
//
// Costs of real maps take few values and ties are common. Which of the equally
// short paths is returned is part of what a data set means by its labels, so
// the default, [PaperTies], follows the paper exactly. [AnyTies] is faster.
package dijkstra

import (
	"errors"
	"fmt"
	"math"

	"fedrspo/oracle"
)

// Sentinel errors. Constructors and solvers wrap them with context; test with
// errors.Is.
var (
	// ErrShape: a grid or graph with no place for two distinct endpoints, an
	// endpoint or node out of range, or an unknown option.
	ErrShape = errors.New("not a shortest path problem")
	// ErrNegativeCost: a cost below zero under the Reject policy.
	ErrNegativeCost = errors.New("negative cost")
	// ErrNegativeCycle: costs with a cycle of negative length under the Exact
	// policy; a shortest simple path is then NP-hard to find.
	ErrNegativeCycle = errors.New("negative cycle")
)

// Cell is a place on a grid, counted from 0 at the top left.
type Cell struct{ Row, Col int }

// Neighbours says which cells are one step apart.
type Neighbours uint8

const (
	// Eight joins cells that share an edge or a corner.
	Eight Neighbours = iota
	// Four joins cells that share an edge.
	Four
)

// Negative says what a solver does with negative costs. All policies agree on
// costs >= 0. On acyclic grids AsIs and Exact are the same: every answer is
// exact.
type Negative uint8

const (
	// AsIs runs Dijkstra's algorithm regardless, as the paper does: the answer
	// is a simple path, though not always the shortest. It counts as Optimal.
	AsIs Negative = iota
	// Exact returns a shortest simple path or, where there is a negative cycle,
	// ErrNegativeCycle. On a grid that is a pair of neighbours, neither an
	// endpoint, of negative sum.
	Exact
	// Cycles minimises over the whole set, so that the answer includes every
	// cycle that pays. Only for grids that have cycles.
	Cycles
	// Reject returns ErrNegativeCost.
	Reject
)

// Ties says which of several shortest paths is returned.
type Ties uint8

const (
	// PaperTies is the paper's rule, section 3.3. The grid is flipped so that
	// the source lies weakly above and left of the sink; cells are settled in
	// the order of (distance, row, column); a cell's predecessor is the first
	// from which it got its final distance. The answer is exact: no path has
	// a smaller sum as rounded along the path. On an acyclic grid the
	// predecessor is the one of least (distance, row, column), which with costs
	// > 0 is the same.
	PaperTies Ties = iota
	// AnyTies compares distances without their last 8 to 12 bits, which is
	// faster. The path is a shortest one up to a relative 2^-40 a step. Only
	// costs >= 0 and at most 4000 cells or so gain from it; otherwise it is
	// the same as PaperTies.
	AnyTies
)

// Config describes a shortest path problem on a grid. The zero value of every
// option is the paper's.
type Config struct {
	// Height and Width count cells; costs are row-major [Height, Width].
	Height, Width int
	Neighbours    Neighbours
	// Source and Sink are distinct: a path has both, and at least two cells.
	Source, Sink Cell
	Negative     Negative
	Ties         Ties
	// Acyclic keeps, of the two steps between a pair of neighbours, the one that
	// advances in a linear order of the cells, so that no path visits a cell
	// twice and there are no cycles. Flip the grid so that the source lies
	// weakly above and left of the sink. If the sink is at least as far below
	// as it is to the right, the order is by row, then column: a path may go
	// right, or down to any of three neighbours, and what is lost is the paths
	// with a step to the left or up to any of three. Otherwise the order is by
	// column, then row: a path may go down, or right to any of three, and not
	// up or left to any of three. With four neighbours it may go right and down
	// in either case.
	Acyclic bool
}

// Grid is the set of paths between two cells of a grid, relaxed as the package
// comment says. It is an oracle.Polytope of dimension Height Width.
type Grid struct {
	cfg Config
	// Cells live in a frame of one cell of padding, in the flipped order: cell
	// (r, c) after flipping has the place (r+1) stride + c + 1.
	stride, size int
	steps        []int   // place of a cell one step on minus place, in the paper's order
	place        []int32 // row-major cell to place
	cell         []int32 // place to row-major cell, -1 in the padding
	open         []uint8 // 1 at the places of cells, 0 in the padding
	source, sink int32   // places
	radius       float64
	dag          *dag // nil unless Acyclic
}

// maxCells keeps places within int32 and workspaces within reason.
const maxCells = 1 << 26

// NewGrid returns the grid that cfg describes, or ErrShape.
func NewGrid(cfg Config) (*Grid, error) {
	h, w := cfg.Height, cfg.Width
	if h < 1 || w < 1 || h > maxCells/w {
		return nil, fmt.Errorf("a grid of %d x %d cells, want at least 1 x 1 and at most %d in all: %w", h, w, maxCells, ErrShape)
	}
	for _, end := range []struct {
		name string
		at   Cell
	}{{"source", cfg.Source}, {"sink", cfg.Sink}} {
		if end.at.Row < 0 || end.at.Row >= h || end.at.Col < 0 || end.at.Col >= w {
			return nil, fmt.Errorf("the %s (%d, %d) is outside the %d x %d grid: %w", end.name, end.at.Row, end.at.Col, h, w, ErrShape)
		}
	}
	if cfg.Source == cfg.Sink {
		return nil, fmt.Errorf("source and sink are both (%d, %d), want distinct cells: %w", cfg.Sink.Row, cfg.Sink.Col, ErrShape)
	}
	if cfg.Neighbours > Four || cfg.Negative > Reject || cfg.Ties > AnyTies {
		return nil, fmt.Errorf("unknown option among Neighbours %d, Negative %d, Ties %d: %w", cfg.Neighbours, cfg.Negative, cfg.Ties, ErrShape)
	}
	if cfg.Acyclic && cfg.Negative == Cycles {
		return nil, fmt.Errorf("an acyclic grid has no cycles to minimise over, want another policy than Cycles: %w", ErrShape)
	}
	g := &Grid{cfg: cfg, stride: w + 1}
	g.size = (h+2)*g.stride + 2
	g.steps = steps(cfg.Neighbours, g.stride)
	g.place = make([]int32, h*w)
	g.cell = make([]int32, g.size)
	g.open = make([]uint8, g.size)
	for p := range g.cell {
		g.cell[p] = -1
	}
	for r := range h {
		for c := range w {
			p := g.placeOf(Cell{r, c})
			g.place[r*w+c] = p
			g.cell[p] = int32(r*w + c)
			g.open[p] = 1
		}
	}
	g.source, g.sink = g.placeOf(cfg.Source), g.placeOf(cfg.Sink)
	if cfg.Acyclic {
		g.dag = newDAG(g)
		g.steps = g.dag.steps
	}
	g.radius = g.maxNorm()
	return g, nil
}

// steps lists the neighbours of a cell in the paper's order.
func steps(n Neighbours, stride int) []int {
	if n == Four {
		return []int{-stride, -1, 1, stride}
	}
	return []int{-stride - 1, -stride, -stride + 1, -1, 1, stride - 1, stride, stride + 1}
}

// placeOf returns the place of a cell after flipping.
func (g *Grid) placeOf(c Cell) int32 {
	if g.cfg.Source.Row > g.cfg.Sink.Row {
		c.Row = g.cfg.Height - 1 - c.Row
	}
	if g.cfg.Source.Col > g.cfg.Sink.Col {
		c.Col = g.cfg.Width - 1 - c.Col
	}
	return int32((c.Row+1)*g.stride + c.Col + 1)
}

// Config returns what the grid was made from.
func (g *Grid) Config() Config { return g.cfg }

// Dim is Height Width.
func (g *Grid) Dim() int { return len(g.place) }

// Before appends the cells from which a path can step to cell v, all as
// row-major indices, to buf: all neighbours but the sink, or none if v is the
// source. On an acyclic grid it appends only those that some path does step
// from to v.
func (g *Grid) Before(buf []int, v int) []int {
	p := g.place[v]
	if g.dag != nil {
		for _, u := range g.dag.before(p) {
			buf = append(buf, int(g.cell[u]))
		}
		return buf
	}
	if p == g.source {
		return buf
	}
	for _, step := range g.steps {
		if u := p - int32(step); g.cell[u] >= 0 && u != g.sink {
			buf = append(buf, int(g.cell[u]))
		}
	}
	return buf
}

// Radius is the square root of the most cells that a path with disjoint cycles
// can cover, which is exact: 12 for opposite border cells of a 12 x 12 grid
// with eight neighbours. Where there are cycles and more than 4096 cells, it is
// an upper bound, which counts all of them.
func (g *Grid) Radius() float64 { return g.radius }

// NewProjector returns nil: package qp projects onto this set.
func (g *Grid) NewProjector() oracle.Projector { return nil }

// NewLinear returns a *Solver.
func (g *Grid) NewLinear() oracle.Linear { return g.NewSolver() }

// maxExactRadius is the largest grid whose radius is worth an assignment
// problem.
const maxExactRadius = 4096

func (g *Grid) maxNorm() float64 {
	if g.dag != nil {
		return math.Sqrt(g.dag.longest(g))
	}
	d := g.Dim()
	if d > maxExactRadius {
		return math.Sqrt(float64(d))
	}
	theta := make([]float64, g.size)
	for _, p := range g.place {
		theta[p] = -1
	}
	c := newCover(g)
	c.solve(theta)
	covered := 0.0
	for _, p := range g.place {
		if c.visits(p) {
			covered++
		}
	}
	return math.Sqrt(covered)
}
