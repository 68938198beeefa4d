package qp

import (
	"fmt"
	"math"

	"fedrspo/oracle"
)

const (
	// polyPivot is the least pivot relative to the largest of its column.
	polyPivot = 1e-9
	// A reduced cost, relative to the largest cost, is worth a step above
	// polyPriceFirst, after refinement above polyPriceLast. polyPriceRay is
	// what makes an unbounded direction unbounded.
	polyPriceFirst = 1e-10
	polyPriceLast  = 4e-14
	polyPriceRay   = 1e-9
	// polyRefinements is how often a run may go on after a refinement.
	polyRefinements = 20
)

// setCost sets the objective, c over the variables left.
func (t *polyTableau) setCost(c []float64) {
	copy(t.cost, c)
	t.price()
}

// tolerance returns by how much a variable may break a bound.
func (t *polyTableau) tolerance(bound float64) float64 { return t.slack * (1 + math.Abs(bound)) }

// side reports on which side of its bounds the basic variable v is: -1
// below, 1 above, 0 within.
func (t *polyTableau) side(v int) float64 {
	s := t.sys
	switch x, lo, hi := t.x[v], s.lo[v], s.hi[v]; {
	case x < lo-t.tolerance(lo):
		return -1
	case x > hi+t.tolerance(hi):
		return 1
	}
	return 0
}

// gradient returns the objective's row or, while a basic variable is outside
// its bounds, the gradient of the sum of what they are outside by.
func (t *polyTableau) gradient() (d []float64, phase1 bool) {
	s := t.sys
	for i, v := range t.basic {
		side := t.side(v)
		if side == 0 {
			continue
		}
		if !phase1 {
			phase1 = true
			clear(t.rest)
		}
		for j, x := range t.row(i) {
			t.rest[j] += side * x
		}
	}
	if phase1 {
		return t.rest, true
	}
	return t.row(s.m), false
}

// enter returns the column that should enter along the gradient d, and the
// direction in which its variable moves; -1 if none has a reduced cost above
// tol. It is the column of the largest reduced cost or, under the rule of
// Bland, the first variable.
func (t *polyTableau) enter(d []float64, tol float64, bland bool) (q int, dir float64) {
	s := t.sys
	q = -1
	best := tol
	for j, v := range t.nonbasic {
		x, lo, hi := t.x[v], s.lo[v], s.hi[v]
		if lo == hi {
			continue
		}
		var way float64
		switch {
		case d[j] < -tol && x < hi:
			way = 1
		case d[j] > tol && x > lo:
			way = -1
		default:
			continue
		}
		if bland {
			if q < 0 || v < t.nonbasic[q] {
				q, dir = j, way
			}
		} else if a := math.Abs(d[j]); a > best {
			q, dir, best = j, way, a
		}
	}
	return q, dir
}

// block returns how far basic variable i lies from the bound that stops it when
// it moves at rate, and that bound; ok is false if none does. A variable
// outside its bounds is stopped where it comes in.
func (t *polyTableau) block(i int, rate float64) (room, bound float64, ok bool) {
	s := t.sys
	v := t.basic[i]
	x, side := t.x[v], t.side(v)
	if rate > 0 {
		switch {
		case side > 0:
			return 0, 0, false
		case side < 0:
			bound = s.lo[v]
		default:
			bound = s.hi[v]
		}
		return bound - x, bound, !math.IsInf(bound, 0)
	}
	switch {
	case side < 0:
		return 0, 0, false
	case side > 0:
		bound = s.hi[v]
	default:
		bound = s.lo[v]
	}
	return x - bound, bound, !math.IsInf(bound, 0)
}

// leave finds the basic variable that stops column q moving in direction dir:
// of those that the step can make leave, the one with the largest pivot (Harris
// 1973: the step may overrun a bound by less than the tolerance), or under the
// rule of Bland the first. r is -1 if the column's own far bound stops it first,
// and step is +Inf if nothing does.
func (t *polyTableau) leave(q int, dir float64, bland bool) (r int, step, bound float64) {
	s := t.sys
	n := s.n
	least := 0.0
	for i := range t.basic {
		least = max(least, math.Abs(t.t[i*n+q]))
	}
	least = polyPivot * max(least, 1e-3)
	limit := math.Inf(1)
	for i := range t.basic {
		rate := dir * t.t[i*n+q]
		if a := math.Abs(rate); a > least {
			if room, bound, ok := t.block(i, rate); ok {
				slack := 0.5 * t.tolerance(bound)
				if bland {
					slack = 0
				}
				limit = min(limit, max(room+slack, 0)/a)
			}
		}
	}
	v := t.nonbasic[q]
	if width := s.hi[v] - s.lo[v]; width <= limit {
		return -1, width, 0
	}
	r = -1
	best := 0.0
	for i, b := range t.basic {
		rate := dir * t.t[i*n+q]
		a := math.Abs(rate)
		if a <= least {
			continue
		}
		room, to, ok := t.block(i, rate)
		// Divided as above, so that the closest one passes.
		if !ok || max(room, 0)/a > limit {
			continue
		}
		if bland && r >= 0 && b > t.basic[r] || !bland && a <= best {
			continue
		}
		r, step, bound, best = i, max(room, 0)/a, to, a
	}
	if r < 0 {
		return -1, math.Inf(1), 0
	}
	return r, step, bound
}

// move takes a step that leave has found.
func (t *polyTableau) move(q int, dir float64, r int, step, bound float64) {
	n := t.sys.n
	v := t.nonbasic[q]
	for i, b := range t.basic {
		t.x[b] += float64(dir * step * t.t[i*n+q])
	}
	t.x[v] += dir * step
	if r < 0 {
		// Exactly at the far bound.
		t.x[v] = t.sys.hi[v]
		if dir < 0 {
			t.x[v] = t.sys.lo[v]
		}
		return
	}
	t.x[t.basic[r]] = bound
	t.pivot(r, q)
}

// run minimises the objective from the current basis. Without a feasible point
// it ends as Infeasible, at a point of least infeasibility. Where rounding of
// the constraints alone makes the set empty, it takes the smallest tolerance up
// to polyConsistency at which it is not.
func (t *polyTableau) run(limit int) (status oracle.Status, steps int) {
	t.slack = polyFeasibility
	scale := polyMaxAbs(t.cost)
	refined, refinements := false, 0
	for ; steps < limit; steps++ {
		bland := t.stalled > t.patience
		d, phase1 := t.gradient()
		tol := polyPriceFirst
		if refined && refinements <= polyRefinements {
			tol = polyPriceLast
		}
		unit := scale
		if phase1 {
			unit = 1
		}
		q, dir := t.enter(d, tol*unit, bland)
		var r int
		var step, bound float64
		if q >= 0 {
			r, step, bound = t.leave(q, dir, bland)
		}
		if q < 0 || math.IsInf(step, 1) {
			if !refined {
				t.refine()
				refined = true
				refinements++
				continue
			}
			switch {
			case phase1 && t.slack >= polyConsistency:
				return oracle.Infeasible, steps
			case phase1:
				t.slack, refined = min(10*t.slack, polyConsistency), false
			case q < 0:
				return oracle.Optimal, steps
			case math.Abs(d[q]) > polyPriceRay*unit:
				return oracle.Unbounded, steps
			default:
				// Rounding makes this cost differ from 0. Nothing is gained along
				// the ray, and something may be along others.
				d[q] = 0
			}
			continue
		}
		if step > 1e-12 {
			t.stalled = 0
		} else {
			t.stalled++
		}
		t.move(q, dir, r, step, bound)
		refined = false
	}
	t.refine()
	return oracle.IterationLimit, steps
}

// refine computes values and reduced costs from the original rows, with a new
// factorisation if need be.
func (t *polyTableau) refine() {
	if !t.evaluate() {
		t.refactor()
		t.evaluate()
	}
	t.reprice()
}

// stepLimit is the number of steps after which a run gives up: some fifty times
// what is usual.
func (s *polySystem) stepLimit() int { return 2000 + 200*(s.n+s.m) }

// polyFeasible finds a vertex of the set, and drops the equalities that others
// imply. It returns what is left and the basis of the vertex.
func polyFeasible(s *polySystem) (*polySystem, *polyTableau, error) {
	t := newPolyTableau(s)
	for i := range s.m {
		t.x[s.n+i] = s.activity(i, t.x[:s.n])
	}
	kept := make([]bool, s.m)
	for i := range kept {
		kept[i] = true
	}
	switch status, _ := t.run(s.stepLimit()); status {
	case oracle.Infeasible:
		return nil, nil, fmt.Errorf("qp: %v contradicts the other constraints: %w", s.names[t.broken()], oracle.ErrInfeasible)
	case oracle.IterationLimit:
		return nil, nil, fmt.Errorf("qp: no feasible point found in %d steps: %w", s.stepLimit(), oracle.ErrNotSolved)
	}
	t.driveOut(kept)
	t.anchor()
	s = s.keep(kept)
	return s, t.transplant(s, kept), nil
}

// broken returns the row that is broken most.
func (t *polyTableau) broken() (row int) {
	s := t.sys
	worst := 0.0
	for i := range s.m {
		v := s.n + i
		if e := max(s.lo[v]-t.x[v], t.x[v]-s.hi[v]) / (1 + math.Abs(t.x[v])); e > worst {
			worst, row = e, i
		}
	}
	return row
}

// driveOut makes the activities of equalities nonbasic. Those that no other
// variable can replace are implied by the others; it unmarks them in kept.
func (t *polyTableau) driveOut(kept []bool) {
	s := t.sys
	for i := range t.basic {
		v := t.basic[i]
		if v < s.n || !s.equal(v-s.n) {
			continue
		}
		q, best := -1, polyPivot
		for j, x := range t.row(i) {
			u := t.nonbasic[j]
			if a := math.Abs(x); a > best && s.lo[u] < s.hi[u] {
				q, best = j, a
			}
		}
		if q < 0 {
			kept[v-s.n] = false
			continue
		}
		t.x[v] = s.lo[v]
		t.pivot(i, q)
	}
}

// anchor moves every free nonbasic variable until something stops it and takes
// its place in the basis. One that nothing stops runs along a line in the set,
// which then has no vertex.
func (t *polyTableau) anchor() {
	s := t.sys
	for q := range t.nonbasic {
		v := t.nonbasic[q]
		if !math.IsInf(s.lo[v], -1) || !math.IsInf(s.hi[v], 1) {
			continue
		}
		for _, dir := range []float64{1, -1} {
			if r, step, bound := t.leave(q, dir, false); !math.IsInf(step, 1) {
				t.move(q, dir, r, step, bound)
				break
			}
		}
	}
}
