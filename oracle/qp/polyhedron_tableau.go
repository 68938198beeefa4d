package qp

import (
	"math"

	"fedrspo/internal/kernel"
)

// polyTableau is a condensed simplex tableau over a polySystem. The n variables
// and the m row activities, numbered 0 to n+m-1, are split into n nonbasic
// ones, each at a bound (or free, at 0), and m basic ones, which are linear
// functions of them:
//
//	x_basic[i] = sum over j of t[i][j] x_nonbasic[j].
//
// All right-hand sides are bounds of activities. Row m of t is the objective.
type polyTableau struct {
	sys             *polySystem
	t               []float64
	basic, nonbasic []int
	// x are the values of all variables, cost the objective's coefficients.
	x, cost []float64
	// change (m), rest (n) and wanted (n+m) are workspaces.
	change, rest []float64
	wanted       []bool
	// slack is the relative tolerance of bounds.
	slack float64
	// stalled counts the degenerate steps since the last proper one; beyond
	// patience the rule of Bland is in force. Degenerate steps are common and
	// mostly harmless, and that rule is slow.
	stalled, patience int
}

// newPolyTableau returns a tableau in which the variables are nonbasic at the
// bound nearest 0.
func newPolyTableau(s *polySystem) *polyTableau {
	t := &polyTableau{
		sys:      s,
		slack:    polyFeasibility,
		patience: 50 + s.n + s.m,
		t:        make([]float64, (s.m+1)*s.n),
		basic:    make([]int, s.m),
		nonbasic: make([]int, s.n),
		x:        make([]float64, s.n+s.m),
		cost:     make([]float64, s.n),
		change:   make([]float64, s.m),
		rest:     make([]float64, s.n),
		wanted:   make([]bool, s.n+s.m),
	}
	for j := range s.n {
		t.x[j] = s.nearest(j, 0)
	}
	t.slackBasis()
	return t
}

// clone returns a copy with workspaces of its own.
func (t *polyTableau) clone() *polyTableau {
	c := newPolyTableau(t.sys)
	c.load(t)
	return c
}

// load copies the basis and the values of t0.
func (t *polyTableau) load(t0 *polyTableau) {
	copy(t.t, t0.t)
	copy(t.basic, t0.basic)
	copy(t.nonbasic, t0.nonbasic)
	copy(t.x, t0.x)
	t.slack, t.stalled = t0.slack, 0
}

// row returns row i of the tableau.
func (t *polyTableau) row(i int) []float64 {
	n := t.sys.n
	return t.t[i*n : (i+1)*n : (i+1)*n]
}

// slackBasis sets the tableau to the one whose basis is the activities.
func (t *polyTableau) slackBasis() {
	s := t.sys
	clear(t.t)
	for j := range s.n {
		t.nonbasic[j] = j
	}
	for i := range s.m {
		t.basic[i] = s.n + i
		r := t.row(i)
		index, value := s.row(i)
		for k, j := range index {
			r[j] = value[k]
		}
	}
}

// pivot exchanges the basic variable of row r with the nonbasic one of column
// q.
func (t *polyTableau) pivot(r, q int) {
	n := t.sys.n
	row := t.row(r)
	inverse := 1 / row[q]
	for j := range row {
		row[j] *= -inverse
	}
	row[q] = inverse
	for i := range t.sys.m + 1 {
		f := t.t[i*n+q]
		if i == r || f == 0 {
			continue
		}
		other := t.row(i)
		other[q] = 0
		kernel.Axpy(f, row, other)
	}
	t.basic[r], t.nonbasic[q] = t.nonbasic[q], t.basic[r]
}

// refactor computes the tableau of the current basis anew, from the slack
// basis, with pivots as large as there are. A basis that is singular to
// rounding is replaced by a near one.
func (t *polyTableau) refactor() {
	s := t.sys
	wanted := t.wanted
	clear(wanted)
	for _, v := range t.basic {
		wanted[v] = true
	}
	t.slackBasis()
	for {
		// Complete pivoting over the activities that must leave and the
		// variables that must enter.
		r, q, best := -1, -1, 0.0
		for i, v := range t.basic {
			if wanted[v] {
				continue
			}
			for j, x := range t.row(i) {
				if a := math.Abs(x); a > best && wanted[t.nonbasic[j]] {
					r, q, best = i, j, a
				}
			}
		}
		if best <= 1e-11 {
			break
		}
		t.pivot(r, q)
	}
	t.price()
	for _, v := range t.nonbasic {
		if wanted[v] {
			t.x[v] = s.nearest(v, t.x[v])
		}
	}
}

// price computes the objective's row from the costs.
func (t *polyTableau) price() {
	s := t.sys
	d := t.row(s.m)
	for j, v := range t.nonbasic {
		d[j] = 0
		if v < s.n {
			d[j] = t.cost[v]
		}
	}
	for i, v := range t.basic {
		if v < s.n && t.cost[v] != 0 {
			kernel.Axpy(t.cost[v], t.row(i), d)
		}
	}
}

// evaluate computes the basic variables from the nonbasic ones and refines them
// against the original rows: the tableau serves as an approximate inverse of
// the basis. It reports whether the nonbasic activities came out right.
func (t *polyTableau) evaluate() bool {
	s := t.sys
	for i, v := range t.basic {
		if v >= s.n {
			continue
		}
		sum := 0.0
		for j, c := range t.row(i) {
			sum += float64(c * t.x[t.nonbasic[j]])
		}
		t.x[v] = sum
	}
	w := t.x[:s.n]
	clear(t.change)
	converged := false
	for range 4 {
		worst := 0.0
		for j, v := range t.nonbasic {
			if v < s.n {
				continue
			}
			e := t.x[v] - s.activity(v-s.n, w)
			if math.Abs(e) > 1e-15*(1+math.Abs(t.x[v])) {
				worst = max(worst, math.Abs(e)/s.tolerance(t.x[v]))
				for i, b := range t.basic {
					if b < s.n {
						// Kept apart from w until all are known.
						t.change[i] += float64(t.t[i*s.n+j] * e)
					}
				}
			}
		}
		for i, b := range t.basic {
			if b < s.n {
				t.x[b] += t.change[i]
				t.change[i] = 0
			}
		}
		if converged = worst < 0.1; worst == 0 {
			break
		}
	}
	for _, v := range t.basic {
		if v >= s.n {
			t.x[v] = s.activity(v-s.n, w)
		}
	}
	return converged
}

// reprice refines the reduced costs against the original rows in the same way.
// Reduced costs of nonbasic activities are multipliers y of their rows, and a
// basic variable must have cost sum_i y_i a_ij.
func (t *polyTableau) reprice() {
	s := t.sys
	t.price()
	d := t.row(s.m)
	rest := t.rest
	for round := 0; ; round++ {
		copy(rest, t.cost)
		for j, v := range t.nonbasic {
			if v < s.n || d[j] == 0 {
				continue
			}
			index, value := s.row(v - s.n)
			for k, i := range index {
				rest[i] -= float64(d[j] * value[k])
			}
		}
		if round == 2 {
			break
		}
		for i, b := range t.basic {
			if b >= s.n || rest[b] == 0 {
				continue
			}
			row := t.row(i)
			for j, v := range t.nonbasic {
				if v >= s.n {
					d[j] += float64(rest[b] * row[j])
				}
			}
		}
	}
	for j, v := range t.nonbasic {
		if v < s.n {
			d[j] = rest[v]
		}
	}
}

// transplant returns the tableau of the same point over s, which is t's system
// with only the rows for which kept is true. The activities of the others must
// be basic.
func (t *polyTableau) transplant(s *polySystem, kept []bool) *polyTableau {
	out := newPolyTableau(s)
	next := 0
	rename := make([]int, len(t.x))
	for v, x := range t.x {
		rename[v] = next
		if v < s.n || kept[v-s.n] {
			out.x[next] = x
			next++
		}
	}
	k := 0
	for _, v := range t.basic {
		if v < s.n || kept[v-s.n] {
			out.basic[k] = rename[v]
			k++
		}
	}
	out.refactor()
	out.evaluate()
	return out
}
