package synthetic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The paper's 44 clients on a 12 x 12 grid, and grids without an inside.
func TestBorder(t *testing.T) {
	for _, c := range []struct{ height, width, want int }{{12, 12, 44}, {1, 5, 5}, {5, 1, 5}, {2, 2, 4}, {3, 4, 10}, {1, 1, 1}} {
		cells := Border(c.height, c.width)
		seen := map[int]bool{}
		for i, v := range cells {
			row, col := v/c.width, v%c.width
			if seen[v] || row > 0 && row < c.height-1 && col > 0 && col < c.width-1 || v >= c.height*c.width {
				t.Errorf("%dx%d: cell %d of %v", c.height, c.width, v, cells)
			}
			seen[v] = true
			beside := false
			if i > 0 {
				Around(c.height, c.width, cells[i-1], func(u int) { beside = beside || u == v })
			}
			if i > 0 && !beside {
				t.Errorf("%dx%d: a jump to cell %d of %v", c.height, c.width, v, cells)
			}
		}
		if len(cells) != c.want {
			t.Errorf("%dx%d: %d border cells, want %d", c.height, c.width, len(cells), c.want)
		}
	}
}

// Predictions are further from the costs the worse their quality says they are.
func TestPredict(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	distance := make([]float64, len(Qualities()))
	for range 200 {
		c := Terrain(r, 12, 12)
		for _, q := range Qualities() {
			for v, x := range Predict(r, 12, 12, c, q) {
				distance[q] += math.Abs(x - c[v])
			}
		}
	}
	if distance[True] != 0 || !slices.IsSorted(distance[:Noisy]) || slices.Min(distance[Noisy:]) < 2*distance[Good] {
		t.Errorf("distances %v", distance)
	}
	c := Terrain(rand.New(rand.NewPCG(2, 0)), 5, 9)
	if !slices.Equal(c, Terrain(rand.New(rand.NewPCG(2, 0)), 5, 9)) {
		t.Error("the same stream draws another map")
	}
	moved := slices.Clone(c)
	Move(r, moved, 0.03)
	sum, norm := 0.0, 0.0
	for v, x := range moved {
		sum += (x - c[v]) * (x - c[v])
		norm += c[v] * c[v]
	}
	// The noise alone is 3 %; what all cells share adds 1.5 % times a normal draw.
	if share := math.Sqrt(sum / norm); !(share > 0.02 && share < 0.08) {
		t.Errorf("a change of 3 %% is one of %v", share)
	}
}
