package dijkstra

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// float16 returns the number with these IEEE 754 half-precision bits.
func float16(b uint16) float64 {
	exp, frac := int(b>>10&31), float64(b&1023)
	x := math.Ldexp(1024+frac, exp-25)
	switch exp {
	case 0:
		x = math.Ldexp(frac, -24)
	case 31:
		x = math.NaN()
	}
	if b>>15 == 1 {
		x = -x
	}
	return x
}

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
	raw, err := os.ReadFile(filepath.Join(dir, "test_vertex_weights.npy"))
	if err != nil {
		t.Fatal(err)
	}
	const cells = 144
	// The NumPy header ends where the values begin, all of two bytes.
	if len(samples) == 0 || len(raw) <= 2*cells*len(samples) {
		t.Fatalf("%d samples and %d bytes of weights", len(samples), len(raw))
	}
	raw = raw[len(raw)-2*cells*len(samples):]
	s := mustGrid(Config{Height: 12, Width: 12, Sink: Cell{11, 11}}).NewSolver()
	theta := make([]float64, cells)
	for i, sample := range samples {
		for v := range theta {
			theta[v] = float16(binary.LittleEndian.Uint16(raw[2*(i*cells+v):]))
		}
		w := solved(t, s, theta)
		// Sums of so few half-precision numbers are exact.
		if got := sumOver(theta, w); got != sample.Cost {
			t.Errorf("%s: cost %v, want %v", sample.Name, got, sample.Cost)
		}
	}
}
