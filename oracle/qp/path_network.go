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
	cells       []int32 // places in band order
	inner       []int32 // the same without endpoints
	steps       []pathStep

	cond    []float64 // by step
	give    []float64 // by cell, the conductance between its halves
	starSum []float64 // of a star's conductances
	starInv []float64 // 1/starSum
	share   []float64 // conductances over the star's sum
	// mesh lists the pairs of a star's members; edges has their conductances by
	// how far apart the members' places are and the first's place.
	mesh     []pathMesh
	edges    []float64
	from, to []int32 // where in edges and in laplace.all they are
	laplace  *bandMatrix
	tmp, x   []float64
}

// pathStep is a step that exists; at is its index in vectors of steps.
type pathStep struct{ tail, head, at int32 }

// pathMesh is a pair of members of every star, given by direction; that of the
// cell's own outgoing half comes last.
type pathMesh struct {
	a, b int
	edge int // where in edges that of the first head is
}

func newPathNetwork(path *Path) *pathNetwork {
	f := &path.frame
	q := &pathNetwork{f: f, first: f.stride + 1, span: (f.height*f.stride + flowLanes - 1) / flowLanes * flowLanes}
	minor, major := f.width, f.height
	if f.height < f.width {
		minor, major = major, minor
	}
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
	q.laplace = newBandMatrix(len(q.cells), 2*minor+2)
	q.x = q.laplace.vector()
	for _, v := range []*[]float64{&q.give, &q.starSum, &q.starInv} {
		*v = q.byPlace()
	}
	q.tmp = make([]float64, q.span)
	q.cond = q.bySteps()
	q.share = make([]float64, (len(f.steps)+1)*q.span)
	q.weave(number)
	return q
}

// weave lists the pairs of a star's members and where their edges go.
func (q *pathNetwork) weave(number []int) {
	f := q.f
	width := len(q.give)
	at := map[int]int{} // difference of places to where in edges it begins
	members := append(append([]int(nil), f.steps...), 0)
	for a, x := range members {
		for b, y := range members[a+1:] {
			apart := max(x-y, y-x)
			begin, ok := at[apart]
			if !ok {
				begin = len(at) * width
				at[apart] = begin
				q.place(begin, apart, number)
			}
			q.mesh = append(q.mesh, pathMesh{a, a + 1 + b, begin + q.first - max(x, y)})
		}
	}
	q.edges = make([]float64, len(at)*width)
}

// place says where the edges between outgoing halves so far apart go. The
// source's is the ground, and the sink has none.
func (q *pathNetwork) place(begin, apart int, number []int) {
	source, sink := number[q.f.source], number[q.f.sink]
	for _, p := range q.cells {
		if int(p)+apart >= len(number) {
			continue
		}
		a, b := number[p], number[int(p)+apart]
		a, b = min(a, b), max(a, b)
		if a < 0 || a == sink || b == sink || b-a > q.laplace.band {
			continue
		}
		to := q.laplace.at(a, b)
		switch source {
		case a:
			to = len(q.laplace.edge) + b
		case b:
			to = len(q.laplace.edge) + a
		}
		q.from = append(q.from, int32(begin+int(p)))
		q.to = append(q.to, int32(to))
	}
}

// byPlace returns a vector with a number for every place, and bySteps one with a
// number for every direction and head.
func (q *pathNetwork) byPlace() []float64 { return make([]float64, q.f.size+flowLanes) }
func (q *pathNetwork) bySteps() []float64 { return make([]float64, len(q.f.steps)*q.span) }

// heads, tails and along are the parts of vectors that belong to the heads, to
// the tails of steps in direction k, and to those steps.
func (q *pathNetwork) heads(v []float64) []float64 { return v[q.first:][:q.span] }
func (q *pathNetwork) tails(v []float64, k int) []float64 {
	return v[q.first-q.f.steps[k]:][:q.span]
}
func (q *pathNetwork) along(y []float64, k int) []float64 { return y[k*q.span:][:q.span] }

// clear removes all edges.
func (q *pathNetwork) clear() { clear(q.laplace.edge) }

// weigh sets the conductances to y/z and s/(s+u), and iz to 1/z.
func (q *pathNetwork) weigh(y, z, iz, s, u []float64) {
	clear(q.starSum)
	sum := q.heads(q.starSum)
	for k := range q.f.steps {
		flowWeigh(q.along(y, k), q.along(z, k), q.along(iz, k), q.along(q.cond, k), sum)
	}
	for _, v := range q.inner {
		x := s[v] / (s[v] + u[v])
		q.give[v] = x
		q.starSum[v] += x
	}
	for _, v := range q.cells {
		if v != q.f.source {
			q.starInv[v] = 1 / q.starSum[v]
		}
	}
}

// factor prepares the Laplacian of the conductances.
func (q *pathNetwork) factor() {
	own := len(q.f.steps)
	inverse := q.heads(q.starInv)
	for k := range own {
		flowMultiply(q.along(q.cond, k), inverse, q.along(q.share, k))
	}
	flowMultiply(q.heads(q.give), inverse, q.along(q.share, own))
	clear(q.edges)
	for _, m := range q.mesh {
		b := q.heads(q.give)
		if m.b != own {
			b = q.along(q.cond, m.b)
		}
		flowMultiplyAdd(q.along(q.share, m.a), b, q.edges[m.edge:][:q.span])
	}
	q.laplace.clearBand()
	for i := range q.laplace.ground {
		q.laplace.ground[i] = pathProximal
	}
	all := q.laplace.all
	to := q.to[:len(q.from)]
	for i, from := range q.from {
		all[to[i]] += q.edges[from]
	}
	q.laplace.decompose()
}

// solve replaces bIn and bOut by the changes of in and out. The source's
// outgoing half stays 0.
func (q *pathNetwork) solve(bIn, bOut []float64) {
	in, out, inverse := q.heads(bIn), q.heads(bOut), q.heads(q.starInv)
	flowMultiply(in, inverse, in)
	for k := range q.f.steps {
		flowMultiplyAdd(q.along(q.cond, k), in, q.tails(bOut, k))
	}
	flowMultiplyAdd(q.heads(q.give), in, out)
	bOut[q.f.source], bOut[q.f.sink] = 0, 0
	for i, v := range q.cells {
		q.x[i] = bOut[v]
	}
	q.laplace.solve(q.x)
	for i, v := range q.cells {
		bOut[v] = q.x[i]
	}
	bOut[q.f.source], bOut[q.f.sink] = 0, 0
	flowMultiply(q.heads(q.give), out, q.tmp)
	for k := range q.f.steps {
		flowMultiplyAdd(q.along(q.cond, k), q.tails(bOut, k), q.tmp)
	}
	flowMultiplyAdd(q.tmp, inverse, in)
}
