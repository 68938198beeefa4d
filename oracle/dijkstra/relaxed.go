package dijkstra

import "math"

// Violation is the largest of: the distance of an entry from [0, 1], that of an
// endpoint's from 1, and, over all sets of cells, how much more flow leaves (or
// enters) the set than its neighbours can take (or give). The last decides
// whether a flow with these visits exists (Gale 1957); a maximum flow finds the
// worst set.
func (g *Grid) Violation(w []float64) float64 { return g.NewMeter().Violation(w) }

// Meter measures violations of a grid's set without allocating memory, for one
// goroutine.
type Meter struct {
	g *Grid
	x []float64 // by place
	f transport
}

// NewMeter returns a Meter of g's set.
func (g *Grid) NewMeter() *Meter {
	return &Meter{g: g, x: make([]float64, g.size), f: newTransport(g)}
}

// Violation is the grid's.
func (m *Meter) Violation(w []float64) float64 {
	g := m.g
	if len(w) != g.Dim() {
		return math.Inf(1)
	}
	worst := 0.0
	for v, p := range g.place {
		if math.IsNaN(w[v]) || math.IsInf(w[v], 0) {
			return math.Inf(1)
		}
		worst = max(worst, -w[v], w[v]-1)
		m.x[p] = w[v]
	}
	worst = max(worst, math.Abs(m.x[g.source]-1), math.Abs(m.x[g.sink]-1))
	m.f.begin(m.x)
	m.f.maximise()
	out, in := 0.0, 0.0
	for _, p := range g.place {
		out += m.f.supply[p]
		in += m.f.demand[p]
	}
	return max(worst, out, in)
}

// transport is the flow from outgoing to incoming halves of neighbouring cells:
// Dinic's algorithm (1970) for a bipartite graph whose steps have no capacity.
type transport struct {
	g *Grid
	// supply and demand are what is left to send from and to a place.
	supply, demand []float64
	flow           []float64 // by place and step
	// levelOut and levelIn count halves from a supply; -1 is unreached.
	levelOut, levelIn []int
	nextOut, nextIn   []int // the step to try next
	queue             []int32
}

// flowFloor is the flow that counts as none: visits are of order 1.
const flowFloor = 1e-16

func newTransport(g *Grid) transport {
	return transport{
		g:      g,
		supply: make([]float64, g.size), demand: make([]float64, g.size),
		flow:     make([]float64, g.size*len(g.steps)),
		levelOut: make([]int, g.size), levelIn: make([]int, g.size),
		nextOut: make([]int, g.size), nextIn: make([]int, g.size),
		queue: make([]int32, 0, g.size),
	}
}

// begin forgets all flow and sets supplies and demands to the visits x.
func (f *transport) begin(x []float64) {
	clear(f.flow)
	for _, p := range f.g.place {
		f.supply[p] = max(x[p], 0)
		f.demand[p] = f.supply[p]
	}
	f.supply[f.g.sink], f.demand[f.g.source] = 0, 0
}

// sent returns the flow of step i of place p.
func (f *transport) sent(p int32, i int) *float64 { return &f.flow[int(p)*len(f.g.steps)+i] }

// joined says whether flow may go from p to q.
func (f *transport) joined(p, q int32) bool {
	return f.g.cell[p] >= 0 && f.g.cell[q] >= 0 && p != f.g.sink && q != f.g.source
}

func (f *transport) maximise() {
	for f.levels() {
		clear(f.nextOut)
		clear(f.nextIn)
		for _, p := range f.g.place {
			for f.supply[p] > flowFloor {
				sent := f.send(p, f.supply[p])
				if sent == 0 {
					break
				}
				f.supply[p] -= sent
			}
		}
	}
}

// levels labels the halves by breadth-first search and says whether a demand
// was reached.
func (f *transport) levels() bool {
	queue := f.queue[:0]
	for p := range f.levelOut {
		f.levelOut[p], f.levelIn[p] = -1, -1
		if f.supply[p] > flowFloor {
			f.levelOut[p] = 0
			queue = append(queue, int32(p))
		}
	}
	found := false
	for at := 0; at < len(queue); at++ {
		p := queue[at]
		for _, step := range f.g.steps {
			q := p + int32(step)
			if !f.joined(p, q) || f.levelIn[q] >= 0 {
				continue
			}
			f.levelIn[q] = f.levelOut[p] + 1
			found = found || f.demand[q] > flowFloor
			for j, back := range f.g.steps {
				r := q - int32(back)
				if f.joined(r, q) && f.levelOut[r] < 0 && *f.sent(r, j) > flowFloor {
					f.levelOut[r] = f.levelIn[q] + 1
					queue = append(queue, r)
				}
			}
		}
	}
	return found
}

// send moves up to limit from the outgoing half of p to demands and returns
// how much.
func (f *transport) send(p int32, limit float64) float64 {
	for ; f.nextOut[p] < len(f.g.steps); f.nextOut[p]++ {
		i := f.nextOut[p]
		q := p + int32(f.g.steps[i])
		if !f.joined(p, q) || f.levelIn[q] != f.levelOut[p]+1 {
			continue
		}
		if f.demand[q] > flowFloor {
			sent := min(limit, f.demand[q])
			f.demand[q] -= sent
			*f.sent(p, i) += sent
			return sent
		}
		for ; f.nextIn[q] < len(f.g.steps); f.nextIn[q]++ {
			j := f.nextIn[q]
			r := q - int32(f.g.steps[j])
			if !f.joined(r, q) || f.levelOut[r] != f.levelIn[q]+1 || !(*f.sent(r, j) > flowFloor) {
				continue
			}
			if sent := f.send(r, min(limit, *f.sent(r, j))); sent > 0 {
				*f.sent(r, j) -= sent
				*f.sent(p, i) += sent
				return sent
			}
		}
	}
	return 0
}
