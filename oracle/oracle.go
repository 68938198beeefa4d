// Package oracle defines what an optimisation oracle is: a convex feasible set
// (Polytope) and the two solvers every loss of this module is built from, a
// linear minimiser (Linear) and a Euclidean projection (Projector).
//
// # Conventions
//
// Everything is minimisation. For a set S and a cost vector theta of length
// Dim:
//
//	Linear:    w*(theta)           in argmin over w in S of theta.w
//	Projector: P_lambda(theta)     =  argmin over w in S of theta.w + (lambda/2)|w|²
//	                               =  Π_S(-theta/lambda)
//
// Costs and decisions are float64; a problem that maximises negates its values
// before it comes here.
//
// # Sharing
//
// A Polytope describes a set. It is immutable and safe for concurrent use.
// NewLinear and NewProjector hand out solvers, which own a workspace and
// belong to one goroutine at a time. A [Pool] fans a batch over goroutines,
// one pair of solvers each.
package oracle

import (
	"errors"
	"fmt"
	"math"
)

// Status says how a solve ended. It is not an error: a solve that ended at
// IterationLimit returned its best point and the accuracy it reached.
type Status uint8

const (
	// Unsolved is the zero Status: the solver returned an error.
	Unsolved Status = iota
	// Optimal means the answer meets the solver's documented accuracy.
	Optimal
	// IterationLimit means the solver stopped early; Info.Gap says how good
	// the returned point is.
	IterationLimit
	// Infeasible means the set is empty; the solve also returns ErrInfeasible.
	Infeasible
	// Unbounded means the objective has no lower bound on the set; the solve
	// also returns ErrUnbounded.
	Unbounded
)

// String returns the Status as words.
func (s Status) String() string {
	switch s {
	case Unsolved:
		return "unsolved"
	case Optimal:
		return "optimal"
	case IterationLimit:
		return "iteration limit"
	case Infeasible:
		return "infeasible"
	case Unbounded:
		return "unbounded"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Sentinel errors. Solvers wrap them with context; test with errors.Is.
var (
	// ErrDimension: a vector's length is not the polytope's Dim.
	ErrDimension = errors.New("wrong dimension")
	// ErrNonFinite: a NaN or an infinity among the inputs.
	ErrNonFinite = errors.New("not a finite number")
	// ErrLambda: the regularisation weight is not positive and finite.
	ErrLambda = errors.New("lambda must be positive and finite")
	// ErrInfeasible: the feasible set is empty.
	ErrInfeasible = errors.New("the feasible set is empty")
	// ErrUnbounded: the objective is unbounded below on the feasible set.
	ErrUnbounded = errors.New("the objective is unbounded below")
	// ErrNoProjection: JVP was called before a successful Project.
	ErrNoProjection = errors.New("no projection to differentiate: call Project first")
	// ErrNoProjector: the polytope has no projection solver.
	ErrNoProjector = errors.New("the polytope has no projection solver")
	// ErrNotSolved: a solver stopped short of its accuracy where an exact
	// answer was required.
	ErrNotSolved = errors.New("the solver did not reach its accuracy")
)

// Info reports on one solve.
type Info struct {
	// Status is Optimal for every answer that meets the solver's accuracy.
	Status Status
	// Iterations counts the solver's own unit of work (its package says which).
	Iterations int
	// Gap bounds the objective error of the returned point, in units of the
	// objective; 0 from solvers that are exact up to rounding.
	Gap float64
}

// Err returns nil when the solve was Optimal, and ErrNotSolved with the status
// and the gap otherwise: for callers that need an exact answer.
func (i Info) Err() error {
	if i.Status == Optimal {
		return nil
	}
	return fmt.Errorf("%v with gap %.3g: %w", i.Status, i.Gap, ErrNotSolved)
}

// Polytope describes a convex compact set S. It is immutable and safe for
// concurrent use.
type Polytope interface {
	// Dim is the length d of costs and decisions.
	Dim() int
	// Radius is max |w|₂ over S, or an upper bound where a package says so.
	Radius() float64
	// Violation is the largest amount by which w breaks a constraint of S: 0
	// inside, +Inf where w has the wrong length or a NaN.
	Violation(w []float64) float64
	// NewLinear returns a linear minimiser over S for one goroutine.
	NewLinear() Linear
	// NewProjector returns a projection solver onto S for one goroutine, or nil
	// where the package has none.
	NewProjector() Projector
}

// Linear minimises a linear function over a Polytope.
type Linear interface {
	// Solve writes a minimiser of theta.w over S to dst. dst must not overlap
	// theta. On error dst is unspecified.
	Solve(dst, theta []float64) (Info, error)
}

// Projector solves the regularised problem over a Polytope.
type Projector interface {
	// Project writes P_lambda(theta), the unique minimiser over S of
	// theta.w + (lambda/2)|w|², to dst. dst must not overlap theta. warm may
	// be nil; a solver that profits from a warm start reads it and leaves its
	// own there. The answer never depends on warm beyond the solver's
	// accuracy. On error dst is unspecified and warm is unchanged.
	Project(dst, theta []float64, lambda float64, warm *Warm) (Info, error)
	// JVP writes J v to dst, with J the Jacobian of Π_S at the point the last
	// Project projected (-theta/lambda); J is symmetric, and the derivative of
	// P_lambda(theta) with respect to theta is -J/lambda. At a point where
	// Π_S is not differentiable it uses an element of the generalised
	// Jacobian. dst must not overlap v.
	JVP(dst, v []float64) error
}

// BatchProjector is a Projector that is faster at several problems at once.
type BatchProjector interface {
	Projector
	// ProjectBatch does for every row what Project does, and JVP where the row
	// asks for it, with the same bits whatever the other rows. Dst, JV and Warm
	// of a row must not overlap those of another. After it there is no
	// projection for JVP to differentiate.
	ProjectBatch(rows []Projection)
}

// Projection is a row of a BatchProjector's batch.
type Projection struct {
	// Dst, Theta, Lambda and Warm are Project's.
	Dst, Theta []float64
	Lambda     float64
	Warm       *Warm
	// JV is set to J V, as JVP does, unless V is nil.
	JV, V []float64
	// Info and Err are set to what Project, or else JVP, returns.
	Info Info
	Err  error
}

// Warm is what a solver remembers of one problem so as to solve a nearby one
// faster. The zero value is a cold start. It is plain data, so that a training
// run can write it into its checkpoint, and it belongs to one problem (a
// sample of a client), never to a goroutine, so that results do not depend on
// how work is scheduled.
type Warm struct {
	Words []uint64
}

// CheckVector returns ErrDimension unless len(v) is d, and ErrNonFinite with
// the index of the first NaN or infinity in v.
func CheckVector(name string, v []float64, d int) error {
	if len(v) != d {
		return fmt.Errorf("%s has length %d, want %d: %w", name, len(v), d, ErrDimension)
	}
	// x-x is 0 for finite x and NaN otherwise; the sum is a branch-free test,
	// in four chains to hide the latency of additions.
	var s0, s1, s2, s3 float64
	w := v
	for ; len(w) >= 4; w = w[4:] {
		s0 += w[0] - w[0]
		s1 += w[1] - w[1]
		s2 += w[2] - w[2]
		s3 += w[3] - w[3]
	}
	for _, x := range w {
		s0 += x - x
	}
	if s0+s1+s2+s3 == 0 {
		return nil
	}
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%s[%d] is %v: %w", name, i, x, ErrNonFinite)
		}
	}
	return nil
}

// CheckSolve checks the arguments of a Solve over a polytope of dimension d.
func CheckSolve(dst, theta []float64, d int) error {
	if len(dst) != d {
		return fmt.Errorf("dst has length %d, want %d: %w", len(dst), d, ErrDimension)
	}
	return CheckVector("theta", theta, d)
}

// CheckProject checks the arguments of a Project over a polytope of dimension
// d.
func CheckProject(dst, theta []float64, lambda float64, d int) error {
	if !(lambda > 0) || math.IsInf(lambda, 1) {
		return fmt.Errorf("lambda is %v: %w", lambda, ErrLambda)
	}
	return CheckSolve(dst, theta, d)
}
