package experiment_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/task/knapsack"
	"fedrspo/train"
)

// small is a task of three clients, for tests of what happens around training.
// loads counts how often its data were made.
func small(loads *int) experiment.Kind {
	k := experiment.Kinds[0]
	k.Load = func(d experiment.Data) (*task.Task, error) {
		*loads++
		ds, err := knapsack.Generate(knapsack.Config{Seed: d.Seed, Clients: 3, Items: 5, Features: 2, Train: 30, Val: 6, Test: 12})
		if err != nil {
			return nil, err
		}
		return ds.Task()
	}
	return k
}

func smallSetting(t *testing.T, loads *int, losses string, seeds ...int64) experiment.Setting {
	t.Helper()
	s := setting(t, losses, [3]float64{}, train.RatePaper)
	s.Kind, s.Seeds = small(loads), seeds
	s.Config.Fed.Rounds, s.Config.Personal.Rounds = 2, 2
	return s
}

func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range experiment.Kinds {
		if seen[k.Name] || k.Summary == "" {
			t.Errorf("task %q is listed twice or has no summary", k.Name)
		}
		seen[k.Name] = true
		got, err := experiment.ByName(k.Name)
		if err != nil || got.Name != k.Name {
			t.Errorf("ByName(%q) = %q, %v", k.Name, got.Name, err)
		}
		for _, regime := range train.Regimes {
			c := k.Defaults(regime)
			if c.Regime != regime {
				t.Errorf("%s: defaults of %s are for %s", k.Name, regime, c.Regime)
			}
			s := experiment.Setting{Kind: k, Model: "mlp", Losses: []surrogate.Loss{surrogate.MSE{}}, Seeds: []int64{1}, Config: c}
			if err := s.Validate(); err != nil {
				t.Errorf("%s, %s: the defaults are invalid: %v", k.Name, regime, err)
			}
			if err := s.Check(); err != nil {
				t.Errorf("%s, %s: %v", k.Name, regime, err)
			}
		}
		if k.Check(experiment.Data{EtaObj: math.NaN(), TerrainScale: math.NaN(), Days: -1}) == nil || k.Check(experiment.Data{}) != nil {
			t.Errorf("%s: Check takes NaN or -1, or refuses the zero value", k.Name)
		}
	}
	for _, name := range []string{"", "Knapsack", "knapsack "} {
		if _, err := experiment.ByName(name); err == nil || !strings.Contains(err.Error(), "knapsack") {
			t.Errorf("ByName(%q): want an error that lists the tasks, got %v", name, err)
		}
	}
}

// TestKnapsackDefaults restates the protocol of the paper's appendix C.2.
func TestKnapsackDefaults(t *testing.T) {
	c := experiment.Kinds[0].Defaults(train.Federated)
	if c.Batch != 64 || c.Adam.Clip != 1 || c.Rates != train.RatePaper {
		t.Errorf("batch %d, clip %v, rates %s", c.Batch, c.Adam.Clip, c.Rates)
	}
	if f := c.Fed; f.Rounds != 10 || f.Epochs != 3 || f.Fraction != 0.4 || f.Alpha != 0.01 || f.Rate != 1e-3 || f.KappaLambda != 0 || f.KappaRate != 0 {
		t.Errorf("federated stage %+v", f)
	}
	if p := c.Personal; p.Rounds != 10 || p.Epochs != 1 || p.KappaLambda != 1 || p.KappaRate != 0.1 || p.Tau != 0.01 || p.Monitor != 8 || p.EarlyStop != 3 {
		t.Errorf("personal stage %+v", p)
	}
}

func TestLosses(t *testing.T) {
	for list, want := range map[string][]string{"mse": {"mse"}, " spo+ , rspo+": {"spo+", "rspo+"}, strings.Join(experiment.LossNames(), ","): experiment.LossNames()} {
		losses, err := experiment.Losses(list)
		var got []string
		for _, l := range losses {
			got = append(got, l.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Losses(%q) = %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", "mse,", "mse,mse", "MSE", "mse;spo+"} {
		if l, err := experiment.Losses(list); err == nil {
			t.Errorf("Losses(%q) = %v, want an error", list, l)
		}
	}
	for list, want := range map[string]bool{"mse": false, "mse,spo+": false, "mse,rspo+": true} {
		losses, err := experiment.Losses(list)
		if err != nil || experiment.Regularized(losses) != want {
			t.Errorf("Regularized(%s) is not %v (%v)", list, want, err)
		}
	}
}

func TestNewModel(t *testing.T) {
	tk := &task.Task{In: 3, Out: 7}
	for _, name := range []string{"mlp", "linear"} {
		m, err := experiment.NewModel(name, tk)
		if err != nil || m.Name() != name || m.In() != 3 || m.Out() != 7 {
			t.Errorf("NewModel(%q) = %v, %v", name, m, err)
		}
	}
	if _, err := experiment.NewModel("cnn", tk); err == nil {
		t.Error("an unknown model: no error")
	}
}

// TestRunOrder: seeds outside, losses inside, data once a seed; the results do
// not depend on what else is run.
func TestRunOrder(t *testing.T) {
	loads := 0
	s := smallSetting(t, &loads, "rspo+,mse", 3, 1)
	var ran []experiment.Outcome
	last, runs := -1, 0
	results, err := s.Run(context.Background(), func(p experiment.Progress) {
		// Units of progress over all runs only ever grow.
		at := p.Run*p.Total + p.Done
		if at <= last || p.Done > p.Total || p.Runs != 4 {
			t.Errorf("progress %+v after %d units", p, last)
		}
		last, runs = at, p.Runs*p.Total
	}, func(o experiment.Outcome) error { ran = append(ran, o); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if last != runs {
		t.Errorf("progress ends at %d of %d", last, runs)
	}
	order := ""
	for _, o := range ran {
		order += o.Loss + string(rune('0'+o.Seed)) + " "
		if o.Timing.WallSeconds <= 0 || len(o.Timing.Stages) == 0 {
			t.Errorf("%s, seed %d took %+v", o.Loss, o.Seed, o.Timing)
		}
	}
	if order != "rspo+3 mse3 rspo+1 mse1 " || loads != 2 {
		t.Errorf("order %q and %d loads, want seeds outside and 2 loads", order, loads)
	}
	for k, r := range results {
		if r.Loss != s.Losses[k].Name() || !r.Complete || len(r.Seeds) != 2 || r.Seeds[0].Seed != 3 || r.Seeds[1].Seed != 1 || r.Steps == 0 {
			t.Errorf("result %d: %+v", k, r)
		}
		if want := (r.Seeds[0].Fed.Relative + r.Seeds[1].Fed.Relative) / 2; r.Mean.Fed.Relative != want {
			t.Errorf("mean %v, want %v", r.Mean.Fed.Relative, want)
		}
	}
	alone, err := smallSetting(t, &loads, "mse", 1).Run(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := alone[0].Seeds[0].Personal.Regret, results[1].Seeds[1].Personal.Regret; got != want {
		t.Errorf("mse of seed 1 alone has %v, among others %v", got, want)
	}
	// Data that do not depend on the seed are loaded once.
	loads, s.Data.Dir = 0, "somewhere"
	if _, err := s.Run(context.Background(), nil, nil); err != nil || loads != 1 {
		t.Errorf("%d loads of one folder, %v", loads, err)
	}
}

// TestCancel: what is finished is in the results, and Complete is false for the
// losses that lack something.
func TestCancel(t *testing.T) {
	for _, at := range []struct {
		run, done int
		// complete and seeds of rspo+ and mse
		complete [2]bool
		seeds    [2]int
	}{
		{0, 1, [2]bool{false, false}, [2]int{1, 0}},
		{1, 1, [2]bool{false, false}, [2]int{1, 1}},
		{3, 1, [2]bool{true, false}, [2]int{2, 2}},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		loads := 0
		saved := 0
		s := smallSetting(t, &loads, "rspo+,mse", 1, 2)
		results, err := s.Run(ctx, func(p experiment.Progress) {
			if p.Run == at.run && p.Done == at.done {
				cancel()
			}
		}, func(experiment.Outcome) error { saved++; return nil })
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("run %d: error %v, want context.Canceled", at.run, err)
		}
		for k, r := range results {
			if r.Complete != at.complete[k] || len(r.Seeds) != at.seeds[k] {
				t.Errorf("cancelled in run %d: %s is complete: %v, with %d seeds", at.run, r.Loss, r.Complete, len(r.Seeds))
			}
		}
		if saved != at.run+1 {
			t.Errorf("cancelled in run %d: %d outcomes seen", at.run, saved)
		}
		interrupted := results[at.run%2].Seeds[at.run/2]
		if interrupted.Fed != nil || interrupted.Personal != nil {
			t.Errorf("run %d was cancelled in its first round but has a stage: %+v", at.run, interrupted)
		}
	}
	// Before the first run.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	loads := 0
	if results, err := smallSetting(t, &loads, "mse", 1).Run(ctx, nil, nil); !errors.Is(err, context.Canceled) || results[0].Complete {
		t.Errorf("cancelled before the start: %+v, %v", results, err)
	}
}

// TestRunErrors: an error of the data, of training or of saving ends the run
// and is not taken for an interruption.
func TestRunErrors(t *testing.T) {
	loads := 0
	broken := errors.New("broken")
	s := smallSetting(t, &loads, "mse", 1, 2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	results, err := s.Run(ctx, func(experiment.Progress) { cancel() }, func(experiment.Outcome) error { return broken })
	if !errors.Is(err, broken) || errors.Is(err, context.Canceled) || results[0].Complete {
		t.Errorf("a save that fails: %v, %+v", err, results)
	}
	s.Config.Rates, s.Config.FixedRate = train.RateFixed, 1e200
	if results, err = s.Run(context.Background(), nil, nil); err == nil || !strings.Contains(err.Error(), "mse, seed 1") || results[0].Complete {
		t.Errorf("training that overflows: %v, %+v", err, results)
	}
	s.Kind.Load = func(experiment.Data) (*task.Task, error) { return nil, broken }
	if _, err = s.Run(context.Background(), nil, nil); !errors.Is(err, broken) {
		t.Errorf("data that fail: %v", err)
	}
	if err := s.Check(); !errors.Is(err, broken) {
		t.Errorf("Check of data that fail: %v", err)
	}
	s.Kind.Load = func(experiment.Data) (*task.Task, error) { return &task.Task{Name: "empty"}, nil }
	if _, err = s.Run(context.Background(), nil, nil); err == nil {
		t.Error("an invalid task: no error")
	}
	for name, change := range map[string]func(*experiment.Setting){
		"no losses":    func(s *experiment.Setting) { s.Losses = nil },
		"no seeds":     func(s *experiment.Setting) { s.Seeds = nil },
		"no batch":     func(s *experiment.Setting) { s.Config.Batch = 0 },
		"eta negative": func(s *experiment.Setting) { s.Data.EtaData = -1 },
	} {
		s := smallSetting(t, &loads, "mse", 1)
		change(&s)
		if err := s.Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestSaveAndEvaluate: models go to the folder and come back with the same
// regrets; a part of them is judged as a part.
func TestSaveAndEvaluate(t *testing.T) {
	loads := 0
	s := smallSetting(t, &loads, "rspo+,mse", 1, 2)
	from, err := run.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.Run(context.Background(), nil, func(o experiment.Outcome) error { return o.Save(from) })
	if err != nil {
		t.Fatal(err)
	}
	if err := from.WriteResults(want); err != nil {
		t.Fatal(err)
	}
	got, err := s.Evaluate(context.Background(), from, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run.SameRegrets(got, want), run.SameRegrets(want, got)); err != nil {
		t.Error(err)
	}
	// Models a killed run did not write are left out; models that the result
	// has must be there.
	for _, stage := range []string{train.StageFed, train.StagePersonal} {
		if err := os.Remove(from.Path(run.ModelFile("mse", 2, stage))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Evaluate(context.Background(), from, nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("models are missing: %v", err)
	}
	if err := os.Remove(from.Path(run.ResultFile)); err != nil {
		t.Fatal(err)
	}
	got, err = s.Evaluate(context.Background(), from, nil, nil)
	if err != nil || !got[0].Complete || got[1].Complete || len(got[0].Seeds) != 2 || len(got[1].Seeds) != 1 {
		t.Errorf("a part: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Evaluate(ctx, from, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled evaluation: %v", err)
	}
}

// TestHugeBatch: a batch beyond all data costs no memory and is all data.
func TestHugeBatch(t *testing.T) {
	loads := 0
	s := smallSetting(t, &loads, "mse", 1)
	s.Config.Batch = 30 // all training samples of all clients
	want, err := s.Run(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Batch = 1_000_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := s.Run(context.Background(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if err := run.SameRegrets(got, want); err != nil {
		t.Error(err)
	}
	// One activation of a million rows alone would take 512 MB.
	if n := after.TotalAlloc - before.TotalAlloc; n > 100e6 {
		t.Errorf("a run on 30 samples allocated %d bytes", n)
	}
}
