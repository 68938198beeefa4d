package qp

//go:generate go run -C _asm . -out ../asm_amd64.s -stubs ../asm_amd64.go -pkg qp

// bandMatrix is the Laplacian of a graph whose nodes, in order, have edges to
// the next band nodes alone, and its triangular factor. Eliminating a node
// turns it into edges between its neighbours, so that conductances stay
// positive: nothing cancels.
//
// Rows are eliminated and solved four at a time. All sums have one order, and
// the assembly returns the bits of the Go code.
type bandMatrix struct {
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
	all             []float64 // edge, then ground
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

// newBandMatrix returns a matrix of n nodes; band is at least 3.
func newBandMatrix(n, band int) *bandMatrix {
	n = (n + bandBlock - 1) / bandBlock * bandBlock
	m := &bandMatrix{n: n, band: band, stride: (band + bandPadding + bandLanes - 1) / bandLanes * bandLanes}
	edges := (n + band) * m.stride
	m.all = make([]float64, edges+n+band+bandLanes)
	m.edge, m.ground = m.all[:edges:edges], m.all[edges:]
	m.inverse = make([]float64, n)
	m.factor = make([]float64, bandBlock*m.stride)
	return m
}

// vector returns a vector for solve.
func (m *bandMatrix) vector() []float64 { return make([]float64, m.n+m.band+bandLanes) }

// at is the index in edge of the conductance between nodes i < j.
func (m *bandMatrix) at(i, j int) int { return i*m.stride + j - i - 1 }

// clearBand sets the conductances between nodes to 0. The padding and the rows
// after the last node stay 0 as long as all numbers are finite.
func (m *bandMatrix) clearBand() {
	for i := range m.n {
		clear(m.edge[i*m.stride:][:m.band])
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
	clear(x[m.n:])
	var y, sum [bandBlock]float64
	for i := 0; i < m.n; i += bandBlock {
		block, inverse := x[i:][:bandBlock], m.inverse[i:][:bandBlock]
		for a := range bandBlock {
			y[a] = block[a] * inverse[a]
			row := m.edge[(i+a)*m.stride:][:bandBlock]
			for b := a + 1; b < bandBlock; b++ {
				block[b] += float64(row[b-a-1] * y[a])
			}
		}
		copy(block, y[:])
		m.spread(i, &y, x[i+bandBlock:])
	}
	clear(x[m.n:])
	for i := m.n - bandBlock; i >= 0; i -= bandBlock {
		m.collect(i, x[i+bandBlock:], &sum)
		block, inverse := x[i:][:bandBlock], m.inverse[i:][:bandBlock]
		for a := bandBlock - 1; a >= 0; a-- {
			row := m.edge[(i+a)*m.stride:][:bandBlock]
			s := sum[a]
			for b := a + 1; b < bandBlock; b++ {
				s += float64(row[b-a-1] * block[b])
			}
			block[a] += float64(s * inverse[a])
		}
	}
}

// row returns the conductances of row i from node j on, as many as span.
func (m *bandMatrix) row(i, j, span int) []float64 { return m.edge[m.at(i, j):][:span] }

// eliminateGo eliminates rows i to i+3.
func (m *bandMatrix) eliminateGo(i int) {
	for a := i; a < i+bandBlock; a++ {
		m.inverse[a] = 1 / (m.ground[a] + foldLanes(m.edge[a*m.stride:][:m.band], nil))
		for b := a + 1; b < i+bandBlock; b++ {
			f := m.edge[m.at(a, b)] * m.inverse[a]
			m.ground[b] += float64(f * m.ground[a])
			n := m.band - (b - a)
			to := m.edge[b*m.stride:][:n]
			for k, x := range m.row(a, b+1, n) {
				to[k] += float64(x * f)
			}
		}
	}
	i0, i1, i2, i3 := m.inverse[i], m.inverse[i+1], m.inverse[i+2], m.inverse[i+3]
	g0, g1, g2, g3 := m.ground[i], m.ground[i+1], m.ground[i+2], m.ground[i+3]
	for t := i + bandBlock; t < i+bandBlock+m.band; t++ {
		f0, f1, f2, f3 := m.edge[m.at(i, t)]*i0, m.edge[m.at(i+1, t)]*i1, m.edge[m.at(i+2, t)]*i2, m.edge[m.at(i+3, t)]*i3
		m.ground[t] += (float64(f0*g0) + float64(f1*g1)) + (float64(f2*g2) + float64(f3*g3))
		n := m.band - (t - i - bandBlock) - 1
		r0, r1, r2, r3 := m.row(i, t+1, n), m.row(i+1, t+1, n), m.row(i+2, t+1, n), m.row(i+3, t+1, n)
		to := m.edge[t*m.stride:][:n]
		for k := range to {
			to[k] += (float64(f0*r0[k]) + float64(f1*r1[k])) + (float64(f2*r2[k]) + float64(f3*r3[k]))
		}
	}
}

// spreadGo adds to the nodes after i+3 what rows i to i+3 conduct from y there.
func (m *bandMatrix) spreadGo(i int, y *[bandBlock]float64, to []float64) {
	n, j := m.band, i+bandBlock
	r0, r1, r2, r3 := m.row(i, j, n), m.row(i+1, j, n), m.row(i+2, j, n), m.row(i+3, j, n)
	for k := range to[:n] {
		to[k] += (float64(r0[k]*y[0]) + float64(r1[k]*y[1])) + (float64(r2[k]*y[2]) + float64(r3[k]*y[3]))
	}
}

// collectGo computes the products of rows i to i+3 with the nodes after i+3.
func (m *bandMatrix) collectGo(i int, x []float64, sum *[bandBlock]float64) {
	for a := range sum {
		sum[a] = foldLanes(m.row(i+a, i+bandBlock, m.band), x)
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
			s[k%bandLanes] += float64(a * y[k])
		}
	}
	return addLanes(&s)
}
