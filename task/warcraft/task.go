package warcraft

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"

	"fedrspo/internal/stream"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
	"fedrspo/task"
)

// valShare is the share of a client's maps that are its validation samples.
const valShare = 0.2

// stream returns the random stream of one component of the task; id is the
// client, or 0 for what all clients share.
func (c Config) stream(component string, id int) *rand.Rand {
	return stream.New(stream.Key{Seed: c.Seed, Purpose: "warcraft/" + component, Client: id})
}

// Endpoints returns source and sink of client id: the id-th cell of the border,
// clockwise from the top left, and its antipode (paper, appendix C).
func (d *Dataset) Endpoints(id int) (source, sink dijkstra.Cell, err error) {
	if err := d.checkClient(id); err != nil {
		return source, sink, err
	}
	source = borderCell(d.cfg.Grid, id-1)
	last := d.cfg.Grid - 1
	return source, dijkstra.Cell{Row: last - source.Row, Col: last - source.Col}, nil
}

// borderCell returns the k-th cell of the border of a grid of side g, clockwise
// from the top left, counted from 0.
func borderCell(g, k int) dijkstra.Cell {
	along := k % (g - 1)
	switch k / (g - 1) {
	case 0:
		return dijkstra.Cell{Row: 0, Col: along}
	case 1:
		return dijkstra.Cell{Row: along, Col: g - 1}
	case 2:
		return dijkstra.Cell{Row: g - 1, Col: g - 1 - along}
	}
	return dijkstra.Cell{Row: g - 1 - along, Col: 0}
}

// Multipliers returns what client id multiplies the costs of the terrains with,
// exp(s z) with z standard normal, one for each of TerrainCosts (paper,
// appendix C).
func (d *Dataset) Multipliers(id int) ([]float64, error) {
	if err := d.checkClient(id); err != nil {
		return nil, err
	}
	r := d.cfg.stream("terrain", id)
	m := make([]float64, len(d.costs))
	for k := range m {
		m[k] = math.Exp(*d.cfg.Scale * r.NormFloat64())
	}
	return m, nil
}

// checkClient returns ErrConfig unless there is a client id.
func (d *Dataset) checkClient(id int) error {
	if id < 1 || id > d.cfg.Clients {
		return fmt.Errorf("%w: client %d, want 1 to %d", ErrConfig, id, d.cfg.Clients)
	}
	return nil
}

// share are the maps of a client.
type share struct{ train, val []int }

// partition deals the maps before the test set to the clients: in a random
// order, round robin. Of its maps, in an order of its own, a client keeps the
// first fifth, rounded, for validation.
func (c Config) partition() []share {
	pool := make([]int, c.Maps-c.Test)
	stream.Permute(c.stream("partition", 0), pool)
	shares := make([]share, c.Clients)
	for k := range shares {
		var own []int
		for i := k; i < len(pool); i += c.Clients {
			own = append(own, pool[i])
		}
		order := make([]int, len(own))
		stream.Permute(c.stream("validation", k+1), order)
		for i, o := range order {
			order[i] = own[o]
		}
		val := int(math.Round(valShare * float64(len(own))))
		shares[k] = share{val: order[:val], train: order[val:]}
	}
	return shares
}

// grid returns the paths of client id between its endpoints, as the
// configuration wants them.
func (d *Dataset) grid(id int) (*dijkstra.Grid, error) {
	source, sink, err := d.Endpoints(id)
	if err != nil {
		return nil, err
	}
	g := d.cfg.Grid
	cfg := dijkstra.Config{Height: g, Width: g, Source: source, Sink: sink, Acyclic: d.cfg.PathSet == DAG}
	if d.cfg.NegativeCosts == Exact && !cfg.Acyclic {
		cfg.Negative = dijkstra.Cycles
	}
	return dijkstra.NewGrid(cfg)
}

// Task builds the learning problem (paper, appendix C): clients with IDs 1 to
// N, features [8G, 8G, 3] and costs [G, G] row-major. Features refer to the
// maps of d; the test features of all clients are the same value, whose
// predictions one model need make only once. The error wraps ErrData.
func (d *Dataset) Task() (*task.Task, error) {
	table, err := newTable(d.maps)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	images := func(index []int) *Images { return &Images{d: d, table: table, index: index} }
	test := make([]int, d.cfg.Test)
	for i := range test {
		test[i] = d.cfg.Maps - d.cfg.Test + i
	}
	shared := images(test)
	t := &task.Task{Name: "warcraft", Metric: task.OptimalityGap, In: d.cfg.mapBytes(), Out: d.cfg.cells()}
	for k, own := range d.cfg.partition() {
		id := k + 1
		grid, err := d.grid(id)
		if err != nil {
			return nil, fmt.Errorf("%w: client %d: %w", ErrData, id, err)
		}
		paths, err := qp.NewPath(grid)
		if err != nil {
			return nil, fmt.Errorf("%w: client %d: %w", ErrData, id, err)
		}
		costs, err := d.clientCosts(id)
		if err != nil {
			return nil, err
		}
		split := func(x *Images) task.Split {
			c := task.Matrix{Cols: t.Out, Data: make([]float64, x.Len()*t.Out)}
			for i := range x.Len() {
				spread(c.Row(i), d.Terrain(x.Map(i)), costs)
			}
			return task.Split{X: x, C: c}
		}
		from, to := grid.Config().Source, grid.Config().Sink
		t.Clients = append(t.Clients, &task.Client{
			ID: id, Name: fmt.Sprintf("from row %d, column %d", from.Row+1, from.Col+1), Polytope: paths,
			Train: split(images(own.train)), Val: split(images(own.val)), Test: split(shared),
			View: task.View{
				Entry: "cell", Amount: "visited", Value: "cost",
				Grid:    &task.Grid{Height: d.cfg.Grid, Width: d.cfg.Grid, Source: from.Row*d.cfg.Grid + from.Col, Sink: to.Row*d.cfg.Grid + to.Col},
				Picture: func(i int) image.Image { return d.Image(shared.Map(i)) },
			},
		})
	}
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	return t, nil
}

// clientCosts returns what the terrains cost client id.
func (d *Dataset) clientCosts(id int) ([]float64, error) {
	costs, err := d.Multipliers(id)
	if err != nil {
		return nil, err
	}
	for k := range costs {
		costs[k] *= d.costs[k]
	}
	return costs, nil
}
