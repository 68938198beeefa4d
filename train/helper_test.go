package train

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/oracle/knapsack"
	"fedrspo/surrogate"
	"fedrspo/task"
)

var (
	testLosses = []surrogate.Loss{surrogate.MSE{}, surrogate.SPOPlus{}, surrogate.RSPOPlus{}}
	ctx        = context.Background()
)

// clientSpec says what a test task's client looks like.
type clientSpec struct {
	id               int
	train, val, test int
	polytope         oracle.Polytope
}

func mustKnapsack(capacity float64, weights ...float64) oracle.Polytope {
	p, err := knapsack.New(weights, capacity)
	if err != nil {
		panic(err)
	}
	return p
}

func mustTopK(d int, k float64) oracle.Polytope {
	p, err := knapsack.NewTopK(d, k)
	if err != nil {
		panic(err)
	}
	return p
}

// toyTask returns a task whose costs are a noisy nonlinear function of in
// features.
func toyTask(seed uint64, in int, specs ...clientSpec) *task.Task {
	r := rand.New(rand.NewPCG(seed, seed))
	out := specs[0].polytope.Dim()
	w := make([]float64, in*out)
	for i := range w {
		w[i] = r.NormFloat64()
	}
	split := func(n int) task.Split {
		x := task.Matrix{Cols: in, Data: make([]float64, n*in)}
		c := task.Matrix{Cols: out, Data: make([]float64, n*out)}
		for i := range n {
			for k := range in {
				x.Row(i)[k] = r.NormFloat64()
			}
			for k := range out {
				c.Row(i)[k] = -1 - math.Tanh(dot(x.Row(i), w[k*in:(k+1)*in])) + 0.1*r.NormFloat64()
			}
		}
		return task.Split{X: x, C: c}
	}
	t := &task.Task{Name: "toy", In: in, Out: out}
	for _, s := range specs {
		t.Clients = append(t.Clients, &task.Client{ID: s.id, Name: "toy", Polytope: s.polytope,
			Train: split(s.train), Val: split(s.val), Test: split(s.test)})
	}
	if err := t.Validate(); err != nil {
		panic(err)
	}
	return t
}

// fiveClients is a task of five unequal clients.
func fiveClients() *task.Task {
	return toyTask(5, 3,
		clientSpec{1, 9, 4, 5, mustKnapsack(1.5, 0.6, 1.1, 0.9, 1.4)},
		clientSpec{2, 4, 3, 3, mustTopK(4, 2)},
		clientSpec{4, 7, 5, 4, mustKnapsack(2, 1, 1, 1, 1)},
		clientSpec{5, 1, 1, 1, mustKnapsack(0.4, 0.5, 1.3, 0.8, 0.7)},
		clientSpec{7, 12, 2, 6, mustTopK(4, 1.5)})
}

func testStage(rounds, epochs int) Stage {
	return Stage{Rounds: rounds, Epochs: epochs, Fraction: 1, Alpha: 0.05, Rate: 0.01, Tau: 0, Monitor: 8, MonitorFraction: 1, EarlyStop: -1}
}

func testConfig(t *task.Task, l surrogate.Loss, regime Regime) Config {
	return Config{Seed: 3, Loss: l, Regime: regime, Model: nn.NewMLP(t.In, 5, t.Out), Batch: 4, Adam: nn.Adam{Clip: 1},
		Rates: RatePaper, Calibration: Calibration{Fallback: 1}, Fed: testStage(3, 2), Personal: testStage(4, 1), Workers: 2}
}

// execute runs cfg to the end.
func execute(t *testing.T, cfg Config, tk *task.Task) *Run {
	t.Helper()
	r, err := New(cfg, tk, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// marshal returns v as JSON, which gives floats exactly and refuses those that
// are not finite.
func marshal(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*(1+math.Abs(b)) }

// sameVector says whether a and b agree to tol, relative to 1 or the entry.
func sameVector(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d entries, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !near(got[i], want[i], tol) {
			t.Errorf("%s[%d] is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// eachSetting runs f for every loss and regime.
func eachSetting(t *testing.T, f func(t *testing.T, l surrogate.Loss, regime Regime)) {
	for _, l := range testLosses {
		for _, regime := range Regimes {
			t.Run(l.Name()+"/"+string(regime), func(t *testing.T) { f(t, l, regime) })
		}
	}
}
