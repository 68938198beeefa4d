package dijkstra

import (
	"math"
	"math/bits"
)

// packed is Dijkstra's algorithm for costs >= 0 with distances and cells in one
// word: the last bits of a distance give way to the cell's number. Cells have
// numbers of their own, row 2^shift + column, in rows of free bits.
type packed struct {
	g            *Grid
	shift        uint
	source, sink uint64
	mask         uint64 // the bits of a number
	// around and beside are the bits of a cell's neighbours in the rows next
	// to its own and in its own, which begin at the bit of its column.
	around, beside uint64
	offset         [16]int
	// free has a row of bits for every row of the grid and one on each side;
	// bit column+1 is set where a cell was not reached yet.
	free, all []uint64
	cost      []float64
	dist      []float64
	pred      []uint16
	// settled lists the cells in the order in which they became final.
	settled []uint16
	// h is a heap like queue's: slot 0 is unused, the slots behind the last
	// entry hold packedLast.
	h []uint64
}

const (
	packedLast = math.MaxUint64
	// maxPackedBits leaves distances 40 bits.
	maxPackedBits = 12
)

// newPacked returns nil for a grid that is too large.
func newPacked(g *Grid) *packed {
	shift := uint(bits.Len(uint(g.cfg.Width - 1)))
	size := g.cfg.Height << shift
	if g.cfg.Width > 62 || size > 1<<maxPackedBits {
		return nil
	}
	number := func(c Cell) uint64 { return uint64(c.Row<<shift | c.Col) }
	q := &packed{
		g: g, shift: shift,
		source: number(g.cfg.Source), sink: number(g.cfg.Sink),
		mask:   1<<bits.Len(uint(size-1)) - 1,
		around: 7, beside: 7,
		free: make([]uint64, g.cfg.Height+2), all: make([]uint64, g.cfg.Height+2),
		cost: make([]float64, size), dist: make([]float64, size), pred: make([]uint16, size),
		settled: make([]uint16, 0, g.Dim()),
		h:       make([]uint64, g.Dim()+2),
	}
	if g.cfg.Neighbours == Four {
		q.around = 2
	}
	for k := range 9 {
		q.offset[k] = (k/3-1)<<shift + k%3 - 1
	}
	for r := range g.cfg.Height {
		q.all[r+1] = (1<<g.cfg.Width - 1) << 1
	}
	for i := range q.h {
		q.h[i] = packedLast
	}
	return q
}

// load takes the costs and says whether all are >= 0.
func (q *packed) load(theta []float64) bool {
	w := q.g.cfg.Width
	sign := uint64(0)
	for r := 0; len(theta) > 0; r++ {
		row := q.cost[r<<q.shift:][:w]
		for c, x := range theta[:w] {
			x += 0 // no -0, whose bits would order last
			row[c] = x
			sign |= math.Float64bits(x)
		}
		theta = theta[w:]
	}
	return sign>>63 == 0
}

// run finds the path. A cell is final
// when first reached, since no later settled cell is nearer.
func (q *packed) run() {
	h, mask, shift := q.h, q.mask, q.shift&63 // &63 spares a test in shifts
	dist, pred, cost, free := q.dist, q.pred, q.cost, q.free
	settled := q.settled[:cap(q.settled)]
	around, beside := q.around, q.beside
	copy(free, q.all)
	free[q.source>>shift+1] &^= 2 << (q.source & (1<<shift - 1))
	dist[q.source] = cost[q.source]
	h[1] = math.Float64bits(dist[q.source])&^mask | q.source
	n, done, cols := 1, 0, uint64(1)<<shift-1
	for {
		p := h[1] & mask
		settled[done] = uint16(p)
		done++
		if p == q.sink {
			break
		}
		row := free[p>>shift:][:3]
		col := p & cols & 63
		m := row[0]>>col&around | row[1]>>col&beside<<3 | row[2]>>col&around<<6
		// The place of p goes to the first cell reached from it or, if there is
		// none, to the last entry. Either belongs near the leaves: the hole moves
		// there along the smaller children before it goes in.
		x := h[n]
		d := dist[p]
		if m == 0 {
			h[n] = packedLast
			n--
		} else {
			row[0] &^= around << col
			row[1] &^= beside << col
			row[2] &^= around << col
			v := uint64(int(p) + q.offset[bits.TrailingZeros64(m)&15])
			y := d + cost[v]
			dist[v], pred[v] = y, uint16(p)
			x = math.Float64bits(y)&^mask | v
			m &= m - 1
		}
		i := 1
		for c := 2; c <= n; c = 2 * i {
			a, b := h[c], h[c+1]
			_, second := bits.Sub64(b, a, 0)
			h[i] = min(a, b)
			i = c + int(second)
		}
		if n > 0 {
			for i > 1 && h[i>>1] > x {
				h[i] = h[i>>1]
				i >>= 1
			}
			h[i] = x
		}
		for ; m != 0; m &= m - 1 {
			v := uint64(int(p) + q.offset[bits.TrailingZeros64(m)&15])
			x := d + cost[v]
			dist[v], pred[v] = x, uint16(p)
			key := math.Float64bits(x)&^mask | v
			n++
			i := n
			for i > 1 && h[i>>1] > key {
				h[i] = h[i>>1]
				i >>= 1
			}
			h[i] = key
		}
	}
	for i := range h[1 : n+1] {
		h[1+i] = packedLast
	}
	q.settled = settled[:done]
}

// cell is the row-major index of number p.
func (q *packed) cell(p uint64) int {
	return int(p>>q.shift)*q.g.cfg.Width + int(p&(1<<q.shift-1))
}
