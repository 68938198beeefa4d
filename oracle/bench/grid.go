package bench

import (
	"math"
	"math/rand/v2"

	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
)

// terrain are the costs of the five kinds of ground of the Warcraft maps
// (Vlastelica et al. 2020).
var terrain = [...]float64{0.8, 1.2, 5.3, 7.7, 9.2}

// maxClients is the paper's number of clients, the border cells of a 12 x 12
// grid.
const maxClients = 44

// border returns the border cells of a grid clockwise from the top left, the
// sources of the paper's clients.
func border(height, width int) []dijkstra.Cell {
	var cells []dijkstra.Cell
	for c := range width {
		cells = append(cells, dijkstra.Cell{Row: 0, Col: c})
	}
	for r := 1; r < height; r++ {
		cells = append(cells, dijkstra.Cell{Row: r, Col: width - 1})
	}
	for c := width - 2; c >= 0; c-- {
		cells = append(cells, dijkstra.Cell{Row: height - 1, Col: c})
	}
	for r := height - 2; r > 0; r-- {
		cells = append(cells, dijkstra.Cell{Row: r, Col: 0})
	}
	return cells
}

// gridFamily returns paths between opposite border cells.
func gridFamily(p Problem, clients int) (*family, error) {
	h, w := p.Height, p.Width
	f := &family{
		costs:   func(r *rand.Rand) []float64 { return gridCosts(r, h, w) },
		predict: func(r *rand.Rand, c []float64, q Quality) []float64 { return gridPrediction(r, h, w, c, q) },
	}
	cells := border(h, w)
	clients = min(clients, len(cells), maxClients)
	for k := range clients {
		// Evenly around the border, and all of it where there are as many.
		source := cells[k*len(cells)/clients]
		cfg := dijkstra.Config{
			Height: h, Width: w, Source: source,
			Sink: dijkstra.Cell{Row: h - 1 - source.Row, Col: w - 1 - source.Col},
		}
		if !p.Labels {
			cfg.Ties = dijkstra.AnyTies
		}
		fast, err := dijkstra.NewGrid(cfg)
		if err != nil {
			return nil, err
		}
		f.linear = append(f.linear, fast)
		if p.Oracle == Dijkstra {
			f.sets = append(f.sets, fast)
			continue
		}
		// Certificates minimise over the whole set, cycles included.
		cfg.Ties, cfg.Negative = dijkstra.PaperTies, dijkstra.Cycles
		exact, err := dijkstra.NewGrid(cfg)
		if err != nil {
			return nil, err
		}
		path, err := qp.NewPath(exact)
		if err != nil {
			return nil, err
		}
		f.sets = append(f.sets, path)
	}
	return f, nil
}

// gridCosts returns a map with smooth regions of the five kinds of ground,
// whose costs a client multiplies by exp(0.6 z) as in the paper, section 6.3.
func gridCosts(r *rand.Rand, height, width int) []float64 {
	field := make([]float64, height*width)
	for i := range field {
		field[i] = r.NormFloat64()
	}
	for range 2 {
		smooth := make([]float64, len(field))
		for v := range field {
			around(height, width, v, func(u int) { smooth[v] += field[u] / 5 })
		}
		field = smooth
	}
	kinds := terrain
	for k := range kinds {
		kinds[k] *= math.Exp(0.6 * r.NormFloat64())
	}
	// Any kind may be the most frequent.
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i, x := range field {
		field[i] = kinds[int(min(max(2.5+1.5*x, 0), 4))]
	}
	return field
}

// around visits v and its up to eight neighbours.
func around(height, width, v int, visit func(u int)) {
	row, col := v/width, v%width
	for r := max(row-1, 0); r < min(row+2, height); r++ {
		for c := max(col-1, 0); c < min(col+2, width); c++ {
			visit(r*width + c)
		}
	}
}

// gridPrediction returns a prediction of c, none of whose entries is negative,
// as the paper's network has none.
func gridPrediction(r *rand.Rand, height, width int, c []float64, q Quality) []float64 {
	out := make([]float64, len(c))
	for v, x := range c {
		switch q {
		case True:
		case Good:
			x = x*(1+0.05*r.NormFloat64()) + 0.1*r.NormFloat64()
		case Medium:
			sum, n := 6*x, 6.0
			around(height, width, v, func(u int) { sum += c[u]; n++ })
			x = sum/n*math.Exp(0.2*r.NormFloat64()) + 0.2*r.NormFloat64()
		case Noisy:
			x = x*(1+0.5*r.NormFloat64()) + 0.5*r.NormFloat64()
		case Under:
			x = x*(0.35+0.15*r.NormFloat64()) + 0.3*r.NormFloat64()
		case Init:
			x = 0.5 + 0.3*r.NormFloat64()
		}
		out[v] = max(x, 0)
	}
	return out
}
