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
// A Newton step solves a weighted graph Laplacian over the halves; see
// pathNetwork. Steps that do not exist have y = 0 and z = +Inf.
//
// It works on one problem, or on flowLanes of them side by side, whose answers
// do not depend on one another and have the bits of the former. Number i of a
// problem's vector is at i lanes + lane.
type pathInterior struct {
	*pathNetwork
	goal float64 // the complementarity to reach

	y, z     []float64 // by step
	t        []float64 // the change of y
	iz       []float64
	p        []float64 // by place
	w, s, u  []float64
	is       []float64
	free     []float64 // 1 at cells other than the endpoints
	in, out  []float64
	c        []float64
	dw, du   []float64
	bIn, cIn []float64
	bOut     []float64
	cOut     []float64

	lane [flowLanes]pathLane
	// totals, size and target are those of the step under way. Objects of their
	// sizes begin at a cache line.
	totals       *flowTotals
	size, target *octet

	visits   []float64 // of one problem, by place
	balances pathBalance
	factored bool // the network is that of the point reached
}

// pathLane is how far the problem in a lane is.
type pathLane struct {
	limit      float64 // the gap to reach
	products   float64 // the sum of y z and s u
	residual   float64 // what is left of the initial infeasibility
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

func newPathInterior(path *Path, lanes int) *pathInterior {
	q := &pathInterior{pathNetwork: newPathNetwork(path, lanes), goal: path.goal.mu, totals: new(flowTotals), size: new(octet), target: new(octet)}
	for _, x := range []*[]float64{&q.y, &q.z, &q.t, &q.iz} {
		*x = q.bySteps()
	}
	for _, x := range []*[]float64{
		&q.p, &q.w, &q.s, &q.u, &q.is, &q.free, &q.in, &q.out, &q.c, &q.dw, &q.du, &q.bIn, &q.cIn, &q.bOut, &q.cOut,
	} {
		*x = q.byPlace()
	}
	for k := range q.z {
		q.z[k] = math.Inf(1)
	}
	for k := range q.s {
		q.s[k] = 1
	}
	for _, v := range q.inner {
		q.set(q.free, v, 1)
	}
	q.visits = make([]float64, q.f.size)
	q.balances = newPathBalance(q.f)
	return q
}

// begin puts the projection of p, whose largest entry is scale, into lane l, at
// a point with y, z, s, u > 0 that meets w = p + out - in - u.
func (q *pathInterior) begin(l int, p []float64, scale, limit float64) {
	// Of the starts tried, this one took the fewest iterations on the paper's
	// grids.
	level := 0.3 + 0.1*scale
	n := q.lanes
	for _, a := range q.steps {
		q.y[int(a.at)*n+l], q.z[int(a.at)*n+l] = 0.15, level
	}
	products := 0.15 * level * float64(len(q.steps))
	for _, v := range q.cells {
		i := int(v)*n + l
		q.p[i], q.in[i], q.out[i] = p[v], 0, level
	}
	for _, v := range q.inner {
		i := int(v)*n + l
		x := p[v] + level
		w := min(max(x, 0.2), 0.9)
		u := max(x-w, 0.3*level)
		q.w[i], q.s[i], q.u[i] = w, 1-w, u
		products += (1 - w) * u
	}
	q.w[int(q.f.source)*n+l], q.w[int(q.f.sink)*n+l] = 1, 1
	if lane := &q.lane[l]; math.IsNaN(lane.products) {
		q.mend(l)
	}
	q.lane[l] = pathLane{limit: limit, products: products, residual: 1}
	q.factored = false
}

// mend removes what a failed solve may have left in lane l where numbers are
// zero.
func (q *pathInterior) mend(l int) {
	n := q.lanes
	q.laplace.clearLane(l)
	for _, v := range [][]float64{q.t, q.iz, q.c, q.dw, q.du, q.bIn, q.cIn, q.bOut, q.cOut, q.x, q.tmp} {
		for i := l; i < len(v); i += n {
			v[i] = 0
		}
	}
	exists := make([]bool, len(q.y)/n)
	for _, a := range q.steps {
		exists[a.at] = true
	}
	for k, ok := range exists {
		if !ok {
			q.y[k*n+l], q.z[k*n+l] = 0, math.Inf(1)
		}
	}
	for v := range len(q.s) / n {
		if i := v*n + l; q.free[i] == 0 {
			q.s[i], q.u[i] = 1, 0
			if int32(v) != q.f.source && int32(v) != q.f.sink {
				q.w[i], q.in[i], q.out[i] = 0, 0, 0
			}
		}
	}
}

// project solves for the projection of p in lane 0 of one, and returns a bound
// of its duality gap.
func (q *pathInterior) project(p []float64, scale, limit float64) (gap float64) {
	q.begin(0, p, scale, limit)
	for !q.done(0) {
		q.prepare()
		q.step()
	}
	return q.finish(0)
}

// count is the number of complementary pairs.
func (q *pathInterior) count() float64 { return float64(len(q.steps) + len(q.inner)) }

// done says whether lane l is at its goal, or not going to get there.
func (q *pathInterior) done(l int) bool {
	lane := &q.lane[l]
	mu := lane.products / q.count()
	return lane.products <= 0.9*lane.limit && mu <= q.goal && lane.residual <= pathResidual ||
		lane.iterations == pathMaxInterior || math.IsNaN(mu)
}

// finish copies the visits of lane l to visits and returns a bound of the
// duality gap there.
func (q *pathInterior) finish(l int) (gap float64) {
	for _, v := range q.cells {
		q.visits[v] = q.w[int(v)*q.lanes+l]
	}
	return q.bound(l)
}

// bound returns a bound of the duality gap at w of lane l. The potentials give
// one of any point x of the set: with z_ij = out_i - in_j >= 0 on its flow,
//
//	g.x >= in_sink - out_source - sum of max(0, out_v - in_v - g_v).
//
// The endpoints have g = 0. A z below 0, by rounding, counts once for its step.
func (q *pathInterior) bound(l int) float64 {
	n := q.lanes
	gap := q.out[int(q.f.source)*n+l] - q.in[int(q.f.sink)*n+l]
	for _, v := range q.inner {
		i := int(v)*n + l
		g := q.w[i] - q.p[i]
		gap += g*q.w[i] + max(0, q.out[i]-q.in[i]-g)
	}
	for _, a := range q.steps {
		gap += max(0, q.in[int(a.head)*n+l]-q.out[int(a.tail)*n+l])
	}
	return gap
}

// prepare prepares a Newton step from where the lanes are.
func (q *pathInterior) prepare() {
	q.weigh(q.y, q.z, q.iz, q.s, q.u, q.free, q.is)
	q.factor()
}

// step takes a step in every lane.
func (q *pathInterior) step() {
	q.aim()
	q.predict()
	q.correct()
	q.advance()
}

// aim sets the right-hand sides of the step to mu = 0.
func (q *pathInterior) aim() {
	h := q.heads
	cellAim(h(q.p), h(q.out), h(q.in), h(q.w), q.give(), h(q.c), h(q.bIn), h(q.bOut))
	source, sink := q.f.source, q.f.sink
	q.set(q.bIn, source, 0)
	q.set(q.bOut, source, -1)
	q.set(q.bIn, sink, 1)
	q.set(q.bOut, sink, 0)
}

// predict solves for the step to mu = 0 and sets the mu to aim at.
func (q *pathInterior) predict() {
	q.solve(q.bIn, q.bOut)
	h := q.heads
	*q.totals = flowTotals{}
	cellPredict(h(q.bOut), h(q.bIn), q.give(), h(q.c), h(q.u), h(q.is), h(q.dw), h(q.du), q.totals, q.lanes)
	for k := range q.f.steps {
		flowPredict(q.tails(q.bOut, k), h(q.bIn), q.along(q.y, k), q.along(q.cond, k), q.along(q.iz, k), q.along(q.t, k), q.totals, q.lanes)
	}
	for l := range q.lanes {
		// The largest relative decrease bounds the step; what a full step leaves
		// of the products is minus the sum.
		mu := q.lane[l].products / q.count()
		step := 1 / max(1, q.totals.largest(0, q.lanes, l))
		after := (1-step)*mu - step*step*q.totals.total(q.lanes, l)/q.count()
		ratio := max(after, 0) / mu
		q.target[l] = ratio * ratio * ratio * mu
	}
	q.spread(q.target)
}

// spread gives all lanes the number of a single problem.
func (q *pathInterior) spread(x *octet) {
	if q.lanes == 1 {
		for l := range x {
			x[l] = x[0]
		}
	}
}

// correct solves for the step to mu = target with the predictor's second-order
// terms.
func (q *pathInterior) correct() {
	h := q.heads
	clear(q.cIn)
	clear(q.cOut)
	cellCentre(q.target, q.give(), h(q.dw), h(q.is), h(q.du), h(q.c), h(q.cIn), h(q.cOut))
	for k := range q.f.steps {
		flowCentre(q.target, q.along(q.t, k), q.along(q.iz, k), q.tails(q.cOut, k), h(q.cIn))
	}
	q.solve(q.cIn, q.cOut)
	for l := range q.size {
		q.size[l] = 1
	}
	flowStep(q.size, q.cIn, q.bIn)
	flowStep(q.size, q.cOut, q.bOut)
}

// advance takes as much of the step as keeps everything positive.
func (q *pathInterior) advance() {
	h := q.heads
	*q.totals = flowTotals{}
	cellAdvance(h(q.bOut), h(q.bIn), q.give(), h(q.c), h(q.u), h(q.is), h(q.dw), h(q.du), q.totals, q.lanes)
	for k := range q.f.steps {
		flowAdvance(q.tails(q.bOut, k), h(q.bIn), q.along(q.y, k), q.along(q.cond, k), q.along(q.iz, k), q.along(q.t, k), q.totals, q.lanes)
	}
	for l := range q.lanes {
		shrink := max(q.totals.largest(0, q.lanes, l), q.totals.largest(1, q.lanes, l))
		// Keep a distance from the boundary, a small one once mu is small.
		lane := &q.lane[l]
		size, keep := 1.0, 1-min(0.005, max(lane.products/q.count(), 3e-4))
		if shrink > keep {
			size = keep / shrink
		}
		lane.residual *= 1 - size
		lane.iterations++
		q.size[l] = size
	}
	q.spread(q.size)
	*q.totals = flowTotals{}
	cellUpdate(q.size, h(q.dw), h(q.du), h(q.w), h(q.s), h(q.u), q.totals, q.lanes)
	for k := range q.f.steps {
		flowUpdate(q.size, q.along(q.t, k), q.tails(q.bOut, k), h(q.bIn), q.along(q.y, k), q.along(q.z, k), q.totals, q.lanes)
	}
	flowStep(q.size, q.bIn, q.in)
	flowStep(q.size, q.bOut, q.out)
	for l := range q.lanes {
		q.lane[l].products = q.totals.total(q.lanes, l)
	}
}

// differentiate sets the right-hand sides of lane l to those of J v, a Newton
// step for p + v, which is dw after predict.
func (q *pathInterior) differentiate(l int, v []float64) {
	give, n := q.give(), q.lanes
	byPlace := q.visits
	for i, place := range q.f.place {
		byPlace[place] = v[i]
	}
	for _, v := range q.cells {
		i := int(v)*n + l
		c := give[i-q.first*n] * byPlace[v]
		q.c[i], q.bIn[i], q.bOut[i] = c, c, -c
	}
	clear(byPlace)
}

// derivative writes the J v of lane l.
func (q *pathInterior) derivative(dst []float64, l int) {
	for i, place := range q.f.place {
		dst[i] = q.dw[int(place)*q.lanes+l]
	}
}

// jvp writes J v at the last projection in lane 0 of one.
func (q *pathInterior) jvp(dst, v []float64) {
	if !q.factored {
		q.prepare()
		q.factored = true
	}
	q.aim()
	q.differentiate(0, v)
	q.predict()
	q.derivative(dst, 0)
}
