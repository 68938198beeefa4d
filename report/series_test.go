package report

import (
	"math"
	"slices"
	"testing"

	"fedrspo/run"

	"gonum.org/v1/plot"
)

// same compares numbers of which some are NaN.
func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) < 1e-12
	})
}

// TestCurve: means over clients, then over seeds; clients that stopped keep their
// last number, federated rounds that are missing stay so.
func TestCurve(t *testing.T) {
	client := func(id int) *int { return &id }
	p := &Page{Metrics: []run.Metric{
		{Loss: "a", Seed: 1, Stage: "personal", Round: 0, Client: client(1), TrainLoss: 2},
		{Loss: "a", Seed: 1, Stage: "personal", Round: 1, Client: client(1), TrainLoss: 4},
		{Loss: "a", Seed: 1, Stage: "personal", Round: 2, Client: client(1), TrainLoss: 6},
		{Loss: "a", Seed: 1, Stage: "personal", Round: 0, Client: client(7), TrainLoss: 10}, // stops
		{Loss: "a", Seed: 2, Stage: "personal", Round: 0, Client: client(1), TrainLoss: 0},
		{Loss: "a", Seed: 2, Stage: "personal", Round: 1, Client: client(1), TrainLoss: 1}, // stops
		{Loss: "b", Seed: 1, Stage: "personal", Round: 9, Client: client(1), TrainLoss: 99},
		{Loss: "a", Seed: 1, Stage: "federated", Round: 0, TrainLoss: 5},
		{Loss: "a", Seed: 1, Stage: "federated", Round: 2, TrainLoss: 7},
		{Loss: "a", Seed: 2, Stage: "federated", Round: 0, TrainLoss: 1},
	}}
	loss := func(m run.Metric) float64 { return m.TrainLoss }
	c := p.curve("a", "personal", loss)
	if !same(c.mean, []float64{3, 4, 4.5}) || !same(c.lo, []float64{0, 1, 1}) || !same(c.hi, []float64{6, 7, 8}) {
		t.Errorf("personal: %+v", c)
	}
	c = p.curve("a", "federated", loss)
	if nan := math.NaN(); !same(c.mean, []float64{3, nan, 7}) || !same(c.lo, []float64{1, nan, 7}) {
		t.Errorf("federated: %+v", c)
	}
	if c := p.curve("b", "federated", loss); len(c.mean) != 0 {
		t.Errorf("no rounds: %+v", c)
	}
}

// TestFrozen counts the clients frozen after each round.
func TestFrozen(t *testing.T) {
	u, after := 0.5, []int{0, 2}
	s := Stage{Personal: true}
	r := run.Result{Seeds: []run.SeedResult{
		{Personal: &run.StageResult{Clients: []run.ClientResult{{Freeze: &u, FrozenAfter: &after[0]}, {Freeze: &u, FrozenAfter: &after[1]}, {Freeze: &u}, {}}}},
		{Personal: &run.StageResult{Clients: []run.ClientResult{{Freeze: &u}}}},
		{},
	}}
	c := (&Page{}).frozen(r, s, 3)
	if !same(c.mean, []float64{12.5, 12.5, 25}) || !same(c.hi, []float64{25, 25, 50}) {
		t.Errorf("got %+v", c)
	}
	if c := (&Page{}).frozen(run.Result{Seeds: []run.SeedResult{{Personal: &run.StageResult{Clients: []run.ClientResult{{}}}}}}, s, 1); !math.IsNaN(c.mean[0]) {
		t.Errorf("without a freeze rule: %+v", c)
	}
}

// TestTicks: labels are inside, evenly spaced, and 0 is 0.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   []string
	}{
		{0, 31, []string{"0", "10", "20", "30"}},
		{0, 0.0047, []string{"0", "0.001", "0.002", "0.003", "0.004"}},
		{-0.7, 1.7, []string{"-0.5", "0", "0.5", "1", "1.5"}},
		{0, 1, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
	} {
		var got []string
		for _, tick := range (niceTicks{}).Ticks(c.lo, c.hi) {
			got = append(got, tick.Label)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v to %v: %v, want %v", c.lo, c.hi, got, c.want)
		}
	}
	labels := func(ticks []plot.Tick) (out []string) {
		for _, tick := range ticks {
			if tick.Label != "" {
				out = append(out, tick.Label)
			}
		}
		return out
	}
	if got := labels(logTicks{}.Ticks(0.9, 60)); !slices.Equal(got, []string{"1", "2", "5", "10", "20", "50"}) {
		t.Errorf("logarithmic: %v", got)
	}
	if got := labels(logTicks{}.Ticks(1e-6, 1)); len(got) != 7 {
		t.Errorf("six decades: %v", got)
	}
}

// TestScale: the ends and the middle of a scale, and beyond.
func TestScale(t *testing.T) {
	s := scale{lo: -1, hi: 3, stops: viridis}
	for x, want := range map[float64]int{-1: 0, -5: 0, 1: 4, 3: 8, 9: 8} {
		if got := s.color(x); got != viridis[want] {
			t.Errorf("%v is %v, want %v", x, got, viridis[want])
		}
	}
	if got := (scale{stops: blues}).color(0); got != blues[0] {
		t.Errorf("an empty scale: %v", got)
	}
	// Square roots: a quarter of the way is in the middle, and at undoes color.
	s = scaleOver(viridis, []float64{8, 2}, nil, []float64{4})
	if !s.root || s.color(2) != viridis[4] || s.at(0.5) != 2 || s.at(1) != 8 || s.at(0) != 0 {
		t.Errorf("square roots: %+v", s)
	}
	if s := scaleOver(viridis, []float64{-1, 3}); s.root || s.at(0.5) != 1 {
		t.Errorf("with a negative number: %+v", s)
	}
	// Lightness grows along viridis and falls along blues, also without colours.
	for _, c := range []struct {
		s    scale
		sign float64
	}{{scale{hi: 1, stops: viridis}, 1}, {scale{hi: 1, stops: blues}, -1}, {scale{hi: 1, stops: viridis, root: true}, 1}} {
		last := math.Inf(-1)
		for k := range 33 {
			p := c.s.color(float64(k) / 32)
			y := c.sign * (0.2126*float64(p.R) + 0.7152*float64(p.G) + 0.0722*float64(p.B))
			if y < last {
				t.Errorf("lightness %v after %v at %d", y, last, k)
			}
			last = y
		}
	}
}
