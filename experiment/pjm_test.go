package experiment_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/run"
	"fedrspo/task/pjm"
	"fedrspo/train"
)

// tinyPJM are settings flags of a small task pjm.
const tinyPJM = "-task pjm -days 20 -clients 3 -rounds 2 "

// TestPJMDefaults restates the protocol of paper, table 10, with the 15 rounds
// of personalisation of the authors' program, and the data of appendix C.4: the
// seeds change training alone.
func TestPJMDefaults(t *testing.T) {
	s := mustParse(t, "-task pjm")
	c := s.Config
	if s.Model != "mlp" || c.Batch != 64 || c.Adam.Clip != 1 || c.Rates != train.RatePaper || !reflect.DeepEqual(c.Multipliers, []float64{0.01, 0.025, 0.05}) {
		t.Errorf("model %s, batch %d, clip %v, rates %s, multipliers %v", s.Model, c.Batch, c.Adam.Clip, c.Rates, c.Multipliers)
	}
	if f := c.Fed; f.Rounds != 10 || f.Epochs != 3 || f.Fraction != 0.4 || f.Alpha != 0.01 || f.Rate != 1e-3 || f.KappaLambda != 0 || f.KappaRate != 0 || f.MonitorFraction != 0.4 {
		t.Errorf("federated stage %+v", f)
	}
	if p := c.Personal; p.Rounds != 15 || p.Epochs != 1 || p.Alpha != 1e-3 || p.Rate != 1e-3 || p.KappaLambda != 1 || p.KappaRate != 0.1 || p.Tau != 0.03 || p.Monitor != 8 || p.EarlyStop != 3 {
		t.Errorf("personal stage %+v", p)
	}
	if c := mustParse(t, "-task pjm -regime local").Config; c.Personal.Rounds != 45 || c.Personal.Alpha != 1e-3 {
		t.Errorf("local %+v", c.Personal)
	}
	load := func(seed int64) any {
		d := s.Data
		d.Seed = seed
		k, err := s.Kind.Load(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(k.Clients) != 19 || k.Clients[0].Train.Len() != 201 || k.Clients[0].Val.Len() != 40 || k.Clients[0].Test.Len() != 162 {
			t.Errorf("%d clients; splits of %d, %d and %d", len(k.Clients), k.Clients[0].Train.Len(), k.Clients[0].Val.Len(), k.Clients[0].Test.Len())
		}
		return k
	}
	if !reflect.DeepEqual(load(1), load(2)) {
		t.Error("the data depend on the seed")
	}
}

// TestPJMMethods runs every loss, personalizer and regime on a small task; the
// results are judged by absolute regret.
func TestPJMMethods(t *testing.T) {
	for _, args := range []string{
		"-loss mse,spo+,rspo+,pfyl,dpo,optnet -personal-rounds 2",
		"-loss rspo+ -personalizer ditto -personal-rounds 2",
		"-loss rspo+ -personalizer ditto -ditto-mode interleaved -personal-rounds 2",
		"-loss rspo+ -prox 1 -personal-rounds 2",
		"-loss spo+ -personalizer interp -personal-rounds 2",
		"-loss mse,rspo+ -regime local",
		"-loss spo+,rspo+ -regime centralized",
		"-loss rspo+ -regime centralized -centralized single-pooled",
		"-loss rspo+ -late-client 2 -train-days 3 -personal-rounds 2",
		"-loss rspo+ -regime local -train-days 3",
		"-loss spo+ -lr matched -demand 5 -data-seed 7 -model linear -personal-rounds 2",
		"-loss spo+ -lr tuned -personal-rounds 2",
	} {
		s := mustParse(t, tinyPJM+args)
		if err := s.Check(); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		results, err := s.Run(t.Context(), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		for _, r := range results {
			stage := r.Seeds[0].Personal
			if s.Config.Regime == train.Centralized {
				stage = r.Seeds[0].Fed
			}
			if !r.Complete || r.Metric != run.AbsoluteRegret || stage == nil || !(r.Metric.Of(stage.Regret) > 0) || len(stage.Clients) != 3 {
				t.Errorf("%s: %s: metric %q, %+v", args, r.Loss, r.Metric, stage)
			}
		}
		// The arguments say it all.
		again, err := experiment.ParseSettings(s.Arguments())
		if err != nil || !reflect.DeepEqual(again.Resolved(), s.Resolved()) {
			t.Errorf("%s: arguments %q stand for another setting (%v)", args, s.Arguments(), err)
		}
	}
}

// TestPJMFlags: flags that shape generated prices have no effect on a table, and
// flags of other tasks none on this one.
func TestPJMFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prices.csv")
	k := mustParse(t, tinyPJM+"-demand 7")
	if err := k.Kind.Export(k.Data, file); err != nil {
		t.Fatal(err)
	}
	s := mustParse(t, "-task pjm -rounds 1 -data "+file)
	got, err := s.Kind.Load(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	want, err := k.Kind.Load(k.Data)
	if err != nil {
		t.Fatal(err)
	}
	if experiment.Fingerprint(got) != experiment.Fingerprint(want) {
		t.Error("exported and loaded, the data differ")
	}
	late := mustParse(t, "-task pjm -rounds 1 -late-client 1 -data "+file)
	if l, err := late.Kind.Load(late.Data); err != nil || experiment.Fingerprint(l) == experiment.Fingerprint(want) {
		t.Errorf("a late client is not in the fingerprint (%v)", err)
	}
	for args, says := range map[string]string{
		"-task pjm -days 20 -data " + file:       "-days has no effect here: it shapes generated data",
		"-task pjm -data-seed 2 -data " + file:   "-data-seed has no effect here",
		"-task pjm -clients 2 -data " + file:     "-clients has no effect here",
		"-task pjm -eta-obj 1":                   "it belongs to -task knapsack",
		"-task knapsack -demand 4":               "it belongs to -task pjm",
		"-task pjm -regime local -late-client 1": "it belongs to -regime federated",
		"-task pjm -days 9":                      "-days is 9",
		"-task pjm -demand 25":                   "-demand is 25",
		"-task pjm -clients 20":                  "clients is 20, want 1 to 19",
		"-task pjm -model resnet":                "-model is \"resnet\"",
		"-task pjm -data generated:100":          "want a folder",
		"-task pjm -grid 18":                     "it belongs to -task warcraft",
	} {
		if _, err := experiment.ParseSettings(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", args, err, says)
		}
	}
	for args, says := range map[string]string{
		"-late-client 4":                "client 4 joins late",
		"-late-client 2 -train-days 11": "11 training days of client 2 (AEP), want 1 to 10",
		"-train-days 11":                "11 training days",
	} {
		s := mustParse(t, tinyPJM+args)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", args, err, says)
		}
	}
}

// TestPJMLearns: at the paper's protocol on generated prices, decisions of the
// federated model are better than without one, and personalisation by RSPO+
// improves on them.
func TestPJMLearns(t *testing.T) {
	s := mustParse(t, "-task pjm -loss spo+,rspo+")
	results, err := s.Run(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := s.Kind.Load(s.Data)
	if err != nil {
		t.Fatal(err)
	}
	// Without a model: the hours that are cheapest on average over training.
	without := 0.0
	for _, c := range k.Clients {
		average := make([]float64, pjm.Hours)
		for i := range c.Train.Len() {
			for h, x := range c.Train.C.Row(i) {
				average[h] += x
			}
		}
		linear := c.Polytope.NewLinear()
		w, best := make([]float64, pjm.Hours), make([]float64, pjm.Hours)
		if _, err := linear.Solve(w, average); err != nil {
			t.Fatal(err)
		}
		for i := range c.Test.Len() {
			cost := c.Test.C.Row(i)
			if _, err := linear.Solve(best, cost); err != nil {
				t.Fatal(err)
			}
			for h, x := range cost {
				without += x * (w[h] - best[h]) / float64(c.Test.Len()*len(k.Clients))
			}
		}
	}
	for _, r := range results {
		fed, personal := r.Seeds[0].Fed.Absolute, r.Seeds[0].Personal.Absolute
		t.Logf("%s: regret $%.1f, personalised $%.1f; average prices $%.1f", r.Loss, fed, personal, without)
		if !(personal < fed && personal < 0.9*without) {
			t.Errorf("%s: regret $%.1f, personalised $%.1f; average prices $%.1f", r.Loss, fed, personal, without)
		}
	}
}
