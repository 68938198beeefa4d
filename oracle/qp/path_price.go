package qp

import "math"

const (
	// pathFewSweeps is the number of passes over the labels after which a path
	// that gains enough is taken, though it may not be the shortest.
	pathFewSweeps = 2
	// pathEnough is the share of the gap found before that is enough: about the
	// fastest on 12 x 12 cells, where a lower one does as well; on larger grids,
	// whose labels take more passes, that would add many poor paths.
	pathEnough = 0.6
)

// pathFar is the label of a place not reached.
var pathFar = math.Float64bits(math.Inf(1))

// price looks for the generator of least cost under the gradient g = w - p. If
// the duality gap is at most limit it returns false, and otherwise the
// generator, in the free slot, with its e.
func (q *pathWolfe) price(limit float64) (e float64, more bool) {
	q.prices++
	f := q.f
	p, w, g := q.p[:len(q.w)], q.w, q.g[:len(q.w)]
	value, least := pathGradient(w, p, g)
	if f.acyclic {
		dist, ok := q.searched()
		q.gap = value - dist
		return 1, ok && q.gap > limit
	}
	lost := 0.0
	if least < 0 {
		u, v, sum := q.worstPair()
		if sum < -q.eps {
			set := q.generator(q.k)
			clear(set)
			pathInsert(set, u)
			pathInsert(set, v)
			return 0, true
		}
		// Raise all cells so that no pair is negative. The endpoints are raised
		// by -least, so that no step is; every path pays that twice.
		for v := range g {
			g[v] += q.eps
		}
		g[f.source], g[f.sink] = -least, -least
		value -= 2 * least
		// A path pays eps at every cell; a cycle may earn eps/2 at each.
		lost = q.eps * float64(len(f.place))
	}
	offset := 0.0
	if least < 0 {
		offset = 1 - least
	}
	// A path that gains enough will do; that none gains anything needs all labels.
	dist, ok := q.sweepLabels(offset, value+lost-max(limit, 2*lost, pathEnough*q.gap))
	if ok {
		q.gap = value - dist + lost
		if q.gap <= max(limit, 2*lost) {
			return 1, false
		}
		ok = q.backtrack()
	}
	if !ok {
		if dist, ok = q.searched(); !ok {
			q.gap = math.Inf(1)
			return 1, false
		}
		q.gap = value - dist + lost
		if q.gap <= max(limit, 2*lost) {
			return 1, false
		}
	}
	return 1, true
}

// pathGradient sets g to w - p and returns g.w and the least entry, at most 0. p
// and w are 0 in the padding, so that only cells can be below 0. The sums have
// four chains, to hide the latency of additions.
func pathGradient(w, p, g []float64) (value, least float64) {
	var v0, v1, v2, v3, l0, l1 float64
	n := len(w) &^ 3
	for i := 0; i < n; i += 4 {
		w, p, g := w[i:i+4:i+4], p[i:i+4:i+4], g[i:i+4:i+4]
		d0, d1, d2, d3 := w[0]-p[0], w[1]-p[1], w[2]-p[2], w[3]-p[3]
		g[0], g[1], g[2], g[3] = d0, d1, d2, d3
		v0 += w[0] * d0
		v1 += w[1] * d1
		v2 += w[2] * d2
		v3 += w[3] * d3
		l0, l1 = min(l0, d0, d1), min(l1, d2, d3)
	}
	for i := n; i < len(w); i++ {
		d := w[i] - p[i]
		g[i] = d
		v0 += w[i] * d
		l0 = min(l0, d)
	}
	return (v0 + v1) + (v2 + v3), min(l0, l1)
}

// searched puts a shortest path at costs g in the free slot and returns its
// length.
func (q *pathWolfe) searched() (dist float64, ok bool) {
	for v, place := range q.f.place {
		q.cost[v] = q.g[place]
	}
	if !q.shortest() {
		return math.Inf(-1), false
	}
	return pathSumOver(q.generator(q.k), q.g), true
}

// worstPair returns the inner neighbours of least sum.
func (q *pathWolfe) worstPair() (u, v int32, sum float64) {
	f, g := q.f, q.g
	for _, at := range f.place {
		if g[at] >= 0 || f.inner[at] == 0 {
			continue
		}
		for _, step := range f.steps {
			n := at + int32(step)
			if x := g[at] + g[n]; x < sum && f.inner[n] != 0 {
				u, v, sum = at, n, x
			}
		}
	}
	return u, v, sum
}

// sweepLabels computes the distances of all places from the source, plus
// offset so that none is negative, and returns the sink's without it. It passes
// over the places in the order of an earlier solution until nothing changes
// (Bellman and Ford's algorithm in Gauss and Seidel's manner), or after a few
// times until the sink's is below enough: then the labels bound distances.
func (q *pathWolfe) sweepLabels(offset, enough float64) (dist float64, ok bool) {
	for _, v := range q.order {
		q.label[v] = pathFar
	}
	q.label[q.f.source] = math.Float64bits(q.g[q.f.source] + offset)
	for n := 1; n <= pathMaxSweeps; n++ {
		if q.sweep() != 0 && (n < pathFewSweeps || !(math.Float64frombits(q.label[q.f.sink])-offset < enough)) {
			continue
		}
		if n > 3 {
			q.sortOrder()
		}
		return math.Float64frombits(q.label[q.f.sink]) - offset, true
	}
	q.sortOrder()
	return 0, false
}

// sweepGo updates every label from its neighbours and returns 0 if none changed.
func (q *pathWolfe) sweepGo() (changed uint64) {
	if q.f.eight {
		return q.sweepEight()
	}
	return q.sweepFour()
}

// sweepEight updates every label from its eight neighbours and returns 0 if
// none changed. Labels are numbers >= 0, whose bits order as they do.
func (q *pathWolfe) sweepEight() (changed uint64) {
	label, g, s := q.label, q.g, q.f.stride
	for _, v := range q.order {
		i := int(v)
		up, mid, down := label[i-s-1:][:3], label[i-1:][:3], label[i+s-1:][:3]
		a := min(min(up[0], up[1]), min(up[2], down[0]))
		b := min(min(down[1], down[2]), min(mid[0], mid[2]))
		x := math.Float64bits(math.Float64frombits(min(a, b)) + g[i])
		changed |= x ^ mid[1]
		mid[1] = x
	}
	return changed
}

// sweepFour is sweepEight for four neighbours.
func (q *pathWolfe) sweepFour() (changed uint64) {
	label, g, s := q.label, q.g, q.f.stride
	for _, v := range q.order {
		i := int(v)
		mid := label[i-1:][:3]
		a := min(min(label[i-s], label[i+s]), min(mid[0], mid[2]))
		x := math.Float64bits(math.Float64frombits(a) + g[i])
		changed |= x ^ mid[1]
		mid[1] = x
	}
	return changed
}

// sortOrder sorts the places by label, by insertion since they nearly are.
func (q *pathWolfe) sortOrder() {
	for i, v := range q.order {
		x, j := q.label[v], i
		for ; j > 0 && q.label[q.order[j-1]] > x; j-- {
			q.order[j] = q.order[j-1]
		}
		q.order[j] = v
	}
}

// backtrack puts the path of the labels in the free slot. It fails where cells
// of cost 0 make it turn round.
func (q *pathWolfe) backtrack() bool {
	f := q.f
	set := q.generator(q.k)
	clear(set)
	for v := f.sink; ; {
		if set[v>>6]>>(v&63)&1 != 0 {
			return false
		}
		pathInsert(set, v)
		if v == f.source {
			return true
		}
		best, at := pathFar, v
		for _, step := range f.steps {
			if n := v + int32(step); q.label[n] < best {
				best, at = q.label[n], n
			}
		}
		v = at
	}
}
