package experiment_test

import (
	"context"
	"math"
	"testing"

	"fedrspo/experiment"
	"fedrspo/task"
	"fedrspo/task/knapsack"
)

// TestFingerprint: equal data have equal fingerprints, and every number counts,
// down to the last bit.
func TestFingerprint(t *testing.T) {
	generate := func() *knapsack.Dataset {
		ds, err := knapsack.Generate(knapsack.Config{Seed: 3, Clients: 2, Items: 3, Features: 2, Train: 6, Val: 4, Test: 4})
		if err != nil {
			t.Fatal(err)
		}
		return ds
	}
	of := func(ds *knapsack.Dataset) string {
		tk, err := ds.Task()
		if err != nil {
			t.Fatal(err)
		}
		return experiment.Fingerprint(tk)
	}
	want := of(generate())
	renamed := generate()
	renamed.Name, renamed.Clients[0].Name = "other", "other"
	if len(want) != 64 || of(generate()) != want || of(renamed) != want {
		t.Errorf("equal data: %s, %s, %s", want, of(generate()), of(renamed))
	}
	bit := func(x *float64) { *x = math.Nextafter(*x, math.Inf(1)) }
	seen := map[string]string{want: "the data"}
	for name, change := range map[string]func(ds *knapsack.Dataset){
		"training cost":      func(ds *knapsack.Dataset) { bit(&ds.Clients[0].Train.C.Data[0]) },
		"validation cost":    func(ds *knapsack.Dataset) { bit(&ds.Clients[1].Val.C.Data[1]) },
		"test cost":          func(ds *knapsack.Dataset) { bit(&ds.Clients[1].Test.C.Data[5]) },
		"test feature":       func(ds *knapsack.Dataset) { ds.Clients[1].Test.X.Data[3] *= 1 + 1e-9 },
		"validation feature": func(ds *knapsack.Dataset) { ds.Clients[0].Val.X.Data[0] *= 1 + 1e-9 },
		"training feature":   func(ds *knapsack.Dataset) { ds.Clients[0].Train.X.Data[0] *= 1 + 1e-9 },
		"weight":             func(ds *knapsack.Dataset) { bit(&ds.Clients[1].Weights[2]) },
		"capacity":           func(ds *knapsack.Dataset) { bit(&ds.Clients[0].Capacity) },
		"ID":                 func(ds *knapsack.Dataset) { ds.Clients[1].ID = 7 },
	} {
		ds := generate()
		change(ds)
		sum := of(ds)
		if other, ok := seen[sum]; ok {
			t.Errorf("%s: the fingerprint of %s", name, other)
		}
		seen[sum] = name
	}
}

// TestLoadOnce: what Check loads, Run uses; each further seed is loaded once.
func TestLoadOnce(t *testing.T) {
	loads := 0
	s := smallSetting(t, &loads, "mse,spo+", 1, 2)
	if n, of := s.Unmonitored(); n != 0 || of != 0 {
		t.Errorf("before Check: %d of %d clients", n, of)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	results, err := s.Run(context.Background(), nil, nil)
	if err != nil || loads != 2 {
		t.Errorf("%d loads of 2 seeds, error %v", loads, err)
	}
	for _, r := range results {
		if a, b := r.Seeds[0].Data, r.Seeds[1].Data; len(a) != 64 || len(b) != 64 || a == b || a != results[0].Seeds[0].Data {
			t.Errorf("%s: data %s and %s", r.Loss, a, b)
		}
	}
	// Other data are not those of Check.
	s.Data.EtaObj = 0.5
	if _, err := s.Run(context.Background(), nil, nil); err != nil || loads != 4 {
		t.Errorf("%d loads, error %v", loads, err)
	}
	load := s.Kind.Load
	s.Kind.Load = func(d experiment.Data) (*task.Task, error) {
		tk, err := load(d)
		tk.Clients[0].Val = task.Split{}
		return tk, err
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	if n, of := s.Unmonitored(); n != 1 || of != 3 {
		t.Errorf("%d of %d clients lack validation samples, want 1 of 3", n, of)
	}
}
