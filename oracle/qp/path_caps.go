package qp

import "math"

// pathCaps is the workspace of the multipliers of w <= 1.
type pathCaps struct {
	active []int32
	// y holds, for every active place, R^-T times the row of the generators
	// that contain it, less its part along z1.
	y [][]float64
	// l is the Cholesky factor of the Jacobian of w at the active places.
	l   []float64
	rhs []float64
}

func newPathCaps(kmax int) pathCaps {
	c := pathCaps{
		active: make([]int32, 0, pathMaxCaps),
		y:      make([][]float64, pathMaxCaps),
		l:      make([]float64, pathMaxCaps*pathMaxCaps),
		rhs:    make([]float64, pathMaxCaps),
	}
	for i := range c.y {
		c.y[i] = make([]float64, kmax)
	}
	return c
}

type pathCapState uint8

const (
	pathWithinCaps pathCapState = iota
	pathOutsideCaps
	pathTooManyCaps
)

// excess lists the places at or above 1 and says whether w and u agree: no
// entry above 1, and 1 where u > 0.
func (q *pathWolfe) excess() pathCapState {
	c := &q.caps
	c.active = c.active[:0]
	state := pathWithinCaps
	for v, x := range q.w {
		if !(x > 1+pathCapSlack || q.capped && q.u[v] > 0) {
			continue
		}
		if len(c.active) == pathMaxCaps {
			return pathTooManyCaps
		}
		c.active = append(c.active, int32(v))
		if math.Abs(x-1) > pathCapSlack {
			state = pathOutsideCaps
		}
	}
	return state
}

// capGap is what the multipliers add to the duality gap: u.(1-w).
func (q *pathWolfe) capGap() float64 {
	if !q.capped {
		return 0
	}
	sum := 0.0
	for v, u := range q.u {
		sum += u * (1 - q.w[v])
	}
	return sum
}

// capRows computes y for the active places.
func (q *pathWolfe) capRows() {
	c, k := &q.caps, q.k
	z1 := q.z1[:k]
	zz := 0.0
	for _, z := range z1 {
		zz += z * z
	}
	for r, v := range c.active {
		y := c.y[r][:k]
		for i := range y {
			y[i] = pathForward(q.column(i), y, float64(q.generator(i)[v>>6]>>(v&63)&1))
		}
		along := 0.0
		for i, z := range z1 {
			along += z * y[i]
		}
		along /= zz
		for i, z := range z1 {
			y[i] -= along * z
		}
	}
}

// correctCaps makes a Newton step for w = 1 at the active places: while the
// generators stay the same, w there moves by -Y'Y per unit of u.
func (q *pathWolfe) correctCaps() {
	q.capRows()
	c, k := &q.caps, q.k
	n := len(c.active)
	l, rhs := c.l, c.rhs[:n]
	for i, v := range c.active {
		row := l[i*pathMaxCaps:]
		yi := c.y[i][:k]
		for j := range i + 1 {
			yj := c.y[j][:k]
			sum := 0.0
			for t, x := range yi {
				sum += x * yj[t]
			}
			if i == j {
				sum += 1e-9 // dependent places share a correction
			}
			other := l[j*pathMaxCaps:]
			for t := range j {
				sum -= row[t] * other[t]
			}
			if i == j {
				row[i] = math.Sqrt(max(sum, 1e-10))
			} else {
				row[j] = sum / other[j]
			}
		}
		x := q.w[v] - 1
		for t := range i {
			x -= row[t] * rhs[t]
		}
		rhs[i] = x / row[i]
	}
	q.capped = false
	for i := n - 1; i >= 0; i-- {
		x := rhs[i]
		for t := i + 1; t < n; t++ {
			x -= l[t*pathMaxCaps+i] * rhs[t]
		}
		x /= l[i*pathMaxCaps+i]
		rhs[i] = x
		v := c.active[i]
		q.u[v] = max(0, q.u[v]+x)
		q.capped = q.capped || q.u[v] > 0
	}
}
