package dijkstra

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/synthetic"
)

// instances is how many distinct maps a benchmark cycles through: more than a
// branch predictor can learn.
const instances = 4096

// BenchmarkDijkstra solves maps between opposite corners of the border.
func BenchmarkDijkstra(b *testing.B) {
	for _, size := range []int{12, 30} {
		for _, impl := range []struct {
			name string
			ties Ties
		}{{"fast", AnyTies}, {"labels", PaperTies}} {
			b.Run(fmt.Sprintf("grid=%dx%d/impl=%s", size, size, impl.name), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, uint64(size)))
				d := size * size
				costs := make([]float64, 0, instances*d)
				for range instances {
					costs = append(costs, synthetic.Terrain(r, size, size)...)
				}
				var solvers []oracle.Linear
				for _, end := range border(size, size) {
					g := mustGrid(Config{Height: size, Width: size, Source: end, Sink: Cell{size - 1 - end.Row, size - 1 - end.Col}, Ties: impl.ties})
					solvers = append(solvers, g.NewLinear())
				}
				dst := make([]float64, d)
				k := 0
				b.ReportAllocs()
				for b.Loop() {
					if _, err := solvers[k%len(solvers)].Solve(dst, costs[k*d:(k+1)*d]); err != nil {
						b.Fatal(err)
					}
					if k++; k == instances {
						k = 0
					}
				}
			})
		}
	}
}

// border returns the border cells of a grid clockwise from the top left.
func border(height, width int) []Cell {
	var cells []Cell
	for _, v := range synthetic.Border(height, width) {
		cells = append(cells, Cell{v / width, v % width})
	}
	return cells
}

func mustGrid(cfg Config) *Grid {
	g, err := NewGrid(cfg)
	if err != nil {
		panic(err)
	}
	return g
}
