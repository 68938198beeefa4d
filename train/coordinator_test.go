package train

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/federation"
	"fedrspo/nn"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// coordinated is a short federated run of fiveClients.
func coordinated(tk *task.Task, c Coordinator) Config {
	cfg := testConfig(tk, surrogate.RSPOPlus{}, Federated)
	cfg.Coordinator = c
	return cfg
}

// TestCoordinatorRules: every rule trains; which one it was is part of the
// state; and the number of workers does not matter, bit for bit.
func TestCoordinatorRules(t *testing.T) {
	tk := fiveClients()
	mean := execute(t, coordinated(tk, Coordinator{}), tk)
	for _, c := range []struct {
		rule Coordinator
		name string
		same bool
	}{
		{Coordinator{Aggregator: AggregatorMean}, "fedavg", true},
		{Coordinator{Clip: 1e6}, "fedavg", true},
		{Coordinator{MinUpdates: 5}, "fedavg", true},
		{Coordinator{Aggregator: AggregatorMedian}, "median", false},
		{Coordinator{Aggregator: AggregatorTrimmed, Byzantine: 2}, "trimmed f=2", false},
		{Coordinator{Aggregator: AggregatorKrum, Byzantine: 1}, "krum f=1", false},
		{Coordinator{Aggregator: AggregatorMultiKrum, Byzantine: 1}, "multikrum f=1", false},
		{Coordinator{Clip: 1e-3}, "fedavg", false},
		{Coordinator{Clip: 0.1, Privacy: federation.Privacy{Noise: 0.5, Delta: 1e-3}}, "fedavg", false},
	} {
		want := ""
		for _, workers := range []int{1, 2, 8} {
			cfg := coordinated(tk, c.rule)
			cfg.Workers = workers
			r := execute(t, cfg, tk)
			got := marshal(t, []any{r.State().Server.Model, r.State().Clients, r.Metrics(), r.Result()})
			if want == "" {
				want = got
			} else if got != want {
				t.Errorf("%+v, %d workers: another result", c.rule, workers)
			}
			if same := slices.Equal(r.State().Server.Model, mean.State().Server.Model); r.State().Server.Aggregator != c.name || same != c.same {
				t.Errorf("%+v: rule %s, the mean's model %v; want %s, %v", c.rule, r.State().Server.Aggregator, same, c.name, c.same)
			}
		}
	}
}

// TestUpdateClip: with the clipping norm S, no round moves the model by more.
func TestUpdateClip(t *testing.T) {
	const clip = 0.01
	tk := fiveClients()
	cfg := coordinated(tk, Coordinator{Clip: clip})
	cfg.Fed.Rounds = 4
	r := execute(t, cfg, tk)
	norm := 0.0
	for k, x := range r.State().Server.Model {
		norm = math.Hypot(norm, x-r.State().Initial[k])
	}
	if !(norm <= 4*clip*(1+1e-9) && norm > clip) {
		t.Errorf("four rounds moved the model by %v, at most %v is allowed", norm, 4*clip)
	}
	for _, m := range r.State().FedMetrics {
		if m.Clipped == 0 || m.Clipped > len(m.Active) {
			t.Errorf("round %d: %d of %d updates clipped", m.Round, m.Clipped, len(m.Active))
		}
	}
}

// brokenClient is fiveClients where the training of client 4 overflows.
func brokenClient() *task.Task {
	tk := fiveClients()
	x := tk.Clients[2].Train.X.(task.Matrix)
	for i := range x.Data {
		x.Data[i] *= 1e300
	}
	return tk
}

// TestMinUpdates: a client whose training fails ends the run, unless enough
// others are left.
func TestMinUpdates(t *testing.T) {
	tk := brokenClient()
	run := func(c Coordinator, fraction float64) (*Run, error) {
		cfg := coordinated(tk, c)
		cfg.Fed.Fraction, cfg.Fed.Rounds, cfg.Personal.Rounds = fraction, 5, 0
		r, err := New(cfg, tk, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r, r.Execute(ctx)
	}
	if _, err := run(Coordinator{}, 1); !errors.Is(err, nn.ErrNonFinite) || !strings.Contains(err.Error(), "client 4") {
		t.Fatalf("error %v", err)
	}
	r, err := run(Coordinator{MinUpdates: 4}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range r.State().FedMetrics {
		if !slices.Equal(m.LeftOut, []int{4}) || m.Failed != "" || len(m.Active) != 5 || !(m.TrainLoss > 0) {
			t.Errorf("metric %+v", m)
		}
	}
	if s := r.Result(); s.LeftOut != 5 || s.FailedRounds != 0 {
		t.Errorf("result %+v", s)
	}

	if _, err := run(Coordinator{MinUpdates: 5}, 1); !errors.Is(err, federation.ErrTooFewUpdates) {
		t.Errorf("stop: error %v", err)
	}
	if r, err = run(Coordinator{MinUpdates: 5, OnFailure: federation.Skip}, 1); err != nil {
		t.Fatal(err)
	}
	if s := r.Result(); s.FailedRounds != 5 || !slices.Equal(r.State().Server.Model, r.State().Initial) || r.State().FedMetrics[4].Failed != "skipped" {
		t.Errorf("skip: result %+v, metrics %+v", s, r.State().FedMetrics)
	}
	if _, err = run(Coordinator{MinUpdates: 5, OnFailure: federation.Retry}, 1); !errors.Is(err, federation.ErrTooFewUpdates) {
		t.Errorf("retry with everybody: error %v", err)
	}
	if r, err = run(Coordinator{MinUpdates: 3, OnFailure: federation.Retry}, 3); err != nil {
		t.Fatal(err)
	}
	done, retried := 0, 0
	for _, m := range r.State().FedMetrics {
		with4 := slices.Contains(m.Active, 4)
		switch {
		case m.Failed == "" && !with4 && len(m.LeftOut) == 0:
			done++
		case m.Failed == "retried" && with4 && slices.Equal(m.LeftOut, []int{4}):
			retried++
		default:
			t.Errorf("retry: metric %+v", m)
		}
	}
	if done != 5 || retried == 0 || r.Result().FailedRounds != retried || r.State().Server.Round != 5 {
		t.Errorf("%d rounds, %d attempts failed", done, retried)
	}
}

// TestPrivateStage: the budget of a run is that of its rounds; it stands in
// result, metrics and state; a client that fails counts as one without a change.
func TestPrivateStage(t *testing.T) {
	tk := brokenClient()
	privacy := federation.Privacy{Noise: 2, Delta: 1e-3}
	cfg := coordinated(tk, Coordinator{Clip: 0.1, Privacy: privacy})
	cfg.Fed.Fraction, cfg.Personal.Rounds = 2, 0
	r := execute(t, cfg, tk)
	want := federation.Settings{Fraction: 2, Clip: 0.1, Privacy: privacy}.SpentAfter(3, 5)
	got := r.Result().Privacy
	if got == nil || got.Releases != 3 || got.Epsilon != want.Epsilon || got.Delta != 1e-3 || !(want.Epsilon > 0) {
		t.Errorf("privacy %+v, want %+v", got, want)
	}
	if m := r.State().FedMetrics; m[2].Epsilon != want.Epsilon || !(m[0].Epsilon < m[1].Epsilon) || r.State().Server.Releases != 3 {
		t.Errorf("metrics %+v, %d releases", m, r.State().Server.Releases)
	}
	if p := execute(t, coordinated(fiveClients(), Coordinator{}), fiveClients()).Result().Privacy; p != nil {
		t.Errorf("privacy %+v without noise", p)
	}
}

func TestCoordinatorIsChecked(t *testing.T) {
	tk := fiveClients()
	private := Coordinator{Clip: 1, Privacy: federation.Privacy{Noise: 1, Delta: 1e-3}}
	for name, c := range map[string]struct {
		set  func(*Config)
		want string
	}{
		"other regime":          {func(c *Config) { c.Regime, c.Coordinator.Clip = Local, 1 }, "belong to the federated regime"},
		"unknown rule":          {func(c *Config) { c.Coordinator.Aggregator = "mode" }, `aggregator "mode"`},
		"krum without f":        {func(c *Config) { c.Coordinator.Aggregator = AggregatorKrum }, "want at least 1"},
		"median with f":         {func(c *Config) { c.Coordinator = Coordinator{Aggregator: AggregatorMedian, Byzantine: 1} }, "takes no number"},
		"too few for krum":      {func(c *Config) { c.Coordinator = Coordinator{Aggregator: AggregatorKrum, Byzantine: 2} }, "takes 5 updates, and needs at least 7"},
		"too few at all":        {func(c *Config) { c.Coordinator.MinUpdates = 6 }, "takes 5 updates, and needs at least 6"},
		"policy alone":          {func(c *Config) { c.Coordinator.OnFailure = federation.Skip }, "has no effect"},
		"unknown policy":        {func(c *Config) { c.Coordinator = Coordinator{MinUpdates: 2, OnFailure: "pray"} }, `policy "pray"`},
		"negative clip":         {func(c *Config) { c.Coordinator.Clip = -1 }, "clipping norm -1"},
		"noise without clip":    {func(c *Config) { c.Coordinator.Privacy = private.Privacy }, "needs a clipping norm"},
		"private median":        {func(c *Config) { c.Coordinator = private; c.Coordinator.Aggregator = AggregatorMedian }, "privacy needs the aggregator mean"},
		"private, averaged λ":   {func(c *Config) { c.Coordinator = private; c.Calibration.Averaged = true }, "averages of λ"},
		"private, matched":      {func(c *Config) { c.Coordinator = private; c.Rates = RateMatched }, "averages of λ"},
		"private, annealed":     {func(c *Config) { c.Coordinator = private; c.Fed.KappaLambda = 0.1 }, "annealing"},
		"private, multipliers":  {func(c *Config) { c.Coordinator = private; c.Loss = surrogate.OptNet{}; c.Multipliers = []float64{1, 2} }, "2 multipliers"},
		"private, at least one": {func(c *Config) { c.Coordinator = private; c.Coordinator.MinUpdates = 1 }, "tell who took part"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := coordinated(tk, Coordinator{})
			c.set(&cfg)
			if _, err := New(cfg, tk, nil); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}
