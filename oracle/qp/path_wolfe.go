package qp

import (
	"math"
	"math/bits"

	"fedrspo/oracle/dijkstra"
)

// pathWolfe is Wolfe's nearest point method over paths and cycles of two cells:
//
//	w = sum of a_k 1[G_k],   a >= 0,   sum of a_k over paths = 1,
//
// with e_k = 1 for a path and 0 for a cycle, so that the Gram matrix
// |G_i and G_j| + e_i e_j = R'R depends on the generators alone, and with
// multipliers u >= 0 for w <= 1, which shift p. Longer cycles of even length
// are sums of these, and of odd length half the sum. On an acyclic grid paths
// suffice, and w <= 1 follows.
type pathWolfe struct {
	f      *pathFrame
	search *dijkstra.Solver

	k    int
	set  []uint64  // k sets of places, f.words words each
	e    []float64 // 1 for a path, 0 for a cycle
	a    []float64
	r    []float64 // R by columns, column j of length j+1 at j(j+1)/2
	z1   []float64 // R^-T e
	z2   []float64 // R^-T G'p
	next []float64 // the affine minimiser
	tmp  []float64
	cos  []float64
	sin  []float64

	target []float64 // p by place
	p      []float64 // target - u
	u      []float64 // multipliers of w <= 1
	capped bool      // some u is > 0
	w      []float64
	g      []float64 // w - p
	caps   pathCaps

	label []uint64 // bits of the distance to a place; +Inf in the padding
	order []int32  // places but the source, nearest first
	cost  []float64
	visit []float64
	cells []int

	// eps is a pair's sum that counts as 0.
	eps    float64
	gap    float64 // bound of the duality gap at w
	prices int     // generators looked for
}

const (
	// pathMaxGenerators bounds R; more are a sign of a problem for the interior
	// point method.
	pathMaxGenerators = 160
	// pathMinPivot is the least squared distance of a new generator from the
	// span of the others; below it R is too ill-conditioned.
	pathMinPivot = 1e-8
	// pathMaxPrices bounds the generators looked for in a solve. A hundred is
	// much; more mean that rounding drops what was just added.
	pathMaxPrices = 300
	// pathCapSlack is by how much an entry may exceed 1.
	pathCapSlack = 1e-10
	pathMaxCaps  = 64
	// pathCapRounds bounds the corrections of u.
	pathCapRounds = 12
	// pathMaxSweeps bounds the passes over the labels. From a remembered order
	// three are typical.
	pathMaxSweeps = 60
)

func newPathWolfe(path *Path) *pathWolfe {
	f := &path.frame
	kmax := min(len(f.place)+2, pathMaxGenerators)
	vector := func(n int) []float64 { return make([]float64, n) }
	q := &pathWolfe{
		f: f, search: path.search.NewSolver(),
		set: make([]uint64, kmax*f.words), e: vector(kmax), a: vector(kmax),
		r: vector(kmax * (kmax + 1) / 2), z1: vector(kmax), z2: vector(kmax),
		next: vector(kmax), tmp: vector(kmax), cos: vector(kmax), sin: vector(kmax),
		p: vector(f.size), u: vector(f.size), w: vector(f.size), g: vector(f.size),
		label: make([]uint64, f.size), order: make([]int32, 0, len(f.place)),
		cost: vector(len(f.place)), visit: vector(len(f.place)), cells: make([]int, 0, len(f.place)),
	}
	for v := range q.label {
		q.label[v] = pathFar
	}
	q.caps = newPathCaps(kmax)
	return q
}

// column returns column j of R down to the diagonal.
func (q *pathWolfe) column(j int) []float64 {
	at := j * (j + 1) / 2
	return q.r[at : at+j+1]
}

// generator returns set k.
func (q *pathWolfe) generator(k int) []uint64 {
	return q.set[k*q.f.words : (k+1)*q.f.words]
}

// over returns the sum of x over a set.
func pathSumOver(set []uint64, x []float64) float64 {
	sum := 0.0
	for i, word := range set {
		part := x[i<<6:]
		for ; word != 0; word &= word - 1 {
			sum += part[bits.TrailingZeros64(word)]
		}
	}
	return sum
}

// project solves for the projection of p, whose largest entry is scale, and
// says whether the gap is at most limit. It starts from what load found in a
// warm start, if anything.
func (q *pathWolfe) project(p []float64, scale, limit float64, warm bool) bool {
	q.target = p
	q.prices = 0
	q.gap = math.Inf(1)
	q.eps = 2e-13 + 1e-15*scale
	if warm {
		q.shift()
		warm = q.rebuild(q.k)
	}
	if !warm {
		clear(q.u)
		q.capped = false
		copy(q.p, p)
		if !q.start() {
			return false
		}
	}
	q.descend()
	for range pathCapRounds {
		if !q.wolfe(limit) {
			return false
		}
		switch q.excess() {
		case pathWithinCaps:
			q.gap += q.capGap()
			return q.gap <= limit
		case pathTooManyCaps:
			return false
		}
		q.correctCaps()
		q.shift()
		q.refresh()
		q.descend()
	}
	return false
}

// shift sets p = target - u.
func (q *pathWolfe) shift() {
	copy(q.p, q.target)
	if q.capped {
		for v, u := range q.u {
			q.p[v] -= u
		}
	}
}

// start makes a shortest path at costs max(0, -p), or -p on an acyclic grid, the
// only generator.
func (q *pathWolfe) start() bool {
	f := q.f
	for v, place := range f.place {
		q.cost[v] = -q.p[place]
		if !f.acyclic {
			q.cost[v] = max(0, q.cost[v])
		}
	}
	q.k = 0
	q.prices++
	if !q.shortest() {
		return false
	}
	if !q.add(1) {
		return false
	}
	q.a[0] = 1
	if f.acyclic {
		return true // without labels
	}
	// Cells beyond the sink follow in any order; the first sweeps sort them.
	q.order = q.order[:0]
	for _, place := range f.place {
		q.label[place] = pathFar
	}
	q.cells = q.search.Settled(q.cells[:0])
	for i, v := range q.cells {
		q.label[f.place[v]] = 0
		if i > 0 {
			q.order = append(q.order, f.place[v])
		}
	}
	for _, place := range f.place {
		if q.label[place] != 0 {
			q.order = append(q.order, place)
		}
	}
	return true
}

// anyPath writes the visits of a path at costs max(0, -p) and returns a bound
// of their duality gap: that of any point, since entries lie in [0, 1].
func (q *pathWolfe) anyPath(dst, p []float64) (gap float64) {
	for v, place := range q.f.place {
		q.cost[v] = max(0, -p[place])
	}
	if _, err := q.search.Solve(dst, q.cost); err != nil {
		return math.Inf(1) // not for finite p
	}
	for v, place := range q.f.place {
		gap += math.Abs(dst[v] - p[place])
	}
	return gap
}

// shortest puts a shortest path at q.cost in the free slot after the last
// generator.
func (q *pathWolfe) shortest() bool {
	if _, err := q.search.Solve(q.visit, q.cost); err != nil {
		return false
	}
	set := q.generator(q.k)
	clear(set)
	for v, x := range q.visit {
		if x != 0 {
			pathInsert(set, q.f.place[v])
		}
	}
	return true
}

func pathInsert(set []uint64, place int32) { set[place>>6] |= 1 << (place & 63) }

// add appends the generator in the free slot, with weight 0, and says whether
// it is independent of the others.
func (q *pathWolfe) add(e float64) bool {
	k := q.k
	set, col := q.generator(k), q.column(k)
	square := e
	for _, word := range set {
		square += float64(bits.OnesCount64(word))
	}
	rest := square
	for i := range k {
		n := 0
		other := q.set[i*len(set):][:len(set)]
		for j, word := range set {
			n += bits.OnesCount64(word & other[j])
		}
		before := q.column(i)
		x := pathForward(before, col, float64(n)+e*q.e[i])
		col[i] = x
		rest -= x * x
	}
	if rest < pathMinPivot {
		return false
	}
	pivot := math.Sqrt(rest)
	col[k] = pivot
	q.z1[k] = pathForward(col, q.z1, e)
	q.z2[k] = pathForward(col, q.z2, pathSumOver(set, q.p))
	q.e[k], q.a[k] = e, 0
	q.k++
	return true
}

// pathForward is one step of forward substitution with R': the entry that
// follows x, given the column of R down to its diagonal.
func pathForward(col, x []float64, rhs float64) float64 {
	n := len(col) - 1
	above := col[:n]
	x = x[:n]
	var s0, s1 float64
	i := 0
	for ; i+1 < len(above) && i+1 < len(x); i += 2 {
		s0 += above[i] * x[i]
		s1 += above[i+1] * x[i+1]
	}
	if i < n {
		s0 += above[i] * x[i]
	}
	return (rhs - (s0 + s1)) / col[n]
}

// remove deletes generator k. Rotations of neighbouring rows (Givens) make R
// triangular again.
func (q *pathWolfe) remove(k int) {
	f := q.f
	for j := k + 1; j < q.k; j++ {
		old, col := q.column(j), q.column(j-1)
		copy(col[:k], old[:k])
		x := old[k]
		for i := k; i < j-1; i++ {
			c, s := q.cos[i], q.sin[i]
			y := old[i+1]
			col[i] = c*x + s*y
			x = c*y - s*x
		}
		h := math.Sqrt(x*x + old[j]*old[j])
		c, s := x/h, old[j]/h
		q.cos[j-1], q.sin[j-1] = c, s
		col[j-1] = h
		for _, z := range [2][]float64{q.z1, q.z2} {
			z[j-1], z[j] = c*z[j-1]+s*z[j], c*z[j]-s*z[j-1]
		}
	}
	n := q.k
	copy(q.set[k*f.words:], q.set[(k+1)*f.words:n*f.words])
	copy(q.e[k:], q.e[k+1:n])
	copy(q.a[k:], q.a[k+1:n])
	copy(q.next[k:], q.next[k+1:n])
	q.k--
}

// refresh recomputes z2 for another p.
func (q *pathWolfe) refresh() {
	for i := range q.k {
		q.z2[i] = pathForward(q.column(i), q.z2, pathSumOver(q.generator(i), q.p))
	}
}

// rebuild computes R, z1 and z2 for the generators and weights in place, and
// says whether they are independent.
func (q *pathWolfe) rebuild(n int) bool {
	q.k = 0
	for i := range n {
		a := q.a[i]
		if !q.add(q.e[i]) {
			return false
		}
		q.a[i] = a
	}
	return true
}

// affine sets next to the weights of the nearest point of the affine hull:
// next = R^-1 (z2 + tau z1) with tau such that the paths' weights sum to 1.
func (q *pathWolfe) affine() {
	k := q.k
	z1, z2, next := q.z1[:k], q.z2[:k], q.next[:k]
	zz, zp := 0.0, 0.0
	for i, z := range z1 {
		zz += z * z
		zp += z * z2[i]
	}
	tau := (1 - zp) / zz
	for i, z := range z1 {
		next[i] = z2[i] + tau*z
	}
	q.backward(next)
}

// backward solves R x = x.
func (q *pathWolfe) backward(x []float64) {
	for j := len(x) - 1; j >= 0; j-- {
		col := q.column(j)
		y := x[j] / col[j]
		x[j] = y
		above := x[:j]
		for i, c := range col[:len(above)] {
			above[i] -= c * y
		}
	}
}

// descend moves the weights to the nearest point of the affine hull, dropping
// generators whose weight would turn negative on the way (Wolfe's minor
// cycle).
func (q *pathWolfe) descend() {
	for q.k > 1 {
		q.affine()
		theta, stop := 1.0, -1
		for i, to := range q.next[:q.k] {
			if to >= 1e-13 {
				continue
			}
			from := q.a[i]
			step := 0.0
			if from > to {
				step = from / (from - to)
			}
			if stop < 0 || step < theta {
				theta, stop = step, i
			}
		}
		if stop < 0 {
			copy(q.a, q.next[:q.k])
			break
		}
		for i, to := range q.next[:q.k] {
			q.a[i] += theta * (to - q.a[i])
		}
		q.a[stop] = 0
		for i := q.k - 1; i >= 0; i-- {
			if q.a[i] <= 1e-15 && q.k > 1 {
				q.remove(i)
			}
		}
	}
	if q.k == 1 {
		q.a[0] = 1 // the only path
	}
	q.combine(q.w, q.a[:q.k])
	// Exactly, not up to rounding: g is 0 there.
	q.w[q.f.source], q.w[q.f.sink] = 1, 1
}

// combine sets w to the sum of a_k 1[G_k].
func (q *pathWolfe) combine(w, a []float64) {
	clear(w)
	for i, x := range a {
		for j, word := range q.generator(i) {
			part := w[j<<6:]
			for ; word != 0; word &= word - 1 {
				part[bits.TrailingZeros64(word)] += x
			}
		}
	}
}

// wolfe adds the cycle or path that lowers |w-p| most until none does so by
// more than limit, and says whether it got there.
func (q *pathWolfe) wolfe(limit float64) bool {
	for q.k < len(q.e) && q.prices < pathMaxPrices {
		e, more := q.price(limit / 2)
		if !more {
			return q.gap <= limit
		}
		if !q.add(e) {
			return false
		}
		q.descend()
	}
	return false
}
