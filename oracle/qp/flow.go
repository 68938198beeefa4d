package qp

import "math"

// The kernels of pathInterior, over vectors of a multiple of flowLanes numbers.
// The assembly returns the bits of these. Partial results have one lane for
// every k mod flowLanes.

const flowLanes = bandLanes

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

// flowWeighGo computes iz = 1/z and cond = y/z and adds cond to sum.
func flowWeighGo(y, z, iz, cond, sum []float64) {
	for k := range sum {
		iz[k] = 1 / z[k]
		cond[k] = y[k] * iz[k]
		sum[k] += cond[k]
	}
}

// flowPredictGo computes t = -dy dz of the step to y z = 0. It adds t to acc[0]
// and takes the largest of dy/y and dz/z, which are -1-dz/z and dz/z, downwards
// to acc[1].
func flowPredictGo(out, in, y, cond, iz, t []float64, acc *[2][flowLanes]float64) {
	for k := range t {
		d := out[k] - in[k]
		x := (y[k] + float64(cond[k]*d)) * d
		t[k] = x
		acc[0][k%flowLanes] += x
		r := float64(d*iz[k]) + 0.5
		if r < 0 {
			r = -r
		}
		if r += 0.5; r > acc[1][k%flowLanes] {
			acc[1][k%flowLanes] = r
		}
	}
}

// flowCentreGo replaces t = -dy dz by the flow that it and y z = target call for,
// which leaves out and enters in.
func flowCentreGo(target float64, t, iz, out, in []float64) {
	for k := range t {
		x := (target + t[k]) * iz[k]
		t[k] = x
		in[k] -= x
		out[k] += x
	}
}

// flowAdvanceGo computes dz and replaces t, flowCentreGo's, by dy. It takes the
// largest of -dz/z to acc[0] and of -dy/y to acc[1]; a y of 0 does not count.
func flowAdvanceGo(out, in, y, cond, iz, t, dz []float64, acc *[2][flowLanes]float64) {
	for k := range t {
		d := out[k] - in[k]
		x := t[k] - y[k] - float64(cond[k]*d)
		dz[k], t[k] = d, x
		if r := -d * iz[k]; r > acc[0][k%flowLanes] {
			acc[0][k%flowLanes] = r
		}
		if r := -x / y[k]; r > acc[1][k%flowLanes] {
			acc[1][k%flowLanes] = r
		}
	}
}

// flowProductsGo adds y z to acc, 0 where y is 0.
func flowProductsGo(y, z []float64, acc *[flowLanes]float64) {
	for k := range y {
		acc[k%flowLanes] += float64(y[k] * min(z[k], math.MaxFloat64))
	}
}

// addLanes adds the lanes l and l+4, then l and l+2, then l and l+1.
func addLanes(s *[flowLanes]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// maxLanes returns the largest lane.
func maxLanes(s *[flowLanes]float64) float64 {
	x := s[0]
	for _, y := range s[1:] {
		x = max(x, y)
	}
	return x
}
