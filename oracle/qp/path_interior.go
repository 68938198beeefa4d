package qp

import "math"

// pathInterior is Mehrotra's predictor-corrector interior point method (1992)
// for the flow form of the projection: visits w_v = 1 - s_v, flows y >= 0 on
// steps, potentials in_v and out_v of the incoming and outgoing half of a cell,
// slacks z = out_i - in_j >= 0 of the steps from i to j, and multipliers u >= 0
// of w <= 1, with
//
//	w = p + out - in - u,   y z = mu,   s u = mu.
//
// A Newton step solves a weighted graph Laplacian over the halves. Incoming
// halves touch no other incoming half and are eliminated first, each turning
// into edges between its neighbours (the star-mesh transform); the outgoing
// halves that remain, in row-major order, have a band matrix. Conductances stay
// positive and pivots are sums of them, so that nothing cancels even when they
// span thirty orders of magnitude.
//
// Cells on paths are numbered along the shorter side of the grid here.
type pathInterior struct {
	f            *pathFrame
	goal         float64 // the complementarity to reach
	d, band      int
	source, sink int
	place        []int32 // number to place
	// The steps into cell j are first[j]:first[j+1] and come from tail.
	first []int32
	tail  []int32
	head  []int32
	// mesh holds, star by star, for each pair of its members where in edge
	// their conductance goes. A pair with the source is grounded instead, at
	// the end of edge.
	mesh, meshFirst []int32

	y, z     []float64 // by step
	t, dz    []float64 // their changes
	cond     []float64 // y/z
	iz       []float64
	w, s, u  []float64 // by cell
	in, out  []float64
	give     []float64 // s/(s+u), the conductance between a cell's halves
	c        []float64
	dw, du   []float64
	starInv  []float64 // 1 / sum of a star's conductances
	edge     []float64 // row i: conductances from outgoing half i to i+1...
	ground   []float64
	pivotInv []float64
	bIn, cIn []float64
	bOut     []float64
	cOut     []float64

	visits     []float64 // w by place
	iterations int
}

const (
	pathMaxInterior = 80
	// pathResidual is what may be left of the initial infeasibility.
	pathResidual = 1e-12
	// pathProximal ties every outgoing half to its last potential (Friedlander
	// and Orban 2012). Without it, parts of the grid that hang together by tiny
	// conductances drift far, and differences within them lose their digits.
	pathProximal = 1e-8
)

func newPathInterior(path *Path) *pathInterior {
	f := &path.frame
	minor, major := f.width, f.height
	if f.height < f.width {
		minor, major = major, minor
	}
	q := &pathInterior{f: f, goal: path.goal.mu, band: 2*minor + 2}
	number := make([]int, f.size)
	var before []int
	for a := range major {
		for b := range minor {
			r, c := a, b
			if f.height < f.width {
				r, c = b, a
			}
			v := r*f.width + c
			place := f.place[v]
			if before = path.grid.Before(before[:0], v); len(before) > 0 || place == f.source {
				number[place] = len(q.place)
				q.place = append(q.place, place)
			}
		}
	}
	d := len(q.place)
	q.d = d
	q.source, q.sink = number[f.source], number[f.sink]
	for j, place := range q.place {
		q.first = append(q.first, int32(len(q.tail)))
		q.meshFirst = append(q.meshFirst, int32(len(q.mesh)))
		if j == q.source {
			continue
		}
		before = path.grid.Before(before[:0], f.cell(place))
		for _, v := range before {
			q.tail, q.head = append(q.tail, int32(number[f.place[v]])), append(q.head, int32(j))
		}
		members := q.members(j)
		for x, a := range members {
			for _, b := range members[x+1:] {
				q.mesh = append(q.mesh, q.edgeAt(int(a), int(b)))
			}
		}
	}
	q.first = append(q.first, int32(len(q.tail)))
	steps := make([]float64, 6*len(q.tail))
	for i, x := range []*[]float64{&q.y, &q.z, &q.t, &q.dz, &q.cond, &q.iz} {
		*x = steps[i*len(q.tail):][:len(q.tail):len(q.tail)]
	}
	for _, x := range []*[]float64{
		&q.w, &q.s, &q.u, &q.in, &q.out, &q.give, &q.c, &q.dw, &q.du, &q.starInv, &q.pivotInv, &q.bIn, &q.cIn,
	} {
		*x = make([]float64, d)
	}
	for _, x := range []*[]float64{&q.bOut, &q.cOut} {
		*x = make([]float64, d+q.band)
	}
	q.edge = make([]float64, (d+q.band)*(q.band+1))
	q.ground = q.edge[q.grounds():]
	q.visits = make([]float64, f.size)
	return q
}

// members lists the outgoing halves next to the incoming half of j: those of
// the neighbours and, endpoints apart, its own.
func (q *pathInterior) members(j int) []int32 {
	m := append([]int32(nil), q.tail[q.first[j]:]...)
	if j != q.sink {
		m = append(m, int32(j))
	}
	return m
}

// edgeAt says where the conductance between outgoing halves a and b is kept.
func (q *pathInterior) edgeAt(a, b int) int32 {
	switch {
	case a == q.source:
		return int32(q.grounds() + b)
	case b == q.source:
		return int32(q.grounds() + a)
	}
	a, b = min(a, b), max(a, b)
	return int32(a*q.band + b - a - 1)
}

// grounds is where the conductances to ground begin in edge.
func (q *pathInterior) grounds() int { return (q.d + q.band) * q.band }

// inner says whether w_v is a variable.
func (q *pathInterior) inner(v int) bool { return v != q.source && v != q.sink }

// begin sets a point with y, z, s, u > 0 that meets w = p + out - in - u.
func (q *pathInterior) begin(p []float64, scale float64) {
	level := 1 + 0.3*scale
	for a := range q.y {
		q.y[a], q.z[a] = 0.1, level
	}
	for v, place := range q.place {
		q.in[v], q.out[v] = 0, level
		x := p[place] + level
		q.w[v] = min(max(x, 0.2), 0.9)
		q.s[v] = 1 - q.w[v]
		q.u[v] = max(x-q.w[v], 0.3*level)
	}
}

// weigh sets the conductances of a Newton step at the current point.
func (q *pathInterior) weigh() {
	for a, z := range q.z {
		q.iz[a] = 1 / z
		q.cond[a] = q.y[a] * q.iz[a]
	}
	for v := range q.give {
		q.give[v] = q.s[v] / (q.s[v] + q.u[v])
	}
	q.give[q.source], q.give[q.sink] = 0, 0
}

// factor prepares the Laplacian of the conductances.
func (q *pathInterior) factor() {
	clear(q.edge)
	for i := range q.ground {
		q.ground[i] = pathProximal
	}
	// The sink has no outgoing half and the source's is the ground; a pivot of
	// 1 keeps both out of the way.
	q.ground[q.source], q.ground[q.sink] = 1, 1
	var star, share [9]float64
	for j := range q.d {
		lo, hi := q.first[j], q.first[j+1]
		if lo == hi {
			q.starInv[j] = 0
			continue
		}
		sum, n := 0.0, 0
		for _, x := range q.cond[lo:hi] {
			sum += x
			star[n] = x
			n++
		}
		if j != q.sink {
			star[n] = q.give[j]
			sum += star[n]
			n++
		}
		inv := 1 / sum
		q.starInv[j] = inv
		for i, x := range star[:n] {
			share[i] = x * inv
		}
		at := q.mesh[q.meshFirst[j]:]
		for i, x := range share[:n] {
			others := star[i+1 : n]
			for m, e := range at[:len(others)] {
				q.edge[e] += x * others[m]
			}
			at = at[len(others):]
		}
	}
	q.eliminate()
}

// eliminate turns the band of conductances into its triangular factor, two
// rows at a time, so that the rows below are read and written half as often.
func (q *pathInterior) eliminate() {
	band := q.band
	i := 0
	for ; i+1 < q.d; i += 2 {
		q.pivot(i)
		// The second row takes the first's share before its turn.
		row, second := q.edge[i*band:][:band], q.edge[(i+1)*band:][:band]
		f := row[0] * q.pivotInv[i]
		q.ground[i+1] += f * q.ground[i]
		for k, y := range row[1:] {
			second[k] += f * y
		}
		q.pivot(i + 1)
		inv0, inv1 := q.pivotInv[i], q.pivotInv[i+1]
		ground0, ground1 := q.ground[i], q.ground[i+1]
		row = row[1:]
		for j, x0 := range row {
			x1 := second[j]
			f0, f1 := x0*inv0, x1*inv1
			q.ground[i+2+j] += f0*ground0 + f1*ground1
			n := len(row) - 1 - j
			r0, r1 := row[j+1:][:n], second[j+1:][:n]
			below := q.edge[(i+2+j)*band:][:n]
			for k := range below {
				below[k] += f0*r0[k] + f1*r1[k]
			}
			// The second row reaches one further.
			below = q.edge[(i+2+j)*band:][:n+1]
			below[n] += f1 * second[j+1+n]
		}
		// So does its last entry, which has no row of the first beside it.
		q.ground[i+1+band] += second[band-1] * inv1 * ground1
	}
	if i < q.d {
		q.pivot(i) // the last row has nothing below
	}
}

// pivot inverts the sum of the conductances at outgoing half i.
func (q *pathInterior) pivot(i int) {
	sum := q.ground[i]
	for _, x := range q.edge[i*q.band:][:q.band] {
		sum += x
	}
	q.pivotInv[i] = 1 / sum
}

// solve replaces bIn and bOut by the changes of in and out. The source's
// outgoing half stays 0.
func (q *pathInterior) solve(bIn, bOut []float64) {
	band := q.band
	clear(bOut[q.d:])
	for j := range q.d {
		x := bIn[j] * q.starInv[j]
		bIn[j] = x
		lo, hi := q.first[j], q.first[j+1]
		cond, tail := q.cond[lo:hi], q.tail[lo:hi]
		for a, y := range cond {
			bOut[tail[a]] += y * x
		}
		bOut[j] += q.give[j] * x
	}
	bOut[q.source], bOut[q.sink] = 0, 0
	for i := range q.d {
		x := bOut[i] * q.pivotInv[i]
		bOut[i] = x
		row, next := q.edge[i*band:][:band], bOut[i+1:][:band]
		for k, y := range row {
			next[k] += y * x
		}
	}
	clear(bOut[q.d:])
	for i := q.d - 1; i >= 0; i-- {
		row, next := q.edge[i*band:][:band], bOut[i+1:][:band]
		var s0, s1 float64
		for k := 0; k+1 < len(row) && k+1 < len(next); k += 2 { // band is even
			s0 += row[k] * next[k]
			s1 += row[k+1] * next[k+1]
		}
		bOut[i] += (s0 + s1) * q.pivotInv[i]
	}
	bOut[q.source] = 0
	for j := range q.d {
		lo, hi := q.first[j], q.first[j+1]
		cond, tail := q.cond[lo:hi], q.tail[lo:hi]
		x := q.give[j] * bOut[j]
		for a, y := range cond {
			x += y * bOut[tail[a]]
		}
		bIn[j] += x * q.starInv[j]
	}
}

// project solves for the projection of p, leaves it in visits and returns a
// bound of its duality gap.
func (q *pathInterior) project(p []float64, scale, limit float64) (gap float64) {
	q.begin(p, scale)
	count := float64(len(q.y) + q.d - 2)
	residual := 1.0
	q.w[q.source], q.w[q.sink] = 1, 1
	for q.iterations = 0; ; q.iterations++ {
		products := q.products()
		mu := products / count
		q.weigh()
		q.factor()
		if products <= limit/2 && mu <= q.goal && residual <= pathResidual {
			break
		}
		if q.iterations == pathMaxInterior || math.IsNaN(mu) {
			break
		}
		residual *= 1 - q.correct(mu, q.predict(p, mu, count))
	}
	for v, place := range q.place {
		q.visits[place] = q.w[v]
	}
	return q.bound(p)
}

// bound returns a bound of the duality gap at w. The potentials give one of any
// point x of the set: with z_ij = out_i - in_j >= 0 on its flow,
//
//	g.x >= in_sink - out_source - sum of max(0, out_v - in_v - g_v).
//
// The endpoints have g = 0. A z below 0, by rounding, counts once for its step.
func (q *pathInterior) bound(p []float64) float64 {
	gap := q.out[q.source] - q.in[q.sink]
	for v, place := range q.place {
		if q.inner(v) {
			g := q.w[v] - p[place]
			gap += g*q.w[v] + max(0, q.out[v]-q.in[v]-g)
		}
	}
	for j := range q.d {
		for a := q.first[j]; a < q.first[j+1]; a++ {
			gap += max(0, q.in[j]-q.out[q.tail[a]])
		}
	}
	return gap
}

// imbalance is the largest difference of a cell's visits and its flow in or
// out, or of an entry from [0, 1]. It leaves the former in bIn and bOut.
func (q *pathInterior) imbalance() (worst float64) {
	in, out := q.bIn, q.bOut
	copy(in, q.w)
	copy(out, q.w)
	in[q.source], out[q.sink] = 0, 0
	for j := range q.d {
		for a := q.first[j]; a < q.first[j+1]; a++ {
			in[j] -= q.y[a]
			out[q.tail[a]] -= q.y[a]
		}
	}
	for v, x := range q.w {
		worst = max(worst, math.Abs(in[v]), math.Abs(out[v]), -x, x-1)
	}
	return worst
}

// products is the sum of y z and s u.
func (q *pathInterior) products() float64 {
	total := 0.0
	for a, y := range q.y {
		total += y * q.z[a]
	}
	for v, s := range q.s {
		if q.inner(v) {
			total += s * q.u[v]
		}
	}
	return total
}

// predict solves for the step to mu = 0 and returns the mu to aim at.
func (q *pathInterior) predict(p []float64, mu, count float64) (target float64) {
	for v, place := range q.place {
		c := q.give[v] * (p[place] + q.out[v] - q.in[v] - q.w[v])
		q.c[v] = c
		q.bIn[v], q.bOut[v] = q.w[v]+c, -q.w[v]-c
	}
	q.bIn[q.source], q.bOut[q.source] = 0, -1
	q.bIn[q.sink], q.bOut[q.sink] = 1, 0
	q.solve(q.bIn, q.bOut)

	// The largest relative decrease bounds the step; cross is the sum of the
	// products that a full step leaves.
	shrink, cross := 1.0, 0.0
	for v := range q.w {
		if !q.inner(v) {
			continue
		}
		dw := q.give[v]*(q.bOut[v]-q.bIn[v]) + q.c[v]
		du := q.u[v] * (dw - q.s[v]) / q.s[v]
		q.dw[v], q.du[v] = dw, du
		cross -= du * dw
		shrink = max(shrink, dw/q.s[v], -du/q.u[v])
	}
	n := len(q.tail)
	head, y, cond, iz, t := q.head[:n], q.y[:n], q.cond[:n], q.iz[:n], q.t[:n]
	for a, i := range q.tail {
		d := q.bOut[i] - q.bIn[head[a]]
		x := (-y[a] - cond[a]*d) * d
		t[a] = x
		cross += x
		// dy/y is -1 - dz/z; r is the larger relative decrease.
		if r := math.Abs(d*iz[a]+0.5) + 0.5; r > shrink {
			shrink = r
		}
	}
	step := 1 / shrink
	after := (1-step)*mu + step*step*cross/count
	ratio := max(after, 0) / mu
	return ratio * ratio * ratio * mu
}

// correct solves for the step to mu = target with the predictor's second-order
// terms, takes as much of it as keeps everything positive, and returns how
// much.
func (q *pathInterior) correct(mu, target float64) float64 {
	clear(q.cIn)
	clear(q.cOut)
	for v := range q.w {
		if !q.inner(v) {
			continue
		}
		c := -q.give[v] * (target + q.du[v]*q.dw[v]) / q.s[v]
		q.c[v] += c
		q.cIn[v], q.cOut[v] = c, -c
	}
	n := len(q.tail)
	head, y, z, cond, iz, t, dz := q.head[:n], q.y[:n], q.z[:n], q.cond[:n], q.iz[:n], q.t[:n], q.dz[:n]
	for a, i := range q.tail {
		k := (target - t[a]) * iz[a]
		t[a] = k
		q.cOut[i] += k
		q.cIn[head[a]] -= k
	}
	q.cIn[q.source], q.cOut[q.sink] = 0, 0
	q.solve(q.cIn, q.cOut)
	for v := range q.bIn {
		q.bIn[v] += q.cIn[v]
		q.bOut[v] += q.cOut[v]
	}

	shrink := 0.0
	for v := range q.w {
		if !q.inner(v) {
			continue
		}
		dw := q.give[v]*(q.bOut[v]-q.bIn[v]) + q.c[v]
		du := (target + q.du[v]*q.dw[v] - q.u[v]*q.s[v] + q.u[v]*dw) / q.s[v]
		q.dw[v], q.du[v] = dw, du
		shrink = max(shrink, dw/q.s[v], -du/q.u[v])
	}
	for a, i := range q.tail {
		d := q.bOut[i] - q.bIn[head[a]]
		dy := t[a] - y[a] - cond[a]*d
		dz[a], t[a] = d, dy
		if r := -d * iz[a]; r > shrink {
			shrink = r
		}
		if -dy > shrink*y[a] {
			shrink = -dy / y[a]
		}
	}
	// Keep a distance from the boundary, a small one once mu is small.
	step, keep := 1.0, 1-min(0.005, max(mu, 1e-3))
	if shrink > keep {
		step = keep / shrink
	}
	for a, d := range dz {
		y[a] += step * t[a]
		z[a] += step * d
	}
	for v := range q.w {
		q.in[v] += step * q.bIn[v]
		q.out[v] += step * q.bOut[v]
		if q.inner(v) {
			q.w[v] += step * q.dw[v]
			q.s[v] -= step * q.dw[v]
			q.u[v] += step * q.du[v]
		}
	}
	return step
}

// jvp writes J v with the Laplacian at the last projection: a Newton step for
// p + v.
func (q *pathInterior) jvp(dst, v []float64) {
	f := q.f
	byPlace := q.visits
	for i, place := range f.place {
		byPlace[place] = v[i]
	}
	for i, place := range q.place {
		c := q.give[i] * byPlace[place]
		q.c[i], q.bIn[i], q.bOut[i] = c, c, -c
	}
	clear(byPlace) // also cells on no path
	q.solve(q.bIn, q.bOut)
	for i, place := range q.place {
		byPlace[place] = q.give[i]*(q.bOut[i]-q.bIn[i]) + q.c[i]
	}
	for i, place := range f.place {
		dst[i] = byPlace[place]
	}
}
