// Package knapsack solves the linear and the regularised problem over the two
// sets that one linear constraint cuts from the unit box: the fractional
// knapsack (Set) and the top-k set (TopK).
//
//	Set:  { w in [0,1]^d : a.w <= b }, a > 0, b >= 0
//	TopK: { w in [0,1]^d : sum w = k }, 0 <= k <= d
//
// Both are solved in closed form up to one scalar. The linear minimiser is the
// greedy rule of Dantzig (1957): items in order of cost per weight until the
// capacity is used up. The projection is w_i = clip(p_i - tau a_i, 0, 1) with
// p = -theta/lambda and one multiplier tau, found by a bracketed Newton
// iteration (Cominetti, Mascarenhas and Silva, "A Newton's method for the
// continuous quadratic knapsack problem", Math. Program. Comput. 2014); the
// multiplier of the capacity constraint in the problem's own units is
// lambda tau. Its Jacobian is the orthogonal projector of Amos and Kolter
// (OptNet, 2017) for one constraint.
//
// # Accuracy
//
// Solves are exact up to rounding, for costs, weights and lambda of any scale.
// A projection meets the optimality conditions to 1e-10 (1 + max|theta|), and
// its capacity to a few ulps of b: two as computed, which leaves out the
// rounding error of the sum a.w itself, and never more than (d + 8) 2^-52 b in
// all. Products and sums are never fused, so the same inputs give the same bits
// on every platform.
package knapsack

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"fedrspo/oracle"
)

// ErrParameter is wrapped by the errors of New and NewTopK: a weight, a
// capacity or a dimension outside its range.
var ErrParameter = errors.New("knapsack: invalid parameter")

// Set is the fractional knapsack { w in [0,1]^d : a.w <= b }. With b = 0 it is
// the origin, with b >= sum a the whole box.
type Set struct {
	weights  []float64
	capacity float64
	region
}

var _ oracle.Polytope = (*Set)(nil)

// New returns the knapsack of weights a and capacity b. It copies a. Weights
// must be positive and finite and span a factor of at most 2^400, the
// capacity non-negative and finite; other values, and an empty a, are an
// ErrParameter that names the weight's index.
func New(a []float64, b float64) (*Set, error) {
	if len(a) == 0 {
		return nil, fmt.Errorf("%w: no weights", ErrParameter)
	}
	for i, w := range a {
		if !(w > 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("%w: a[%d] is %v, want a positive finite weight", ErrParameter, i, w)
		}
	}
	if !(b >= 0) || math.IsInf(b, 1) {
		return nil, fmt.Errorf("%w: the capacity is %v, want a non-negative finite number", ErrParameter, b)
	}
	heaviest := slices.Max(a)
	_, exp := math.Frexp(heaviest)
	for i, w := range a {
		if math.Ldexp(w, -exp) < 0x1p-401 {
			return nil, fmt.Errorf("%w: a[%d] is %v, more than a factor of 2^400 below the largest weight %v", ErrParameter, i, w, heaviest)
		}
	}
	return &Set{weights: slices.Clone(a), capacity: b, region: newRegion(a, b, exp, false)}, nil
}

// Weights yields the index and weight of every item in order.
func (s *Set) Weights() iter.Seq2[int, float64] { return slices.All(s.weights) }

// Capacity returns b.
func (s *Set) Capacity() float64 { return s.capacity }

// Dim returns the number of items d.
func (s *Set) Dim() int { return len(s.weights) }

// Radius returns max |w|₂ over the set, which is exact: the lightest items
// fill the capacity, the last of them as a fraction (paper, section 3.1).
func (s *Set) Radius() float64 { return s.radius }

// Violation returns the largest of -w_i, w_i - 1 and a.w - b (in units of the
// weights), 0 where none is positive, and +Inf for a wrong length or a NaN.
func (s *Set) Violation(w []float64) float64 { return s.violation(w) }

// NewLinear returns the greedy minimiser of theta.w (paper, section 3.1).
//
// Items are taken by theta_i/a_i ascending, compared as float64 quotients,
// equal quotients by index, until the capacity is used up or the next cost is
// not negative. Info.Iterations counts the partitioning passes. A quotient
// that overflows ties with its like.
func (s *Set) NewLinear() oracle.Linear { return newLinear(&s.region) }

// NewProjector returns a solver for the projection (paper, section 3.1).
//
// Info.Iterations counts the O(d) passes of the Newton iteration. A quotient
// -theta_i/lambda or a multiplier beyond float64 is an ErrNonFinite. Warm
// starts are neither needed nor touched.
//
// JVP uses, with F = {i : 0 < w_i < 1}, the projector
// v_F - a_F (a_F.v_F)/(a_F.a_F) where the capacity binds, the identity on F
// where it does not, and 0 off F. Where the projection is not differentiable,
// because an item sits at a bound with no force on it or the capacity is met
// with multiplier zero, this is the limit of the Jacobians at nearby points
// that keep such items at their bounds and the capacity slack.
func (s *Set) NewProjector() oracle.Projector { return newProjector(&s.region) }
