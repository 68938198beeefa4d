package dijkstra

import "math"

// dag is an acyclic grid's: its steps, and the cells on paths from source to
// sink in the order in which steps advance. Its paths are found by dynamic
// programming, for costs of any sign.
type dag struct {
	steps  []int
	source int32
	// order lists the places of cells on paths; the source is the first and the
	// sink the last. The places before order[i] on a path are
	// tail[first[i]:first[i+1]], in ascending order.
	order []int32
	first []int32
	tail  []int32
	rank  []int32 // place to position in order, -1 for cells on no path
}

// newDAG returns the acyclic part of g, whose steps lead to all neighbours.
func newDAG(g *Grid) *dag {
	d := &dag{source: g.source, rank: make([]int32, g.size)}
	h, w := g.cfg.Height, g.cfg.Width
	row := func(p int32) int { return int(p) / g.stride }
	col := func(p int32) int { return int(p) % g.stride }
	byColumn := col(g.sink)-col(g.source) > row(g.sink)-row(g.source)
	for _, step := range g.steps {
		// Places are in row order. In column order, right is forward in any row,
		// and so is down in the same column.
		if byColumn && (step == 1-g.stride || step == 1 || step >= g.stride) || !byColumn && step > 0 {
			d.steps = append(d.steps, step)
		}
	}
	cells := make([]int32, 0, h*w)
	for k := range h * w {
		at := Cell{k / w, k % w}
		if byColumn {
			at = Cell{k % h, k / h}
		}
		cells = append(cells, int32((at.Row+1)*g.stride+at.Col+1))
	}
	ahead, behind := make([]bool, g.size), make([]bool, g.size)
	ahead[g.source], behind[g.sink] = true, true
	for i := range cells {
		p, q := cells[i], cells[len(cells)-1-i]
		for _, step := range d.steps {
			// The padding is closed either way.
			if to := p + int32(step); ahead[p] && g.cell[to] >= 0 {
				ahead[to] = true
			}
			if from := q - int32(step); behind[q] && g.cell[from] >= 0 {
				behind[from] = true
			}
		}
	}
	for p := range d.rank {
		d.rank[p] = -1
	}
	for _, p := range cells {
		if !ahead[p] || !behind[p] {
			continue
		}
		d.rank[p] = int32(len(d.order))
		d.order = append(d.order, p)
		d.first = append(d.first, int32(len(d.tail)))
		for k := len(d.steps) - 1; k >= 0; k-- {
			if q := p - int32(d.steps[k]); ahead[q] && behind[q] {
				d.tail = append(d.tail, q)
			}
		}
	}
	d.first = append(d.first, int32(len(d.tail)))
	return d
}

// before lists the places before p on a path.
func (d *dag) before(p int32) []int32 {
	i := d.rank[p]
	if i < 0 {
		return nil
	}
	return d.tail[d.first[i]:d.first[i+1]]
}

// sweep computes the least cost of a path to every cell on paths, both ends
// included, and the place before on it, and appends the places to settled. Of
// several places before, it takes the one of least (distance, row, column): the
// one that the paper's order, section 3.3, settles first if costs are > 0.
func (d *dag) sweep(dist []float64, pred []int32, cost []float64, settled []int32) []int32 {
	dist[d.source] = cost[d.source]
	for i, p := range d.order[1:] {
		tails := d.tail[d.first[i+1]:d.first[i+2]]
		from := tails[0]
		near := dist[from]
		for _, q := range tails[1:] {
			if x := dist[q]; x < near {
				near, from = x, q
			}
		}
		dist[p], pred[p] = near+cost[p], from
	}
	return append(settled, d.order...)
}

// longest counts the cells of the longest path.
func (d *dag) longest(g *Grid) float64 {
	cost := make([]float64, g.size)
	for p := range cost {
		cost[p] = -1
	}
	dist := make([]float64, g.size)
	d.sweep(dist, make([]int32, g.size), cost, nil)
	return math.Abs(dist[g.sink])
}
