package qp

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/oracle"
)

// Relative accuracies to which points meet constraints, with rows scaled to a
// norm in [1, 2).
const (
	// polyFeasibility is what answers are held to.
	polyFeasibility = 2e-13
	// polyConsistency is what separates an empty set from one whose constraints
	// are rounded: some point breaks none by more.
	polyConsistency = 1e-10
	// polySubstitute is the least coefficient of a variable that presolve
	// computes from others: it bounds the growth of rounding errors.
	polySubstitute = 0.1
)

// polySystem is the polyhedron after presolve: variables whose bounds coincide
// are gone, rows about a single variable are bounds, and no row is redundant
// over the box of the bounds alone.
type polySystem struct {
	dim int
	// vars are the variables that are left, as indices into w; base holds the
	// values of the others, and 0 at these.
	vars []int
	base []float64
	// n variables and m rows. Row i has the entries ptr[i] to ptr[i+1] of index
	// and value. Its activity, a_i.w, is treated as variable n+i.
	n, m  int
	ptr   []int
	index []int
	value []float64
	norm  []float64
	// lo and hi bound the n variables and m activities.
	lo, hi []float64
	// names are the rows as the user knows them.
	names []*polyRow
}

// row returns the entries of row i.
func (s *polySystem) row(i int) (index []int, value []float64) {
	return s.index[s.ptr[i]:s.ptr[i+1]], s.value[s.ptr[i]:s.ptr[i+1]]
}

// activity returns a_i.w for w over the variables left.
func (s *polySystem) activity(i int, w []float64) float64 {
	index, value := s.row(i)
	return polySparseDot(index, value, w)
}

// equal reports whether row i is an equality.
func (s *polySystem) equal(i int) bool { return s.lo[s.n+i] == s.hi[s.n+i] }

// entry returns the coefficient of variable j in row i.
func (s *polySystem) entry(i, j int) float64 {
	index, value := s.row(i)
	if k, ok := slices.BinarySearch(index, j); ok {
		return value[k]
	}
	return 0
}

// tolerance returns by how much an answer may break a bound.
func (s *polySystem) tolerance(bound float64) float64 { return polyFeasibility * (1 + math.Abs(bound)) }

// nearest returns the finite bound of variable or activity v that is nearest to
// x, 0 if it has none.
func (s *polySystem) nearest(v int, x float64) float64 {
	lo, hi := s.lo[v], s.hi[v]
	switch {
	case math.IsInf(lo, 0) && math.IsInf(hi, 0):
		return 0
	case math.Abs(x-lo) <= math.Abs(x-hi):
		return lo
	}
	return hi
}

// width returns by how much variable or activity v can differ between two
// points within the bounds, +Inf if they do not say.
func (s *polySystem) width(v int) float64 {
	if v < s.n {
		return s.hi[v] - s.lo[v]
	}
	index, value := s.row(v - s.n)
	least, most := 0.0, 0.0
	for k, j := range index {
		lo, hi := float64(value[k]*s.lo[j]), float64(value[k]*s.hi[j])
		least += min(lo, hi)
		most += max(lo, hi)
	}
	return min(most, s.hi[v]) - max(least, s.lo[v])
}

// gather writes the entries of v that are left to dst.
func (s *polySystem) gather(dst, v []float64) {
	for j, i := range s.vars {
		dst[j] = v[i]
	}
}

// scatter writes the point x over the variables left to dst, with the fixed
// variables filled in and rounding beyond the bounds removed.
func (s *polySystem) scatter(dst, x []float64) {
	copy(dst, s.base)
	for j, i := range s.vars {
		dst[i] = min(max(x[j], s.lo[j]), s.hi[j])
	}
}

// keep returns the system with only the rows for which kept is true.
func (s *polySystem) keep(kept []bool) *polySystem {
	out := &polySystem{
		dim: s.dim, vars: s.vars, base: s.base, n: s.n, ptr: []int{0},
		lo: slices.Clone(s.lo[:s.n]), hi: slices.Clone(s.hi[:s.n]),
	}
	for i := range s.m {
		if kept[i] {
			index, value := s.row(i)
			out.add(index, value, s.lo[s.n+i], s.hi[s.n+i], s.names[i])
		}
	}
	return out
}

// add appends a row.
func (s *polySystem) add(index []int, value []float64, lo, hi float64, name *polyRow) {
	s.index = append(s.index, index...)
	s.value = append(s.value, value...)
	s.ptr = append(s.ptr, len(s.index))
	s.norm = append(s.norm, polyNorm(value))
	s.lo = append(s.lo, lo)
	s.hi = append(s.hi, hi)
	s.names = append(s.names, name)
	s.m++
}

// polyPresolve reduces the set to a polySystem. It finds the infeasibilities
// that a single row shows over the bounds.
func polyPresolve(lower, upper []float64, rows []polyRow) (*polySystem, error) {
	b := polyBox{lo: slices.Clone(lower), hi: slices.Clone(upper)}
	alive := make([]*polyRow, len(rows))
	for k := range rows {
		alive[k] = &rows[k]
	}
	for changed := true; changed; {
		changed = false
		rest := alive[:0]
		for _, r := range alive {
			keep, err := b.absorb(r, &changed)
			if err != nil {
				return nil, err
			}
			if keep {
				rest = append(rest, r)
			}
		}
		alive = rest
	}
	s := &polySystem{dim: len(lower), base: slices.Clone(b.lo), ptr: []int{0}}
	position := make([]int, s.dim)
	for i := range position {
		position[i] = -1
		if b.lo[i] < b.hi[i] {
			position[i] = s.n
			s.vars = append(s.vars, i)
			s.lo = append(s.lo, b.lo[i])
			s.hi = append(s.hi, b.hi[i])
			s.base[i] = 0
			s.n++
		}
	}
	for _, r := range alive {
		index := make([]int, 0, len(r.index))
		value := make([]float64, 0, len(r.index))
		rhs := r.rhs
		for k, i := range r.index {
			if position[i] < 0 {
				rhs -= float64(r.value[k] * b.lo[i])
				continue
			}
			index = append(index, position[i])
			value = append(value, r.value[k])
		}
		_, exp := math.Frexp(polyNorm(value))
		for k := range value {
			value[k] = math.Ldexp(value[k], 1-exp)
		}
		rhs = math.Ldexp(rhs, 1-exp)
		lo := math.Inf(-1)
		if r.equal {
			lo = rhs
		}
		s.add(index, value, lo, rhs, r)
	}
	return s, nil
}

// polyBox is the box of the bounds.
type polyBox struct{ lo, hi []float64 }

// absorb reports whether row r still says something beside the box. A row
// about no variable that is not fixed is checked, a row about one becomes a
// bound (which sets changed).
func (b *polyBox) absorb(r *polyRow, changed *bool) (keep bool, err error) {
	free, at := 0, 0
	var fixed, size, least, most float64
	for k, i := range r.index {
		a, lo, hi := r.value[k], b.lo[i], b.hi[i]
		if lo == hi {
			x := float64(a * lo)
			fixed += x
			size += math.Abs(x)
			continue
		}
		free++
		at = k
		if a < 0 {
			lo, hi = hi, lo
		}
		least += float64(a * lo)
		most += float64(a * hi)
	}
	size += math.Abs(r.rhs)
	rhs := r.rhs - fixed
	if size > math.MaxFloat64 {
		return false, fmt.Errorf("qp: %v overflows at its fixed variables: %w", r, oracle.ErrNonFinite)
	}
	tol := polyConsistency * (1 + size)
	if len(r.index) == 0 {
		tol = 0
	}
	switch {
	case free == 0:
		if excess := -rhs; excess > tol || r.equal && -excess > tol {
			return false, r.infeasible()
		}
		return false, nil
	case free == 1 && math.Abs(r.value[at]) >= polySubstitute:
		*changed = true
		return false, b.tighten(r, r.index[at], rhs, r.value[at])
	}
	if least > rhs+tol || r.equal && most < rhs-tol {
		return false, r.infeasible()
	}
	return r.equal || !(most <= rhs), nil
}

// tighten applies a w_i <= rhs, or a w_i = rhs, to the bounds of w_i.
func (b *polyBox) tighten(r *polyRow, i int, rhs, a float64) error {
	x := rhs / a
	tol := polyConsistency * (1 + math.Abs(x))
	if math.IsInf(x, 0) {
		if !r.equal && a > 0 == (x > 0) {
			return nil
		}
		return r.infeasible()
	}
	if x < b.lo[i]-tol && (a > 0 || r.equal) || x > b.hi[i]+tol && (a < 0 || r.equal) {
		return r.infeasible()
	}
	x = min(max(x, b.lo[i]), b.hi[i])
	if r.equal || a > 0 {
		b.hi[i] = x
	}
	if r.equal || a < 0 {
		b.lo[i] = x
	}
	return nil
}
