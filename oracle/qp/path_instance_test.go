package qp

import (
	"fmt"
	"math"
	"math/rand/v2"

	"fedrspo/oracle/dijkstra"
)

// pathEnds lists the border cells of a grid clockwise from the top left.
func pathEnds(height, width int) []dijkstra.Cell {
	var cells []dijkstra.Cell
	for c := range width {
		cells = append(cells, dijkstra.Cell{Row: 0, Col: c})
	}
	for r := 1; r < height; r++ {
		cells = append(cells, dijkstra.Cell{Row: r, Col: width - 1})
	}
	for c := width - 2; c >= 0 && height > 1; c-- {
		cells = append(cells, dijkstra.Cell{Row: height - 1, Col: c})
	}
	for r := height - 2; r > 0 && width > 1; r-- {
		cells = append(cells, dijkstra.Cell{Row: r, Col: 0})
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

// pathTerrain returns the costs of a map like those of the paper's task: patches
// of five kinds of ground whose costs a client multiplies by exp(0.6 z).
func pathTerrain(r *rand.Rand, height, width int) []float64 {
	field := make([]float64, height*width)
	for i := range field {
		field[i] = r.NormFloat64()
	}
	for range 2 {
		smooth := make([]float64, len(field))
		for v := range field {
			pathAround(height, width, v, func(u int) { smooth[v] += field[u] / 5 })
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

// pathAround visits v and its up to eight neighbours.
func pathAround(height, width, v int, visit func(u int)) {
	row, col := v/width, v%width
	for r := max(row-1, 0); r < min(row+2, height); r++ {
		for c := max(col-1, 0); c < min(col+2, width); c++ {
			visit(r*width + c)
		}
	}
}

// pathQuality is how well costs are predicted.
type pathQuality int

const (
	pathTrue   pathQuality = iota // p = -c/lambda
	pathGood                      // 5 % noise
	pathMedium                    // blurred, 20 % noise
	pathNoisy                     // 50 % noise
	pathUnder                     // about a third of the costs: many cycles pay
	pathInit                      // an untrained network's constant with noise
	pathQualities
)

func (q pathQuality) String() string {
	if q >= 0 && q < pathQualities {
		return []string{"true", "good", "medium", "noisy", "under", "init"}[q]
	}
	return fmt.Sprintf("pathQuality(%d)", int(q))
}

// pathPrediction returns a prediction of the costs c.
func pathPrediction(r *rand.Rand, height, width int, c []float64, q pathQuality) []float64 {
	out := make([]float64, len(c))
	for v, x := range c {
		switch q {
		case pathTrue:
			out[v] = x
		case pathGood:
			out[v] = x*(1+0.05*r.NormFloat64()) + 0.1*r.NormFloat64()
		case pathMedium:
			sum, n := 6*x, 6.0
			pathAround(height, width, v, func(u int) { sum += c[u]; n++ })
			out[v] = sum/n*math.Exp(0.2*r.NormFloat64()) + 0.2*r.NormFloat64()
		case pathNoisy:
			out[v] = x*(1+0.5*r.NormFloat64()) + 0.5*r.NormFloat64()
		case pathUnder:
			out[v] = x*(0.35+0.15*r.NormFloat64()) + 0.3*r.NormFloat64()
		case pathInit:
			out[v] = 0.5 + 0.3*r.NormFloat64()
		}
	}
	return out
}

// pathTheta returns what the RSPO+ loss projects: 2ĉ - c.
func pathTheta(c, predicted []float64) []float64 {
	out := make([]float64, len(c))
	for v := range c {
		out[v] = 2*predicted[v] - c[v]
	}
	return out
}

// pathMoved returns predictions after a training step of relative size eps.
func pathMoved(r *rand.Rand, predicted []float64, eps float64) []float64 {
	mean, common := 0.0, eps*r.NormFloat64()/2
	for _, x := range predicted {
		mean += math.Abs(x) / float64(len(predicted))
	}
	out := make([]float64, len(predicted))
	for v, x := range predicted {
		out[v] = x*(1+common+eps*r.NormFloat64()) + 0.2*eps*mean*r.NormFloat64()
	}
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
