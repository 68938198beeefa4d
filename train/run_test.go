package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"fedrspo/internal/stream"
	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// TestWorkersDoNotMatter: the state of a run is the same, bit for bit, with
// any number of workers, and twice in a row.
func TestWorkersDoNotMatter(t *testing.T) {
	tk := fiveClients()
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		t.Run(precision.String(), func(t *testing.T) {
			eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
				cfg := testConfig(tk, l, regime)
				cfg.Precision, cfg.Fed.Fraction, cfg.Fed.MonitorFraction = precision, 0.5, 0.5
				cfg.Fed.KappaLambda, cfg.Personal.KappaLambda, cfg.Personal.Tau, cfg.Personal.EarlyStop = 0.5, 1, 0.05, 1
				want := ""
				for _, workers := range []int{1, 2, 8, 8} {
					cfg.Workers = workers
					got := marshal(t, execute(t, cfg, tk).State())
					if want == "" {
						want = got
					} else if got != want {
						t.Errorf("%d workers: another state", workers)
					}
				}
			})
		})
	}
}

// TestSeedMatters: another seed gives another model, and only what a seed
// stands for changes.
func TestSeedMatters(t *testing.T) {
	tk := fiveClients()
	cfg := testConfig(tk, surrogate.RSPOPlus{}, Federated)
	a := execute(t, cfg, tk).State()
	cfg.Seed++
	b := execute(t, cfg, tk).State()
	if slices.Equal(a.Initial, b.Initial) || slices.Equal(a.Server.Model, b.Server.Model) {
		t.Error("two seeds, one model")
	}
	for i := range a.Clients {
		if a.Clients[i].Lambda != b.Clients[i].Lambda {
			t.Error("λ_j depends on the seed")
		}
	}
}

// TestRegimes: each regime fills its stages and models, with their keys.
func TestRegimes(t *testing.T) {
	tk := fiveClients()
	perClient := []string{"client.1", "client.2", "client.4", "client.5", "client.7"}
	eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
		var done []Progress
		cfg := testConfig(tk, l, regime)
		cfg.Personal.EarlyStop, cfg.Personal.Tau = 0, 0.2 // some clients stop early
		r, err := New(cfg, tk, func(p Progress) { done = append(done, p) })
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range []string{StageFed, StagePersonal} {
			if _, ok := r.Models(stage); ok {
				t.Errorf("before the run there are models of stage %s", stage)
			}
		}
		if err := r.Execute(ctx); err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{}
		switch regime {
		case Federated:
			want[StageFed], want[StagePersonal] = []string{""}, perClient
		case Local:
			want[StagePersonal] = perClient
		case Centralized:
			want[StageFed] = perClient
		}
		res := r.Result()
		for stage, result := range map[string]*run.StageResult{StageFed: res.Fed, StagePersonal: res.Personal} {
			models, ok := r.Models(stage)
			keys := slices.Sorted(maps.Keys(models.Models))
			if ok != (want[stage] != nil) || !slices.Equal(keys, want[stage]) {
				t.Errorf("stage %s has models %v, want %v", stage, keys, want[stage])
			}
			if (result != nil) != ok {
				t.Errorf("stage %s: result %v, models %v", stage, result, ok)
			}
			if !ok {
				continue
			}
			if models.Meta["loss"] != l.Name() || models.Meta["stage"] != stage || models.Meta["seed"] != "3" {
				t.Errorf("stage %s: metadata %v", stage, models.Meta)
			}
			relative, absolute := 0.0, 0.0
			for i, c := range result.Clients {
				if c.Client != tk.Clients[i].ID || c.Relative < -1e-12 || c.Absolute < -1e-12 {
					t.Errorf("stage %s: %+v", stage, c)
				}
				if (c.Lambda != 0) != l.Regularized() {
					t.Errorf("stage %s, %s: λ %v", stage, l.Name(), c.Lambda)
				}
				relative += c.Relative / float64(len(tk.Clients))
				absolute += c.Absolute / float64(len(tk.Clients))
			}
			if !near(result.Relative, relative, 1e-14) || !near(result.Absolute, absolute, 1e-14) {
				t.Errorf("stage %s: regret %+v, want the means %v and %v", stage, result.Regret, relative, absolute)
			}
		}
		if _, ok := r.Models("other"); ok {
			t.Error("models of a stage that does not exist")
		}
		most := 0
		for _, p := range done {
			if p.Done > p.Total || p.Done < 1 {
				t.Errorf("progress %+v", p)
			}
			most = max(most, p.Done)
		}
		if len(done) == 0 || most != done[0].Total {
			t.Errorf("progress ends at %d of %+v", most, done[0])
		}
	})
}

// TestBaselinesNeverFreeze: losses without λ train all rounds at one rate
// whatever κ, τ and early stopping say (paper, appendix C.1).
func TestBaselinesNeverFreeze(t *testing.T) {
	tk := fiveClients()
	for _, l := range testLosses[:2] {
		for _, rates := range []RateRule{RatePaper, RateMatched} {
			cfg := testConfig(tk, l, Federated)
			cfg.Rates = rates
			for _, s := range []*Stage{&cfg.Fed, &cfg.Personal} {
				s.Tau, s.EarlyStop, s.KappaLambda, s.KappaRate = math.Inf(1), 0, 3, 3
			}
			r := execute(t, cfg, tk)
			if got, want := len(r.Metrics()), cfg.Fed.Rounds+cfg.Personal.Rounds*len(tk.Clients); got != want {
				t.Errorf("%s: %d rounds, want %d", l.Name(), got, want)
			}
			for i, c := range r.State().Clients {
				if c.Schedule.Frozen || c.Schedule.Step != 0 || r.State().Schedule.Frozen || c.Lambda != 0 || r.Result().Personal.Clients[i].FrozenAfter != nil {
					t.Errorf("%s: client %d: %+v", l.Name(), i, c.Schedule)
				}
				for _, m := range c.Metrics {
					if m.Rate != c.PersonalRate {
						t.Errorf("%s: rate %v in round %d, want %v", l.Name(), m.Rate, m.Round, c.PersonalRate)
					}
				}
			}
		}
	}
}

// TestRates: η_j = αλ_j/4 with each stage's α for RSPO+ and Stage.Rate for the
// others; matched gives the others the mean η_j of the stage; fixed replaces
// every η_j (paper, equation 11, appendix C.1).
func TestRates(t *testing.T) {
	tk := fiveClients()
	var lambdas []float64
	mean := 0.0
	for _, c := range tk.Clients {
		l, err := calibrate(c.Train.C, c.Polytope.Radius(), Calibration{})
		if err != nil {
			t.Fatal(err)
		}
		lambdas = append(lambdas, l)
		mean += l / float64(len(tk.Clients))
	}
	eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
		if regime != Federated {
			return
		}
		for _, averaged := range []bool{false, true} {
			for _, rates := range []RateRule{RatePaper, RateMatched, RateFixed} {
				cfg := testConfig(tk, l, regime)
				cfg.Rates, cfg.FixedRate, cfg.Calibration.Averaged = rates, 0.123, averaged
				cfg.Fed.Rounds, cfg.Personal.Rounds = 1, 1
				cfg.Fed.Alpha, cfg.Personal.Alpha, cfg.Fed.Rate, cfg.Personal.Rate = 0.01, 0.002, 0.007, 0.003
				for j, c := range execute(t, cfg, tk).State().Clients {
					lambda, fed, personal := lambdas[j], cfg.Fed.Rate, cfg.Personal.Rate
					if averaged || !l.Regularized() {
						lambda = mean
					}
					if l.Regularized() || rates == RateMatched {
						fed, personal = 0.01*lambda/4, 0.002*lambda/4
					}
					if rates == RateFixed {
						fed, personal = 0.123, 0.123
					}
					if !near(c.FedRate, fed, 1e-15) || !near(c.PersonalRate, personal, 1e-15) {
						t.Errorf("%s, averaged %v: client %d has rates %v and %v, want %v and %v", rates, averaged, j, c.FedRate, c.PersonalRate, fed, personal)
					}
					if !l.Regularized() {
						lambda = 0
					}
					if !near(c.Lambda, lambda, 1e-15) {
						t.Errorf("%s, averaged %v: client %d has λ %v, want %v", rates, averaged, j, c.Lambda, lambda)
					}
				}
			}
		}
	})
}

// TestMonitorSizes: each stage looks at its own number of validation samples.
func TestMonitorSizes(t *testing.T) {
	tk := fiveClients()
	freezes := func(fed, personal int) (f, p float64) {
		cfg := testConfig(tk, surrogate.RSPOPlus{}, Federated)
		cfg.Fed.Monitor, cfg.Personal.Monitor = fed, personal
		s := execute(t, cfg, tk).State()
		return *s.FedMetrics[0].Freeze, *s.Clients[0].Metrics[0].Freeze
	}
	f8, p8 := freezes(8, 8)
	f1, p1 := freezes(1, 1)
	if f1 == f8 || p1 == p8 {
		t.Fatal("the case shows nothing")
	}
	if f, p := freezes(1, 8); f != f1 || p != p8 {
		t.Errorf("monitors of 1 and 8: Ũ %v and %v, want %v and %v", f, p, f1, p8)
	}
	if f, p := freezes(8, 1); f != f8 || p != p1 {
		t.Errorf("monitors of 8 and 1: Ũ %v and %v, want %v and %v", f, p, f8, p1)
	}
}

// TestCancel: when the context ends in the middle of a stage, the run returns
// its error after the batches at work, and what was finished stands.
func TestCancel(t *testing.T) {
	tk := fiveClients()
	for _, l := range testLosses {
		for _, c := range []struct {
			regime      Regime
			fed, local  int // rounds
			after       int // units of progress
			fedFinished bool
		}{
			{Federated, 1_000_000, 1, 12, false},
			{Federated, 1_000_000, 1, 1, false},
			{Federated, 2, 40, 10 + 100, true},
			{Local, 1, 40, 100, false},
			{Local, 1, 1_000_000, 1, false},
			{Centralized, 1, 40, 100, false},
		} {
			t.Run(fmt.Sprintf("%s/%s/after=%d", l.Name(), c.regime, c.after), func(t *testing.T) {
				cfg := testConfig(tk, l, c.regime)
				cfg.Fed.Rounds, cfg.Personal.Rounds = c.fed, c.local
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				late := 0
				r, err := New(cfg, tk, func(p Progress) {
					if p.Done >= c.after {
						late++
						cancel()
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if err := r.Execute(ctx); !errors.Is(err, context.Canceled) {
					t.Fatalf("got error %v, want context.Canceled", err)
				}
				// The unit that cancels, and one more for the other worker.
				if late > cfg.Workers || time.Since(start) > 10*time.Second {
					t.Errorf("%d units of work and %v after the end", late, time.Since(start))
				}
				res, s := r.Result(), r.State()
				if (res.Fed != nil) != c.fedFinished || res.Personal != nil {
					t.Errorf("stages %v and %v", res.Fed, res.Personal)
				}
				if _, ok := r.Models(StagePersonal); ok {
					t.Error("models of an unfinished stage")
				}
				perRound, steps := 0, 0
				for _, c := range tk.Clients {
					perRound += cfg.Fed.Epochs * ((c.Train.Len() + cfg.Batch - 1) / cfg.Batch)
				}
				if s.FedSteps != perRound*len(s.FedMetrics) {
					t.Errorf("%d federated steps in %d rounds of %d", s.FedSteps, len(s.FedMetrics), perRound)
				}
				for i, c := range s.Clients {
					if done := c.Model != nil; done != (len(c.Metrics) == cfg.Personal.Rounds) || done != (c.Steps > 0) {
						t.Errorf("client %d: model %v, %d rounds, %d steps", i, done, len(c.Metrics), c.Steps)
					}
					steps += c.Steps
				}
				if res.Steps != s.FedSteps+steps {
					t.Errorf("%d steps, want %d + %d", res.Steps, s.FedSteps, steps)
				}
				marshal(t, res)
				if c.fedFinished {
					if want := execute(t, cfg, tk).Result().Fed; marshal(t, res.Fed) != marshal(t, want) {
						t.Error("the finished stage differs from that of a whole run")
					}
				}
			})
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	r, err := New(testConfig(tk, surrogate.MSE{}, Local), tk, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(over); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the start: got error %v", err)
	}
}

// TestErrorsNameThePlace: an error in training names stage, round, client,
// epoch and batch, for any number of workers.
func TestErrorsNameThePlace(t *testing.T) {
	const victim, sample = 3, 10 // client 5 gets more samples here
	for _, c := range []struct {
		regime  Regime
		rounds  int // federated
		purpose string
		place   string
		client  int
	}{
		{Federated, 1, "federated shuffle", "federated stage: round 0: client 5: epoch 0, batch %d: ", 5},
		{Federated, 0, "personal shuffle", "personalisation: client 5: round 0: epoch 0, batch %d: ", 5},
		{Local, 0, "local shuffle", "local training: client 5: round 0: epoch 0, batch %d: ", 5},
	} {
		for _, workers := range []int{1, 2, 8} {
			tk := fiveClients()
			tk.Clients[victim] = toyTask(6, 3, clientSpec{5, 14, 3, 3, mustTopK(4, 1)}).Clients[0]
			tk.Clients[victim].Train.C.Row(sample)[2] = 1e300
			cfg := testConfig(tk, surrogate.MSE{}, c.regime)
			cfg.Fed.Rounds, cfg.Workers = c.rounds, workers
			r, err := New(cfg, tk, nil)
			if err != nil {
				t.Fatal(err)
			}
			perm := make([]int, 14)
			stream.Permute(stream.New(stream.Key{Seed: cfg.Seed, Purpose: c.purpose, Client: c.client}), perm)
			at := slices.Index(perm, sample)
			want := fmt.Sprintf(c.place+"mse: row %d: ", at/cfg.Batch, at%cfg.Batch)
			err = r.Execute(ctx)
			if !errors.Is(err, oracle.ErrNonFinite) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%d workers: got error %q, want %q...", workers, err, want)
			}
		}
	}
}

// TestEdgeTasks: tasks at the border of what makes sense train in every regime
// by every loss, with finite results, or are refused in so many words.
func TestEdgeTasks(t *testing.T) {
	three := func(id int) clientSpec { return clientSpec{id, 5, 3, 4, mustKnapsack(1.3, 1, 0.8, 1.2)} }
	with := func(change func(c *clientSpec)) *task.Task {
		c := three(2)
		change(&c)
		return toyTask(21, 2, three(1), c, three(4))
	}
	costs := func(tk *task.Task, f func(i int, c float64) float64) *task.Task {
		for _, c := range tk.Clients {
			for _, s := range []task.Split{c.Train, c.Val, c.Test} {
				for i := range s.C.Data {
					s.C.Data[i] = f(i, s.C.Data[i])
				}
			}
		}
		return tk
	}
	for name, tk := range map[string]*task.Task{
		"one client":            toyTask(21, 2, three(1)),
		"one sample per client": toyTask(21, 2, clientSpec{0, 1, 1, 1, mustTopK(3, 1)}, clientSpec{1, 1, 1, 1, mustTopK(3, 2)}),
		"one cost":              toyTask(21, 1, clientSpec{0, 5, 2, 3, mustKnapsack(0.5, 1)}, clientSpec{1, 5, 2, 3, mustTopK(1, 1)}),
		"zero capacity":         with(func(c *clientSpec) { c.polytope = mustKnapsack(0, 1, 1, 1) }),
		"zero capacity everywhere": toyTask(21, 2, clientSpec{0, 5, 2, 3, mustKnapsack(0, 1, 1, 1)},
			clientSpec{1, 5, 2, 3, mustTopK(3, 0)}),
		"capacity beyond all":   with(func(c *clientSpec) { c.polytope = mustKnapsack(1e9, 1, 1, 1) }),
		"all of k":              with(func(c *clientSpec) { c.polytope = mustTopK(3, 3) }),
		"weights near 1e-9":     with(func(c *clientSpec) { c.polytope = mustKnapsack(1, 1e-9, 1, 2e-9) }),
		"all weights 1e-9":      with(func(c *clientSpec) { c.polytope = mustKnapsack(1.5e-9, 1e-9, 1e-9, 1e-9) }),
		"capacity near 1e-9":    with(func(c *clientSpec) { c.polytope = mustKnapsack(1e-9, 1, 1, 1) }),
		"no training data":      with(func(c *clientSpec) { c.train = 0 }),
		"no validation data":    with(func(c *clientSpec) { c.val = 0 }),
		"no validation at all":  toyTask(21, 2, clientSpec{0, 5, 0, 3, mustTopK(3, 1)}, clientSpec{1, 5, 0, 3, mustTopK(3, 2)}),
		"ties":                  costs(with(func(*clientSpec) {}), func(int, float64) float64 { return -1 }),
		"zero costs":            costs(with(func(*clientSpec) {}), func(int, float64) float64 { return 0 }),
		"positive costs":        costs(with(func(*clientSpec) {}), func(_ int, c float64) float64 { return 3 - c }),
		"large costs":           costs(with(func(*clientSpec) {}), func(_ int, c float64) float64 { return 1e30 * c }),
		"small costs":           costs(with(func(*clientSpec) {}), func(_ int, c float64) float64 { return 1e-30 * c }),
		"zero-variance feature": constantFeature(with(func(*clientSpec) {})),
	} {
		t.Run(name, func(t *testing.T) {
			eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
				for _, rates := range []RateRule{RatePaper, RateMatched} {
					cfg := testConfig(tk, l, regime)
					cfg.Rates = rates
					cfg.Personal.KappaLambda, cfg.Personal.Tau, cfg.Personal.EarlyStop = 1, 0.01, 1
					r, err := New(cfg, tk, nil)
					if name == "no training data" && regime == Local {
						if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "client 2 has no training samples") {
							t.Errorf("got error %v", err)
						}
						continue
					}
					if err != nil {
						t.Error(err)
						continue
					}
					if err := r.Execute(ctx); err != nil {
						t.Errorf("%s: %v", rates, err)
						continue
					}
					// JSON refuses what is not finite.
					for _, v := range []any{r.Result(), r.Metrics(), r.State()} {
						if _, err := json.Marshal(v); err != nil {
							t.Errorf("%s: %v", rates, err)
						}
					}
					for _, s := range []*run.StageResult{r.Result().Fed, r.Result().Personal} {
						if s == nil {
							continue
						}
						for _, c := range s.Clients {
							// LP decisions are feasible, so no regret is negative.
							if c.Relative < -1e-12 {
								t.Errorf("%s: %+v", rates, c)
							}
						}
					}
				}
			})
		})
	}

	t.Run("no fallback", func(t *testing.T) {
		cfg := testConfig(fiveClients(), surrogate.RSPOPlus{}, Federated)
		cfg.Calibration.Fallback = 0
		tk := with(func(c *clientSpec) { c.train = 0 })
		cfg.Model = nn.NewLinear(tk.In, tk.Out)
		r, err := New(cfg, tk, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(ctx); err == nil || !strings.Contains(err.Error(), "client 2: calibration: no training data") {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("overflow of the regret", func(t *testing.T) {
		tk := costs(with(func(*clientSpec) {}), func(i int, c float64) float64 { return math.MaxFloat64 * []float64{1, -1, 1}[i%3] })
		for _, l := range testLosses {
			r, err := New(testConfig(tk, l, Local), tk, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Execute(ctx); err == nil {
				marshal(t, r.State())
			} else if !errors.Is(err, oracle.ErrNonFinite) && !strings.Contains(err.Error(), "overflow") {
				t.Errorf("%s: got error %v", l.Name(), err)
			}
		}
	})
}

// constantFeature sets the first feature of every sample to zero, as
// standardising a constant does.
func constantFeature(tk *task.Task) *task.Task {
	for _, c := range tk.Clients {
		for _, s := range []task.Split{c.Train, c.Val, c.Test} {
			m := s.X.(task.Matrix)
			for i := range m.Len() {
				m.Row(i)[0] = 0
			}
		}
	}
	return tk
}

// TestEvaluate: the models of a stage, saved and loaded, give the regrets of
// the run, bit for bit, and decisions that add up to them.
func TestEvaluate(t *testing.T) {
	tk := fiveClients()
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		t.Run(precision.String(), func(t *testing.T) {
			eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
				cfg := testConfig(tk, l, regime)
				cfg.Precision = precision
				r := execute(t, cfg, tk)
				for stage, want := range map[string]*run.StageResult{StageFed: r.Result().Fed, StagePersonal: r.Result().Personal} {
					models, ok := r.Models(stage)
					if !ok {
						continue
					}
					var file bytes.Buffer
					if err := models.Write(&file, r.Layout()); err != nil {
						t.Fatal(err)
					}
					saved, err := nn.ReadCheckpoint(file.Bytes(), r.Layout())
					if err != nil {
						t.Fatal(err)
					}
					if saved.Precision != precision {
						t.Errorf("saved in %v, want %v", saved.Precision, precision)
					}
					other := cfg
					other.Precision, other.Workers, other.Batch = nn.Float64, 3, 2 // the file decides on the first
					sums, seen := map[int]float64{}, []int{}
					got, err := Evaluate(ctx, other, tk, saved, func(c *task.Client, d Decision) error {
						sums[c.ID] += d.Cost - d.Optimum
						for _, x := range d.Chat {
							if precision == nn.Float32 && x != float64(float32(x)) {
								t.Errorf("prediction %v of a float32 model", x)
							}
						}
						if d.Sample == 0 {
							seen = append(seen, c.ID)
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(seen, []int{1, 2, 4, 5, 7}) {
						t.Errorf("decisions of clients %v", seen)
					}
					for i, c := range got.Clients {
						if c.Regret != want.Clients[i].Regret {
							t.Errorf("stage %s: client %d has regret %+v, the run %+v", stage, c.Client, c.Regret, want.Clients[i].Regret)
						}
						if sum := sums[c.Client] / float64(tk.Clients[i].Test.Len()); sum != c.Absolute {
							t.Errorf("decisions of client %d add up to %v, regret %v", c.Client, sum, c.Absolute)
						}
					}
					if got.Regret != want.Regret {
						t.Errorf("stage %s: regret %+v, the run %+v", stage, got.Regret, want.Regret)
					}
				}
			})
		})
	}
}

// TestRelativeRegret is a ratio of means: it does not depend on the unit of the
// costs, however small, and is 0 where every optimum is (paper, appendix C.1).
func TestRelativeRegret(t *testing.T) {
	tk := fiveClients()
	cfg := testConfig(tk, surrogate.MSE{}, Federated)
	r := execute(t, cfg, tk)
	models, _ := r.Models(StagePersonal)
	const unit = 0x1p-100 // exact
	for _, c := range tk.Clients {
		for i := range c.Test.C.Data {
			c.Test.C.Data[i] *= unit
		}
	}
	got, err := Evaluate(ctx, cfg, tk, models, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range got.Clients {
		want := r.Result().Personal.Clients[i]
		if c.Relative != want.Relative || c.Absolute != want.Absolute*unit {
			t.Errorf("client %d: regret %+v in units of 2^-100, %+v in units of 1", c.Client, c.Regret, want.Regret)
		}
	}
	tk.Clients[2].Polytope = mustKnapsack(0, 1, 1, 1, 1)
	if got, err = Evaluate(ctx, cfg, tk, models, nil); err != nil || got.Clients[2].Regret != (run.Regret{}) {
		t.Errorf("capacity 0: regret %+v, error %v", got.Clients[2].Regret, err)
	}
}

// TestExecuteOnce: a second Execute would add to the first one's metrics and
// schedules, and is refused.
func TestExecuteOnce(t *testing.T) {
	tk := fiveClients()
	r := execute(t, testConfig(tk, surrogate.MSE{}, Federated), tk)
	want := marshal(t, r.State())
	if err := r.Execute(ctx); err == nil || marshal(t, r.State()) != want {
		t.Errorf("a second Execute: error %v", err)
	}
}

// TestEvaluateRefuses models that do not fit, and hands on visit's error.
func TestEvaluateRefuses(t *testing.T) {
	tk := fiveClients()
	cfg := testConfig(tk, surrogate.MSE{}, Federated)
	models, _ := execute(t, cfg, tk).Models(StagePersonal)
	theta := models.Models["client.4"]
	delete(models.Models, "client.4")
	if _, err := Evaluate(ctx, cfg, tk, models, nil); err == nil || !strings.Contains(err.Error(), "client 4: the checkpoint has no model") {
		t.Errorf("a client without model: got error %v", err)
	}
	models.Models[""] = theta[1:]
	if _, err := Evaluate(ctx, cfg, tk, models, nil); err == nil || !strings.Contains(err.Error(), "client 4") {
		t.Errorf("a short model: got error %v", err)
	}
	models.Models[""] = theta // serves whoever has none of its own
	stop := errors.New("stop")
	if _, err := Evaluate(ctx, cfg, tk, models, func(*task.Client, Decision) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a failing visitor: got error %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Evaluate(over, cfg, tk, models, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got error %v", err)
	}
}

// TestEvaluationUsesLPDecisions: decisions are w*(ĉ), also where the
// regularised decision P_λ(ĉ) that training sees is another one (paper, section
// 3.2).
func TestEvaluationUsesLPDecisions(t *testing.T) {
	tk := fiveClients()
	cfg := testConfig(tk, surrogate.RSPOPlus{}, Federated)
	r := execute(t, cfg, tk)
	models, _ := r.Models(StagePersonal)
	differ := 0
	_, err := Evaluate(ctx, cfg, tk, models, func(c *task.Client, d Decision) error {
		if w := solve(c.Polytope, d.Chat); !slices.Equal(d.W, w) {
			t.Errorf("client %d, sample %d: decision %v, want %v", c.ID, d.Sample, d.W, w)
		}
		cost := c.Test.C.Row(d.Sample)
		if d.Cost != dot(cost, d.W) || !near(d.Optimum, dot(cost, solve(c.Polytope, cost)), 1e-15) || d.Cost < d.Optimum-1e-12 {
			t.Errorf("client %d, sample %d: cost %v, optimum %v", c.ID, d.Sample, d.Cost, d.Optimum)
		}
		i := slices.Index(tk.Clients, c)
		smooth := project(c.Polytope, d.Chat, r.State().Clients[i].Lambda)
		for k := range smooth {
			if math.Abs(smooth[k]-d.W[k]) > 0.1 {
				differ++
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if differ < 5 {
		t.Errorf("the regularised decision is another one on %d samples only: the case shows little", differ)
	}
}

// TestValidate: settings without meaning are refused with ErrConfig.
func TestValidate(t *testing.T) {
	tk := fiveClients()
	if cfg := testConfig(tk, surrogate.MSE{}, Federated); cfg.Validate() != nil {
		t.Fatal(cfg.Validate())
	}
	for name, change := range map[string]func(*Config){
		"loss":              func(c *Config) { c.Loss = nil },
		"model":             func(c *Config) { c.Model = nil },
		"regime":            func(c *Config) { c.Regime = "alone" },
		"batch":             func(c *Config) { c.Batch = 0 },
		"workers":           func(c *Config) { c.Workers = -1 },
		"clip":              func(c *Config) { c.Adam.Clip = math.NaN() },
		"rates":             func(c *Config) { c.Rates = "" },
		"fixed rate":        func(c *Config) { c.Rates = RateFixed },
		"rounds":            func(c *Config) { c.Fed.Rounds = -1 },
		"epochs":            func(c *Config) { c.Personal.Epochs = 0 },
		"alpha":             func(c *Config) { c.Fed.Alpha = math.NaN() },
		"rate":              func(c *Config) { c.Personal.Rate = math.Inf(1) },
		"kappa lambda":      func(c *Config) { c.Personal.KappaLambda = -1 },
		"kappa rate":        func(c *Config) { c.Fed.KappaRate = math.NaN() },
		"tau":               func(c *Config) { c.Personal.Tau = math.NaN() },
		"monitor":           func(c *Config) { c.Fed.Monitor = 0 },
		"fraction":          func(c *Config) { c.Fed.Fraction = math.NaN() },
		"negative fraction": func(c *Config) { c.Fed.Fraction = -0.1 },
		"monitor fraction":  func(c *Config) { c.Fed.MonitorFraction = 1.5 },
		"features":          func(c *Config) { c.Model = nn.NewLinear(tk.In+1, tk.Out) },
		"costs":             func(c *Config) { c.Model = nn.NewLinear(tk.In, tk.Out-1) },
	} {
		cfg := testConfig(tk, surrogate.MSE{}, Federated)
		change(&cfg)
		if _, err := New(cfg, tk, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: got error %v, want ErrConfig", name, err)
		}
	}
	tk.Clients[1].Test = task.Split{}
	if _, err := New(testConfig(tk, surrogate.MSE{}, Federated), tk, nil); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "client 2 has no test samples") {
		t.Errorf("no test samples: got error %v", err)
	}
}
