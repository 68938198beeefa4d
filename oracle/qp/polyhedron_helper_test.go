package qp

import (
	"math"
	"math/rand/v2"
	"testing"
)

// polyMust returns the polyhedron of c, which must have one.
func polyMust(tb testing.TB, c Constraints) *Polyhedron {
	tb.Helper()
	p, err := NewPolyhedron(c)
	if err != nil {
		tb.Fatalf("NewPolyhedron: %v", err)
	}
	return p
}

// polyFill returns d copies of x.
func polyFill(d int, x float64) []float64 {
	v := make([]float64, d)
	for i := range v {
		v[i] = x
	}
	return v
}

func polyNormal(r *rand.Rand, d int) []float64 {
	v := make([]float64, d)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

// dense returns the coefficients of k over d variables.
func (k Constraint) dense(d int) []float64 {
	a := make([]float64, d)
	if len(k.Index) == 0 {
		copy(a, k.Value)
	}
	for j, i := range k.Index {
		a[i] = k.Value[j]
	}
	return a
}

// polyRandom draws a non-empty polyhedron: all constraints hold at a random
// point, many with equality. Rows are dense or sparse, and some are copies,
// multiples or sums of others; variables are bounded, half bounded, fixed or
// free.
func polyRandom(r *rand.Rand, d, m int, bounded bool) Constraints {
	c := Constraints{Dim: d, Lower: make([]float64, d), Upper: make([]float64, d)}
	x := make([]float64, d)
	integer := r.IntN(2) == 0
	for i := range x {
		x[i] = r.NormFloat64()
		if integer {
			x[i] = float64(r.IntN(5) - 2)
		}
		lo, hi := x[i]-float64(r.IntN(3)), x[i]+float64(r.IntN(3))
		if !integer {
			lo, hi = x[i]-r.ExpFloat64(), x[i]+r.ExpFloat64()
		}
		kind := r.IntN(8)
		if bounded {
			kind = 4 + r.IntN(4)
		}
		switch kind {
		case 0:
			lo, hi = math.Inf(-1), math.Inf(1)
		case 1:
			lo = math.Inf(-1)
		case 2:
			hi = math.Inf(1)
		case 4:
			lo = x[i]
		case 5:
			if r.IntN(3) == 0 {
				lo, hi = x[i], x[i]
			}
		}
		c.Lower[i], c.Upper[i] = lo, hi
	}
	var rows []Constraint
	density := 0.2 + 0.8*r.Float64()
	for range m {
		a := make([]float64, d)
		for i := range a {
			if r.Float64() < density {
				a[i] = r.NormFloat64()
				if integer {
					a[i] = float64(r.IntN(5) - 2)
				}
			}
		}
		if len(rows) > 0 {
			b := rows[r.IntN(len(rows))].dense(d)
			switch r.IntN(8) {
			case 0:
				copy(a, b)
			case 1:
				for i := range a {
					a[i] = -3 * b[i]
				}
			case 2:
				e := rows[r.IntN(len(rows))].dense(d)
				for i := range a {
					a[i] = b[i] + e[i]
				}
			}
		}
		k := Constraint{Value: a}
		if r.IntN(2) == 0 {
			k = Constraint{Index: []int{}}
			for _, i := range r.Perm(d) {
				if a[i] != 0 {
					k.Index, k.Value = append(k.Index, i), append(k.Value, a[i])
				}
			}
		}
		for i := range a {
			k.RHS += a[i] * x[i]
		}
		rows = append(rows, k)
	}
	for _, k := range rows {
		if r.IntN(4) == 0 {
			c.Equal = append(c.Equal, k)
			continue
		}
		if r.IntN(3) == 0 {
			k.RHS += r.ExpFloat64()
		}
		c.AtMost = append(c.AtMost, k)
	}
	return c
}

// polyScale multiplies every row of c by a random power of ten in 10^±6.
func polyScale(r *rand.Rand, c Constraints) Constraints {
	for _, rows := range [][]Constraint{c.AtMost, c.Equal} {
		for k := range rows {
			f := math.Pow(10, 12*r.Float64()-6)
			v := make([]float64, len(rows[k].Value))
			for i, x := range rows[k].Value {
				v[i] = f * x
			}
			rows[k].Value, rows[k].RHS = v, f*rows[k].RHS
		}
	}
	return c
}

// polyFlat returns all finite bounds and rows of c as dense rows, the
// equalities first.
func polyFlat(c Constraints) (rows [][]float64, rhs []float64, equalities int) {
	add := func(a []float64, b float64) {
		rows, rhs = append(rows, a), append(rhs, b)
	}
	for _, k := range c.Equal {
		add(k.dense(c.Dim), k.RHS)
	}
	equalities = len(rows)
	for _, k := range c.AtMost {
		add(k.dense(c.Dim), k.RHS)
	}
	unit := func(i int, x float64) []float64 {
		a := make([]float64, c.Dim)
		a[i] = x
		return a
	}
	for i, x := range c.Lower {
		if !math.IsInf(x, 0) {
			add(unit(i, -1), -x)
		}
	}
	for i, x := range c.Upper {
		if !math.IsInf(x, 0) {
			add(unit(i, 1), x)
		}
	}
	return rows, rhs, equalities
}

// polyEliminate solves the square system rows x = rhs by Gaussian elimination
// with complete pivoting, up to its rank. x is nil if that is less than the
// number of columns.
func polyEliminate(rows [][]float64, rhs []float64) (x []float64, rank int) {
	d := len(rows[0])
	a := make([][]float64, len(rows))
	for i := range a {
		a[i] = append(append([]float64(nil), rows[i]...), rhs[i])
	}
	at := make([]int, 0, d)
	used := make([]bool, d)
	for rank < len(a) {
		p, q, best := -1, -1, 1e-9
		for i := rank; i < len(a); i++ {
			for j := range d {
				if v := math.Abs(a[i][j]); !used[j] && v > best {
					p, q, best = i, j, v
				}
			}
		}
		if p < 0 {
			break
		}
		a[rank], a[p] = a[p], a[rank]
		used[q] = true
		at = append(at, q)
		for i := range a {
			if i == rank || a[i][q] == 0 {
				continue
			}
			f := a[i][q] / a[rank][q]
			for j := range a[i] {
				a[i][j] -= f * a[rank][j]
			}
			a[i][q] = 0
		}
		rank++
	}
	if rank < d {
		return nil, rank
	}
	x = make([]float64, d)
	for k, j := range at {
		x[j] = a[k][d] / a[k][j]
	}
	return x, rank
}

// polyVertices lists the vertices of the set of c: the feasible solutions of
// all systems of d of its constraints.
func polyVertices(c Constraints) [][]float64 {
	rows, rhs, _ := polyFlat(c)
	d := c.Dim
	var out [][]float64
	pick := make([]int, 0, d)
	var choose func(from int)
	choose = func(from int) {
		if len(pick) == d {
			a, b := make([][]float64, d), make([]float64, d)
			for k, i := range pick {
				a[k], b[k] = rows[i], rhs[i]
			}
			if x, _ := polyEliminate(a, b); x != nil && polyOutside(c, x) < 1e-9 {
				out = append(out, x)
			}
			return
		}
		for i := from; i < len(rows); i++ {
			pick = append(pick, i)
			choose(i + 1)
			pick = pick[:len(pick)-1]
		}
	}
	choose(0)
	return out
}

// polyOutside returns by how much x breaks a constraint of c, the plain way.
func polyOutside(c Constraints, x []float64) float64 {
	rows, rhs, equalities := polyFlat(c)
	worst := 0.0
	for i, a := range rows {
		e, norm := -rhs[i], 0.0
		for j := range a {
			e += a[j] * x[j]
			norm += a[j] * a[j]
		}
		if i < equalities {
			e = math.Abs(e)
		}
		if norm > 0 {
			worst = max(worst, e/math.Sqrt(norm))
		}
	}
	return worst
}

// polyTightRank returns the rank of the constraints of c that x meets with
// equality, of all of them if x is nil.
func polyTightRank(c Constraints, x []float64) int {
	rows, rhs, _ := polyFlat(c)
	var tight [][]float64
	for i, a := range rows {
		n := polyNorm(a)
		if n == 0 || x != nil && math.Abs(polyDot(a, x)-rhs[i]) > 1e-9*n*(1+math.Abs(rhs[i]/n)) {
			continue
		}
		b := make([]float64, len(a))
		for j := range a {
			b[j] = a[j] / n
		}
		tight = append(tight, b)
	}
	if len(tight) == 0 {
		return 0
	}
	_, rank := polyEliminate(tight, make([]float64, len(tight)))
	return rank
}

// polyBox01 returns d variables in [0, 1].
func polyBox01(d int) Constraints {
	return Constraints{Dim: d, Lower: make([]float64, d), Upper: polyFill(d, 1)}
}

// polySimplex returns the unit simplex.
func polySimplex(d int) Constraints {
	return Constraints{Dim: d, Lower: make([]float64, d), Equal: []Constraint{{Value: polyFill(d, 1), RHS: 1}}}
}

// polyAssignment returns the doubly stochastic matrices of order n.
func polyAssignment(n int) Constraints {
	c := Constraints{Dim: n * n, Lower: make([]float64, n*n)}
	for i := range n {
		var row, column Constraint
		for j := range n {
			row.Index = append(row.Index, i*n+j)
			column.Index = append(column.Index, j*n+i)
		}
		row.Value, row.RHS = polyFill(n, 1), 1
		column.Value, column.RHS = polyFill(n, 1), 1
		c.Equal = append(c.Equal, row, column)
	}
	return c
}

// polyGrid returns the unit flows from the first to the last cell of a grid of
// n by n, along arcs that lead right and down. Arc lists, for each arc, its two
// cells. One of the conservation equations is implied by the others.
func polyGrid(n int) (c Constraints, arcs [][2]int) {
	for i := range n {
		for j := range n {
			if j+1 < n {
				arcs = append(arcs, [2]int{i*n + j, i*n + j + 1})
			}
			if i+1 < n {
				arcs = append(arcs, [2]int{i*n + j, (i+1)*n + j})
			}
		}
	}
	c = Constraints{Dim: len(arcs), Lower: make([]float64, len(arcs)), Equal: make([]Constraint, n*n)}
	for e, a := range arcs {
		for k, v := range []float64{1, -1} {
			row := &c.Equal[a[k]]
			row.Index, row.Value = append(row.Index, e), append(row.Value, v)
		}
	}
	c.Equal[0].RHS, c.Equal[n*n-1].RHS = 1, -1
	return c, arcs
}

// polyCrossPolytope returns the unit ball of the 1-norm as its 2^d facets, d of
// which meet at a vertex only for d = 2.
func polyCrossPolytope(d int) Constraints {
	c := Constraints{Dim: d}
	for set := range 1 << d {
		k := Constraint{Value: polyFill(d, 1), RHS: 1}
		for i := range d {
			if set>>i&1 == 1 {
				k.Value[i] = -1
			}
		}
		c.AtMost = append(c.AtMost, k)
	}
	return c
}

// polyAllocation returns a random allocation of resources: d activities in
// [0, 1], m resources of which 40 % of the most that can be used is there.
func polyAllocation(r *rand.Rand, d, m int) Constraints {
	c := polyBox01(d)
	for range m {
		k := Constraint{Value: make([]float64, d)}
		for i := range d {
			k.Value[i] = r.Float64()
			k.RHS += 0.4 * k.Value[i]
		}
		c.AtMost = append(c.AtMost, k)
	}
	return c
}

// polyResidual returns by how much the last projection of p breaks the
// optimality conditions over its reduced system, for lambda = 1, worked out
// from its multipliers.
func polyResidual(p *polyProjector) float64 {
	s := p.sys
	force := make([]float64, s.n)
	worst := 0.0
	for j := range force {
		force[j] = p.w[j] - p.p[j] + float64(p.side[j])*p.mu[j]
		switch p.side[j] {
		case 0:
			worst = max(worst, math.Abs(p.mu[j]))
		case 1:
			worst = max(worst, -p.mu[j], math.Abs(p.w[j]-s.hi[j]))
		default:
			worst = max(worst, -p.mu[j], math.Abs(p.w[j]-s.lo[j]))
		}
	}
	for k, i := range p.f.rows[:p.f.k] {
		index, value := s.row(i)
		for e, j := range index {
			force[j] += p.y[k] * value[e]
		}
		worst = max(worst, math.Abs(s.activity(i, p.w)-s.hi[s.n+i]))
		if !s.equal(i) {
			worst = max(worst, -p.y[k])
		}
	}
	return max(worst, polyMaxAbs(force))
}
