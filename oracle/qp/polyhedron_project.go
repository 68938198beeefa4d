package qp

import (
	"fmt"
	"math"

	"fedrspo/internal/kernel"
	"fedrspo/oracle"
)

// polyProjector solves min |w - p|²/2 over a polySystem by the dual active-set
// method. Its optimality conditions, for active rows R and bounds, are
//
//	w - p + sum over i in R of y_i a_i + sum over bounds of mu_j (±e_j) = 0,
//
// + at upper and - at lower bounds, y_i >= 0 for inequalities, mu_j >= 0.
type polyProjector struct {
	sys *polySystem
	f   *polyFactor
	p   []float64
	w   []float64
	// side is -1 and 1 for variables at their lower and upper bound, 0 for the
	// free ones; mu are the multipliers.
	side []int8
	mu   []float64
	// y are the multipliers of the active rows, in the order of the factor;
	// active marks the rows, skipped those that rounding keeps broken.
	y               []float64
	active, skipped []bool
	// z is the step direction at the free variables and v the unprojected one,
	// which gives the change of mu at the others; step changes y.
	z, v, step []float64
	// noise is the rounding error that steps have left in w.
	noise float64
	// limit is the number of changes after which a solve stops short. solved:
	// w is the last projection. extended: the factor has all tight
	// constraints, as JVP needs.
	limit            int
	solved, extended bool
}

func newPolyProjector(s *polySystem) *polyProjector {
	f := newPolyFactor(s)
	buf := make([]float64, 5*s.n)
	cut := func(k int) []float64 { return buf[k*s.n : (k+1)*s.n : (k+1)*s.n] }
	return &polyProjector{
		sys: s, f: f,
		p: cut(0), w: cut(1), mu: cut(2), z: cut(3), v: cut(4),
		side:    make([]int8, s.n),
		y:       make([]float64, f.stride),
		step:    make([]float64, f.stride),
		active:  make([]bool, s.m),
		skipped: make([]bool, s.n+s.m),
		limit:   s.stepLimit(),
	}
}

// Project implements oracle.Projector.
func (p *polyProjector) Project(dst, theta []float64, lambda float64, warm *oracle.Warm) (oracle.Info, error) {
	p.solved, p.extended = false, false
	s := p.sys
	if err := oracle.CheckProject(dst, theta, lambda, s.dim); err != nil {
		return oracle.Info{}, err
	}
	for j, i := range s.vars {
		q := -theta[i] / lambda
		if math.Abs(q) > polyFar {
			return oracle.Info{}, fmt.Errorf("-theta/lambda is %v at %d, beyond %v: %w", q, i, polyFar, oracle.ErrNonFinite)
		}
		p.p[j] = q
	}
	p.start(warm)
	steps := p.improve()
	info := p.certify(lambda)
	info.Iterations = steps
	s.scatter(dst, p.w)
	p.solved = true
	if warm != nil {
		p.save(warm)
	}
	return info, nil
}

// polyFar is the farthest point that can be projected: its squares do not
// overflow.
const polyFar = 1e150

// start sets the active set to that of warm, less what is not usable of it, or
// else to the bounds that p breaks, and w and the multipliers to the solution
// on the active set.
func (p *polyProjector) start(warm *oracle.Warm) {
	s := p.sys
	p.f.reset()
	clear(p.active)
	clear(p.skipped)
	clear(p.side)
	clear(p.mu)
	if warm == nil || len(warm.Words) != polyWords(s) {
		for j, x := range p.p {
			switch {
			case x < s.lo[j]:
				p.pin(j, -1)
			case x > s.hi[j]:
				p.pin(j, 1)
			}
		}
		p.settle()
		return
	}
	for j := range s.n {
		switch bit := polyBit(warm.Words, 2*j); {
		case bit && !math.IsInf(s.lo[j], -1):
			p.pin(j, -1)
		case !bit && polyBit(warm.Words, 2*j+1) && !math.IsInf(s.hi[j], 1):
			p.pin(j, 1)
		}
	}
	for i := range s.m {
		if polyBit(warm.Words, 2*s.n+i) {
			p.activate(i)
		}
	}
	p.settle()
}

// pin fixes variable j at a bound while no row is active.
func (p *polyProjector) pin(j int, side int8) {
	p.side[j] = side
	p.f.free[j] = false
}

// activate makes row i active if it is independent of the active constraints.
func (p *polyProjector) activate(i int) bool {
	p.normal(i, 1)
	if !p.f.project(p.z, p.f.h) {
		return false
	}
	p.f.append(i, p.z, p.f.h)
	p.active[i] = true
	return true
}

// normal sets z to sign times row i at the free variables.
func (p *polyProjector) normal(i int, sign float64) {
	clear(p.z)
	index, value := p.sys.row(i)
	for k, j := range index {
		if p.f.free[j] {
			p.z[j] = sign * value[k]
		}
	}
}

// bound returns the bound variable j is at.
func (p *polyProjector) bound(j int) float64 {
	if p.side[j] < 0 {
		return p.sys.lo[j]
	}
	return p.sys.hi[j]
}

// settle solves on the active set, drops the constraints whose multipliers have
// the wrong sign, and repeats. It reports whether it dropped any.
func (p *polyProjector) settle() bool {
	dropped := false
	for {
		p.resolve()
		tol := p.multiplierTolerance()
		again := false
		for at := p.f.k - 1; at >= 0; at-- {
			if p.y[at] < 0 && !p.sys.equal(p.f.rows[at]) {
				if p.y[at] < -tol {
					p.dropRow(at)
					again = true
				} else {
					p.y[at] = 0
				}
			}
		}
		for j := range p.side {
			if p.side[j] != 0 && p.mu[j] < 0 {
				if p.mu[j] < -tol {
					p.dropBound(j)
					again = true
				} else {
					p.mu[j] = 0
				}
			}
		}
		if !again {
			return dropped
		}
		dropped = true
	}
}

// multiplierTolerance is the rounding error of a multiplier.
func (p *polyProjector) multiplierTolerance() float64 {
	return 1e-14 * (1 + polyMaxAbs(p.p) + polyMaxAbs(p.y[:p.f.k]))
}

func (p *polyProjector) dropRow(at int) {
	p.active[p.f.rows[at]] = false
	copy(p.y[at:p.f.k], p.y[at+1:p.f.k])
	p.f.remove(at)
}

func (p *polyProjector) dropBound(j int) {
	p.side[j], p.mu[j] = 0, 0
	p.f.release(j)
}

// resolve computes w and the multipliers from the active set.
func (p *polyProjector) resolve() {
	f := p.f
	for j := range p.w {
		p.z[j] = 0
		if f.free[j] {
			p.w[j] = p.p[j]
			p.z[j] = p.p[j]
		} else {
			p.w[j] = p.bound(j)
		}
	}
	// w = p - Q Q'p + Q R⁻ᵀ b, with b what the fixed variables leave of the
	// right-hand sides, and y = R⁻¹ (Q'p - R⁻ᵀ b).
	h := f.h[:f.k]
	f.project(p.z, h)
	for j, free := range f.free {
		if free {
			p.w[j] = p.z[j]
		}
	}
	copy(p.y, h)
	f.solve(p.y)
	p.correct()
	p.correct()
	p.stationary()
	p.noise = 0
}

// correct moves w onto the active rows, and y with it.
func (p *polyProjector) correct() {
	f, s := p.f, p.sys
	g := p.step[:f.k]
	for k, i := range f.rows[:f.k] {
		g[k] = s.hi[s.n+i] - s.activity(i, p.w)
	}
	f.solveTransposed(g)
	for k, x := range g {
		kernel.Axpy(x, f.column(k), p.w)
	}
	f.solve(g)
	for k, x := range g {
		p.y[k] -= x
	}
}

// residual sets v to p - w - sum y_i a_i, which at the optimum is 0 at the free
// variables and ± mu at the others.
func (p *polyProjector) residual() {
	for j, x := range p.p {
		p.v[j] = x - p.w[j]
	}
	for k, i := range p.f.rows[:p.f.k] {
		index, value := p.sys.row(i)
		polySparseAxpy(-p.y[k], index, value, p.v)
	}
}

// stationary computes mu, after a round of refinement of y.
func (p *polyProjector) stationary() {
	f := p.f
	p.residual()
	for j, free := range f.free {
		p.z[j] = 0
		if free {
			p.z[j] = p.v[j]
		}
	}
	h := f.h[:f.k]
	f.project(p.z, h)
	for j, free := range f.free {
		if free {
			p.w[j] += p.z[j]
		}
	}
	f.solve(h)
	for k, x := range h {
		p.y[k] += x
	}
	p.residual()
	for j, side := range p.side {
		p.mu[j] = float64(side) * p.v[j]
	}
}

// broken returns the constraint that w breaks most, as a variable or n plus a
// row, its sign (1 for an upper bound), and by how much, as a distance; the
// distance is 0 if there is none.
func (p *polyProjector) broken() (c int, sign, distance float64) {
	s := p.sys
	check := func(v int, x, norm float64) {
		e, way := x-s.hi[v], 1.0
		bound := s.hi[v]
		if below := s.lo[v] - x; below > e {
			e, way, bound = below, -1, s.lo[v]
		}
		if e /= norm; e > distance && e > 0.5*s.tolerance(bound) && !p.skipped[v] {
			c, sign, distance = v, way, e
		}
	}
	for j, x := range p.w {
		if p.side[j] == 0 {
			check(j, x, 1)
		}
	}
	for i := range s.m {
		if !p.active[i] {
			check(s.n+i, s.activity(i, p.w), s.norm[i])
		}
	}
	return c, sign, distance
}

// direction computes, for a constraint with outer normal sign times that of c,
// its part z orthogonal to the active normals, and the coefficients of the rest
// in them: step for rows and side times v for bounds. It reports whether z is
// more than rounding.
func (p *polyProjector) direction(c int, sign float64) bool {
	f, s := p.f, p.sys
	clear(p.v)
	if c < s.n {
		clear(p.z)
		p.z[c], p.v[c] = sign, sign
	} else {
		p.normal(c-s.n, sign)
		index, value := s.row(c - s.n)
		polySparseAxpy(sign, index, value, p.v)
	}
	independent := f.project(p.z, f.h)
	copy(p.step, f.h[:f.k])
	f.solve(p.step)
	for k, i := range f.rows[:f.k] {
		index, value := s.row(i)
		polySparseAxpy(-p.step[k], index, value, p.v)
	}
	return independent
}

// blocking returns how far the multipliers let the step go before one of them
// is 0, and which: position of a row, or ^ of a variable.
func (p *polyProjector) blocking() (t float64, at int) {
	t = math.Inf(1)
	tol := 1e-13 * (1 + polyMaxAbs(p.step[:p.f.k]))
	for k, r := range p.step[:p.f.k] {
		if r > tol && p.y[k] < t*r && !p.sys.equal(p.f.rows[k]) {
			t, at = max(p.y[k], 0)/r, k
		}
	}
	for j, side := range p.side {
		if r := float64(side) * p.v[j]; r > tol && p.mu[j] < t*r {
			t, at = max(p.mu[j], 0)/r, ^j
		}
	}
	return t, at
}

// improve makes the solution on the active set one of the whole problem, and
// returns the number of changes of the active set.
func (p *polyProjector) improve() (steps int) {
	for steps < p.limit {
		c, sign, distance := p.broken()
		if distance == 0 {
			// The steps have rounded: solve anew on the active set they led to.
			dropped := p.settle()
			if _, _, distance = p.broken(); distance == 0 && !dropped {
				return steps
			}
			steps++
			continue
		}
		steps += p.enter(c, sign)
	}
	p.settle()
	return steps
}

// enter makes a broken constraint active, dropping others whose multipliers
// become 0 on the way.
func (p *polyProjector) enter(c int, sign float64) (steps int) {
	f, s := p.f, p.sys
	u := 0.0
	for {
		steps++
		independent := p.direction(c, sign)
		blocked, at := p.blocking()
		full := math.Inf(1)
		if independent {
			square := polyDot(p.z, p.z)
			full = max(p.excess(c, sign), 0) / square
		}
		t := min(blocked, full)
		if math.IsInf(t, 1) {
			// The set is not empty, so the constraint holds up to rounding.
			p.skipped[c] = true
			return steps
		}
		if independent {
			kernel.Axpy(-t, p.z, p.w)
		}
		for k, r := range p.step[:f.k] {
			p.y[k] -= float64(t * r)
		}
		for j, side := range p.side {
			if side != 0 {
				p.mu[j] -= float64(side) * t * p.v[j]
			}
		}
		u += t
		if full <= blocked {
			p.noise += 0x1p-52 * (polyMaxAbs(p.w) + float64(t*polyMaxAbs(p.z)))
			if c < s.n {
				p.side[c], p.mu[c] = int8(sign), u
				p.w[c] = p.bound(c)
				if sign < 0 {
					for j := range p.z {
						p.z[j] = -p.z[j]
					}
				}
				f.fix(c, p.z)
			} else {
				i := c - s.n
				for k := range f.h[:f.k] {
					f.h[k] *= sign
				}
				for j := range p.z {
					p.z[j] *= sign
				}
				p.y[f.k] = sign * u
				p.active[i] = true
				f.append(i, p.z, f.h)
			}
			if p.noise > 1e-14*(1+polyMaxAbs(p.w)) {
				p.correct()
				p.noise = 0
			}
			return steps
		}
		if at >= 0 {
			p.dropRow(at)
		} else {
			p.dropBound(^at)
		}
	}
}

// excess returns by how much w breaks constraint c on the given side.
func (p *polyProjector) excess(c int, sign float64) float64 {
	s := p.sys
	x := 0.0
	if c < s.n {
		x = p.w[c]
	} else {
		x = s.activity(c-s.n, p.w)
	}
	if sign > 0 {
		return x - s.hi[c]
	}
	return s.lo[c] - x
}

// certify measures the optimality conditions. The duality gap of w and the
// multipliers, with r the residual of stationarity, is
// sum y_i (b_i - a_i.w) + |r|²/2 for lambda = 1.
func (p *polyProjector) certify(lambda float64) oracle.Info {
	s := p.sys
	gap, worst := 0.0, 0.0
	for k, i := range p.f.rows[:p.f.k] {
		slack := math.Abs(s.hi[s.n+i] - s.activity(i, p.w))
		gap += math.Abs(p.y[k]) * slack
		worst = max(worst, slack)
	}
	force := 0.0
	for j, free := range p.f.free {
		if free {
			gap += float64(p.v[j]*p.v[j]) / 2
			force = max(force, math.Abs(p.v[j]))
		}
	}
	size := 1 + polyMaxAbs(p.w)
	clear(p.skipped)
	if _, _, distance := p.broken(); distance > worst {
		worst = distance
	}
	info := oracle.Info{Status: oracle.Optimal, Gap: lambda * gap}
	if !(worst <= polyAccuracy*size) {
		// Nothing is known of a point that is not in the set.
		return oracle.Info{Status: oracle.IterationLimit, Gap: math.Inf(1)}
	}
	if !(force <= polyAccuracy*(size+polyMaxAbs(p.p))) {
		info.Status = oracle.IterationLimit
	}
	return info
}

// polyAccuracy is the residual of the optimality conditions at which a solve
// is no longer optimal.
const polyAccuracy = 1e-9

// JVP implements oracle.Projector.
func (p *polyProjector) JVP(dst, v []float64) error {
	s := p.sys
	if err := oracle.CheckSolve(dst, v, s.dim); err != nil {
		return err
	}
	if !p.solved {
		return oracle.ErrNoProjection
	}
	if !p.extended {
		p.extend()
		p.extended = true
	}
	for j, i := range s.vars {
		p.z[j] = 0
		if p.f.free[j] {
			p.z[j] = v[i]
		}
	}
	p.f.project(p.z, p.f.h)
	clear(dst)
	for j, i := range s.vars {
		dst[i] = p.z[j]
	}
	return nil
}

// polyTight is the relative slack below which a constraint is tight for JVP.
const polyTight = 1e-9

// extend makes every tight constraint active.
func (p *polyProjector) extend() {
	s := p.sys
	near := func(x, bound float64) bool {
		return !math.IsInf(bound, 0) && math.Abs(x-bound) <= polyTight*(1+math.Abs(bound))
	}
	tight := func(v int, x float64) bool { return near(x, s.lo[v]) || near(x, s.hi[v]) }
	for j, x := range p.w {
		if p.f.free[j] && tight(j, x) {
			clear(p.z)
			p.z[j] = 1
			if p.f.project(p.z, p.f.h) {
				p.f.fix(j, p.z)
			}
		}
	}
	for i := range s.m {
		if !p.active[i] && tight(s.n+i, s.activity(i, p.w)) {
			p.activate(i)
		}
	}
}

// polyWords is the length of a warm start: two bits a variable, one a row.
func polyWords(s *polySystem) int { return (2*s.n + s.m + 63) / 64 }

func polyBit(words []uint64, k int) bool { return words[k/64]>>(k%64)&1 == 1 }

// save writes the active set to warm.
func (p *polyProjector) save(warm *oracle.Warm) {
	s := p.sys
	n := polyWords(s)
	if cap(warm.Words) < n {
		warm.Words = make([]uint64, n)
	}
	warm.Words = warm.Words[:n]
	clear(warm.Words)
	set := func(k int) { warm.Words[k/64] |= 1 << (k % 64) }
	for j, side := range p.side {
		switch side {
		case -1:
			set(2 * j)
		case 1:
			set(2*j + 1)
		}
	}
	for i, on := range p.active {
		if on {
			set(2*s.n + i)
		}
	}
}
