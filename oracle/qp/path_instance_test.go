package qp

import (
	"math"
	"math/rand/v2"
	"slices"

	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/synthetic"
)

// pathQualities is the number of qualities of predictions.
const pathQualities = synthetic.Init + 1

// pathEnds lists the border cells of a grid clockwise from the top left.
func pathEnds(height, width int) []dijkstra.Cell {
	var cells []dijkstra.Cell
	for _, v := range synthetic.Border(height, width) {
		cells = append(cells, dijkstra.Cell{Row: v / width, Col: v % width})
	}
	return cells
}

// pathBetween returns the polytope from a cell to the opposite one, whose
// linear minimiser counts cycles.
func pathBetween(height, width int, source dijkstra.Cell) *Path {
	return mustPath(dijkstra.Config{
		Height: height, Width: width, Source: source,
		Sink:     dijkstra.Cell{Row: height - 1 - source.Row, Col: width - 1 - source.Col},
		Negative: dijkstra.Cycles,
	})
}

func mustPath(cfg dijkstra.Config) *Path {
	g, err := dijkstra.NewGrid(cfg)
	if err != nil {
		panic(err)
	}
	p, err := NewPath(g)
	if err != nil {
		panic(err)
	}
	return p
}

// pathMoved returns predictions after a training step of relative size eps.
func pathMoved(r *rand.Rand, predicted []float64, eps float64) []float64 {
	out := slices.Clone(predicted)
	synthetic.Move(r, out, eps)
	return out
}

func pathNorm(x []float64) float64 { return math.Sqrt(pathNormSquared(x)) }

func pathDot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
