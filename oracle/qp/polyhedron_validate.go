package qp

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/oracle"
)

// polyMaxTable is the largest number of entries of a solver's table, (m+1) n for
// n variables and m rows after presolve: 1 GiB.
const polyMaxTable = 1 << 27

// polyValidate checks c and returns its bounds and rows in a normal form.
func polyValidate(c Constraints) (lower, upper []float64, rows []polyRow, err error) {
	if c.Dim < 1 || c.Dim > polyMaxTable {
		return nil, nil, nil, fmt.Errorf("%w: Dim is %d, want 1 to %d", ErrConstraints, c.Dim, polyMaxTable)
	}
	if !(c.Radius >= 0) || math.IsInf(c.Radius, 1) {
		return nil, nil, nil, fmt.Errorf("%w: Radius is %v, want a positive finite number, or 0 to have it computed", ErrConstraints, c.Radius)
	}
	if lower, err = polyBounds("Lower", c.Lower, c.Dim, math.Inf(-1)); err != nil {
		return nil, nil, nil, err
	}
	if upper, err = polyBounds("Upper", c.Upper, c.Dim, math.Inf(1)); err != nil {
		return nil, nil, nil, err
	}
	for i, l := range lower {
		if l > upper[i] {
			return nil, nil, nil, fmt.Errorf("%w: Lower[%d] is %v, above Upper[%d] = %v", ErrConstraints, i, l, i, upper[i])
		}
	}
	rows = make([]polyRow, 0, len(c.AtMost)+len(c.Equal))
	for k := range c.AtMost {
		rows = append(rows, polyRow{number: k})
		if err := rows[len(rows)-1].set(&c.AtMost[k], c.Dim); err != nil {
			return nil, nil, nil, err
		}
	}
	for k := range c.Equal {
		rows = append(rows, polyRow{number: k, equal: true})
		if err := rows[len(rows)-1].set(&c.Equal[k], c.Dim); err != nil {
			return nil, nil, nil, err
		}
	}
	return lower, upper, rows, nil
}

// polyBounds returns a copy of the bounds v, or d times none if v is nil.
func polyBounds(name string, v []float64, d int, none float64) ([]float64, error) {
	if v == nil {
		return slices.Repeat([]float64{none}, d), nil
	}
	if len(v) != d {
		return nil, fmt.Errorf("%w: %s has length %d, want Dim = %d", ErrConstraints, name, len(v), d)
	}
	for i, x := range v {
		if math.IsNaN(x) || x == -none {
			return nil, fmt.Errorf("%w: %s[%d] is %v", ErrConstraints, name, i, x)
		}
	}
	return slices.Clone(v), nil
}

// set fills r from c over d variables.
func (r *polyRow) set(c *Constraint, d int) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %v: %s", ErrConstraints, r, fmt.Sprintf(format, args...))
	}
	if x := c.RHS; math.IsNaN(x) || math.IsInf(x, 0) {
		return bad("RHS is %v, want a finite number", x)
	}
	dense := len(c.Index) == 0
	switch {
	case dense && len(c.Value) != d && len(c.Value) != 0:
		return bad("a dense row of %d values, want Dim = %d", len(c.Value), d)
	case !dense && len(c.Index) != len(c.Value):
		return bad("%d indices for %d values", len(c.Index), len(c.Value))
	}
	type entry struct {
		index int
		value float64
	}
	entries := make([]entry, 0, len(c.Value))
	for k, x := range c.Value {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return bad("Value[%d] is %v, want a finite number", k, x)
		}
		i := k
		if !dense {
			if i = c.Index[k]; i < 0 || i >= d {
				return bad("Index[%d] is %d, want 0 to %d", k, i, d-1)
			}
		}
		entries = append(entries, entry{i, x})
	}
	slices.SortFunc(entries, func(a, b entry) int { return a.index - b.index })
	largest := 0.0
	for k, e := range entries {
		if k > 0 && e.index == entries[k-1].index {
			return bad("index %d is given twice", e.index)
		}
		largest = max(largest, math.Abs(e.value))
	}
	if largest == 0 {
		r.rhs = c.RHS
		return nil
	}
	// A power of two is an exact scale: integer rows stay integer up to it. Two
	// steps, so that the squares neither overflow nor underflow.
	_, r.exp = math.Frexp(largest)
	square := 0.0
	for _, e := range entries {
		x := math.Ldexp(e.value, -r.exp)
		square += float64(x * x)
	}
	_, more := math.Frexp(math.Sqrt(square))
	r.exp += more - 1
	for _, e := range entries {
		if x := math.Ldexp(e.value, -r.exp); x != 0 {
			r.index = append(r.index, e.index)
			r.value = append(r.value, x)
		}
	}
	r.norm = math.Ldexp(math.Sqrt(square), 1-more)
	if r.rhs = math.Ldexp(c.RHS, -r.exp); math.IsInf(r.rhs, 0) {
		return bad("RHS %v overflows in units of the coefficients", c.RHS)
	}
	return nil
}

// infeasible is the error of a row that no point within the bounds meets.
func (r *polyRow) infeasible() error {
	return fmt.Errorf("qp: no point within the bounds meets %v: %w", r, oracle.ErrInfeasible)
}
