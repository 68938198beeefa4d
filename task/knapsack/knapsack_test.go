package knapsack

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fedrspo/task"
)

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"negative eta":      {Config{EtaObj: -1}, "eta_obj is -1"},
		"NaN eta":           {Config{EtaConstr: math.NaN()}, "eta_constr is NaN"},
		"infinite eta":      {Config{EtaData: math.Inf(1)}, "eta_data is +Inf"},
		"tiny eta":          {Config{EtaData: 1e-12}, "eta_data is 1e-12"},
		"large eta":         {Config{EtaObj: 11}, "eta_obj is 11"},
		"clients":           {Config{Clients: -1}, "clients is -1"},
		"items":             {Config{Items: -1}, "items is -1"},
		"too many items":    {Config{Items: maxColumns + 1}, "1048577 items"},
		"features":          {Config{Features: -2}, "features is -2"},
		"no training":       {Config{Train: None}, "train is -1"},
		"too few training":  {Config{Train: 19}, "19 training samples for 20 clients"},
		"validation":        {Config{Val: -2}, "validation is -2"},
		"test":              {Config{Test: -2}, "test is -2"},
		"unknown costscale": {Config{CostScale: "max"}, `cost_scale is "max"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Generate(c.cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}

// TestUnevenShares: totals are kept and spread as evenly as possible.
func TestUnevenShares(t *testing.T) {
	d := generate(t, Config{Clients: 30, Train: 2000, Val: None, Test: 7, Items: 2, Features: 1})
	train, test := 0, 0
	for k, c := range d.Clients {
		if n := c.Train.Len(); n != 66 && n != 67 || k > 0 && n > d.Clients[k-1].Train.Len() {
			t.Errorf("client %d has %d training samples", c.ID, n)
		}
		train += c.Train.Len()
		test += c.Test.Len()
		if c.Val.Len() != 0 {
			t.Errorf("client %d has %d validation samples", c.ID, c.Val.Len())
		}
	}
	if train != 2000 || test != 7 {
		t.Errorf("%d training and %d test samples", train, test)
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	cfg := Config{Seed: 5, EtaObj: 1, EtaConstr: 1, EtaData: 1}
	a, b := generate(t, cfg), generate(t, cfg)
	if !reflect.DeepEqual(a, b) {
		t.Error("one configuration gave two datasets")
	}
	cfg.Seed++
	if c := generate(t, cfg); reflect.DeepEqual(a.Clients, c.Clients) {
		t.Error("two seeds gave one dataset")
	}
}

// TestClientsAndSizesAreIndependent: more clients or more samples leave those
// that were there as they were.
func TestClientsAndSizesAreIndependent(t *testing.T) {
	small := generate(t, Config{Seed: 3, EtaObj: 1, EtaConstr: 1, EtaData: 1, Clients: 3, Train: 30})
	large := generate(t, Config{Seed: 3, EtaObj: 1, EtaConstr: 1, EtaData: 1, Clients: 5, Train: 100})
	for k, c := range small.Clients {
		l := large.Clients[k]
		if c.Capacity != l.Capacity || !slices.Equal(c.Weights, l.Weights) || !slices.Equal(c.Train.X.Data, l.Train.X.Data[:len(c.Train.X.Data)]) {
			t.Errorf("client %d changed", c.ID)
		}
	}
}

// TestGolden pins some generated numbers, so that the data of a seed never
// change unnoticed. They were printed by this generator: the test does not say
// that they are right, which the other tests do. The tolerance covers what
// differs between processor types.
func TestGolden(t *testing.T) {
	d := generate(t, Config{Seed: 42, EtaObj: 1, EtaConstr: 1, EtaData: 1})
	c := &d.Clients[6]
	got := []float64{c.Capacity, c.Weights[0], c.Weights[49], c.Train.X.Data[0], c.Train.C.Data[0], c.Val.X.Data[79], c.Val.C.Data[499], c.Test.X.Data[7], c.Test.C.Data[4999]}
	for i, want := range golden {
		if !near(got[i], want, 1e-11) {
			t.Errorf("number %d is %v, want %v", i, got[i], want)
		}
	}
}

var golden = [...]float64{
	31.393492084155735, 0.3118898350509312, 0.13592780193842693,
	0.2696284476401285, -1.6820352096676607, 1.0372342982012837,
	-0.41941363890872285, -1.9906664874256135, -0.10103965988105389,
}

// TestTaskStandardises: training features get mean 0 and sample standard
// deviation 1, the other splits the same map; costs and knapsacks are those of
// the data.
func TestTaskStandardises(t *testing.T) {
	d := generate(t, Config{Seed: 8, EtaData: 1, EtaConstr: 0.5})
	k := buildTask(t, d)
	if k.In != 8 || k.Out != 50 || k.Name != "knapsack" || len(k.Clients) != 20 {
		t.Fatalf("task %s: %d in, %d out, %d clients", k.Name, k.In, k.Out, len(k.Clients))
	}
	for j, c := range k.Clients {
		raw := d.Clients[j]
		if c.ID != raw.ID || c.Name != raw.Name || c.Polytope.Dim() != 50 {
			t.Errorf("client %d %q of dimension %d", c.ID, c.Name, c.Polytope.Dim())
		}
		n := float64(raw.Train.Len())
		for f := range 8 {
			mean, square := 0.0, 0.0
			for i := range raw.Train.Len() {
				mean += raw.Train.X.Row(i)[f] / n
			}
			for i := range raw.Train.Len() {
				square += math.Pow(raw.Train.X.Row(i)[f]-mean, 2) / (n - 1)
			}
			row := make([]float64, 8)
			for s, split := range []task.Split{c.Train, c.Val, c.Test} {
				from := raw.splits()[s]
				if split.Len() != from.Len() || !slices.Equal(split.C.Data, from.C.Data) {
					t.Fatalf("client %d %s: other costs", c.ID, splitNames[s])
				}
				for i := range split.Len() {
					split.X.Copy(row, i)
					if want := (from.X.Row(i)[f] - mean) / (math.Sqrt(square) + 1e-8); !near(row[f], want, 1e-9) {
						t.Fatalf("client %d %s row %d feature %d: %v, want %v", c.ID, splitNames[s], i, f, row[f], want)
					}
				}
			}
		}
	}
}

func buildTask(t testing.TB, d *Dataset) *task.Task {
	t.Helper()
	k, err := d.Task()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestPolytopeIsTheClients: the feasible set of a client has its weights and
// its capacity.
func TestPolytopeIsTheClients(t *testing.T) {
	d := tiny()
	p := buildTask(t, d).Clients[0].Polytope
	// a = (1, 2, 3), b = 2.5: the lightest items fill the capacity as (1, 3/4, 0).
	if want := math.Hypot(1, 0.75); !near(p.Radius(), want, 1e-15) {
		t.Errorf("radius %v, want %v", p.Radius(), want)
	}
	if v := p.Violation([]float64{1, 1, 0}); !near(v, 0.5, 1e-15) {
		t.Errorf("(1, 1, 0) violates by %v, want 0.5", v)
	}
}

// tiny is a dataset written by hand: three clients, of which the second has one
// training sample and the third none.
func tiny() *Dataset {
	samples := func(x, c []float64) Samples {
		s := newSamples(3, 2)
		s.X.Data, s.C.Data = x, c
		return s
	}
	return &Dataset{Name: "tiny, \"quoted\" & <odd> π", Items: 3, Features: 2, Clients: []Client{
		{
			ID: 2, Name: "a, \"b\"", Capacity: 2.5, Weights: []float64{1, 2, 3},
			Train: samples([]float64{1, 5, 3, 5}, []float64{-1, -2, -3, -4, math.Copysign(0, -1), 6}),
			Val:   samples([]float64{2, 5}, []float64{1e-300, 5e-324, -1.7976931348623157e308}),
			Test:  samples(nil, nil),
		},
		{
			ID: 30, Name: "", Capacity: 0, Weights: []float64{0.1, 1.0 / 3, 1e100},
			Train: samples([]float64{8, 9}, []float64{-1, -2, -3}),
			Val:   samples([]float64{8, 9}, []float64{-1, -2, -3}),
			Test:  samples(nil, nil),
		},
		{
			ID: 31, Name: " spaced ", Capacity: 1, Weights: []float64{1, 1, 1},
			Train: samples(nil, nil),
			Val:   samples(nil, nil),
			Test:  samples([]float64{4, 5}, []float64{-1, -2, -3}),
		},
	}}
}

// TestFewSamples: a constant feature, a single training sample and a client
// without any give finite features.
func TestFewSamples(t *testing.T) {
	k := buildTask(t, tiny())
	row := make([]float64, 2)
	check := func(what string, x task.Features, want0, want1 float64) {
		t.Helper()
		x.Copy(row, 0)
		if !near(row[0], want0, 1e-7) || !near(row[1], want1, 1e-7) {
			t.Errorf("%s: features %v, want %v and %v", what, row, want0, want1)
		}
	}
	check("constant feature", k.Clients[0].Train.X, -1/math.Sqrt2, 0)
	check("constant feature, validation", k.Clients[0].Val.X, 0, 0)
	check("single sample", k.Clients[1].Train.X, 0, 0)
	check("single sample, validation", k.Clients[1].Val.X, 0, 0)
	// The pool is (1,5), (3,5), (8,9): mean (4, 19/3), the test sample (4, 5).
	check("no training", k.Clients[2].Test.X, 0, -4.0/3/math.Sqrt(16.0/3))
}

func TestDatasetIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Dataset)
		want   string
	}{
		"name":             {func(d *Dataset) { d.Name = "a\nb" }, "control characters"},
		"client name":      {func(d *Dataset) { d.Clients[0].Name = "\xff" }, "client 2: name"},
		"items":            {func(d *Dataset) { d.Items = 0 }, "0 items"},
		"generator":        {func(d *Dataset) { d.Generator = &Config{EtaObj: math.NaN()} }, "eta_obj is NaN"},
		"no clients":       {func(d *Dataset) { d.Clients = nil }, "no client has a training sample"},
		"negative ID":      {func(d *Dataset) { d.Clients[0].ID = -1 }, "client -1"},
		"repeated ID":      {func(d *Dataset) { d.Clients[1].ID = 2 }, "got 2 after 2"},
		"capacity":         {func(d *Dataset) { d.Clients[0].Capacity = math.Inf(1) }, "capacity +Inf"},
		"weight":           {func(d *Dataset) { d.Clients[1].Weights[2] = 0 }, "client 30: weight 2 is 0"},
		"too few weights":  {func(d *Dataset) { d.Clients[1].Weights = []float64{1} }, "1 item weights, want 3"},
		"feature":          {func(d *Dataset) { d.Clients[0].Train.X.Data[3] = math.NaN() }, "client 2: train row 1: number 1 of the features is NaN"},
		"cost":             {func(d *Dataset) { d.Clients[2].Test.C.Data[0] = math.Inf(-1) }, "client 31: test row 0: number 0 of the costs is -Inf"},
		"rows that differ": {func(d *Dataset) { d.Clients[0].Val.X.Data = nil }, "client 2: validation"},
		"columns":          {func(d *Dataset) { d.Clients[0].Val.C.Cols = 1 }, "client 2: validation"},
		"cut short":        {func(d *Dataset) { d.Clients[0].Val.C.Data = []float64{1, 2, 3, 4} }, "client 2: validation"},
	} {
		t.Run(name, func(t *testing.T) {
			d := tiny()
			c.change(d)
			_, err := d.Task()
			if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
			if err := d.Export(t.TempDir()); !errors.Is(err, ErrData) {
				t.Errorf("Export: error %v, want %v", err, ErrData)
			}
		})
	}
	for name, change := range map[string]func(*Dataset){
		"weights too far apart": func(d *Dataset) { d.Clients[0].Weights[0] = 1e-200 },
		"features overflow":     func(d *Dataset) { d.Clients[0].Train.X.Data[0] = 1e308; d.Clients[0].Train.X.Data[2] = 1e308 },
	} {
		d := tiny()
		change(d)
		if _, err := d.Task(); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "client 2") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// BenchmarkGenerate draws the paper's dataset.
func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		generate(b, Config{Seed: 42, EtaObj: 1, EtaConstr: 1, EtaData: 1})
	}
}
