//go:build !amd64 || purego

package qp

// This build has no assembly, and lanes would only take more memory.

func lanesPay() bool { return false }

func (q *pathWolfe) sweep() uint64 { return q.sweepGo() }

func (m *bandMatrix) eliminate(i int) {
	if m.lanes == 1 {
		m.eliminateGo(i)
		return
	}
	for l := range m.lanes {
		m.eliminateLane(i, l)
	}
}

func (m *bandMatrix) forward(x []float64) {
	if m.lanes == 1 {
		m.forwardGo(x)
		return
	}
	for l := range m.lanes {
		m.forwardLane(x, l)
	}
}

func (m *bandMatrix) backward(x []float64) {
	if m.lanes == 1 {
		m.backwardGo(x)
		return
	}
	for l := range m.lanes {
		m.backwardLane(x, l)
	}
}

func starMesh(lanes int, stars *pathStars, apart int, cond, inverse, all []float64) {
	starGo(lanes, stars, apart, cond, inverse, all)
}

func flowMultiply(a, b, to []float64) {
	flowMultiplyGo(a, b, to)
}

func flowMultiplyAdd(a, b, to []float64) {
	flowMultiplyAddGo(a, b, to)
}

func flowStep(size *octet, x, to []float64) {
	flowStepGo(size, x, to)
}

func flowWeigh(y, z, iz, cond, sum []float64) {
	flowWeighGo(y, z, iz, cond, sum)
}

func flowPredict(out, in, y, cond, iz, t []float64, totals *flowTotals, lanes int) {
	flowPredictGo(out, in, y, cond, iz, t, totals, lanes)
}

func flowCentre(target *octet, t, iz, out, in []float64) {
	flowCentreGo(target, t, iz, out, in)
}

func flowAdvance(out, in, y, cond, iz, t []float64, totals *flowTotals, lanes int) {
	flowAdvanceGo(out, in, y, cond, iz, t, totals, lanes)
}

func flowUpdate(size *octet, t, out, in, y, z []float64, totals *flowTotals, lanes int) {
	flowUpdateGo(size, t, out, in, y, z, totals, lanes)
}

func cellWeigh(s, u, inner, star, sum, is, give, inverse []float64) {
	cellWeighGo(s, u, inner, star, sum, is, give, inverse)
}

func cellAim(p, out, in, w, give, c, bIn, bOut []float64) {
	cellAimGo(p, out, in, w, give, c, bIn, bOut)
}

func cellPredict(bOut, bIn, give, c, u, is, dw, du []float64, totals *flowTotals, lanes int) {
	cellPredictGo(bOut, bIn, give, c, u, is, dw, du, totals, lanes)
}

func cellCentre(target *octet, give, dw, is, du, c, cIn, cOut []float64) {
	cellCentreGo(target, give, dw, is, du, c, cIn, cOut)
}

func cellAdvance(bOut, bIn, give, c, u, is, dw, du []float64, totals *flowTotals, lanes int) {
	cellAdvanceGo(bOut, bIn, give, c, u, is, dw, du, totals, lanes)
}

func cellUpdate(size *octet, dw, du, w, s, u []float64, totals *flowTotals, lanes int) {
	cellUpdateGo(size, dw, du, w, s, u, totals, lanes)
}
