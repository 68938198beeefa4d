package qp

import (
	"math"

	"fedrspo/internal/kernel"
)

// polyFactor is the factorisation Q R of the transposed active rows, restricted
// to the free variables: Q has k orthonormal columns that are 0 at variables
// which are not free, R is upper triangular, both updated by Gram-Schmidt with
// reorthogonalisation and by plane rotations as rows come and go and variables
// are fixed and freed (Daniel, Gragg, Kaufman and Stewart 1976).
type polyFactor struct {
	sys *polySystem
	// k is the number of active rows, rows lists them, free marks the free
	// variables.
	k    int
	rows []int
	free []bool
	// q holds columns of length n, one more than there can be rows; r is
	// row-major with the given stride.
	q, r   []float64
	stride int
	// h and last are workspaces of length stride.
	h, last []float64
}

// polyDependent is the sine of the angle to the active constraints below which
// a constraint counts as linearly dependent on them.
const polyDependent = 1e-10

func newPolyFactor(s *polySystem) *polyFactor {
	stride := min(s.n, s.m) + 1
	return &polyFactor{
		sys:    s,
		rows:   make([]int, stride),
		free:   make([]bool, s.n),
		q:      make([]float64, stride*s.n),
		r:      make([]float64, stride*stride),
		stride: stride,
		h:      make([]float64, stride),
		last:   make([]float64, stride),
	}
}

// reset leaves no active rows and all variables free.
func (f *polyFactor) reset() {
	f.k = 0
	for j := range f.free {
		f.free[j] = true
	}
}

// column returns column j of Q.
func (f *polyFactor) column(j int) []float64 {
	n := f.sys.n
	return f.q[j*n : (j+1)*n : (j+1)*n]
}

// project subtracts Q Q'z from z, which must be 0 off the free variables, and
// writes Q'z to h. It reports whether z keeps a part that is not rounding.
func (f *polyFactor) project(z, h []float64) bool {
	clear(h[:f.k])
	first := polyNorm(z)
	for before := first; before > 0; {
		for j := range f.k {
			c := f.column(j)
			x := polyDot(c, z)
			h[j] += x
			kernel.Axpy(-x, c, z)
		}
		after := polyNorm(z)
		if !(after > polyDependent*first) {
			return false
		}
		// Where little is left, rounding is not orthogonal to Q.
		if after > 0.5*before {
			return true
		}
		before = after
	}
	return false
}

// solve overwrites h with R⁻¹h.
func (f *polyFactor) solve(h []float64) {
	for i := f.k - 1; i >= 0; i-- {
		row := f.r[i*f.stride : i*f.stride+f.k]
		h[i] = (h[i] - polyDot(row[i+1:], h[i+1:f.k])) / row[i]
	}
}

// solveTransposed overwrites h with R⁻ᵀh.
func (f *polyFactor) solveTransposed(h []float64) {
	for i := range f.k {
		row := f.r[i*f.stride : i*f.stride+f.k]
		h[i] /= row[i]
		kernel.Axpy(-h[i], row[i+1:], h[i+1:f.k])
	}
}

// append makes row c active. z and h are what project leaves of it.
func (f *polyFactor) append(c int, z, h []float64) {
	k := f.k
	norm := polyNorm(z)
	col := f.column(k)
	for j, x := range z {
		col[j] = x / norm
	}
	for i := range k {
		f.r[i*f.stride+k] = h[i]
	}
	f.r[k*f.stride+k] = norm
	f.rows[k] = c
	f.k++
}

// remove makes the row at position at inactive.
func (f *polyFactor) remove(at int) {
	k, s := f.k, f.stride
	copy(f.rows[at:k], f.rows[at+1:k])
	for i := range k {
		from := max(at, i-1)
		copy(f.r[i*s+from:i*s+k-1], f.r[i*s+from+1:i*s+k])
	}
	for i := at; i < k-1; i++ {
		upper, lower := f.r[i*s:i*s+k-1], f.r[(i+1)*s:(i+1)*s+k-1]
		c, sn, ok := polyGivens(upper[i], lower[i])
		if !ok {
			continue
		}
		polyRotate(c, sn, upper[i:], lower[i:])
		lower[i] = 0
		polyRotate(c, sn, f.column(i), f.column(i+1))
	}
	f.k--
}

// fix takes variable v from the free ones. z is what project leaves of its unit
// vector.
func (f *polyFactor) fix(v int, z []float64) {
	k, s := f.k, f.stride
	norm := polyNorm(z)
	col := f.column(k)
	for j, x := range z {
		col[j] = x / norm
	}
	// Rotations turn the new column into the unit vector of v.
	last := f.last[:k]
	clear(last)
	for j := k - 1; j >= 0; j-- {
		old := f.column(j)
		c, sn, ok := polyGivens(col[v], old[v])
		if !ok {
			continue
		}
		polyRotate(c, sn, col, old)
		polyRotate(c, sn, last[j:], f.r[j*s+j:j*s+k])
		old[v] = 0
	}
	f.free[v] = false
}

// release adds variable v to the free ones.
func (f *polyFactor) release(v int) {
	k, s := f.k, f.stride
	f.free[v] = true
	last := f.last[:k]
	for j := range last {
		last[j] = f.sys.entry(f.rows[j], v)
	}
	col := f.column(k)
	clear(col)
	col[v] = 1
	for j := range last {
		row := f.r[j*s : j*s+k]
		c, sn, ok := polyGivens(row[j], last[j])
		if !ok {
			continue
		}
		polyRotate(c, sn, row[j:], last[j:])
		polyRotate(c, sn, f.column(j), col)
	}
}

// polyGivens returns the rotation that takes (a, b) to (|(a, b)|, 0); ok is
// false if b is 0 already.
func polyGivens(a, b float64) (c, s float64, ok bool) {
	if b == 0 {
		return 1, 0, false
	}
	norm := math.Hypot(a, b)
	return a / norm, b / norm, true
}
