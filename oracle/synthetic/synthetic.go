// Package synthetic draws maps like those of the paper's shortest path task and
// predictions of their costs: instances for the measurements of oracle/bench and
// for the tests of oracles, not for training.
package synthetic

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Kinds are the costs of the five kinds of ground of the Warcraft maps
// (Vlastelica et al. 2020).
var Kinds = [...]float64{0.8, 1.2, 5.3, 7.7, 9.2}

// Border returns the border cells of a grid, row-major, clockwise from the top
// left: the sources of the paper's clients.
func Border(height, width int) []int {
	var cells []int
	add := func(row, col int) { cells = append(cells, row*width+col) }
	for c := range width {
		add(0, c)
	}
	for r := 1; r < height; r++ {
		add(r, width-1)
	}
	for c := width - 2; c >= 0 && height > 1; c-- {
		add(height-1, c)
	}
	for r := height - 2; r > 0 && width > 1; r-- {
		add(r, 0)
	}
	return cells
}

// Around visits cell v of a grid and its up to eight neighbours.
func Around(height, width, v int, visit func(u int)) {
	row, col := v/width, v%width
	for r := max(row-1, 0); r < min(row+2, height); r++ {
		for c := max(col-1, 0); c < min(col+2, width); c++ {
			visit(r*width + c)
		}
	}
}

// Terrain returns the costs of a map [height, width] with smooth regions of the
// five kinds of ground, whose costs a client multiplies by exp(0.6 z) as in the
// paper, section 6.3.
func Terrain(r *rand.Rand, height, width int) []float64 {
	field := make([]float64, height*width)
	for i := range field {
		field[i] = r.NormFloat64()
	}
	for range 2 {
		smooth := make([]float64, len(field))
		for v := range field {
			Around(height, width, v, func(u int) { smooth[v] += field[u] / 5 })
		}
		field = smooth
	}
	kinds := Kinds
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

// Quality says how well costs are predicted.
type Quality int

const (
	// True predictions are the costs.
	True Quality = iota
	// Good predictions have 5 % noise.
	Good
	// Medium predictions are blurred over neighbouring cells (of sets without
	// neighbours: drawn halfway to the mean) and have 20 % noise.
	Medium
	// Noisy predictions have 50 % noise.
	Noisy
	// Under predictions are about a third of the costs, so that on a path
	// polytope many cycles pay.
	Under
	// Init predictions are those of an untrained network: one small size for
	// all, with noise, of the sign of the costs.
	Init
)

var qualityNames = [...]string{"true", "good", "medium", "noisy", "under", "init"}

// Qualities returns all of them.
func Qualities() []Quality { return []Quality{True, Good, Medium, Noisy, Under, Init} }

// String returns the quality's name.
func (q Quality) String() string {
	if q >= 0 && int(q) < len(qualityNames) {
		return qualityNames[q]
	}
	return fmt.Sprintf("Quality(%d)", int(q))
}

// MarshalText returns the name.
func (q Quality) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// Predict returns a prediction of the costs c [height, width] of a map. Noise can
// make entries negative.
func Predict(r *rand.Rand, height, width int, c []float64, q Quality) []float64 {
	out := make([]float64, len(c))
	for v, x := range c {
		switch q {
		case True:
		case Good:
			x = x*(1+0.05*r.NormFloat64()) + 0.1*r.NormFloat64()
		case Medium:
			sum, n := 6*x, 6.0
			Around(height, width, v, func(u int) { sum += c[u]; n++ })
			x = sum/n*math.Exp(0.2*r.NormFloat64()) + 0.2*r.NormFloat64()
		case Noisy:
			x = x*(1+0.5*r.NormFloat64()) + 0.5*r.NormFloat64()
		case Under:
			x = x*(0.35+0.15*r.NormFloat64()) + 0.3*r.NormFloat64()
		case Init:
			x = 0.5 + 0.3*r.NormFloat64()
		}
		out[v] = x
	}
	return out
}

// Move changes predictions as a training step of that relative size does: all
// together, each by itself, and small ones by some of the mean.
func Move(r *rand.Rand, predicted []float64, share float64) {
	mean, common := 0.0, share*r.NormFloat64()/2
	for _, x := range predicted {
		mean += math.Abs(x) / float64(len(predicted))
	}
	for v, x := range predicted {
		predicted[v] = x*(1+common+share*r.NormFloat64()) + 0.2*share*mean*r.NormFloat64()
	}
}

// LossPoint returns what the RSPO+ loss projects, 2 ĉ - c (paper, section 2).
func LossPoint(c, predicted []float64) []float64 {
	out := make([]float64, len(c))
	for v := range c {
		out[v] = 2*predicted[v] - c[v]
	}
	return out
}
