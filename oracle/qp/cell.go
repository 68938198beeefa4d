package qp

import "math"

// The kernels of pathInterior over cells, like those over steps in flow.go. A
// place that is no cell, and an endpoint, has inner = 0, s = 1 and u = 0; then
// is = give = c = dw = du = 0.

// cellWeighGo computes is = 1/s, the conductance give = s/(s+u) between the
// halves of a cell, and the inverse of its star's sum. star is 1 where there is
// a star, else 0.
func cellWeighGo(s, u, inner, star, sum, is, give, inverse []float64) {
	for k := range s {
		is[k] = inner[k] / s[k]
		x := s[k] / (s[k] + u[k]) * inner[k]
		give[k] = x
		inverse[k] = star[k] / (x + sum[k] + (1 - star[k]))
	}
}

// cellAimGo computes the right-hand sides of the step to mu = 0.
func cellAimGo(p, out, in, w, give, c, bIn, bOut []float64) {
	for k := range p {
		x := give[k] * (p[k] + out[k] - in[k] - w[k])
		c[k] = x
		bIn[k] = x + w[k]
		bOut[k] = -bIn[k]
	}
}

// cellPredictGo computes dw and du of that step and sums du dw. The largest of
// dw/s and -du/u, which is 1-dw/s, is worst[0].
func cellPredictGo(bOut, bIn, give, c, u, is, dw, du []float64, totals *flowTotals, lanes int) {
	for k := range dw {
		d := float64((bOut[k]-bIn[k])*give[k]) + c[k]
		r := d * is[k]
		x := (r - 1) * u[k]
		dw[k], du[k] = d, x
		*totals.sum(k, lanes) += float64(x * d)
		totals.widen(0, k, r)
		totals.widen(0, k, 1-r)
	}
}

// cellCentreGo computes the right-hand sides that s u = target and -ds du = du
// dw call for beside those of cellAimGo, and replaces du by what they say of it.
func cellCentreGo(target *octet, give, dw, is, du, c, cIn, cOut []float64) {
	for k := range du {
		x := (target[k%flowLanes] + float64(du[k]*dw[k])) * is[k]
		du[k] = x
		x *= give[k]
		cIn[k], cOut[k] = -x, x
		c[k] -= x
	}
}

// cellAdvanceGo computes dw and du, from what cellCentreGo left there. The
// largest of dw/s is worst[0], that of -du/u worst[1]; a u of 0 does not count.
func cellAdvanceGo(bOut, bIn, give, c, u, is, dw, du []float64, totals *flowTotals, _ int) {
	for k := range dw {
		d := float64((bOut[k]-bIn[k])*give[k]) + c[k]
		r := d * is[k]
		x := (du[k] - u[k]) + float64(r*u[k])
		dw[k], du[k] = d, x
		totals.widen(0, k, r)
		totals.widen(1, k, -x/u[k])
	}
}

// cellUpdateGo takes steps of the given sizes and sums s u.
func cellUpdateGo(size *octet, dw, du, w, s, u []float64, totals *flowTotals, lanes int) {
	for k := range w {
		h := size[k%flowLanes]
		d := float64(h * dw[k])
		w[k] += d
		s[k] -= d
		u[k] += float64(h * du[k])
		*totals.sum(k, lanes) += float64(u[k] * s[k])
	}
}

// pathStars says where the edges of every star go: for every head the number in
// a bandMatrix's all, for every pair a < b of its members in lexicographic order.
type pathStars struct {
	members int
	heads   []int32 // in bytes, from the first head
	to      []int32 // in bytes
}

// starGo turns stars into edges between their members (the star-mesh
// transform). Member m of head h has the conductance cond[m apart + h], and a
// star's share_a = cond_a inverse goes to the edges share_a cond_b, a < b. Heads
// and places in all are those of lane 0, in bytes.
func starGo(lanes int, stars *pathStars, apart int, cond, inverse, all []float64) {
	to := stars.to
	for _, h := range stars.heads {
		for a := range stars.members - 1 {
			for b := a + 1; b < stars.members; b++ {
				for l := range lanes {
					at := int(h)/8 + l
					f := cond[a*apart+at] * inverse[at]
					e := &all[int(to[0])/8+l]
					*e = math.FMA(f, cond[b*apart+at], *e)
				}
				to = to[1:]
			}
		}
	}
}
