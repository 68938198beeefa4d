package knapsack

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/oracle"
)

// TopK is the equality knapsack { w in [0,1]^d : sum w = k }, whose vertices
// for an integer k are the choices of k out of d.
type TopK struct {
	k float64
	region
}

var _ oracle.Polytope = (*TopK)(nil)

// NewTopK returns the top-k set of dimension d >= 1. k may be fractional; a k
// outside [0, d] or a d below 1 is an ErrParameter.
func NewTopK(d int, k float64) (*TopK, error) {
	if d < 1 {
		return nil, fmt.Errorf("%w: the dimension is %d, want at least 1", ErrParameter, d)
	}
	if !(k >= 0 && k <= float64(d)) {
		return nil, fmt.Errorf("%w: k is %v, want a number from 0 to %d", ErrParameter, k, d)
	}
	_, exp := math.Frexp(1)
	return &TopK{k: k, region: newRegion(slices.Repeat([]float64{1}, d), k, exp, true)}, nil
}

// K returns k.
func (t *TopK) K() float64 { return t.k }

// Dim returns d.
func (t *TopK) Dim() int { return len(t.a) }

// Radius returns max |w|₂ over the set, sqrt(floor(k) + frac(k)²), which is
// exact (paper, section 3.2).
func (t *TopK) Radius() float64 { return t.radius }

// Violation returns the largest of -w_i, w_i - 1 and |sum w - k|, 0 where none
// is positive, and +Inf for a wrong length or a NaN.
func (t *TopK) Violation(w []float64) float64 { return t.violation(w) }

// NewLinear returns the greedy minimiser of theta.w (paper, section 3.2): the k
// cheapest entries, equal costs by index, the last one as a fraction. The
// signs of the costs do not matter. Info.Iterations counts the partitioning
// passes.
func (t *TopK) NewLinear() oracle.Linear { return newLinear(&t.region) }

// NewProjector returns a solver for the projection (paper, section 3.2).
//
// Info.Iterations counts the O(d) passes of the Newton iteration. A quotient
// -theta_i/lambda beyond float64 is an ErrNonFinite. Warm starts are neither
// needed nor touched.
//
// JVP uses, with F = {i : 0 < w_i < 1}, the projector v_F - mean(v_F), and 0
// off F. Where the projection is not differentiable, because an entry sits at
// a bound with no force on it, this is the limit of the Jacobians at nearby
// points that keep such entries at their bounds.
func (t *TopK) NewProjector() oracle.Projector { return newProjector(&t.region) }
