package qp

import (
	"math"

	"fedrspo/internal/kernel"
)

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
type pathInterior struct {
	*pathNetwork
	goal float64 // the complementarity to reach

	y, z     []float64 // by step
	t, dz    []float64 // their changes
	iz       []float64
	w, s, u  []float64 // by place
	in, out  []float64
	c        []float64
	dw, du   []float64
	bIn, cIn []float64
	bOut     []float64
	cOut     []float64

	visits     []float64 // w by place
	factored   bool      // the network is that of the point reached
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
	q := &pathInterior{pathNetwork: newPathNetwork(path), goal: path.goal.mu}
	for _, x := range []*[]float64{&q.y, &q.z, &q.t, &q.dz, &q.iz} {
		*x = q.bySteps()
	}
	for _, x := range []*[]float64{
		&q.w, &q.s, &q.u, &q.in, &q.out, &q.c, &q.dw, &q.du, &q.bIn, &q.cIn, &q.bOut, &q.cOut, &q.visits,
	} {
		*x = q.byPlace()
	}
	return q
}

// begin sets a point with y, z, s, u > 0 that meets w = p + out - in - u.
func (q *pathInterior) begin(p []float64, scale float64) {
	// Of the starts tried, this one took the fewest iterations on the paper's
	// grids.
	level := 0.3 + 0.1*scale
	q.clear() // of what a failed solve may have left
	clear(q.y)
	for k := range q.z {
		q.z[k] = math.Inf(1)
	}
	for _, a := range q.steps {
		q.y[a.at], q.z[a.at] = 0.15, level
	}
	for _, v := range q.cells {
		q.in[v], q.out[v] = 0, level
		x := p[v] + level
		q.w[v] = min(max(x, 0.2), 0.9)
		q.s[v] = 1 - q.w[v]
		q.u[v] = max(x-q.w[v], 0.3*level)
	}
	q.w[q.f.source], q.w[q.f.sink] = 1, 1
}

// project solves for the projection of p, leaves it in visits and returns a
// bound of its duality gap.
func (q *pathInterior) project(p []float64, scale, limit float64) (gap float64) {
	q.begin(p, scale)
	count := float64(len(q.steps) + len(q.inner))
	residual := 1.0
	for q.iterations = 0; ; q.iterations++ {
		products := q.products()
		mu := products / count
		if products <= 0.9*limit && mu <= q.goal && residual <= pathResidual {
			break
		}
		if q.iterations == pathMaxInterior || math.IsNaN(mu) {
			break
		}
		q.weigh(q.y, q.z, q.iz, q.s, q.u)
		q.factor()
		residual *= 1 - q.correct(mu, q.predict(p, mu, count))
	}
	q.factored = false
	for _, v := range q.cells {
		q.visits[v] = q.w[v]
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
	gap := q.out[q.f.source] - q.in[q.f.sink]
	for _, v := range q.inner {
		g := q.w[v] - p[v]
		gap += g*q.w[v] + max(0, q.out[v]-q.in[v]-g)
	}
	for _, a := range q.steps {
		gap += max(0, q.in[a.head]-q.out[a.tail])
	}
	return gap
}

// imbalance is the largest difference of a cell's visits and its flow in or
// out, or of an entry from [0, 1]. It leaves the former in bIn and bOut.
func (q *pathInterior) imbalance() (worst float64) {
	in, out := q.bIn, q.bOut
	copy(in, q.w)
	copy(out, q.w)
	in[q.f.source], out[q.f.sink] = 0, 0
	for _, a := range q.steps {
		in[a.head] -= q.y[a.at]
		out[a.tail] -= q.y[a.at]
	}
	for _, v := range q.cells {
		x := q.w[v]
		worst = max(worst, math.Abs(in[v]), math.Abs(out[v]), -x, x-1)
	}
	return worst
}

// products is the sum of y z and s u.
func (q *pathInterior) products() float64 {
	var lanes [flowLanes]float64
	flowProducts(q.y, q.z, &lanes)
	total := addLanes(&lanes)
	for _, v := range q.inner {
		total += q.s[v] * q.u[v]
	}
	return total
}

// predict solves for the step to mu = 0 and returns the mu to aim at.
func (q *pathInterior) predict(p []float64, mu, count float64) (target float64) {
	for _, v := range q.inner {
		c := q.give[v] * (p[v] + q.out[v] - q.in[v] - q.w[v])
		q.c[v] = c
		q.bIn[v], q.bOut[v] = q.w[v]+c, -q.w[v]-c
	}
	q.bIn[q.f.source], q.bOut[q.f.source] = 0, -1
	q.bIn[q.f.sink], q.bOut[q.f.sink] = 1, 0
	q.solve(q.bIn, q.bOut)

	// The largest relative decrease bounds the step; cross is the sum of the
	// products that a full step leaves.
	shrink, cross := 1.0, 0.0
	for _, v := range q.inner {
		dw := q.give[v]*(q.bOut[v]-q.bIn[v]) + q.c[v]
		du := q.u[v] * (dw - q.s[v]) / q.s[v]
		q.dw[v], q.du[v] = dw, du
		cross -= du * dw
		shrink = max(shrink, dw/q.s[v], -du/q.u[v])
	}
	var lanes [2][flowLanes]float64
	in := q.heads(q.bIn)
	for k := range q.f.steps {
		flowPredict(q.tails(q.bOut, k), in, q.along(q.y, k), q.along(q.cond, k), q.along(q.iz, k), q.along(q.t, k), &lanes)
	}
	cross -= addLanes(&lanes[0])
	step := 1 / max(shrink, maxLanes(&lanes[1]))
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
	for _, v := range q.inner {
		c := -q.give[v] * (target + q.du[v]*q.dw[v]) / q.s[v]
		q.c[v] += c
		q.cIn[v], q.cOut[v] = c, -c
	}
	in := q.heads(q.cIn)
	for k := range q.f.steps {
		flowCentre(target, q.along(q.t, k), q.along(q.iz, k), q.tails(q.cOut, k), in)
	}
	q.solve(q.cIn, q.cOut)
	kernel.Axpy(1, q.cIn, q.bIn)
	kernel.Axpy(1, q.cOut, q.bOut)

	shrink := 0.0
	for _, v := range q.inner {
		dw := q.give[v]*(q.bOut[v]-q.bIn[v]) + q.c[v]
		du := (target + q.du[v]*q.dw[v] - q.u[v]*q.s[v] + q.u[v]*dw) / q.s[v]
		q.dw[v], q.du[v] = dw, du
		shrink = max(shrink, dw/q.s[v], -du/q.u[v])
	}
	var lanes [2][flowLanes]float64
	in = q.heads(q.bIn)
	for k := range q.f.steps {
		flowAdvance(q.tails(q.bOut, k), in, q.along(q.y, k), q.along(q.cond, k), q.along(q.iz, k), q.along(q.t, k), q.along(q.dz, k), &lanes)
	}
	shrink = max(shrink, maxLanes(&lanes[0]), maxLanes(&lanes[1]))
	// Keep a distance from the boundary, a small one once mu is small.
	step, keep := 1.0, 1-min(0.005, max(mu, 3e-4))
	if shrink > keep {
		step = keep / shrink
	}
	kernel.Axpy(step, q.t, q.y)
	kernel.Axpy(step, q.dz, q.z)
	kernel.Axpy(step, q.bIn, q.in)
	kernel.Axpy(step, q.bOut, q.out)
	for _, v := range q.inner {
		q.w[v] += step * q.dw[v]
		q.s[v] -= step * q.dw[v]
		q.u[v] += step * q.du[v]
	}
	return step
}

// jvp writes J v with the Laplacian at the last projection: a Newton step for
// p + v.
func (q *pathInterior) jvp(dst, v []float64) {
	if !q.factored {
		q.weigh(q.y, q.z, q.iz, q.s, q.u)
		q.factor()
		q.factored = true
	}
	byPlace := q.dw
	for i, place := range q.f.place {
		byPlace[place] = v[i]
	}
	for _, v := range q.cells {
		c := q.give[v] * byPlace[v]
		q.c[v], q.bIn[v], q.bOut[v] = c, c, -c
	}
	clear(byPlace) // also cells on no path
	q.solve(q.bIn, q.bOut)
	for _, v := range q.cells {
		byPlace[v] = q.give[v]*(q.bOut[v]-q.bIn[v]) + q.c[v]
	}
	for i, place := range q.f.place {
		dst[i] = byPlace[place]
	}
}
