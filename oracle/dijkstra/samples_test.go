package dijkstra

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"fedrspo/internal/npy"
)

// Six maps of the Warcraft data set (Vlastelica et al. 2020) with their
// published optimal costs, from the top left to the bottom right.
func TestPublishedCosts(t *testing.T) {
	root := os.Getenv("FEDRSPO_DATA")
	if root == "" {
		t.Skip("FEDRSPO_DATA is not set: no Warcraft samples")
	}
	dir := filepath.Join(root, "warcraft", "mini12")
	if _, err := os.Stat(dir); os.IsNotExist(err) {
		t.Skipf("no Warcraft samples in %s", dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var samples []struct {
		Name string
		Cost float64 `json:"optimal_cost"`
	}
	if err := json.Unmarshal(text, &samples); err != nil {
		t.Fatal(err)
	}
	f, err := npy.Open(filepath.Join(dir, "test_vertex_weights.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const cells = 144
	weights := make([]float64, cells*len(samples))
	if err := f.ReadFloat64(weights); err != nil || len(samples) == 0 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	s := mustGrid(Config{Height: 12, Width: 12, Sink: Cell{11, 11}}).NewSolver()
	for i, sample := range samples {
		theta := weights[i*cells : (i+1)*cells]
		w := solved(t, s, theta)
		// Sums of so few half-precision numbers are exact.
		if got := sumOver(theta, w); got != sample.Cost {
			t.Errorf("%s: cost %v, want %v", sample.Name, got, sample.Cost)
		}
	}
}
