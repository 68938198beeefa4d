package qp

import (
	"fmt"
	"math"

	"fedrspo/oracle"
)

// polyLinear minimises linear functions over a Polyhedron.
type polyLinear struct {
	p *Polyhedron
	t *polyTableau
	c []float64
	// limit is the number of steps after which a solve stops short.
	limit int
}

func newPolyLinear(p *Polyhedron) *polyLinear {
	return &polyLinear{p: p, t: p.start.clone(), c: make([]float64, p.sys.n), limit: p.sys.stepLimit()}
}

// Solve implements oracle.Linear.
func (l *polyLinear) Solve(dst, theta []float64) (oracle.Info, error) {
	if err := oracle.CheckSolve(dst, theta, l.p.dim); err != nil {
		return oracle.Info{}, err
	}
	l.t.load(l.p.start)
	return l.solve(dst, theta)
}

// solve starts from the basis at hand.
func (l *polyLinear) solve(dst, theta []float64) (oracle.Info, error) {
	s := l.p.sys
	s.gather(l.c, theta)
	// Costs are scaled by a power of two, so that none overflows.
	_, exp := math.Frexp(polyMaxAbs(l.c))
	for j, x := range l.c {
		l.c[j] = math.Ldexp(x, -exp)
	}
	l.t.setCost(l.c)
	status, steps := l.t.run(l.limit)
	s.scatter(dst, l.t.x[:s.n])
	info := oracle.Info{Status: status, Iterations: steps}
	switch status {
	case oracle.Unbounded:
		return info, fmt.Errorf("qp: %w", oracle.ErrUnbounded)
	case oracle.Infeasible:
		// NewPolyhedron has found a point: rounding has lost it.
		info.Status = oracle.IterationLimit
	}
	info.Gap = math.Ldexp(l.t.gap(), exp)
	return info, nil
}

// gap bounds what the answer costs more than the optimum, by the reduced costs
// of the last refinement; +Inf if the answer is not in the set. Where the set is
// unbounded, the bound holds for the part of it about as large as the answer.
func (t *polyTableau) gap() float64 {
	s := t.sys
	reach := 4 * (1 + polyMaxAbs(t.x[:s.n]))
	width := func(v int) float64 {
		if w := s.width(v); !math.IsInf(w, 1) {
			return w
		}
		return reach
	}
	gap := 0.0
	for j, v := range t.nonbasic {
		d := t.row(s.m)[j]
		if d < 0 && t.x[v] < s.hi[v] || d > 0 && t.x[v] > s.lo[v] {
			gap += math.Abs(d) * width(v)
		}
	}
	for _, v := range t.basic {
		if t.side(v) != 0 {
			return math.Inf(1)
		}
		if v < s.n && t.rest[v] != 0 {
			gap += math.Abs(t.rest[v]) * width(v)
		}
	}
	return gap
}

// radiusBound computes Radius from linear programs, each from the basis of the
// last.
func (p *Polyhedron) radiusBound() float64 {
	s := p.sys
	l := newPolyLinear(p)
	theta, w := make([]float64, p.dim), make([]float64, p.dim)
	extreme := func(i int, sign float64) (float64, bool) {
		theta[i] = sign
		info, err := l.solve(w, theta)
		theta[i] = 0
		return w[i], err == nil && info.Status == oracle.Optimal
	}
	square, box, offset := 0.0, 0.0, 0.0
	for _, x := range s.base {
		square += float64(x * x)
	}
	sum := make([]float64, p.dim)
	for j, i := range s.vars {
		lo, ok1 := extreme(i, 1)
		hi, ok2 := extreme(i, -1)
		// A program that fails leaves the bound itself.
		if !ok1 {
			lo = s.lo[j]
		}
		if !ok2 {
			hi = s.hi[j]
		}
		if math.IsInf(lo, 0) || math.IsInf(hi, 0) {
			return math.Inf(1)
		}
		box += max(lo*lo, hi*hi)
		offset += float64(lo * hi)
		sum[i] = -(lo + hi)
	}
	// The last program, in units that cannot overflow its objective.
	if info, err := l.solve(w, sum); err == nil && info.Status == oracle.Optimal {
		box = min(box, -polyDot(sum, w)-offset+info.Gap)
	}
	// Rounding must not make it less than max |w|.
	return math.Sqrt(max(square+box, 0)) * (1 + 1e-13*float64(p.dim))
}
