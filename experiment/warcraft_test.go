package experiment_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/run"
	"fedrspo/task"
	"fedrspo/task/warcraft"
	"fedrspo/train"
)

// TestWarcraftDefaults restates the protocol of the paper's section 4.3 and
// tables 8 and 10, which holds for the published maps and for as many generated
// ones as one likes; without -data the same protocol is shorter.
func TestWarcraftDefaults(t *testing.T) {
	for _, data := range []string{"maps", "generated:10000", "generated:500"} {
		s := mustParse(t, "-task warcraft -data "+data)
		f, p := s.Config.Fed, s.Config.Personal
		if s.Model != "resnet" || s.Config.Batch != 64 || s.Config.Adam.Clip != 1 ||
			f.Rounds != 10 || f.Epochs != 3 || f.Fraction != 0.5 || f.Rate != 1e-3 || f.Alpha != 1e-3 || f.KappaLambda != 0 || f.KappaRate != 0 ||
			p.Rounds != 10 || p.Epochs != 2 || p.Rate != 1e-3 || p.Alpha != 1e-3 || p.KappaLambda != 1 || p.KappaRate != 0.1 || p.Tau != 0.01 || p.EarlyStop != 3 ||
			s.Data.Clients != 44 || s.Data.Grid != 12 || s.Data.TerrainScale != 0.6 || s.Data.PathSet != warcraft.WithCycles || s.Data.NegativeCosts != warcraft.AsIs {
			t.Errorf("-data %s: %+v", data, s)
		}
		if want := map[string]int{"maps": 2000, "generated:10000": 2000, "generated:500": 100}[data]; s.Data.Test != want {
			t.Errorf("-data %s: %d test maps, want %d", data, s.Data.Test, want)
		}
	}
	small, full := mustParse(t, "-task warcraft"), mustParse(t, "-task warcraft -data generated:10000")
	if !(small.Data.Maps < full.Data.Maps && small.Data.Clients < full.Data.Clients && small.Config.Fed.Rounds < full.Config.Fed.Rounds) {
		t.Errorf("the small data are %+v with %+v", small.Data, small.Config.Fed)
	}
	a, b := small.Config, full.Config
	a.Fed.Rounds, a.Personal.Rounds = b.Fed.Rounds, b.Personal.Rounds
	if a.Fed != b.Fed || a.Personal != b.Personal {
		t.Errorf("the short protocol differs in more than rounds: %+v", small.Config)
	}
}

// TestWarcraftCalibration: λ_j = C̄_j/12, since a path with cycles covers all of
// 12 x 12 cells (paper, equation 11), and η_j is near the baselines' 0.001.
func TestWarcraftCalibration(t *testing.T) {
	s := mustParse(t, "-task warcraft -data generated:24 -clients 3 -test-samples 3 -loss rspo+ -model linear -rounds 0 -personal-rounds 0")
	d := s.Data
	d.Seed = s.Seeds[0]
	tk, err := s.Kind.Load(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(context.Background(), nil, func(o experiment.Outcome) error {
		for i, c := range tk.Clients {
			mean := 0.0
			for k := range c.Train.Len() {
				sum := 0.0
				for _, x := range c.Train.C.Row(k) {
					sum += x * x
				}
				mean += math.Sqrt(sum) / float64(c.Train.Len())
			}
			got := o.Run.State().Clients[i]
			if math.Abs(got.Lambda-mean/12) > 1e-12*mean {
				t.Errorf("client %d has λ %v, want %v", c.ID, got.Lambda, mean/12)
			}
			if !(got.FedRate > 2e-4 && got.FedRate < 2e-2) || got.FedRate != 1e-3*got.Lambda/4 {
				t.Errorf("client %d has the rate %v at λ %v", c.ID, got.FedRate, got.Lambda)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// tinyWarcraft is enough to see that a method runs.
const tinyWarcraft = "-task warcraft -data generated:20 -clients 3 -test-samples 4 -rounds 1 -epochs 1 -batch 4 "

// TestWarcraftMethods: every loss, personalizer and regime of the paper works on
// paths with the paper's network, and on the networks for tables.
func TestWarcraftMethods(t *testing.T) {
	if testing.Short() {
		t.Skip("trains ResNets")
	}
	const personal = "-personal-rounds 1 -personal-epochs 1 "
	for _, args := range []string{
		personal + "-loss rspo+,spo+,mse,pfyl,dpo -samples 2",
		personal + "-loss optnet -multipliers 0.1,0.25",
		personal + "-loss spo+ -personalizer ditto -prox 1",
		personal + "-loss rspo+ -personalizer interp -bn-stats client",
		personal + "-loss rspo+ -bn-stats shared -path-set dag",
		personal + "-loss spo+ -negcost exact -lr matched -lr-anneal on -terrain-scale 0",
		personal + "-loss spo+,rspo+ -model linear",
		personal + "-loss mse -model mlp",
		personal + "-loss mse -model resnet-conv1x1",
		"-loss rspo+ -regime local",
		"-loss spo+ -regime centralized",
		"-loss rspo+ -regime centralized -centralized single-pooled",
	} {
		t.Run(args, func(t *testing.T) {
			s := mustParse(t, tinyWarcraft+args)
			results, err := s.Run(context.Background(), nil, func(o experiment.Outcome) error {
				if len(o.Timing.Stages) == 0 || o.Timing.Stages[0].NetworkSeconds <= 0 {
					t.Errorf("%s took %+v", o.Loss, o.Timing)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if r.Metric != run.OptimalityGap || r.Seeds[0].Constant == nil || !(r.Seeds[0].Constant.Gap > 0) {
					t.Errorf("%s: metric %s, constant costs %v", r.Loss, r.Metric, r.Seeds[0].Constant)
				}
				for _, stage := range slices.Concat(r.Stages(false), r.Stages(true)) {
					if !(stage.Gap >= 0) || len(stage.Clients) != 3 {
						t.Errorf("%s: %+v", r.Loss, stage)
					}
				}
			}
		})
	}
}

// TestWarcraftErrors: settings without effect and out of range are refused, and
// say why.
func TestWarcraftErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-task warcraft -eta-obj 1":                            "-eta-obj has no effect here: it belongs to -task knapsack",
		"-task warcraft -hold-out 0.2":                         "belongs to -task knapsack",
		"-task warcraft -train-samples 9":                      "belongs to -task knapsack",
		"-grid 18":                                             "-grid has no effect here: it belongs to -task warcraft",
		"-terrain-scale 0":                                     "belongs to -task warcraft",
		"-data generated:5":                                    "belong to -task warcraft",
		"-model resnet":                                        "want mlp or linear for -task knapsack",
		"-bn-stats shared":                                     "no batch normalisation",
		"-lr-anneal on":                                        "anneals its learning rate anyway",
		"-task warcraft -model mlp -bn-stats shared":           "no batch normalisation",
		"-task warcraft -grid 13":                              "-grid is 13, want one of [12 18 24 30]",
		"-task warcraft -data generated:0":                     "from 1 to",
		"-task warcraft -data generated:x":                     "from 1 to",
		"-task warcraft -data generated:50 -test-samples 49":   "test is 49 of 50",
		"-task warcraft -clients 45":                           "clients is 45",
		"-task warcraft -terrain-scale 6":                      "-terrain-scale is 6",
		"-task warcraft -path-set dag -negcost as_is":          "every decision is exact",
		"-task warcraft -path-set tree":                        "with_cycles or dag",
		"-task warcraft -personalizer interp -bn-stats shared": "finetune",
		"-task warcraft -loss optnet -bn-stats shared":         "OptNet",
		"-task warcraft -loss mse -kappa-lr 1":                 "-kappa-lr has no effect",
		"-task warcraft -regime centralized -centralized single-pooled -bn-stats shared": "single pooled",
	} {
		if s, err := experiment.ParseSettings(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want one about %s", args, s.Data, err, want)
		}
	}
}

// TestWarcraftSettings: flags reach their fields, and lead back to the setting.
func TestWarcraftSettings(t *testing.T) {
	type setting = experiment.Setting
	for args, want := range map[string]func(setting) bool{
		"": func(s setting) bool { return s.Data.Dir == "" && s.Data.Maps > 0 },
		"-data somewhere -grid 18 -clients 68 -test-samples 7": func(s setting) bool {
			return s.Data.Dir == "somewhere" && s.Data.Maps == 0 && s.Data.Grid == 18 && s.Data.Clients == 68 && s.Data.Test == 7
		},
		"-data generated:10000 -seeds 1..2": func(s setting) bool { return s.Data.Maps == 10000 && s.Data.Test == 2000 },
		"-data generated:100 -clients 4 -terrain-scale 0 -path-set dag": func(s setting) bool {
			return s.Data.Test == 20 && s.Data.Clients == 4 && s.Data.TerrainScale == 0 && s.Data.PathSet == warcraft.DAG
		},
		"-clients 3 -rounds 9":                                    func(s setting) bool { return s.Data.Clients == 3 && s.Config.Fed.Rounds == 9 },
		"-negcost exact -bn-stats shared":                         func(s setting) bool { return s.Data.NegativeCosts == warcraft.Exact && s.Config.SharedStatistics },
		"-loss spo+ -lr-anneal on -kappa-lr 0.2":                  func(s setting) bool { return s.Config.AnnealRates && s.Config.Personal.KappaRate == 0.2 },
		"-regime local -data generated:300":                       func(s setting) bool { return s.Config.Personal.Rounds == 25 },
		"-regime local -data generated:300 -model resnet-conv1x1": func(s setting) bool { return s.Model == "resnet-conv1x1" },
	} {
		s := mustParse(t, "-task warcraft "+args)
		if !want(s) {
			t.Errorf("%s: %+v", args, s)
		}
		again, err := experiment.ParseSettings(s.Arguments())
		if err != nil || again.Data != s.Data || again.Model != s.Model || !equalConfigs(again.Config, s.Config) {
			t.Errorf("%s: the arguments %v give %+v, %v", args, s.Arguments(), again, err)
		}
	}
	if args := mustParse(t, "-task warcraft").Arguments(); !slices.Equal(args, []string{"-task", "warcraft"}) {
		t.Errorf("the defaults have the arguments %v", args)
	}
}

func equalConfigs(a, b train.Config) bool {
	return a.Fed == b.Fed && a.Personal == b.Personal && a.AnnealRates == b.AnnealRates && a.SharedStatistics == b.SharedStatistics && a.Regime == b.Regime
}

// TestWarcraftFingerprint: features that clients share count once, their
// endpoints and costs do.
func TestWarcraftFingerprint(t *testing.T) {
	s := mustParse(t, "-task warcraft -data generated:12 -clients 3 -test-samples 3")
	load := func(change func(*experiment.Data)) *task.Task {
		d := s.Data
		d.Seed = 1
		change(&d)
		tk, err := s.Kind.Load(d)
		if err != nil {
			t.Fatal(err)
		}
		return tk
	}
	base := experiment.Fingerprint(load(func(*experiment.Data) {}))
	if experiment.Fingerprint(load(func(*experiment.Data) {})) != base {
		t.Error("the same data have two fingerprints")
	}
	for name, change := range map[string]func(*experiment.Data){
		"seed":    func(d *experiment.Data) { d.Seed = 2 },
		"scale":   func(d *experiment.Data) { d.TerrainScale = 0.5 },
		"set":     func(d *experiment.Data) { d.PathSet = warcraft.DAG },
		"negcost": func(d *experiment.Data) { d.NegativeCosts = warcraft.Exact },
		"clients": func(d *experiment.Data) { d.Clients = 4 },
	} {
		if experiment.Fingerprint(load(change)) == base {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
	swapped := load(func(*experiment.Data) {})
	a, b := swapped.Clients[0], swapped.Clients[1]
	a.Polytope, b.Polytope = b.Polytope, a.Polytope
	if experiment.Fingerprint(swapped) == base {
		t.Error("other endpoints have the same fingerprint")
	}
}

// TestTable6: the table runs the paper's five methods on the maps it is given,
// and says where they are generated.
func TestTable6(t *testing.T) {
	for data, generated := range map[string]bool{"": true, "generated:500": true, "maps": false} {
		tables, err := experiment.Tables("6", experiment.Options{WarcraftData: data})
		if err != nil || len(tables) != 1 {
			t.Fatal(err)
		}
		tb := tables[0]
		if tb.OnlyOrder != generated || strings.Contains(tb.Note, "GENERATED") != generated || len(tb.Cells) != 10 || len(tb.Claims) == 0 {
			t.Errorf("-data %q: %+v", data, tb)
		}
		for _, c := range tb.Cells {
			jobs := c.Jobs(7)
			s, err := experiment.ParseSettings(jobs[0].Args)
			if err != nil || len(jobs) != 1 || c.Target == nil || s.Kind.Name != "warcraft" || s.Data.Clients != 44 || s.Config.Rates != train.RatePaper {
				t.Errorf("%s %s: %v, %v", c.Method, c.Stage, jobs, err)
			}
			if got := c.Value([]run.SeedResult{{Fed: &run.StageResult{Regret: run.Regret{Gap: 0.5}}, Personal: &run.StageResult{Regret: run.Regret{Gap: 0.25}}}}); got != 50 && got != 25 {
				t.Errorf("%s %s is %v, want the gap in %%", c.Method, c.Stage, got)
			}
		}
	}
	all, err := experiment.Tables("all", experiment.Options{})
	if err != nil || slices.ContainsFunc(all, func(t *experiment.Table) bool { return t.ID == "6" }) {
		t.Errorf("all tables take hours: %v", err)
	}
}
