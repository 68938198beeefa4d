package bench

import (
	"math/rand/v2"

	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
	"fedrspo/oracle/synthetic"
)

// maxClients is the paper's number of clients, the border cells of a 12 x 12
// grid.
const maxClients = 44

// gridFamily returns paths between opposite border cells.
func gridFamily(p Problem, clients int) (*family, error) {
	h, w := p.Height, p.Width
	f := &family{
		costs: func(r *rand.Rand) []float64 { return synthetic.Terrain(r, h, w) },
		predict: func(r *rand.Rand, c []float64, q Quality) []float64 {
			out := synthetic.Predict(r, h, w, c, q)
			for v, x := range out {
				out[v] = max(x, 0) // as the paper's network has none below
			}
			return out
		},
	}
	cells := synthetic.Border(h, w)
	clients = min(clients, len(cells), maxClients)
	for k := range clients {
		// Evenly around the border, and all of it where there are as many.
		cell := cells[k*len(cells)/clients]
		source := dijkstra.Cell{Row: cell / w, Col: cell % w}
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
