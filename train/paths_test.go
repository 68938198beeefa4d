package train

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"fedrspo/internal/stream"
	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
	"fedrspo/resnet"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// pictures are Features32 that count how often samples are read.
type pictures struct {
	side   int
	pixels []float32
	reads  atomic.Int64
}

func (p *pictures) Dim() int { return p.side * p.side * 3 }
func (p *pictures) Len() int { return len(p.pixels) / p.Dim() }

func (p *pictures) Copy32(dst []float32, i int) {
	p.reads.Add(1)
	copy(dst, p.pixels[i*p.Dim():(i+1)*p.Dim()])
}

func (p *pictures) Copy(dst []float64, i int) {
	p.reads.Add(1)
	for k := range dst {
		dst[k] = float64(p.pixels[i*p.Dim()+k])
	}
}

// wide are pictures that hide that they are float32, and that clients share
// them.
type wide struct {
	task.Features
	_ []int // no two are the same
}

const pathGrid = 2

// mustPath returns the paths of a small grid from one corner to another.
func mustPath(flip bool) oracle.Polytope {
	// With four neighbours there are two ways around.
	cfg := dijkstra.Config{Height: pathGrid, Width: pathGrid, Neighbours: dijkstra.Four, Sink: dijkstra.Cell{Row: pathGrid - 1, Col: pathGrid - 1}}
	if flip {
		cfg.Source, cfg.Sink = dijkstra.Cell{Row: 0, Col: pathGrid - 1}, dijkstra.Cell{Row: pathGrid - 1, Col: 0}
	}
	g, err := dijkstra.NewGrid(cfg)
	if err != nil {
		panic(err)
	}
	p, err := qp.NewPath(g)
	if err != nil {
		panic(err)
	}
	return p
}

// pathTask is a task of three clients whose cells cost what their brightness
// says, with one test set of tests samples.
func pathTask(tests int) *task.Task {
	const side, d = 8 * pathGrid, pathGrid * pathGrid
	r := rand.New(rand.NewPCG(8, 8))
	draw := func(n int) (*pictures, task.Matrix) {
		p, c := &pictures{side: side, pixels: make([]float32, n*side*side*3)}, task.Matrix{Cols: d, Data: make([]float64, n*d)}
		for i := range n {
			for v := range d {
				bright := r.Float64()
				c.Row(i)[v] = 0.5 + 5*bright
				for y := range 8 {
					for x := range 8 * 3 {
						row, col := v/pathGrid*8+y, v%pathGrid*8*3+x
						p.pixels[(i*side+row)*side*3+col] = float32(2*bright - 1 + 0.1*r.NormFloat64())
					}
				}
			}
		}
		return p, c
	}
	shared, costs := draw(tests)
	t := &task.Task{Name: "paths", Metric: task.OptimalityGap, In: side * side * 3, Out: d}
	for id := range 3 {
		split := func(n int) task.Split { x, c := draw(n); return task.Split{X: x, C: c} }
		scaled := task.Matrix{Cols: d, Data: make([]float64, len(costs.Data))}
		for i, c := range costs.Data {
			scaled.Data[i] = c * (1 + 0.2*float64((id+i)%d))
		}
		t.Clients = append(t.Clients, &task.Client{ID: id + 1, Polytope: mustPath(id == 1),
			Train: split(6 + id), Val: split(3), Test: task.Split{X: shared, C: scaled}})
	}
	if err := t.Validate(); err != nil {
		panic(err)
	}
	return t
}

// pathConfig trains the paper's network for maps on tk.
func pathConfig(tk *task.Task, l surrogate.Loss, regime Regime) Config {
	cfg := testConfig(tk, l, regime)
	m, err := resnet.New(resnet.Config{Grid: pathGrid})
	if err != nil {
		panic(err)
	}
	cfg.Model, cfg.Precision = m, nn.Float32
	cfg.Fed, cfg.Personal = testStage(2, 1), testStage(2, 1)
	cfg.Fed.Fraction = 0.6
	cfg.Fed.Rate, cfg.Personal.Rate = 0.003, 0.003
	return cfg
}

// TestSharedPredictions: one model predicts features that clients share once,
// whatever the number of workers and the chunks; the results are those of
// clients that share nothing, bit for bit, and so are float32 features.
func TestSharedPredictions(t *testing.T) {
	const tests = 300 // more than a chunk
	tk := pathTask(tests)
	apart := *tk
	apart.Clients = nil
	for _, c := range tk.Clients {
		other := *c
		other.Train.X, other.Val.X, other.Test.X = wide{c.Train.X, nil}, wide{c.Val.X, nil}, wide{c.Test.X, nil}
		apart.Clients = append(apart.Clients, &other)
	}
	shared := tk.Clients[0].Test.X.(*pictures)
	cfg := pathConfig(tk, surrogate.RSPOPlus{}, Federated)
	cfg.Personal.Rounds, cfg.Alignment, cfg.Validation = 1, true, true
	var want string
	var models nn.Checkpoint
	for _, workers := range []int{1, 5} {
		cfg.Workers = workers
		shared.reads.Store(0)
		r := execute(t, cfg, tk)
		// Once for the federated model, once for each personal one.
		if n := shared.reads.Load(); n != 4*tests {
			t.Errorf("%d workers read %d test samples, want %d", workers, n, 4*tests)
		}
		if got := marshal(t, r.State()); want == "" {
			want = got
		} else if got != want {
			t.Errorf("%d workers: another state", workers)
		}
		models, _ = r.Models(StageFed)
	}
	if got := marshal(t, execute(t, cfg, &apart).State()); got != want {
		t.Error("clients that share no features have another state")
	}
	// Evaluation with and without a visitor shares too, and visits in order.
	shared.reads.Store(0)
	plain, err := Evaluate(ctx, cfg, tk, models, nil)
	if err != nil || shared.reads.Load() != tests {
		t.Errorf("%d test samples are read, %v", shared.reads.Load(), err)
	}
	shared.reads.Store(0)
	at := 0
	visited, err := Evaluate(ctx, cfg, tk, models, func(c *task.Client, d Decision) error {
		if c.ID != at/tests+1 || d.Sample != at%tests || !near(d.Cost, dot(d.W, c.Test.C.Row(d.Sample)), 1e-15) || d.Cost < d.Optimum {
			t.Fatalf("visit %d is of client %d: %+v", at, c.ID, d)
		}
		at++
		return nil
	})
	if err != nil || at != 3*tests || shared.reads.Load() != tests || marshal(t, visited) != marshal(t, plain) {
		t.Errorf("%d visits, %d test samples read, %v; results equal: %v", at, shared.reads.Load(), err, marshal(t, visited) == marshal(t, plain))
	}
}

// TestOptimalityGap restates the metric (paper, appendix C.3): the mean over
// samples of cost over optimum less 1, then over clients; the same of constant
// costs.
func TestOptimalityGap(t *testing.T) {
	tk := pathTask(7)
	cfg := pathConfig(tk, surrogate.SPOPlus{}, Federated)
	r := execute(t, cfg, tk)
	models, _ := r.Models(StagePersonal)
	gap, constant := make([]float64, 3), make([]float64, 3)
	_, err := Evaluate(ctx, cfg, tk, models, func(c *task.Client, d Decision) error {
		gap[c.ID-1] += (d.Cost/d.Optimum - 1) / 7
		solver := oracle.NewSolver(c.Polytope)
		w := make([]float64, tk.Out)
		if _, err := solver.Minimize(w, []float64{1, 1, 1, 1}); err != nil {
			return err
		}
		constant[c.ID-1] += (dot(c.Test.C.Row(d.Sample), w)/d.Optimum - 1) / 7
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range r.Result().Personal.Clients {
		if !near(c.Gap, gap[i], 1e-12) {
			t.Errorf("client %d has the gap %v, want %v", c.Client, c.Gap, gap[i])
		}
		if k := r.Result().Constant.Clients[i].Gap; !near(k, constant[i], 1e-12) {
			t.Errorf("client %d has the gap %v at constant costs, want %v", c.Client, k, constant[i])
		}
	}
	// A ratio of means and a mean of ratios differ.
	s, z := []score{{cost: 2}, {cost: 4}}, []float64{1, 4}
	got, err := regretOf(task.OptimalityGap, s, z)
	if want := (run.Regret{Relative: 0.2, Absolute: 0.5, Gap: 0.5}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got, err := regretOf(task.RelativeRegret, s, z); err != nil || got.Gap != 0 {
		t.Errorf("%+v, %v for a task that is not judged by the gap", got, err)
	}
	if _, err := regretOf(task.OptimalityGap, s, []float64{1, 0}); err == nil || !strings.Contains(err.Error(), "sample 1") {
		t.Errorf("an optimal value of 0: %v", err)
	}
	knap := fiveClients()
	if c := execute(t, testConfig(knap, surrogate.MSE{}, Federated), knap).Result().Constant; c != nil {
		t.Errorf("constant costs of a knapsack: %+v", c)
	}
}

// TestSelectionByMetric: the OptNet-style loss chooses its multiplier by the
// task's metric.
func TestSelectionByMetric(t *testing.T) {
	tk := pathTask(4)
	cfg := pathConfig(tk, surrogate.OptNet{}, Federated)
	r := execute(t, func() Config { cfg.Multipliers = []float64{0.5}; return cfg }(), tk)
	if err := r.start(predicts); err != nil {
		t.Fatal(err)
	}
	defer r.stop()
	c := tk.Clients[2]
	j := judging{client: 2, split: c.Val, by: predictor{model: r.state.Initial}}
	var err error
	if j.optima, err = optimalValues(c.Val, oracle.NewSolver(c.Polytope)); err != nil {
		t.Fatal(err)
	}
	v, err := r.judgeOn(ctx, r.workers[0], j)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.clientSelectionRegret(ctx, r.workers[0], 2, r.state.Initial)
	if err != nil || got != v.Gap {
		t.Errorf("selection by %v, %v, want the gap %v", got, err, v.Gap)
	}
}

// TestSharedStatistics compares with a twin that trains the visits one after
// the other and carries the running statistics along: in federated rounds the
// participants in ascending ID, in personal training round after round, in each
// client after client. Parameters are those of clients with statistics of their
// own, and nothing depends on the number of workers.
func TestSharedStatistics(t *testing.T) {
	tk := pathTask(4)
	cfg := pathConfig(tk, surrogate.RSPOPlus{}, Federated)
	cfg.Precision = nn.Float64 // rounding differs in the last bits
	cfg.Personal.KappaLambda, cfg.Personal.Tau, cfg.Personal.EarlyStop, cfg.Personal.Rounds = 1, 0.05, 0, 2
	own := execute(t, cfg, tk).State()
	cfg.SharedStatistics = true
	var r *Run
	state := ""
	for _, workers := range []int{1, 3} {
		cfg.Workers = workers
		r = execute(t, cfg, tk)
		if got := marshal(t, r.State()); state == "" {
			state = got
		} else if got != state {
			t.Errorf("%d workers: another state", workers)
		}
	}
	n := cfg.Model.Layout().Trainable()
	fed, personal := sequentialStatistics(t, r)
	sameVector(t, "federated parameters", r.state.Server.Model[:n], own.Server.Model[:n], 0)
	sameVector(t, "federated statistics", r.state.Server.Model[n:], fed, 1e-9)
	for i, c := range r.state.Clients {
		sameVector(t, "parameters", c.Model[:n], own.Clients[i].Model[:n], 0)
		sameVector(t, "statistics", c.Model[n:], personal, 1e-9)
	}
	// What they do not fit.
	for want, change := range map[string]func(*Config){
		"no running statistics": func(c *Config) { c.Model = nn.NewMLP(tk.In, 2, tk.Out) },
		"single pooled":         func(c *Config) { c.Regime, c.SinglePooled = Centralized, true },
		"finetune":              func(c *Config) { c.Personalizer = Interp{} },
		"private updates":       func(c *Config) { c.Coordinator.Clip = 1 },
		"OptNet":                func(c *Config) { c.Loss, c.Multipliers = surrogate.OptNet{}, []float64{1} },
	} {
		cfg := pathConfig(tk, surrogate.MSE{}, Federated)
		cfg.SharedStatistics = true
		change(&cfg)
		if _, err := New(cfg, tk, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// sequentialStatistics trains the visits of a run again, in the order that the
// statistics are moved in, and returns them at the end of both stages.
func sequentialStatistics(t *testing.T, r *Run) (fed, personal []float64) {
	t.Helper()
	n := r.cfg.Model.Layout().Trainable()
	shared, theta := slices.Clone(r.state.Initial[n:]), slices.Clone(r.state.Initial)
	// visit trains a round from the session's parameters.
	visit := func(w *worker, i int, m run.Metric, lambda, rate float64) []float64 {
		out := make([]float64, len(theta))
		w.session.Store(out)
		copy(out[n:], shared)
		w.session.Load(out)
		f := fit{loss: r.cfg.Loss, set: r.ownSamples(i), lambda: lambda, rate: rate, epochs: 1,
			shuffle: stream.Key{Seed: r.cfg.Seed, Purpose: m.Stage + " shuffle", Round: m.Round, Client: i + 1}}
		if _, _, err := w.train(ctx, f); err != nil {
			t.Fatal(err)
		}
		w.session.Store(out)
		copy(shared, out[n:])
		return out
	}
	newOne := func() *worker {
		w, err := newWorker(&r.cfg, 1, trains)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := newOne()
	for _, m := range r.state.FedMetrics {
		next, total := slices.Clone(theta), 0.0
		for _, id := range m.Active {
			total += float64(r.task.Clients[id-1].Train.Len())
		}
		for _, id := range m.Active {
			c := r.state.Clients[id-1]
			w.session.Load(theta)
			w.session.ResetOptimizer()
			share := float64(r.task.Clients[id-1].Train.Len()) / total
			for k, x := range visit(w, id-1, m, c.Lambda, c.FedRate) {
				next[k] += share * (x - theta[k])
			}
		}
		theta = next
	}
	fed = slices.Clone(shared)
	workers := make([]*worker, len(r.state.Clients))
	for i := range workers {
		workers[i] = newOne()
		workers[i].session.Load(theta)
	}
	for round := range r.cfg.Personal.Rounds {
		for i, c := range r.state.Clients {
			if round < len(c.Metrics) {
				m := c.Metrics[round]
				visit(workers[i], i, m, *m.Lambda, m.Rate)
			}
		}
	}
	return fed, shared
}

// TestAnnealedBaselines: with AnnealRates the learning rates of losses without
// λ fall in personal training as those of RSPO+ do, η/(1+κ t), and only there.
func TestAnnealedBaselines(t *testing.T) {
	tk := fiveClients()
	for _, regime := range Regimes {
		for _, anneals := range []bool{false, true} {
			cfg := testConfig(tk, surrogate.SPOPlus{}, regime)
			cfg.Fed.KappaRate, cfg.Personal.KappaRate, cfg.AnnealRates = 7, 0.1, anneals
			s := execute(t, cfg, tk).State()
			for _, m := range s.FedMetrics {
				if m.Rate-cfg.Fed.Rate > 1e-15 {
					t.Errorf("federated rate %v in round %d", m.Rate, m.Round)
				}
			}
			for _, c := range s.Clients {
				for k, m := range c.Metrics {
					want := cfg.Personal.Rate
					if anneals {
						want /= 1 + 0.1*float64(k)
					}
					if m.Rate != want {
						t.Errorf("%s: rate %v in round %d, want %v", regime, m.Rate, k, want)
					}
				}
				if c.Schedule.Frozen || c.Schedule.Step != 0 {
					t.Errorf("%s: a schedule %+v without λ", regime, c.Schedule)
				}
			}
		}
	}
}

// TestSpent: a clock that counts its readings changes no result; times add up,
// and steps are those of the result.
func TestSpent(t *testing.T) {
	tk := pathTask(4)
	for _, regime := range Regimes {
		cfg := pathConfig(tk, surrogate.RSPOPlus{}, regime)
		want := marshal(t, execute(t, cfg, tk).State())
		var ticks atomic.Int64
		cfg.Workers, cfg.Clock = 1, func() int64 { return ticks.Add(1) }
		r := execute(t, cfg, tk)
		if got := marshal(t, r.State()); got != want {
			t.Errorf("%s: the clock changes the state", regime)
		}
		stages, steps := r.Spent(), 0
		for _, s := range stages {
			steps += s.Steps
			if s.Wall <= 0 || s.Evaluation <= 0 || s.Oracle <= 0 || s.Network <= 0 || s.Oracle+s.Network > s.Wall {
				t.Errorf("%s: %+v", regime, s)
			}
			sum := int64(0)
			for _, w := range s.Rounds {
				sum += w
			}
			if federated := s.Stage == "federated"; federated != (len(s.Rounds) == cfg.Fed.Rounds) || sum > s.Wall {
				t.Errorf("%s: rounds %v of %+v", regime, s.Rounds, s)
			}
		}
		names := map[Regime]int{Federated: 2, Local: 1, Centralized: 1}
		if steps != r.Result().Steps || len(stages) != names[regime] {
			t.Errorf("%s: %d steps in %d stages, want %d", regime, steps, len(stages), r.Result().Steps)
		}
	}
}
