//go:build amd64 && !purego

package qp

import "golang.org/x/sys/cpu"

// vectorLevel is the instruction set in use; all return the same bits.
type vectorLevel uint8

const (
	vectorGo vectorLevel = iota
	vectorAVX2
	vectorAVX512
)

var vectorActive = vectorBest()

// vectorBest returns the highest level the processor and the operating system
// have.
func vectorBest() vectorLevel {
	switch x := &cpu.X86; {
	case !x.HasFMA:
	case x.HasAVX512F && x.HasAVX512DQ:
		return vectorAVX512
	case x.HasAVX2:
		return vectorAVX2
	}
	return vectorGo
}

// lanesPay says whether eight problems in lanes are faster than one after the
// other.
func lanesPay() bool { return vectorActive != vectorGo }

// sweep is sweepGo.
func (q *pathWolfe) sweep() uint64 {
	run := sweepFourAVX
	switch {
	case vectorActive == vectorGo:
		return q.sweepGo()
	case q.f.eight:
		run = sweepEightAVX
	}
	// A grid has two cells at least, so that the order is not empty.
	return run(&q.order[0], len(q.order), &q.label[0], &q.g[0], q.f.stride)
}

// eliminate eliminates rows i to i+3.
func (m *bandMatrix) eliminate(i int) {
	lanes := m.lanes
	edge, inverse, ground := m.edge[i*m.stride*lanes:], m.inverse[i*lanes:], m.ground[i*lanes:]
	switch {
	case lanes == 1 && vectorActive == vectorAVX512:
		bandEliminateAVX512(&edge[0], m.stride, m.band, &inverse[0], &ground[0], &m.factor[0])
	case lanes == 1 && vectorActive == vectorAVX2:
		bandEliminateAVX2(&edge[0], m.stride, m.band, &inverse[0], &ground[0], &m.factor[0])
	case lanes == 1:
		m.eliminateGo(i)
	case vectorActive == vectorAVX512:
		lanesEliminateAVX512(&edge[0], m.stride, m.band, &inverse[0], &ground[0])
	case vectorActive == vectorAVX2:
		for l := 0; l < lanes; l += 4 {
			lanesEliminateAVX2(&edge[l], m.stride, m.band, &inverse[l], &ground[l])
		}
	default:
		for l := range lanes {
			m.eliminateLane(i, l)
		}
	}
}

// forward solves with the lower factor.
func (m *bandMatrix) forward(x []float64) {
	lanes := m.lanes
	_ = x[(m.n+m.band)*lanes-1]
	switch {
	case lanes == 1 && vectorActive == vectorAVX512:
		bandForwardAVX512(&m.edge[0], m.stride, m.band, m.n, &m.inverse[0], &x[0])
	case lanes == 1 && vectorActive == vectorAVX2:
		bandForwardAVX2(&m.edge[0], m.stride, m.band, m.n, &m.inverse[0], &x[0])
	case lanes == 1:
		m.forwardGo(x)
	case vectorActive == vectorAVX512:
		lanesForwardAVX512(&m.edge[0], m.stride, m.band, m.n, &m.inverse[0], &x[0])
	case vectorActive == vectorAVX2:
		for l := 0; l < lanes; l += 4 {
			lanesForwardAVX2(&m.edge[l], m.stride, m.band, m.n, &m.inverse[l], &x[l])
		}
	default:
		for l := range lanes {
			m.forwardLane(x, l)
		}
	}
}

// backward solves with the upper factor.
func (m *bandMatrix) backward(x []float64) {
	lanes, i := m.lanes, m.n-bandBlock
	_ = x[(m.n+m.band)*lanes-1]
	edge, inverse, end := m.edge[i*m.stride*lanes:], m.inverse[i*lanes:], x[i*lanes:]
	switch {
	case lanes == 1 && vectorActive == vectorAVX512:
		bandBackwardAVX512(&edge[0], m.stride, m.band, m.n, &inverse[0], &end[0])
	case lanes == 1 && vectorActive == vectorAVX2:
		bandBackwardAVX2(&edge[0], m.stride, m.band, m.n, &inverse[0], &end[0])
	case lanes == 1:
		m.backwardGo(x)
	case vectorActive == vectorAVX512:
		lanesBackwardAVX512(&edge[0], m.stride, m.band, m.n, &inverse[0], &end[0])
	case vectorActive == vectorAVX2:
		for l := 0; l < lanes; l += 4 {
			lanesBackwardAVX2(&edge[l], m.stride, m.band, m.n, &inverse[l], &end[l])
		}
	default:
		for l := range lanes {
			m.backwardLane(x, l)
		}
	}
}

// starMesh is starGo. The assembly knows stars of 5 and 9 members, those of all
// grids.
func starMesh(lanes int, stars *pathStars, apart int, cond, inverse, all []float64) {
	count, heads, to := len(stars.heads), &stars.heads[0], &stars.to[0]
	if vectorActive == vectorGo {
		starGo(lanes, stars, apart, cond, inverse, all)
		return
	}
	if lanes == 1 {
		run := star9Scalar
		if stars.members == 5 {
			run = star5Scalar
		}
		run(count, heads, to, 8*apart, &cond[0], &inverse[0], &all[0])
		return
	}
	run, step := star9AVX512, 8
	switch {
	case stars.members == 5 && vectorActive == vectorAVX512:
		run = star5AVX512
	case stars.members == 5:
		run, step = star5AVX2, 4
	case vectorActive == vectorAVX2:
		run, step = star9AVX2, 4
	}
	for l := 0; l < lanes; l += step {
		run(count, heads, to, 8*apart, &cond[l], &inverse[l], &all[l])
	}
}

func flowMultiply(a, b, to []float64) {
	n := len(to)
	_ = a[n-1]
	_ = b[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowMultiplyAVX512(n, &a[0], &b[0], &to[0])
	case vectorAVX2:
		flowMultiplyAVX2(n, &a[0], &b[0], &to[0])
	default:
		flowMultiplyGo(a, b, to)
	}
}

func flowMultiplyAdd(a, b, to []float64) {
	n := len(to)
	_ = a[n-1]
	_ = b[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowMultiplyAddAVX512(n, &a[0], &b[0], &to[0])
	case vectorAVX2:
		flowMultiplyAddAVX2(n, &a[0], &b[0], &to[0])
	default:
		flowMultiplyAddGo(a, b, to)
	}
}

func flowStep(size *octet, x, to []float64) {
	n := len(to)
	_ = x[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowStepAVX512(n, &size[0], &x[0], &to[0])
	case vectorAVX2:
		flowStepAVX2(n, &size[0], &x[0], &to[0])
	default:
		flowStepGo(size, x, to)
	}
}

func flowWeigh(y, z, iz, cond, sum []float64) {
	n := len(sum)
	_ = y[n-1]
	_ = z[n-1]
	_ = iz[n-1]
	_ = cond[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowWeighAVX512(n, &y[0], &z[0], &iz[0], &cond[0], &sum[0])
	case vectorAVX2:
		flowWeighAVX2(n, &y[0], &z[0], &iz[0], &cond[0], &sum[0])
	default:
		flowWeighGo(y, z, iz, cond, sum)
	}
}

func flowPredict(out, in, y, cond, iz, t []float64, totals *flowTotals, lanes int) {
	n := len(t)
	_ = out[n-1]
	_ = in[n-1]
	_ = y[n-1]
	_ = cond[n-1]
	_ = iz[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowPredictAVX512(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &totals.worst[0][0], lanes)
	case vectorAVX2:
		flowPredictAVX2(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &totals.worst[0][0], lanes)
	default:
		flowPredictGo(out, in, y, cond, iz, t, totals, lanes)
	}
}

func flowCentre(target *octet, t, iz, out, in []float64) {
	n := len(t)
	_ = iz[n-1]
	_ = out[n-1]
	_ = in[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowCentreAVX512(n, &target[0], &t[0], &iz[0], &out[0], &in[0])
	case vectorAVX2:
		flowCentreAVX2(n, &target[0], &t[0], &iz[0], &out[0], &in[0])
	default:
		flowCentreGo(target, t, iz, out, in)
	}
}

func flowAdvance(out, in, y, cond, iz, t []float64, totals *flowTotals, lanes int) {
	n := len(t)
	_ = out[n-1]
	_ = in[n-1]
	_ = y[n-1]
	_ = cond[n-1]
	_ = iz[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowAdvanceAVX512(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &totals.worst[0][0], lanes)
	case vectorAVX2:
		flowAdvanceAVX2(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &totals.worst[0][0], lanes)
	default:
		flowAdvanceGo(out, in, y, cond, iz, t, totals, lanes)
	}
}

func flowUpdate(size *octet, t, out, in, y, z []float64, totals *flowTotals, lanes int) {
	n := len(t)
	_ = out[n-1]
	_ = in[n-1]
	_ = y[n-1]
	_ = z[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowUpdateAVX512(n, &size[0], &t[0], &out[0], &in[0], &y[0], &z[0], &totals.worst[0][0], lanes)
	case vectorAVX2:
		flowUpdateAVX2(n, &size[0], &t[0], &out[0], &in[0], &y[0], &z[0], &totals.worst[0][0], lanes)
	default:
		flowUpdateGo(size, t, out, in, y, z, totals, lanes)
	}
}

func cellWeigh(s, u, inner, star, sum, is, give, inverse []float64) {
	n := len(s)
	_ = u[n-1]
	_ = inner[n-1]
	_ = star[n-1]
	_ = sum[n-1]
	_ = is[n-1]
	_ = give[n-1]
	_ = inverse[n-1]
	switch vectorActive {
	case vectorAVX512:
		cellWeighAVX512(n, &s[0], &u[0], &inner[0], &star[0], &sum[0], &is[0], &give[0], &inverse[0])
	case vectorAVX2:
		cellWeighAVX2(n, &s[0], &u[0], &inner[0], &star[0], &sum[0], &is[0], &give[0], &inverse[0])
	default:
		cellWeighGo(s, u, inner, star, sum, is, give, inverse)
	}
}

func cellAim(p, out, in, w, give, c, bIn, bOut []float64) {
	n := len(p)
	_ = out[n-1]
	_ = in[n-1]
	_ = w[n-1]
	_ = give[n-1]
	_ = c[n-1]
	_ = bIn[n-1]
	_ = bOut[n-1]
	switch vectorActive {
	case vectorAVX512:
		cellAimAVX512(n, &p[0], &out[0], &in[0], &w[0], &give[0], &c[0], &bIn[0], &bOut[0])
	case vectorAVX2:
		cellAimAVX2(n, &p[0], &out[0], &in[0], &w[0], &give[0], &c[0], &bIn[0], &bOut[0])
	default:
		cellAimGo(p, out, in, w, give, c, bIn, bOut)
	}
}

func cellPredict(bOut, bIn, give, c, u, is, dw, du []float64, totals *flowTotals, lanes int) {
	n := len(dw)
	_ = bOut[n-1]
	_ = bIn[n-1]
	_ = give[n-1]
	_ = c[n-1]
	_ = u[n-1]
	_ = is[n-1]
	_ = du[n-1]
	switch vectorActive {
	case vectorAVX512:
		cellPredictAVX512(n, &bOut[0], &bIn[0], &give[0], &c[0], &u[0], &is[0], &dw[0], &du[0], &totals.worst[0][0], lanes)
	case vectorAVX2:
		cellPredictAVX2(n, &bOut[0], &bIn[0], &give[0], &c[0], &u[0], &is[0], &dw[0], &du[0], &totals.worst[0][0], lanes)
	default:
		cellPredictGo(bOut, bIn, give, c, u, is, dw, du, totals, lanes)
	}
}

func cellCentre(target *octet, give, dw, is, du, c, cIn, cOut []float64) {
	n := len(du)
	_ = give[n-1]
	_ = dw[n-1]
	_ = is[n-1]
	_ = c[n-1]
	_ = cIn[n-1]
	_ = cOut[n-1]
	switch vectorActive {
	case vectorAVX512:
		cellCentreAVX512(n, &target[0], &give[0], &dw[0], &is[0], &du[0], &c[0], &cIn[0], &cOut[0])
	case vectorAVX2:
		cellCentreAVX2(n, &target[0], &give[0], &dw[0], &is[0], &du[0], &c[0], &cIn[0], &cOut[0])
	default:
		cellCentreGo(target, give, dw, is, du, c, cIn, cOut)
	}
}

func cellAdvance(bOut, bIn, give, c, u, is, dw, du []float64, totals *flowTotals, lanes int) {
	n := len(dw)
	_ = bOut[n-1]
	_ = bIn[n-1]
	_ = give[n-1]
	_ = c[n-1]
	_ = u[n-1]
	_ = is[n-1]
	_ = du[n-1]
	switch vectorActive {
	case vectorAVX512:
		cellAdvanceAVX512(n, &bOut[0], &bIn[0], &give[0], &c[0], &u[0], &is[0], &dw[0], &du[0], &totals.worst[0][0], lanes)
	case vectorAVX2:
		cellAdvanceAVX2(n, &bOut[0], &bIn[0], &give[0], &c[0], &u[0], &is[0], &dw[0], &du[0], &totals.worst[0][0], lanes)
	default:
		cellAdvanceGo(bOut, bIn, give, c, u, is, dw, du, totals, lanes)
	}
}

func cellUpdate(size *octet, dw, du, w, s, u []float64, totals *flowTotals, lanes int) {
	n := len(w)
	_ = dw[n-1]
	_ = du[n-1]
	_ = s[n-1]
	_ = u[n-1]
	switch vectorActive {
	case vectorAVX512:
		cellUpdateAVX512(n, &size[0], &dw[0], &du[0], &w[0], &s[0], &u[0], &totals.worst[0][0], lanes)
	case vectorAVX2:
		cellUpdateAVX2(n, &size[0], &dw[0], &du[0], &w[0], &s[0], &u[0], &totals.worst[0][0], lanes)
	default:
		cellUpdateGo(size, dw, du, w, s, u, totals, lanes)
	}
}
