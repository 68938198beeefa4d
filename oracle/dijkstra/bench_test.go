package dijkstra

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
)

// instances is how many distinct maps a benchmark cycles through: more than a
// branch predictor can learn.
const instances = 4096

// terrain returns the costs of a map like those of the paper's task: patches of
// five kinds of ground whose costs a client multiplies by exp(0.6 z).
func terrain(r *rand.Rand, height, width int) []float64 {
	field := make([]float64, height*width)
	for i := range field {
		field[i] = r.NormFloat64()
	}
	for range 2 {
		smooth := make([]float64, len(field))
		for row := range height {
			for col := range width {
				for dr := max(row-1, 0); dr < min(row+2, height); dr++ {
					for dc := max(col-1, 0); dc < min(col+2, width); dc++ {
						smooth[row*width+col] += field[dr*width+dc] / 5
					}
				}
			}
		}
		field = smooth
	}
	kinds := []float64{0.8, 1.2, 5.3, 7.7, 9.2}
	for k := range kinds {
		kinds[k] *= math.Exp(0.6 * r.NormFloat64())
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i, x := range field {
		field[i] = kinds[int(min(max(2.5+1.5*x, 0), 4))]
	}
	return field
}

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
					costs = append(costs, terrain(r, size, size)...)
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

func border(height, width int) []Cell {
	var cells []Cell
	for r := range height {
		for c := range width {
			if r == 0 || c == 0 || r == height-1 || c == width-1 {
				cells = append(cells, Cell{r, c})
			}
		}
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
