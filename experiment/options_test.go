package experiment_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/task/knapsack"
	"fedrspo/train"
)

func mustParse(t *testing.T, args string) experiment.Setting {
	t.Helper()
	s, err := experiment.ParseSettings(strings.Fields(args))
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return s
}

// TestParseSettings: without flags it is the paper's protocol, and every flag
// reaches the field it is named for.
func TestParseSettings(t *testing.T) {
	knapsack := experiment.Kinds[0]
	for _, regime := range train.Regimes {
		got, want := mustParse(t, "-regime "+string(regime)), experiment.DefaultSetting(knapsack, regime)
		if !reflect.DeepEqual(got.Config, want.Config) || got.Data != want.Data || got.Model != want.Model {
			t.Errorf("%s: without flags %+v, want %+v", regime, got, want)
		}
	}
	type setting = experiment.Setting
	for args, want := range map[string]func(setting) bool{
		"-loss mse,spo+ -seeds 3..4": func(s setting) bool {
			return len(s.Losses) == 2 && s.Losses[1] == surrogate.SPOPlus{} && slices.Equal(s.Seeds, []int64{3, 4})
		},
		"-seed 9": func(s setting) bool { return slices.Equal(s.Seeds, []int64{9}) },
		"-eta-obj 1 -eta-constr .5 -eta-data .25 -knapsack-weight-het off -cost-scale train -clients 5 -train-samples 50 -validation-samples 6 -test-samples 7": func(s setting) bool {
			return s.Data == experiment.Data{EtaObj: 1, EtaConstr: .5, EtaData: .25, SharedWeights: true, CostsByTrain: true, Clients: 5, Train: 50, Val: 6, Test: 7}
		},
		// 0 is the paper's number (appendix C.2).
		"-clients 0 -train-samples 0 -validation-samples 0 -test-samples 0": func(s setting) bool {
			return s.Data == experiment.Data{Clients: 20, Train: 2000, Val: 200, Test: 2000}
		},
		"-hold-out .2 -output-bound 20": func(s setting) bool { return s.Data.HoldOut == .2 && s.OutputBound == 20 },
		"-rounds 7 -epochs 2 -alpha 3 -fraction .3": func(s setting) bool {
			f, p := s.Config.Fed, s.Config.Personal
			return f.Rounds == 7 && f.Epochs == 2 && f.Alpha == 3 && f.Fraction == .3 && p.Rounds == 10 && p.Epochs == 1 && p.Alpha == .01
		},
		"-regime local -rounds 7 -epochs 2 -alpha 3": func(s setting) bool {
			p := s.Config.Personal
			return p.Rounds == 7 && p.Epochs == 2 && p.Alpha == 3
		},
		"-personal-rounds 7 -personal-epochs 2 -personal-alpha 3 -tau 4 -monitor 5 -early-stop 6": func(s setting) bool {
			f, p := s.Config.Fed, s.Config.Personal
			return p.Rounds == 7 && p.Epochs == 2 && p.Alpha == 3 && p.Tau == 4 && p.Monitor == 5 && p.EarlyStop == 6 && f.Tau == 4 && f.Monitor == 5 && f.Rounds == 10
		},
		"-kappa-lambda 1 -kappa-lr 2 -fed-kappa-lambda 3 -fed-kappa-lr 4": func(s setting) bool {
			f, p := s.Config.Fed, s.Config.Personal
			return p.KappaLambda == 1 && p.KappaRate == 2 && f.KappaLambda == 3 && f.KappaRate == 4
		},
		"-lr matched": func(s setting) bool { return s.Config.Rates == train.RateMatched && !s.Tuned },
		"-lr .5":      func(s setting) bool { return s.Config.Rates == train.RateFixed && s.Config.FixedRate == .5 },
		"-lr scaled:.5": func(s setting) bool {
			return s.Config.Rates == train.RateScaled && s.Config.FixedRate == .5 && !s.Tuned
		},
		"-lr tuned":                         func(s setting) bool { return s.Config.Rates == train.RateScaled && s.Tuned },
		"-clip 2 -clip-mode global -prox 3": func(s setting) bool { return s.Config.Adam.Clip == 2 && s.Config.Adam.ClipGlobal && s.Config.Prox == 3 },
		"-calibration averaged -calib-norm norm-of-mean": func(s setting) bool {
			return s.Config.Calibration == train.Calibration{Averaged: true, NormOfMean: true, Fallback: 1}
		},
		"-personal-loss dpo -samples 3 -epsilon 2 -noise multiplicative -variance-reduction false": func(s setting) bool {
			return s.Config.PersonalLoss == surrogate.DPO{Perturbation: surrogate.Perturbation{Samples: 3, Epsilon: 2, Multiplicative: true}, NoBaseline: true} && s.Losses[0] == surrogate.RSPOPlus{}
		},
		"-samples 3 -loss pfyl,dpo": func(s setting) bool {
			p := surrogate.Perturbation{Samples: 3, Epsilon: 1}
			return s.Losses[0] == surrogate.PFYL{Perturbation: p} && s.Losses[1] == surrogate.DPO{Perturbation: p}
		},
		"-loss optnet -multipliers 1,0.5": func(s setting) bool { return slices.Equal(s.Config.Multipliers, []float64{1, .5}) },
		"-personalizer finetune":          func(s setting) bool { return s.Config.Personalizer == nil },
		"-personalizer ditto":             func(s setting) bool { return s.Config.Personalizer == train.Ditto{Mu: 1} },
		"-personalizer ditto -ditto-mu 2 -ditto-mode interleaved": func(s setting) bool {
			return s.Config.Personalizer == train.Ditto{Mu: 2, Interleaved: true}
		},
		"-personalizer interp":                                  func(s setting) bool { return s.Config.Personalizer == train.Interp{} },
		"-personalizer interp -rho-selector mse":                func(s setting) bool { return s.Config.Personalizer == train.Interp{ByPrediction: true} },
		"-regime centralized -centralized single-pooled":        func(s setting) bool { return s.Config.SinglePooled },
		"-data somewhere -model linear -batch 9 -device cpu":    func(s setting) bool { return s.Data.Dir == "somewhere" && s.Model == "linear" && s.Config.Batch == 9 },
		"-loss mse -personal-loss rspo+ -kappa-lr 2 -monitor 3": func(s setting) bool { return s.Config.Personal.KappaRate == 2 },
	} {
		s := mustParse(t, args)
		if !want(s) {
			t.Errorf("%s: %+v", args, s)
		}
		// Two ways back to the same setting: the arguments that differ from the
		// defaults, and all that apply.
		resolved := s.Resolved()
		again, err := experiment.ParseSettings(s.Arguments())
		if err != nil || !reflect.DeepEqual(again.Resolved(), resolved) {
			t.Errorf("%s: the arguments %v resolve to %v, %v, want %v", args, s.Arguments(), again.Resolved(), err, resolved)
		}
		if !reflect.DeepEqual(again.Config, s.Config) || again.Data != s.Data || again.Tuned != s.Tuned || again.OutputBound != s.OutputBound {
			t.Errorf("%s: the arguments %v give another setting %+v", args, s.Arguments(), again)
		}
	}
}

// TestParseSettingsErrors: what the train command refuses, this refuses.
func TestParseSettingsErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-h":                      flag.ErrHelp.Error(),
		"-workers 1":              "workers",
		"extra":                   `"extra"`,
		"-loss hinge":             `"hinge"`,
		"-loss mse -tau 1":        "-tau has no effect here",
		"-rounds -1":              "-rounds",
		"-seed 1 -seeds 2":        "exclude",
		"-multipliers 1":          "-multipliers",
		"-seeds 1..2000000000":    "more than",
		"-eta-obj 11":             "-eta-obj is 11",
		"-output-bound NaN":       "-output-bound",
		"-task tsp -regime local": `"tsp"`,
	} {
		if s, err := experiment.ParseSettings(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, error %v, want one about %s", args, s, err, want)
		}
	}
}

// TestResolved: two settings that compute the same resolve to the same, and
// what has no effect is not among it.
func TestResolved(t *testing.T) {
	for _, c := range [][2]string{
		{"", "-task knapsack -loss rspo+ -seed 42 -clients 0 -lr paper -personalizer finetune -clip 1.0"},
		{"-seeds 7", "-seed 7"},
		{"-seeds 1..3", "-seeds 1,2,3"},
		{"-loss mse,rspo+", "-loss  mse,rspo+"},
		{"-loss pfyl", "-samples 10 -loss pfyl -noise additive -epsilon 1"},
	} {
		a, b := mustParse(t, c[0]).Resolved(), mustParse(t, c[1]).Resolved()
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%q resolves to %v, %q to %v", c[0], a, c[1], b)
		}
	}
	if args := mustParse(t, "-rounds 10 -seed 42").Arguments(); len(args) != 0 {
		t.Errorf("the defaults have the arguments %v", args)
	}
	// Losses as code makes them, with zero values that stand for others.
	s := mustParse(t, "-loss pfyl")
	want := s.Resolved()
	s.Losses = []surrogate.Loss{surrogate.PFYL{}}
	s.Data = experiment.Data{}
	if got := s.Resolved(); !reflect.DeepEqual(got, want) {
		t.Errorf("zero values resolve to %v, want %v", got, want)
	}
	for args, absent := range map[string][]string{
		"-loss mse":            {"alpha", "tau", "samples", "multipliers", "ditto-mu", "rho-selector", "centralized", "seeds", "data", "personal-loss", "calib-norm"},
		"-regime local":        {"prox", "personalizer", "personal-rounds", "fed-kappa-lr"},
		"-hold-out 0.2":        {"validation-samples"},
		"-data D":              {"clients", "eta-obj", "cost-scale"},
		"-lr tuned":            {"alpha", "personal-alpha"},
		"-seeds 1..2":          {"seed"},
		"-clip 0":              {"clip-mode"},
		"-loss dpo -samples 1": {"variance-reduction"},
	} {
		resolved := mustParse(t, args).Resolved()
		for _, name := range absent {
			if v, ok := resolved[name]; ok {
				t.Errorf("%s: %s = %v is in the resolved settings", args, name, v)
			}
		}
		if _, ok := resolved["task"]; !ok || len(resolved) < 15 {
			t.Errorf("%s: only %v", args, resolved)
		}
	}
}

func TestSeedLists(t *testing.T) {
	for list, want := range map[string][]int64{
		"7":                    {7},
		"1, 2 ,5..7":           {1, 2, 5, 6, 7},
		"-2..1":                {-2, -1, 0, 1},
		"9223372036854775807":  {9223372036854775807},
		"-9223372036854775808": {-9223372036854775808},
		"9223372036854775806..9223372036854775807": {9223372036854775806, 9223372036854775807},
	} {
		if s, err := experiment.ParseSettings([]string{"-seeds", list}); err != nil || !slices.Equal(s.Seeds, want) {
			t.Errorf("-seeds %q is %v, %v, want %v", list, s.Seeds, err, want)
		}
	}
	if s, err := experiment.ParseSettings([]string{"-seeds", "1..100000"}); err != nil || len(s.Seeds) != 100_000 {
		t.Errorf("the longest list: %d seeds, %v", len(s.Seeds), err)
	}
}

// TestFlagGroups: every settings flag stands under one heading.
func TestFlagGroups(t *testing.T) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	experiment.NewFlags(fs, experiment.Kinds[0], train.Federated)
	count := map[string]int{}
	for _, g := range experiment.FlagGroups {
		for _, name := range g.Names {
			if count[name]++; fs.Lookup(name) == nil || count[name] > 1 {
				t.Errorf("-%s under %q is no flag, or stands there twice", name, g.Title)
			}
		}
	}
	fs.VisitAll(func(f *flag.Flag) {
		if count[f.Name] == 0 {
			t.Errorf("-%s stands under no heading", f.Name)
		}
	})
}

// TestOutputBound: predictions of a bounded model lie in the ball; without the
// bound some do not.
func TestOutputBound(t *testing.T) {
	longest := func(bound float64) float64 {
		loads := 0
		s := smallSetting(t, &loads, "mse", 1)
		s.OutputBound = bound
		s.Config.Rates, s.Config.FixedRate = train.RateFixed, 0.1
		from, err := run.Create(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		to, err := run.Create(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background(), nil, func(o experiment.Outcome) error { return o.Save(from) }); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Evaluate(context.Background(), from, to, nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(to.Path("mse", "seed-1", "personal.csv"))
		if err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
		if err != nil || len(records) != 13 {
			t.Fatalf("%d records, %v", len(records), err)
		}
		most := 0.0
		for _, record := range records[1:] {
			sum := 0.0
			for k, name := range records[0] {
				if strings.HasPrefix(name, "chat_") {
					x, err := strconv.ParseFloat(record[k], 64)
					if err != nil {
						t.Fatal(err)
					}
					sum += x * x
				}
			}
			most = max(most, math.Sqrt(sum))
		}
		return most
	}
	const bound = 0.75
	// The bound holds up to the rounding of five products.
	if free, bounded := longest(0), longest(bound); free <= bound || bounded > bound*(1+1e-12) || bounded < bound/2 {
		t.Errorf("the longest prediction has norm %v, and %v with the bound %v", free, bounded, bound)
	}
}

// TestHoldOut: calibration samples are drawn anew for every seed, also from a
// dataset that is the same for all.
func TestHoldOut(t *testing.T) {
	dir := t.TempDir()
	ds, err := knapsack.Generate(knapsack.Config{Clients: 3, Items: 4, Features: 2, Train: 30, Val: knapsack.None, Test: 6})
	if err == nil {
		err = ds.Export(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	kind := experiment.Kinds[0]
	load := kind.Load
	var tasks []*task.Task
	kind.Load = func(d experiment.Data) (*task.Task, error) {
		tk, err := load(d)
		tasks = append(tasks, tk)
		return tk, err
	}
	s := mustParse(t, "-data "+dir+" -hold-out 0.25 -rounds 1 -personal-rounds 1 -seeds 1..2")
	s.Kind = kind
	if _, err := s.Run(context.Background(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if len(tasks) != 2 {
		t.Fatalf("%d loads for two seeds", len(tasks))
	}
	for i, c := range tasks[0].Clients {
		other := tasks[1].Clients[i]
		// floor(0.75·10) = 7 stay.
		if c.Train.Len() != 7 || c.Val.Len() != 3 || slices.Equal(c.Val.C.Data, other.Val.C.Data) {
			t.Errorf("client %d: %d and %d samples, the same for both seeds: %v", c.ID, c.Train.Len(), c.Val.Len(), slices.Equal(c.Val.C.Data, other.Val.C.Data))
		}
	}
}

// tunable is a setting whose tuning takes little time.
func tunable(t *testing.T, loads *int, losses string, seeds ...int64) experiment.Setting {
	s := smallSetting(t, loads, losses, seeds...)
	s.Tuned = true
	return s
}

// TestTune: the choice is the first candidate of least regret on validation
// samples, as the mean over seeds and clients of runs at that rate.
func TestTune(t *testing.T) {
	for _, regime := range train.Regimes {
		t.Run(string(regime), func(t *testing.T) {
			loads := 0
			s := tunable(t, &loads, "rspo+,mse", 1, 2)
			s.Config.Regime = regime
			last, calls := -1, 0
			tunings, err := s.Tune(context.Background(), func(p experiment.Progress) {
				calls++
				if at := p.Run*p.Total + p.Done; at <= last || p.Runs != 20 || !slices.Contains(experiment.TuningRates, p.Trial) {
					t.Errorf("progress %+v after %d units", p, last)
				} else {
					last = at
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if calls == 0 || loads != 2 {
				t.Errorf("%d reports of progress, %d loads for 2 seeds", calls, loads)
			}
			for k, tuning := range tunings {
				least := math.Inf(1)
				want := 0.0
				for i, c := range tuning.Candidates {
					if c.Rate != experiment.TuningRates[i] {
						t.Errorf("candidate %d is %v", i, c.Rate)
					}
					one := s
					one.Tuned, one.Losses = false, s.Losses[k:k+1]
					one.Config.Rates, one.Config.FixedRate, one.Config.Validation = train.RateScaled, c.Rate, true
					results, err := one.Run(context.Background(), nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					sum, n := 0.0, 0
					for _, stage := range results[0].Stages(regime != train.Centralized) {
						for _, client := range stage.Clients {
							sum += client.Validation.Relative
							n++
						}
					}
					// The two sums have another order.
					if sum /= float64(n); math.Abs(sum-c.Regret) > 1e-12*sum {
						t.Errorf("%s at %g has %v, want %v", s.Losses[k].Name(), c.Rate, c.Regret, sum)
					}
					if c.Regret < least {
						least, want = c.Regret, c.Rate
					}
				}
				if tuning.Rate != want {
					t.Errorf("%s: the choice is %v of %v", s.Losses[k].Name(), tuning.Rate, tuning.Candidates)
				}
			}
			// Run begins with the same choice and trains with it.
			var first, total int
			results, err := s.Run(context.Background(), func(p experiment.Progress) {
				total = p.Runs
				if p.Trial == 0 && first == 0 {
					first = p.Run
				}
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if first != 20 || total != 24 {
				t.Errorf("the runs begin at %d of %d, want 20 of 24", first, total)
			}
			for k, r := range results {
				if !reflect.DeepEqual(*r.Tuning, tunings[k]) {
					t.Errorf("%s: Run chose %+v, Tune %+v", r.Loss, *r.Tuning, tunings[k])
				}
				one := s
				one.Tuned, one.Losses = false, s.Losses[k:k+1]
				one.Config.Rates, one.Config.FixedRate = train.RateScaled, r.Tuning.Rate
				want, err := one.Run(context.Background(), nil, nil)
				if err == nil {
					err = run.SameRegrets(want, results[k:k+1])
				}
				if err != nil {
					t.Errorf("%s: not what its rate gives: %v", r.Loss, err)
				}
			}
		})
	}
}

// TestTuneIgnoresTest: test samples play no part in the choice.
func TestTuneIgnoresTest(t *testing.T) {
	loads := 0
	s := tunable(t, &loads, "spo+", 1)
	want, err := s.Tune(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	load := s.Kind.Load
	s.Kind.Load = func(d experiment.Data) (*task.Task, error) {
		tk, err := load(d)
		for _, c := range tk.Clients {
			for i := range c.Test.C.Data {
				c.Test.C.Data[i] = -1 - float64(i%3)
			}
		}
		return tk, err
	}
	got, err := s.Tune(context.Background(), nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("other test samples: %+v, %v, want %+v", got, err, want)
	}
	// Without validation samples there is nothing to choose on.
	s.Kind.Load = func(d experiment.Data) (*task.Task, error) {
		tk, err := load(d)
		for _, c := range tk.Clients {
			c.Val = task.Split{}
		}
		return tk, err
	}
	if got, err := s.Tune(context.Background(), nil); !errors.Is(err, train.ErrConfig) {
		t.Errorf("no validation samples: %+v, %v", got, err)
	}
	// An interruption of tuning is one of the run.
	s.Kind.Load = load
	ctx, cancel := context.WithCancel(context.Background())
	results, err := s.Run(ctx, func(experiment.Progress) { cancel() }, nil)
	cancel()
	if !errors.Is(err, context.Canceled) || len(results) != 1 || results[0].Complete || results[0].Tuning != nil {
		t.Errorf("interrupted: %+v, %v", results, err)
	}
}

// TestScaledRates: a scaled rate is the clients' mean, in the ratios of λ_j,
// for regularised losses, and the rate itself for others.
func TestScaledRates(t *testing.T) {
	loads := 0
	const rate = 0.02
	s := smallSetting(t, &loads, "rspo+,mse", 1)
	s.Config.Rates, s.Config.FixedRate = train.RateScaled, rate
	_, err := s.Run(context.Background(), nil, func(o experiment.Outcome) error {
		clients := o.Run.State().Clients
		mean, lambda := 0.0, 0.0
		for _, c := range clients {
			mean += c.FedRate / float64(len(clients))
			lambda += c.Lambda / float64(len(clients))
		}
		for i, c := range clients {
			want := rate
			if o.Loss == "rspo+" {
				want = rate * (c.Lambda / lambda)
			}
			if c.FedRate != want || c.PersonalRate != want {
				t.Errorf("%s: client %d has the rates %v and %v, want %v", o.Loss, i, c.FedRate, c.PersonalRate, want)
			}
		}
		if math.Abs(mean-rate) > 1e-15 {
			return fmt.Errorf("%s: the mean rate is %v, want %v", o.Loss, mean, rate)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
