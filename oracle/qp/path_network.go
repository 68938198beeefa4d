package qp

// pathNetwork is the weighted graph of a Newton step of pathInterior: a Laplacian
// over the incoming and outgoing halves of cells. Incoming halves touch no other
// incoming half and are eliminated first, each turning into edges between its
// neighbours (the star-mesh transform); the outgoing halves that remain, in
// row-major order, have a band matrix. Conductances stay positive and pivots are
// sums of them, so that nothing cancels even when they span thirty orders of
// magnitude.
//
// Cells on paths are numbered along the shorter side of the grid in the band
// matrix. All else is by place, and by direction of the step and place of its
// head, so that whole vectors can be worked on; places without a cell and steps
// that do not exist have no conductance.
type pathNetwork struct {
	f *pathFrame
	// Heads have the places first to first+span-1, a multiple of flowLanes.
	first, span int
	lanes       int     // 1 or flowLanes: how many numbers a vector has for everything
	cells       []int32 // places in band order
	inner       []int32 // the same without endpoints
	steps       []pathStep

	stars pathStars
	// source and sink are the numbers of the endpoints in the band matrix.
	source, sink int
	minor        int // cells along the shorter side
	// star is 1 at the places of incoming halves that are eliminated.
	star    []float64
	cond    []float64 // by step, and then by head that between its halves
	sum     []float64 // by head, of the steps' conductances
	starInv []float64 // by head, 1 over the sum of all
	laplace *bandMatrix
	tmp, x  []float64
}

// pathStarRun is how many stars are turned into edges before rows are eliminated.
const pathStarRun = 8

// pathStep is a step that exists; at is its index in vectors of steps.
type pathStep struct{ tail, head, at int32 }

// newPathNetwork returns a network for one problem, or for flowLanes of them.
func newPathNetwork(path *Path, lanes int) *pathNetwork {
	f := &path.frame
	q := &pathNetwork{f: f, lanes: lanes, first: f.stride + 1, span: (f.height*f.stride + flowLanes - 1) / flowLanes * flowLanes}
	minor, major := f.width, f.height
	if f.height < f.width {
		minor, major = major, minor
	}
	q.minor = minor
	number := make([]int, f.size)
	for i := range number {
		number[i] = -1
	}
	direction := map[int]int{}
	for k, step := range f.steps {
		direction[step] = k
	}
	var before []int
	for a := range major {
		for b := range minor {
			r, c := a, b
			if f.height < f.width {
				r, c = b, a
			}
			v := r*f.width + c
			head := f.place[v]
			before = path.grid.Before(before[:0], v)
			if len(before) == 0 && head != f.source {
				continue // on no path
			}
			number[head] = len(q.cells)
			q.cells = append(q.cells, head)
			if head != f.source && head != f.sink {
				q.inner = append(q.inner, head)
			}
			for _, u := range before {
				tail := f.place[u]
				q.steps = append(q.steps, pathStep{tail, head, int32(direction[int(head-tail)]*q.span + int(head) - q.first)})
			}
		}
	}
	q.source, q.sink = number[f.source], number[f.sink]
	q.laplace = newBandMatrix(len(q.cells), 2*minor+2, lanes)
	q.x = q.laplace.vector()
	q.star, q.tmp = q.byPlace(), make([]float64, q.span*lanes)
	q.sum, q.starInv = make([]float64, q.span*lanes), make([]float64, q.span*lanes)
	q.cond = make([]float64, (len(f.steps)+1)*q.span*lanes)
	for _, v := range q.cells {
		if v != f.source {
			q.set(q.star, v, 1)
		}
	}
	q.weave(number)
	return q
}

// weave says where the edges between the members of every star go.
func (q *pathNetwork) weave(number []int) {
	f := q.f
	members := append(append([]int(nil), f.steps...), 0) // the place of a head less that of a member
	q.stars.members = len(members)
	for _, head := range q.cells {
		if head == f.source {
			continue
		}
		q.stars.heads = append(q.stars.heads, int32(8*q.lanes*(int(head)-q.first)))
		for a, x := range members {
			for _, y := range members[a+1:] {
				q.stars.to = append(q.stars.to, int32(8*q.lanes*q.edge(number[int(head)-x], number[int(head)-y])))
			}
		}
	}
}

// edge returns where the edge between the outgoing halves with these numbers is
// in laplace.all. The source's half is the ground, and the sink has none; -1 is
// no cell.
func (q *pathNetwork) edge(a, b int) int {
	ground := len(q.laplace.edge) / q.lanes
	a, b = min(a, b), max(a, b)
	switch {
	case a < 0 || a == q.sink || b == q.sink || b-a > q.laplace.band:
		return q.laplace.nothing()
	case a == q.source:
		return ground + b
	case b == q.source:
		return ground + a
	}
	return q.laplace.at(a, b)
}

// byPlace returns a vector with a number for every place, and bySteps one with a
// number for every direction and head.
func (q *pathNetwork) byPlace() []float64 {
	return make([]float64, (q.f.size+2*flowLanes-1)/flowLanes*flowLanes*q.lanes)
}
func (q *pathNetwork) bySteps() []float64 { return make([]float64, len(q.f.steps)*q.span*q.lanes) }

// heads, tails and along are the parts of vectors that belong to the heads, to
// the tails of steps in direction k, and to those steps.
func (q *pathNetwork) heads(v []float64) []float64 { return v[q.first*q.lanes:][:q.span*q.lanes] }
func (q *pathNetwork) tails(v []float64, k int) []float64 {
	return v[(q.first-q.f.steps[k])*q.lanes:][:q.span*q.lanes]
}
func (q *pathNetwork) along(y []float64, k int) []float64 {
	return y[k*q.span*q.lanes:][:q.span*q.lanes]
}

// give is the conductance between the halves of a cell, by head.
func (q *pathNetwork) give() []float64 { return q.along(q.cond, len(q.f.steps)) }

// set sets the number of a place in all lanes.
func (q *pathNetwork) set(v []float64, place int32, x float64) {
	for l := range q.lanes {
		v[int(place)*q.lanes+l] = x
	}
}

// weigh sets the conductances to y/z and s/(s+u), iz to 1/z and is to 1/s.
func (q *pathNetwork) weigh(y, z, iz, s, u, inner, is []float64) {
	clear(q.sum)
	for k := range q.f.steps {
		flowWeigh(q.along(y, k), q.along(z, k), q.along(iz, k), q.along(q.cond, k), q.sum)
	}
	cellWeigh(q.heads(s), q.heads(u), q.heads(inner), q.heads(q.star), q.sum, q.heads(is), q.give(), q.starInv)
}

// factor prepares the Laplacian of the conductances.
func (q *pathNetwork) factor() {
	m := q.laplace
	for i := range m.ground {
		m.ground[i] = pathProximal
	}
	// Rows are cleared, filled and eliminated while they are in the cache. The
	// star of cell v touches rows v-reach to v+reach, and is the vth, or the one
	// before if the source precedes v.
	reach := q.minor + 1
	cleared, eliminated, pairs := 0, 0, q.stars.members*(q.stars.members-1)/2
	for from := 0; from < len(q.stars.heads); from += pathStarRun {
		to := min(from+pathStarRun, len(q.stars.heads))
		cleared = m.clearRows(cleared, to+reach+1)
		part := pathStars{q.stars.members, q.stars.heads[from:to], q.stars.to[from*pairs : to*pairs]}
		starMesh(q.lanes, &part, q.span*q.lanes, q.cond, q.starInv, m.all)
		for ; eliminated+bandBlock+reach < to; eliminated += bandBlock {
			m.eliminate(eliminated)
		}
	}
	m.clearRows(cleared, m.n)
	for ; eliminated < m.n; eliminated += bandBlock {
		m.eliminate(eliminated)
	}
}

// solve replaces bIn and bOut by the changes of in and out. The source's
// outgoing half stays 0.
func (q *pathNetwork) solve(bIn, bOut []float64) {
	in, out := q.heads(bIn), q.heads(bOut)
	flowMultiply(in, q.starInv, in)
	for k := range q.f.steps {
		flowMultiplyAdd(q.along(q.cond, k), in, q.tails(bOut, k))
	}
	flowMultiplyAdd(q.give(), in, out)
	q.move(bOut, true)
	q.laplace.solve(q.x)
	q.move(bOut, false)
	flowMultiply(q.give(), out, q.tmp)
	for k := range q.f.steps {
		flowMultiplyAdd(q.along(q.cond, k), q.tails(bOut, k), q.tmp)
	}
	flowMultiplyAdd(q.tmp, q.starInv, in)
}

// move copies what a vector has for the cells to x, in the order of the band
// matrix, or back, with zeros for the endpoints.
func (q *pathNetwork) move(v []float64, load bool) {
	source, sink := q.f.source, q.f.sink
	if load {
		q.set(v, source, 0)
		q.set(v, sink, 0)
	}
	switch {
	case q.lanes == 1 && load:
		for i, place := range q.cells {
			q.x[i] = v[place]
		}
	case q.lanes == 1:
		for i, place := range q.cells {
			v[place] = q.x[i]
		}
	case load:
		for i, place := range q.cells {
			*(*octet)(q.x[i*flowLanes:]) = *(*octet)(v[int(place)*flowLanes:])
		}
	default:
		for i, place := range q.cells {
			*(*octet)(v[int(place)*flowLanes:]) = *(*octet)(q.x[i*flowLanes:])
		}
	}
	if !load {
		q.set(v, source, 0)
		q.set(v, sink, 0)
	}
}
