package qp

// jvp writes J v: v projected onto the directions in which the weights can
// move, those that keep the weights' sum over paths and the entries at 1. It
// uses the generators of the last projection.
func (q *pathWolfe) jvp(dst, v []float64) {
	f, k := q.f, q.k
	byPlace := q.g
	clear(byPlace)
	for i, place := range f.place {
		byPlace[place] = v[i]
	}
	x, z1 := q.tmp[:k], q.z1[:k]
	zz, zx := 0.0, 0.0
	for i, z := range z1 {
		x[i] = pathForward(q.column(i), x, pathSumOver(q.generator(i), byPlace))
		zz += z * z
		zx += z * x[i]
	}
	for i, z := range z1 {
		x[i] -= zx / zz * z
	}
	q.keepCaps(x)
	q.backward(x)
	q.combine(byPlace, x)
	// Rounding aside, no direction moves the endpoints.
	byPlace[f.source], byPlace[f.sink] = 0, 0
	for i, place := range f.place {
		dst[i] = byPlace[place]
	}
}

// keepCaps removes from x its part along the rows of the places whose
// multiplier is positive, made orthonormal by Gram and Schmidt, twice each
// (Giraud, Langou and Rozloznik 2005).
func (q *pathWolfe) keepCaps(x []float64) {
	if !q.capped {
		return
	}
	c := &q.caps
	c.active = c.active[:0]
	for v, u := range q.u {
		if u > 0 {
			c.active = append(c.active, int32(v))
		}
	}
	q.capRows()
	rank := 0
	for r := range c.active {
		y := c.y[r][:len(x)]
		full := pathNormSquared(y)
		for range 2 {
			for i := range rank {
				pathRemovePart(y, c.y[i])
			}
		}
		rest := pathNormSquared(y)
		if rest <= 1e-10*full || rest < 1e-14 {
			continue // depends on the rows before
		}
		pathRemovePart(x, y)
		c.y[r], c.y[rank] = c.y[rank], c.y[r]
		rank++
	}
}

func pathNormSquared(x []float64) float64 {
	sum := 0.0
	for _, a := range x {
		sum += a * a
	}
	return sum
}

// pathRemovePart makes x orthogonal to y.
func pathRemovePart(x, y []float64) {
	sum, square := 0.0, 0.0
	for i := range x {
		sum += x[i] * y[i]
		square += y[i] * y[i]
	}
	for i := range x {
		x[i] -= sum / square * y[i]
	}
}
