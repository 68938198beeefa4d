package qp

import "math"

//go:generate go run -C _asm . -out ../asm_amd64.s -stubs ../asm_amd64.go -pkg qp

// bandMatrix is the Laplacian of a graph whose nodes, in order, have edges to
// the next band nodes alone, and its triangular factor. Eliminating a node
// turns it into edges between its neighbours, so that conductances stay
// positive: nothing cancels.
//
// It holds one matrix, or eight of the same shape in lanes: number i of lane l
// is then element 8i + l. Rows are eliminated and solved four at a time. All
// sums have one order and one rounding for a product and its addition, and one
// matrix, a lane and the assembly for either give the same bits.
type bandMatrix struct {
	lanes int // 1 or 8
	// n is the number of nodes, rounded up to a multiple of 4.
	n, band int
	// Row i of edge, at i stride, has the conductances from node i to nodes i+1,
	// i+2, ... and zeros from band on. There are band rows more than nodes, so
	// that every node has the same number of rows below.
	stride int
	edge   []float64
	// ground has the conductances to ground; inverse the inverse pivots.
	ground, inverse []float64
	factor          []float64 // four rows
	all             []float64 // edge, then ground, then one number for nothing
}

const (
	// bandBlock is the number of rows taken together.
	bandBlock = 4
	// bandLanes is the number of partial sums: sum l has the elements k with
	// k mod 8 = l. They are added pairwise, l and l+4, then l and l+2, l and l+1.
	bandLanes = 8
	// bandPadding is what reading whole octets from a row's last element but
	// one can touch, with the shift of the first row of a block.
	bandPadding = bandLanes + bandBlock - 1
)

// newBandMatrix returns a matrix of n nodes, or eight of them; band is at least
// 3.
func newBandMatrix(n, band, lanes int) *bandMatrix {
	n = (n + bandBlock - 1) / bandBlock * bandBlock
	m := &bandMatrix{lanes: lanes, n: n, band: band, stride: band + bandBlock - 1}
	if lanes == 1 {
		m.stride = (band + bandPadding + bandLanes - 1) / bandLanes * bandLanes
	}
	edges := (n + band) * m.stride * lanes
	m.all = make([]float64, edges+(n+band+bandLanes+1)*lanes)
	m.edge, m.ground = m.all[:edges:edges], m.all[edges:len(m.all)-lanes]
	m.inverse = make([]float64, n*lanes)
	if lanes == 1 {
		m.factor = make([]float64, bandBlock*m.stride)
	}
	return m
}

// nothing is the number in all that stands for no edge.
func (m *bandMatrix) nothing() int { return len(m.all)/m.lanes - 1 }

// vector returns a vector for solve.
func (m *bandMatrix) vector() []float64 {
	return make([]float64, (m.n+m.band+bandLanes)*m.lanes)
}

// at is the number in edge of the conductance between nodes i < j.
func (m *bandMatrix) at(i, j int) int { return i*m.stride + j - i - 1 }

// clearRows sets the conductances between nodes to 0 in rows i to end-1, as far
// as there are nodes, and returns end. The padding and the rows after the last
// node stay 0 as long as all numbers are finite.
func (m *bandMatrix) clearRows(i, end int) int {
	for ; i < min(end, m.n); i++ {
		clear(m.edge[i*m.stride*m.lanes:][:m.band*m.lanes])
	}
	return end
}

// clearLane sets all conductances of lane l to 0, and those of the padding: what
// a failed solve may have left.
func (m *bandMatrix) clearLane(l int) {
	for i := l; i < len(m.all); i += m.lanes {
		m.all[i] = 0
	}
}

// decompose turns the conductances into the triangular factor.
func (m *bandMatrix) decompose() {
	for i := 0; i < m.n; i += bandBlock {
		m.eliminate(i)
	}
}

// solve replaces x by the solution of the factored matrix.
func (m *bandMatrix) solve(x []float64) {
	end := m.n * m.lanes
	clear(x[end:])
	m.forward(x)
	clear(x[end:])
	m.backward(x)
}

// row returns the conductances of row i from node j on, as many as span.
func (m *bandMatrix) row(i, j, span int) []float64 { return m.edge[m.at(i, j):][:span] }

// eliminateGo eliminates rows i to i+3 of one matrix.
func (m *bandMatrix) eliminateGo(i int) {
	for a := i; a < i+bandBlock; a++ {
		m.inverse[a] = 1 / (m.ground[a] + foldLanes(m.edge[a*m.stride:][:m.band], nil))
		for b := a + 1; b < i+bandBlock; b++ {
			f := m.edge[m.at(a, b)] * m.inverse[a]
			m.ground[b] = math.FMA(f, m.ground[a], m.ground[b])
			n := m.band - (b - a)
			to := m.edge[b*m.stride:][:n]
			for k, x := range m.row(a, b+1, n) {
				to[k] = math.FMA(x, f, to[k])
			}
		}
	}
	i0, i1, i2, i3 := m.inverse[i], m.inverse[i+1], m.inverse[i+2], m.inverse[i+3]
	g0, g1, g2, g3 := m.ground[i], m.ground[i+1], m.ground[i+2], m.ground[i+3]
	for t := i + bandBlock; t < i+bandBlock+m.band; t++ {
		f0, f1, f2, f3 := m.edge[m.at(i, t)]*i0, m.edge[m.at(i+1, t)]*i1, m.edge[m.at(i+2, t)]*i2, m.edge[m.at(i+3, t)]*i3
		m.ground[t] = math.FMA(f3, g3, math.FMA(f2, g2, math.FMA(f1, g1, math.FMA(f0, g0, m.ground[t]))))
		n := m.band - (t - i - bandBlock) - 1
		r0, r1, r2, r3 := m.row(i, t+1, n), m.row(i+1, t+1, n), m.row(i+2, t+1, n), m.row(i+3, t+1, n)
		to := m.edge[t*m.stride:][:n]
		for k, x := range to {
			to[k] = math.FMA(f3, r3[k], math.FMA(f2, r2[k], math.FMA(f1, r1[k], math.FMA(f0, r0[k], x))))
		}
	}
}

// forwardGo solves with the lower factor of one matrix.
func (m *bandMatrix) forwardGo(x []float64) {
	for i := 0; i < m.n; i += bandBlock {
		block, inverse := x[i:][:bandBlock], m.inverse[i:][:bandBlock]
		for a := range bandBlock {
			y := block[a] * inverse[a]
			row := m.edge[(i+a)*m.stride:][:bandBlock]
			for b := a + 1; b < bandBlock; b++ {
				block[b] = math.FMA(row[b-a-1], y, block[b])
			}
			block[a] = y
		}
		n, j := m.band, i+bandBlock
		r0, r1, r2, r3 := m.row(i, j, n), m.row(i+1, j, n), m.row(i+2, j, n), m.row(i+3, j, n)
		to := x[j:][:n]
		for k, x := range to {
			to[k] = math.FMA(r3[k], block[3], math.FMA(r2[k], block[2], math.FMA(r1[k], block[1], math.FMA(r0[k], block[0], x))))
		}
	}
}

// backwardGo solves with the upper factor of one matrix.
func (m *bandMatrix) backwardGo(x []float64) {
	for i := m.n - bandBlock; i >= 0; i -= bandBlock {
		block, inverse := x[i:][:bandBlock], m.inverse[i:][:bandBlock]
		for a := bandBlock - 1; a >= 0; a-- {
			s := foldLanes(m.row(i+a, i+bandBlock, m.band), x[i+bandBlock:])
			row := m.edge[(i+a)*m.stride:][:bandBlock]
			for b := bandBlock - 1; b > a; b-- {
				s = math.FMA(row[b-a-1], block[b], s)
			}
			block[a] = math.FMA(s, inverse[a], block[a])
		}
	}
}

// foldLanes returns the sum of x, times y unless that is nil.
func foldLanes(x, y []float64) float64 {
	var s [bandLanes]float64
	if y == nil {
		for k, a := range x {
			s[k%bandLanes] += a
		}
	} else {
		for k, a := range x {
			s[k%bandLanes] = math.FMA(a, y[k], s[k%bandLanes])
		}
	}
	return addLanes(&s)
}

// addLanes adds the lanes l and l+4, then l and l+2, then l and l+1.
func addLanes(s *[bandLanes]float64) float64 {
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

// eliminateLane, forwardLane and backwardLane do for lane l of eight matrices
// what eliminateGo, forwardGo and backwardGo do for one: what the assembly for
// lanes is compared with.
func (m *bandMatrix) eliminateLane(i, l int) { m.lane(l, func(one *bandMatrix) { one.eliminateGo(i) }) }

func (m *bandMatrix) forwardLane(x []float64, l int) {
	m.laneOf(x, l, func(x []float64) { m.lane(l, func(one *bandMatrix) { one.forwardGo(x) }) })
}

func (m *bandMatrix) backwardLane(x []float64, l int) {
	m.laneOf(x, l, func(x []float64) { m.lane(l, func(one *bandMatrix) { one.backwardGo(x) }) })
}

// lane calls do with a copy of lane l, and copies it back.
func (m *bandMatrix) lane(l int, do func(one *bandMatrix)) {
	one := newBandMatrix(m.n, m.band, 1)
	move := func(load bool, to, from []float64) {
		for i := range to {
			if load {
				to[i] = from[i*m.lanes+l]
			} else {
				from[i*m.lanes+l] = to[i]
			}
		}
	}
	for _, load := range []bool{true, false} {
		if !load {
			do(one)
		}
		for i := range m.n + m.band {
			move(load, one.edge[i*one.stride:][:m.band], m.edge[i*m.stride*m.lanes:])
		}
		move(load, one.ground, m.ground)
		move(load, one.inverse, m.inverse)
	}
}

// laneOf calls do with a copy of lane l of a vector, and copies it back.
func (m *bandMatrix) laneOf(x []float64, l int, do func(x []float64)) {
	one := make([]float64, len(x)/m.lanes)
	for i := range one {
		one[i] = x[i*m.lanes+l]
	}
	do(one)
	for i, v := range one {
		x[i*m.lanes+l] = v
	}
}
