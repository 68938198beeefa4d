// Package qp holds the sets whose projection is a quadratic program without a
// closed form: Path, the path polytope of a grid, with a solver of its own, and
// Polyhedron, any set described by bounds, linear inequalities and equalities,
// for problems of the user's own.
package qp

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"fedrspo/oracle"
)

// ErrConstraints is wrapped by the errors of NewPolyhedron for input that
// describes no set: a wrong length, a NaN, an index out of range or given
// twice, a lower bound above its upper bound; or one too large for the solvers.
var ErrConstraints = errors.New("qp: invalid constraints")

// Constraint is one linear constraint, a.w <= RHS or a.w = RHS depending on
// the list it stands in.
type Constraint struct {
	// Index lists the entries of w the constraint is about, each at most once
	// and in any order, and Value their coefficients. Without Index, Value is
	// the dense row a, of length Dim; without both, the row is zero.
	Index []int
	Value []float64
	// RHS is the right-hand side, a finite number.
	RHS float64
}

// Constraints describes the polyhedron
//
//	S = { w : Lower <= w <= Upper, a.w <= b for every AtMost, a.w = b for every Equal }.
//
// Rows may be zero, equal, proportional, linearly dependent or redundant, and
// of any scale.
type Constraints struct {
	// Dim is the number of variables d, at least 1.
	Dim int
	// Lower and Upper have length Dim; entries may be infinite. A nil slice
	// means no bounds. Equal bounds fix a variable.
	Lower, Upper []float64
	// AtMost are the inequalities, Equal the equalities.
	AtMost, Equal []Constraint
	// Radius, if positive, is what Polyhedron.Radius returns. Give it where S
	// is unbounded and lambda is calibrated from the radius, or where max |w|
	// is known exactly.
	Radius float64
}

// Polyhedron is a non-empty set described by Constraints.
type Polyhedron struct {
	dim int
	// lower, upper and rows are the constraints as given, for Violation.
	lower, upper []float64
	rows         []polyRow
	sys          *polySystem
	// start is a basis of a vertex of S, from which every Solve starts.
	start  *polyTableau
	radius func() float64
}

var _ oracle.Polytope = (*Polyhedron)(nil)

// NewPolyhedron returns the polyhedron of c, which it copies.
//
// Invalid input is an ErrConstraints that names the variable or the row. An
// empty set is an oracle.ErrInfeasible; every returned polyhedron has a point,
// found by the first phase of the simplex method. Constraints count as
// consistent if some point breaks none of them by more than 1e-10 of 1+|RHS|,
// with rows scaled to a Euclidean norm of about 1: they may be the result of
// rounded computations. Answers then break them by no more than that, and where
// the constraints can be met to 2e-13, by no more than 2e-13.
//
// Rows may be sparse, but the solvers keep a dense table: a set whose variables
// times rows, as presolve leaves them, exceed 2^27 (1 GiB) is an ErrConstraints.
func NewPolyhedron(c Constraints) (*Polyhedron, error) {
	lower, upper, rows, err := polyValidate(c)
	if err != nil {
		return nil, err
	}
	sys, err := polyPresolve(lower, upper, rows)
	if err != nil {
		return nil, err
	}
	if sys.n > polyMaxTable/(sys.m+1) {
		return nil, fmt.Errorf("%w: a table of %d variables by %d rows is too large, want at most %d entries", ErrConstraints, sys.n, sys.m+1, polyMaxTable)
	}
	sys, start, err := polyFeasible(sys)
	if err != nil {
		return nil, err
	}
	p := &Polyhedron{dim: c.Dim, lower: lower, upper: upper, rows: rows, sys: sys, start: start}
	p.radius = func() float64 { return c.Radius }
	if c.Radius == 0 {
		p.radius = sync.OnceValue(p.radiusBound)
	}
	return p, nil
}

// Dim returns the number of variables d.
func (p *Polyhedron) Dim() int { return p.dim }

// Radius returns Constraints.Radius if given, and else an upper bound of
// max |w|₂ over S (the maximum itself is NP-hard to find), +Inf where S is
// unbounded.
//
// With l_i and u_i the least and largest w_i over S, each from a linear
// program, w_i² <= (l_i+u_i) w_i - l_i u_i, and the bound is the square root
// of the largest value of the sum of the right-hand sides over S, one more
// linear program. It is exact where the longest vertex of S is a vertex of its
// bounding box, as for 0/1 polytopes. The first call solves the 2d+1 programs,
// and later ones remember the result.
//
// The calibration lambda = C/R of a regularised loss (paper, section 3.1)
// needs a finite R > 0: for an unbounded S give Constraints.Radius, the norm of
// the longest decision that can matter.
func (p *Polyhedron) Radius() float64 { return p.radius() }

// Violation returns the largest amount by which w breaks a constraint: for a
// bound in units of w, for a row as the distance |a.w - b|/|a|₂ to its
// hyperplane. It is 0 where w breaks none, and +Inf for a wrong length or an
// entry that is not finite.
func (p *Polyhedron) Violation(w []float64) float64 {
	if oracle.CheckVector("w", w, p.dim) != nil {
		return math.Inf(1)
	}
	worst := 0.0
	for i, x := range w {
		worst = max(worst, p.lower[i]-x, x-p.upper[i])
	}
	for k := range p.rows {
		r := &p.rows[k]
		excess := r.dot(w) - r.rhs
		if r.equal {
			excess = math.Abs(excess)
		}
		if r.norm > 0 {
			worst = max(worst, excess/r.norm)
		}
	}
	return worst
}

// NewLinear returns a simplex solver for the linear program.
//
// It is a bounded-variable primal simplex method on a condensed tableau of m
// rows (the inequalities and independent equalities that presolve keeps) by d
// columns. Every Solve starts from one vertex, so that answers never depend on
// history, and ends with iterative refinement against the original data. The
// answer is a vertex of S whenever S has one; among several minimisers the
// choice is deterministic but otherwise unspecified. Long runs of degenerate
// steps fall back to the rule of Bland (1977), which does not cycle.
//
// Info.Iterations counts pivots and bound flips, Info.Gap is the duality gap of
// the refined multipliers (where S is unbounded, over a part of it about as
// large as the answer). An unbounded objective is oracle.Unbounded with
// oracle.ErrUnbounded; costs that fall along an unbounded direction by less
// than 1e-9 of the largest cost count as constant along it. A solve allocates
// nothing. A pivot costs O(m d).
func (p *Polyhedron) NewLinear() oracle.Linear { return newPolyLinear(p) }

// NewProjector returns a dual active-set solver for the projection, the method
// of Goldfarb and Idnani (1983) for the identity Hessian.
//
// Active bounds are kept apart from the k active rows, of which a QR
// factorisation restricted to the free variables is updated: a change of the
// active set costs O(k d). The answer is recomputed from the final active set
// and meets the optimality conditions to rounding, in well-scaled problems far
// better than 1e-9 (1+max|theta|); a solve that ends worse is an
// oracle.IterationLimit. Info.Gap is the duality gap, Info.Iterations counts
// changes of the active set.
//
// A warm start is the active set of an earlier solution, one bit a row and two
// a variable; its answer equals the cold one to rounding. It costs a new
// factorisation, O(k² d), and then few changes. A solve allocates nothing, but
// for the first that fills a Warm.
//
// JVP is the orthogonal projection onto the directions in which the answer can
// move both ways without leaving S, the linear hull of its face. Where the
// projection is not differentiable this is the Jacobian at points nearby,
// those whose projections stay on the face. A constraint counts as tight
// within 1e-9 relative to its right-hand side.
func (p *Polyhedron) NewProjector() oracle.Projector { return newPolyProjector(p.sys) }

// polyRow is a row as given: its nonzero coefficients by ascending index, its
// right-hand side, and its Euclidean norm, all in units of 2^exp, which brings
// the norm of a nonzero row into [1, 2).
type polyRow struct {
	index []int
	value []float64
	rhs   float64
	norm  float64
	exp   int
	equal bool
	// number and equal name the row in errors.
	number int
}

// dot returns a.w.
func (r *polyRow) dot(w []float64) float64 { return polySparseDot(r.index, r.value, w) }

// String names the row as the user knows it.
func (r *polyRow) String() string {
	if r.equal {
		return fmt.Sprintf("Equal[%d]", r.number)
	}
	return fmt.Sprintf("AtMost[%d]", r.number)
}
