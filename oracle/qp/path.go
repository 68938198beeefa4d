package qp

import (
	"errors"
	"fmt"
	"math"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
)

// Path is the relaxed path polytope of a grid (paper, section 3.4) with its
// Euclidean projection: the visits w of a path and of cycles apart from it,
// and their mixtures; on an acyclic grid those of paths alone. Set, radius and linear minimiser are those of its
// dijkstra.Grid; Path adds the projection.
//
// # Accuracy
//
// With p = -theta/lambda, the projection minimises |w-p|²/2. A Projector
// bounds the duality gap of its answer in these units,
//
//	gap = g.w - min over s in S of g.s >= |w - Π(p)|²/2,   g = w - p,
//
// and reports the bound, times lambda, as Info.Gap. An Optimal answer has a
// gap of at most 1e-9 and entries within 1e-5 of Π(p), or 1e-12 and 1e-6 from
// NewExactPath; rounding adds up to 4e-13 (1 + max|p|) to either gap. Its
// Violation is below 1e-9. The distance of entries is measured; the gap alone
// would allow 4.5e-5 or 1.4e-6. An answer that falls short has the Status
// IterationLimit and is the last point reached or, if that is not feasible, a
// path, which JVP does not differentiate.
//
// # Algorithms
//
// Few pairs of neighbours with p_u + p_v > 0, of which cycles are made, call
// for Wolfe's nearest point method (Wolfe 1976) over the paths and cycles
// found so far; many call for a primal-dual interior point method (Mehrotra
// 1992), which also takes over where Wolfe's method gets stuck. On an acyclic
// grid, whose shortest paths are cheap for costs of any sign, Wolfe's method
// comes first always.
type Path struct {
	grid *dijkstra.Grid
	// search is the grid for costs of the projection's own.
	search *dijkstra.Grid
	frame  pathFrame
	goal   pathGoal
}

// pathGoal is what an Optimal answer reaches.
type pathGoal struct {
	// gap is the duality gap, mu the complementarity of the interior point
	// method, whose entries are measured to be within 32 sqrt(mu) over 10,000
	// random instances (oraclebench -contract): 2e-14 leaves a factor 2 to the
	// 1e-5 that is promised.
	gap, mu float64
}

// errPathGrid: NewPath was called without a grid.
var errPathGrid = errors.New("no grid")

// NewPath returns the relaxed path polytope of g. It refuses nil and, with
// dijkstra.ErrShape, grids whose interior point method would take more than
// 512 MiB: square ones above about 320 x 320 cells.
func NewPath(g *dijkstra.Grid) (*Path, error) {
	return newPath(g, pathGoal{gap: 1e-9, mu: 2e-14})
}

// NewExactPath is NewPath with a higher accuracy, for references and tests.
func NewExactPath(g *dijkstra.Grid) (*Path, error) {
	return newPath(g, pathGoal{gap: 1e-12, mu: 1e-16})
}

func newPath(g *dijkstra.Grid, goal pathGoal) (*Path, error) {
	if g == nil {
		return nil, errPathGrid
	}
	cfg := g.Config()
	if narrow := 2*min(cfg.Height, cfg.Width) + 3; g.Dim() > pathMaxBand/narrow {
		return nil, fmt.Errorf("a projection onto %d x %d cells takes more than %d numbers: %w", cfg.Height, cfg.Width, pathMaxBand, dijkstra.ErrShape)
	}
	cfg.Ties, cfg.Negative = dijkstra.AnyTies, dijkstra.Exact
	search, err := dijkstra.NewGrid(cfg)
	if err != nil {
		return nil, err
	}
	return &Path{grid: g, search: search, frame: newPathFrame(cfg), goal: goal}, nil
}

// Grid returns the grid of p.
func (p *Path) Grid() *dijkstra.Grid { return p.grid }

// Dim is the number of cells.
func (p *Path) Dim() int { return p.grid.Dim() }

// Radius is the grid's: 12 for opposite border cells of a 12 x 12 grid with
// eight neighbours.
func (p *Path) Radius() float64 { return p.grid.Radius() }

// Violation is the grid's.
func (p *Path) Violation(w []float64) float64 { return p.grid.Violation(w) }

// NewLinear returns the grid's *dijkstra.Solver. Whether it counts cycles, as
// the projection does, is up to the grid's policy for negative costs.
func (p *Path) NewLinear() oracle.Linear { return p.grid.NewLinear() }

// NewProjector returns a *PathProjector.
func (p *Path) NewProjector() oracle.Projector { return newPathProjector(p) }

const (
	// pathGapScale is what rounding adds to the gap for every unit of max|p|.
	pathGapScale = 1e-13
	// pathMaxBand is the most numbers of the interior point method's matrix.
	pathMaxBand = 1 << 26
	// pathFeasible is the violation that counts as none.
	pathFeasible = 5e-10
	// pathWolfePairs is the most pairs of neighbours with p_u + p_v > 0 for
	// which Wolfe's method is the faster one.
	pathWolfePairs = 20
)

// pathMethod is the algorithm that gave an answer.
type pathMethod uint8

const (
	pathNone pathMethod = iota
	pathByWolfe
	pathByInterior
)

// PathProjector projects onto a Path. Info.Iterations counts the paths
// and cycles that Wolfe's method looked for plus the iterations of the interior
// point method.
type PathProjector struct {
	path   *Path
	p      []float64 // by place
	limit  float64   // the gap to reach
	wolfe  *pathWolfe
	inner  *pathInterior   // nil until needed
	lanes  *pathInterior   // likewise, for several problems at once
	meter  *dijkstra.Meter // likewise
	method pathMethod
	// pending lists rows of a batch.
	pending []pathPending
	// fallbacks counts the times Wolfe's method gave up, and arbitrations those
	// that the interior point method's flows did not prove its visits.
	fallbacks, arbitrations int
	tally                   oracle.Tally
}

func newPathProjector(path *Path) *PathProjector {
	return &PathProjector{
		path:  path,
		p:     make([]float64, path.frame.size),
		wolfe: newPathWolfe(path),
	}
}

// Project writes the projection of -theta/lambda to dst; see Path for its
// accuracy. theta/lambda must not overflow (oracle.ErrNonFinite).
func (q *PathProjector) Project(dst, theta []float64, lambda float64, warm *oracle.Warm) (oracle.Info, error) {
	q.method = pathNone
	scale, err := q.load(dst, theta, lambda)
	if err != nil {
		return oracle.Info{}, err
	}
	info, ok := q.byWolfe(dst, scale, lambda, warm)
	if !ok {
		q.needInterior()
		gap := q.inner.project(q.p, scale, q.limit)
		q.settle(dst, theta, &info, q.inner, 0, gap, lambda)
	}
	return info, nil
}

// Tally implements oracle.Tallier: Hard counts what the interior point method
// solved, Pairs the pairs of neighbours with p_u + p_v > 0, neither of them an
// endpoint, up to 21 for each projection.
func (q *PathProjector) Tally() oracle.Tally { return q.tally }

// load checks the arguments of a projection, sets p and limit, and returns the
// largest entry of p.
func (q *PathProjector) load(dst, theta []float64, lambda float64) (scale float64, err error) {
	if err := oracle.CheckProject(dst, theta, lambda, q.path.Dim()); err != nil {
		return 0, err
	}
	f := &q.path.frame
	for v, place := range f.place {
		x := -theta[v] / lambda
		q.p[place] = x
		scale = max(scale, math.Abs(x))
	}
	if math.IsInf(scale, 1) {
		return 0, fmt.Errorf("theta/lambda overflows at lambda %v: %w", lambda, oracle.ErrNonFinite)
	}
	// Every point has ones at the endpoints, whatever they cost.
	q.p[f.source], q.p[f.sink] = 1, 1
	q.limit = q.path.goal.gap + pathGapScale*scale
	return scale, nil
}

// byWolfe projects p by Wolfe's method, unless it is not made for p or fails.
// Then it leaves a cold start in warm.
func (q *PathProjector) byWolfe(dst []float64, scale, lambda float64, warm *oracle.Warm) (info oracle.Info, ok bool) {
	f := &q.path.frame
	pairs := 0
	if !f.acyclic {
		pairs = f.positivePairs(q.p, pathWolfePairs)
	}
	q.tally.Projections++
	q.tally.Pairs += int64(pairs)
	if pairs <= pathWolfePairs {
		ok = q.wolfe.project(q.p, scale, q.limit, q.wolfe.load(warm))
		info.Iterations = q.wolfe.prices
		if !ok {
			q.fallbacks++
		}
	}
	if !ok {
		q.tally.Hard++
		if warm != nil {
			warm.Words = warm.Words[:0]
		}
		return info, false
	}
	q.method = pathByWolfe
	q.wolfe.save(warm)
	for v, place := range f.place {
		dst[v] = q.wolfe.w[place]
	}
	info.Status, info.Gap = oracle.Optimal, max(q.wolfe.gap, 0)*lambda
	return info, true
}

func (q *PathProjector) needInterior() {
	if q.inner == nil {
		q.inner = newPathInterior(q.path, 1)
		q.meter = q.path.grid.NewMeter()
	}
}

// settle turns the end of lane l, whose visits are there, into an answer.
func (q *PathProjector) settle(dst, theta []float64, info *oracle.Info, inner *pathInterior, l int, gap, lambda float64) {
	q.method = pathByInterior
	info.Iterations += inner.lane[l].iterations
	for v, place := range q.path.frame.place {
		dst[v] = inner.visits[place]
	}
	// The flows of the interior point method prove that its visits are in the
	// set, unless rounding has spoilt them; then a maximum flow decides.
	if !(inner.balance(l) <= pathFeasible) {
		q.arbitrations++
		if !(q.meter.Violation(dst) <= pathFeasible) {
			q.reload(theta, lambda)
			gap = q.wolfe.anyPath(dst, q.p)
			q.method = pathNone // there is nothing to differentiate
		}
	}
	info.Status, info.Gap = oracle.Optimal, max(gap, 0)*lambda
	if !(gap <= inner.lane[l].limit) {
		info.Status = oracle.IterationLimit
	}
}

// JVP writes the product of the symmetric Jacobian of the projection and v to
// dst.
func (q *PathProjector) JVP(dst, v []float64) error {
	if q.method == pathNone {
		return oracle.ErrNoProjection
	}
	d := q.path.Dim()
	if len(dst) != d {
		return fmt.Errorf("dst has length %d, want %d: %w", len(dst), d, oracle.ErrDimension)
	}
	if err := oracle.CheckVector("v", v, d); err != nil {
		return err
	}
	if q.method == pathByWolfe {
		q.wolfe.jvp(dst, v)
	} else {
		q.inner.jvp(dst, v)
	}
	return nil
}
