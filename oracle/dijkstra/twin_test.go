package dijkstra

import (
	"math"
	"math/rand/v2"
	"slices"
)

// paperDijkstra is the paper's section 3.3 to the letter: a list of (distance,
// row, column), searched from end to end.
func paperDijkstra(cfg Config, theta []float64) []float64 {
	h, w := cfg.Height, cfg.Width
	flip := func(c Cell) Cell {
		if cfg.Source.Row > cfg.Sink.Row {
			c.Row = h - 1 - c.Row
		}
		if cfg.Source.Col > cfg.Sink.Col {
			c.Col = w - 1 - c.Col
		}
		return c
	}
	cost := func(c Cell) float64 { c = flip(c); return theta[c.Row*w+c.Col] }
	source, sink := flip(cfg.Source), flip(cfg.Sink)
	flipped := cfg
	flipped.Source, flipped.Sink = source, sink
	type queued struct {
		dist float64
		at   Cell
	}
	dist := map[Cell]float64{source: cost(source)}
	pred := map[Cell]Cell{}
	settled := map[Cell]bool{}
	queue := []queued{{dist[source], source}}
	for len(queue) > 0 {
		best := 0
		for i, x := range queue {
			b := queue[best]
			if x.dist < b.dist || x.dist == b.dist && (x.at.Row < b.at.Row || x.at.Row == b.at.Row && x.at.Col < b.at.Col) {
				best = i
			}
		}
		at := queue[best].at
		queue = slices.Delete(queue, best, best+1)
		for _, n := range neighbours(flipped, at) {
			if settled[n] {
				continue
			}
			x := dist[at] + cost(n)
			if old, ok := dist[n]; !ok || x < old {
				dist[n], pred[n] = x, at
				queue = append(queue, queued{x, n})
			}
		}
		settled[at] = true
	}
	out := make([]float64, h*w)
	for at := sink; ; at = pred[at] {
		c := flip(at)
		out[c.Row*w+c.Col] = 1
		if at == source {
			return out
		}
	}
}

// neighbours lists the cells one step on from a cell in the paper's order.
func neighbours(cfg Config, at Cell) []Cell {
	var out []Cell
	for dr := -1; dr <= 1; dr++ {
		for dc := -1; dc <= 1; dc++ {
			n := Cell{at.Row + dr, at.Col + dc}
			if n == at || cfg.Neighbours == Four && dr != 0 && dc != 0 ||
				n.Row < 0 || n.Row >= cfg.Height || n.Col < 0 || n.Col >= cfg.Width || cfg.Acyclic && !advances(cfg, dr, dc) {
				continue
			}
			out = append(out, n)
		}
	}
	return out
}

// advances says whether a step by this many rows and columns does on an acyclic
// grid.
func advances(cfg Config, dr, dc int) bool {
	down, right := cfg.Sink.Row-cfg.Source.Row, cfg.Sink.Col-cfg.Source.Col
	if down < 0 {
		down, dr = -down, -dr
	}
	if right < 0 {
		right, dc = -right, -dc
	}
	if right > down {
		return dc > 0 || dc == 0 && dr > 0
	}
	return dr > 0 || dr == 0 && dc > 0
}

// simplePaths calls visit with every simple path, as cells in order.
func simplePaths(cfg Config, visit func(path []Cell)) {
	seen := map[Cell]bool{cfg.Source: true}
	path := []Cell{cfg.Source}
	var walk func()
	walk = func() {
		at := path[len(path)-1]
		if at == cfg.Sink {
			visit(path)
			return
		}
		for _, n := range neighbours(cfg, at) {
			if !seen[n] {
				seen[n] = true
				path = append(path, n)
				walk()
				path = path[:len(path)-1]
				delete(seen, n)
			}
		}
	}
	walk()
}

// covers lists the visits of all vertices of the relaxed path polytope: every
// way to send each cell but the sink to a neighbour or, endpoints apart, to
// itself, no two to the same and none to the source.
func covers(cfg Config) [][]float64 {
	h, w := cfg.Height, cfg.Width
	seen := map[string]bool{}
	var out [][]float64
	taken := make([]bool, h*w)
	visits := make([]float64, h*w)
	visits[cfg.Sink.Row*w+cfg.Sink.Col] = 1
	var choose func(v int)
	choose = func(v int) {
		if v == h*w {
			key := make([]byte, h*w)
			for i, x := range visits {
				key[i] = byte(x)
			}
			if !seen[string(key)] {
				seen[string(key)] = true
				out = append(out, slices.Clone(visits))
			}
			return
		}
		at := Cell{v / w, v % w}
		if at == cfg.Sink {
			choose(v + 1)
			return
		}
		if at != cfg.Source && !taken[v] {
			taken[v] = true
			choose(v + 1)
			taken[v] = false
		}
		visits[v] = 1
		for _, n := range neighbours(cfg, at) {
			if u := n.Row*w + n.Col; n != cfg.Source && !taken[u] {
				taken[u] = true
				choose(v + 1)
				taken[u] = false
			}
		}
		visits[v] = 0
	}
	choose(0)
	return out
}

// bellmanFord returns the cost of a shortest path by rounds over all steps.
func bellmanFord(cfg Config, theta []float64) float64 {
	w := cfg.Width
	dist := make([]float64, len(theta))
	for v := range dist {
		dist[v] = math.Inf(1)
	}
	s := cfg.Source.Row*w + cfg.Source.Col
	dist[s] = theta[s]
	for changed := true; changed; {
		changed = false
		for v := range dist {
			for _, n := range neighbours(cfg, Cell{v / w, v % w}) {
				if u := n.Row*w + n.Col; u != s && dist[v]+theta[u] < dist[u] {
					dist[u] = dist[v] + theta[u]
					changed = true
				}
			}
		}
	}
	return dist[cfg.Sink.Row*w+cfg.Sink.Col]
}

// randomConfig draws a grid of at most limit cells and two of its cells.
func randomConfig(r *rand.Rand, limit int) Config {
	for {
		cfg := Config{Height: 1 + r.IntN(limit), Width: 1 + r.IntN(limit), Neighbours: Neighbours(r.IntN(2))}
		if n := cfg.Height * cfg.Width; n < 2 || n > limit {
			continue
		}
		cfg.Source = Cell{r.IntN(cfg.Height), r.IntN(cfg.Width)}
		cfg.Sink = Cell{r.IntN(cfg.Height), r.IntN(cfg.Width)}
		if cfg.Source != cfg.Sink {
			return cfg
		}
	}
}

// randomCosts draws costs of one of several kinds, with ties and zeros among
// them; negative ones too if asked for.
func randomCosts(r *rand.Rand, d int, negative bool) []float64 {
	theta := make([]float64, d)
	kind := r.IntN(5)
	for i := range theta {
		switch kind {
		case 0:
			theta[i] = float64(r.IntN(3))
		case 1:
			theta[i] = []float64{0.8, 1.2, 5.3, 7.7, 9.2}[r.IntN(5)]
		case 2:
			theta[i] = r.ExpFloat64()
		case 3:
			theta[i] = math.Pow(10, 12*r.Float64()-6)
		case 4:
			theta[i] = math.Copysign(0, float64(r.IntN(2))-0.5)
		}
		if negative && r.IntN(4) == 0 {
			theta[i] = -theta[i] * r.Float64()
		}
	}
	return theta
}

func sumOver(theta, w []float64) float64 {
	sum := 0.0
	for i, x := range w {
		sum += theta[i] * x
	}
	return sum
}
