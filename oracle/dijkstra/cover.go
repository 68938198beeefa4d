package dijkstra

import "math"

// cover minimises over the whole relaxed path polytope. Its vertices are the
// perfect matchings of outgoing halves of cells, except the sink's, to incoming
// halves, except the source's, where a half may meet a neighbour's (a step,
// which costs what the cell entered costs) or, endpoints apart, its own (the
// cell is not visited). It matches one outgoing half after the other along a
// shortest augmenting path under reduced costs (Edmonds and Karp 1972; Tomizawa
// 1971).
type cover struct {
	g *Grid
	// in[p] is the place whose incoming half p's outgoing half has, out its
	// inverse; 0 is none.
	in, out []int32
	// price holds a number for every half such that no step or stay costs less
	// than priceIn[v] + priceOut[u], and the matched ones exactly that.
	priceIn, priceOut []float64
	dist              []float64 // of incoming halves
	from              []int32   // the outgoing half before, on the augmenting path
	done              []bool
	q                 queue
}

func newCover(g *Grid) *cover {
	return &cover{
		g:        g,
		in:       make([]int32, g.size),
		out:      make([]int32, g.size),
		priceIn:  make([]float64, g.size),
		priceOut: make([]float64, g.size),
		dist:     make([]float64, g.size),
		from:     make([]int32, g.size),
		done:     make([]bool, g.size),
		q:        newQueue(g.Dim()),
	}
}

// visits says whether the answer covers the cell at p.
func (c *cover) visits(p int32) bool { return c.in[p] != p }

// solve finds a cover of least cost, given by place.
func (c *cover) solve(cost []float64) {
	clear(c.in)
	clear(c.out)
	clear(c.priceOut)
	for _, p := range c.g.place {
		c.priceIn[p] = min(cost[p], 0)
	}
	// Entering the sink is the only use of its incoming half.
	c.priceIn[c.g.sink] = cost[c.g.sink]
	for _, p := range c.g.place {
		if p != c.g.sink {
			c.augment(p, cost)
		}
	}
}

// augment matches the outgoing half of root.
func (c *cover) augment(root int32, cost []float64) {
	g := c.g
	for p := range c.dist {
		c.dist[p] = math.Inf(1)
	}
	clear(c.done)
	c.q.clear()
	base, end := 0.0, int32(0)
	for u := root; end == 0; {
		// Extend from the outgoing half u, which is base away.
		relax := func(v int32, price float64) {
			if x := base + max(price-c.priceIn[v]-c.priceOut[u], 0); !c.done[v] && x < c.dist[v] {
				c.dist[v], c.from[v] = x, u
				c.q.push(entry{keyOf(x), uint64(v)})
			}
		}
		if u != g.source {
			relax(u, 0)
		}
		for _, step := range g.steps {
			if v := u + int32(step); g.cell[v] >= 0 && v != g.source {
				relax(v, cost[v])
			}
		}
		v := int32(c.q.pop().id)
		for c.done[v] {
			v = int32(c.q.pop().id)
		}
		c.done[v] = true
		base = c.dist[v]
		if u = c.out[v]; u == 0 {
			end = v
		}
	}
	// Lower the prices on the way so that matched halves stay tight.
	for _, v := range g.place {
		if c.done[v] && v != end {
			c.priceIn[v] -= base - c.dist[v]
			c.priceOut[c.out[v]] += base - c.dist[v]
		}
	}
	c.priceOut[root] += base
	for v := end; ; {
		u := c.from[v]
		v, c.out[v], c.in[u] = c.in[u], u, v
		if u == root {
			return
		}
	}
}
