package knapsack

import (
	"errors"
	"math"
	"strings"
	"testing"

	"fedrspo/task"
)

// TestFeatureOverflow: features whose spread overflows are refused, not turned
// into zeros.
func TestFeatureOverflow(t *testing.T) {
	x := task.Matrix{Cols: 2, Data: []float64{1, 1e160, 2, 2e160, 3, 3e160}}
	c := task.Matrix{Cols: 1, Data: []float64{-1, -2, -3}}
	ds := &Dataset{Name: "toy", Items: 1, Features: 2, Clients: []Client{{ID: 7, Name: "a", Capacity: 1, Weights: []float64{1},
		Train: Samples{x, c}, Val: Samples{x, c}, Test: Samples{x, c}}}}
	_, err := ds.Task()
	if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "client 7: x_1") {
		t.Errorf("error %v, want one that names client 7 and x_1", err)
	}
}

// TestObjective: a client's costs are its objective at its features, up to the
// scale of the split, and clients without objective heterogeneity agree.
func TestObjective(t *testing.T) {
	cfg := Config{Seed: 3, EtaObj: 1, Clients: 3, Train: 30, Val: None, Test: None}
	ds, err := Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float64, ds.Items)
	for _, c := range ds.Clients {
		f, err := Objective(cfg, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		f(dst, c.Train.X.Row(0))
		scale := dst[0] / c.Train.C.Row(0)[0]
		for i := range c.Train.Len() {
			f(dst, c.Train.X.Row(i))
			for k, got := range c.Train.C.Row(i) {
				if want := dst[k] / scale; math.Abs(got-want) > 1e-12*math.Abs(want) {
					t.Fatalf("client %d, sample %d, item %d: cost %v, objective %v", c.ID, i, k, got, want)
				}
			}
		}
	}
	shared := cfg
	shared.EtaObj = 0
	one, _ := Objective(shared, 1)
	two, _ := Objective(shared, 2)
	other := make([]float64, ds.Items)
	one(dst, ds.Clients[0].Train.X.Row(0))
	two(other, ds.Clients[0].Train.X.Row(0))
	for k := range dst {
		if dst[k] != other[k] {
			t.Fatalf("item %d costs %v and %v under the same objective", k, dst[k], other[k])
		}
	}
	if _, err := Objective(cfg, 4); !errors.Is(err, ErrConfig) {
		t.Errorf("a client that is not there: error %v", err)
	}
}
