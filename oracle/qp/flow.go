package qp

import "math"

// The kernels of pathInterior, over octets: vectors of a multiple of flowLanes
// numbers, which are of flowLanes places of one problem, or of one place of
// flowLanes problems. Sizes and targets have a number for every lane. The
// assembly returns the bits of these.

const flowLanes = bandLanes

// octet has a number for every lane.
type octet = [flowLanes]float64

// flowTotals is what kernels sum up and find the largest of. One problem has its
// sums in the first octet, by place mod flowLanes; with flowLanes problems a
// place adds to its own octet of sums, by place mod flowLanes, so that the order
// of additions is the same.
type flowTotals struct {
	worst [2]octet
	sums  [flowLanes]octet
}

// total adds the sums of lane l of so many.
func (t *flowTotals) total(lanes, l int) float64 {
	if lanes == 1 {
		return addLanes(&t.sums[0])
	}
	var x octet
	for k := range x {
		x[k] = t.sums[k][l]
	}
	return addLanes(&x)
}

// largest is the largest number worst[i] of lane l of so many.
func (t *flowTotals) largest(i, lanes, l int) float64 {
	if lanes > 1 {
		return t.worst[i][l]
	}
	x := math.Inf(-1)
	for _, y := range t.worst[i] {
		x = max(x, y)
	}
	return x
}

// sum is where number k of a vector is added.
func (t *flowTotals) sum(k, lanes int) *float64 {
	return &t.sums[k/flowLanes%lanes][k%flowLanes]
}

// widen lets x be the largest number worst[i] of k's lane, unless it is NaN.
func (t *flowTotals) widen(i, k int, x float64) {
	if x > t.worst[i][k%flowLanes] {
		t.worst[i][k%flowLanes] = x
	}
}

// flowMultiplyGo computes to = a b.
func flowMultiplyGo(a, b, to []float64) {
	a, b = a[:len(to)], b[:len(to)]
	for k := range to {
		to[k] = a[k] * b[k]
	}
}

// flowMultiplyAddGo computes to += a b.
func flowMultiplyAddGo(a, b, to []float64) {
	a, b = a[:len(to)], b[:len(to)]
	for k := range to {
		to[k] += float64(a[k] * b[k])
	}
}

// flowStepGo computes to += size x.
func flowStepGo(size *octet, x, to []float64) {
	x = x[:len(to)]
	for k := range to {
		to[k] += float64(size[k%flowLanes] * x[k])
	}
}

// flowWeighGo computes iz = 1/z and cond = y/z and adds cond to sum.
func flowWeighGo(y, z, iz, cond, sum []float64) {
	for k := range sum {
		iz[k] = 1 / z[k]
		cond[k] = y[k] * iz[k]
		sum[k] += cond[k]
	}
}

// flowPredictGo computes t = -dy dz of the step to y z = 0, with dz = out-in,
// and sums it. The largest of dy/y and dz/z downwards, which are -1-dz/z and
// dz/z, is worst[0].
func flowPredictGo(out, in, y, cond, iz, t []float64, totals *flowTotals, lanes int) {
	for k := range t {
		d := out[k] - in[k]
		x := (y[k] + float64(cond[k]*d)) * d
		t[k] = x
		*totals.sum(k, lanes) += x
		r := float64(d*iz[k]) + 0.5
		if r < 0 {
			r = -r
		}
		totals.widen(0, k, r+0.5)
	}
}

// flowCentreGo replaces t = -dy dz by the flow that it and y z = target call for,
// which leaves out and enters in.
func flowCentreGo(target *octet, t, iz, out, in []float64) {
	for k := range t {
		x := (target[k%flowLanes] + t[k]) * iz[k]
		t[k] = x
		in[k] -= x
		out[k] += x
	}
}

// flowAdvanceGo replaces t, flowCentreGo's, by dy. The largest of -dz/z is
// worst[0], that of -dy/y worst[1]; a y of 0 does not count.
func flowAdvanceGo(out, in, y, cond, iz, t []float64, totals *flowTotals, _ int) {
	for k := range t {
		d := out[k] - in[k]
		x := t[k] - y[k] - float64(cond[k]*d)
		t[k] = x
		totals.widen(0, k, -d*iz[k])
		totals.widen(1, k, -x/y[k])
	}
}

// flowUpdateGo takes steps of the given sizes along dy = t and dz = out-in and
// sums y z, 0 where y is 0.
func flowUpdateGo(size *octet, t, out, in, y, z []float64, totals *flowTotals, lanes int) {
	for k := range t {
		h := size[k%flowLanes]
		y[k] += float64(h * t[k])
		z[k] += float64(h * (out[k] - in[k]))
		*totals.sum(k, lanes) += float64(y[k] * min(z[k], math.MaxFloat64))
	}
}
