package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"fedrspo/run"
)

// knapsackSeeds are the paper's seeds for the knapsack.
var knapsackSeeds = []int64{42, 69, 1993, 67, 2026}

// eta is the heterogeneity of a setting in objective, constraint and data.
type eta [3]float64

func (e eta) String() string {
	return fmt.Sprintf("(%g,%g,%g)", e[0], e[1], e[2])
}

// args are the flags of the setting.
func (e eta) args() []string {
	a := []string{"-task", "knapsack"}
	for k, name := range []string{"-eta-obj", "-eta-constr", "-eta-data"} {
		if e[k] != 0 {
			a = append(a, name, strconv.FormatFloat(e[k], 'g', -1, 64))
		}
	}
	return a
}

// single returns a Cell.Jobs of one run a seed.
func single(args ...[]string) func(int64) []Job {
	all := slices.Concat(args...)
	return func(seed int64) []Job { return []Job{{Args: all, Seed: seed}} }
}

// Values of a seed.
func fedRegret(s []run.SeedResult) float64      { return 100 * s[0].Fed.Relative }
func personalRegret(s []run.SeedResult) float64 { return 100 * s[0].Personal.Relative }

// methods are the losses of tables 3 and 18 by the paper's names.
var methods = []struct{ name, loss string }{
	{"MSE", "mse"}, {"PFYL", "pfyl"}, {"DPO", "dpo"}, {"SPO+", "spo+"}, {"RSPO+", "rspo+"},
}

// table3Settings are the seven settings of tables 3 and 18.
var table3Settings = []eta{{0, 0, 0}, {0.5, 0, 0}, {1, 0, 0}, {0, 0.5, 0}, {0, 1, 0}, {0, 0, 0.5}, {0, 0, 1}}

// regretTable is tables 3 and 18: settings by methods by stages.
func regretTable(id string, extra ...string) *Table {
	t := &Table{ID: id, Seeds: knapsackSeeds, Baseline: "RSPO+"}
	for _, e := range table3Settings {
		for _, m := range methods {
			jobs := single(e.args(), []string{"-loss", m.loss}, extra)
			for _, stage := range []struct {
				label, target string
				value         func([]run.SeedResult) float64
			}{{"Fed", "fed", fedRegret}, {"+P", "personalized", personalRegret}} {
				t.Cells = append(t.Cells, Cell{Setting: e.String(), Method: m.name, Stage: stage.label, Jobs: jobs, Value: stage.value, Digits: 2,
					Target: findTarget(id, e.String(), m.name, stage.target, "relative_regret")})
			}
		}
	}
	return t
}

// rspoLeast is the claim that RSPO+ is the best method.
func rspoLeast(source string) Claim {
	return Claim{ID: "least", AtPaperRates: true,
		Text:  "RSPO+ has the least regret of all methods in every setting and stage, at the paper's learning rates (" + source + ")",
		Holds: func(f *Finished) bool { return f.least("RSPO+") }}
}

func table3(o Options) *Table {
	t := regretTable("3")
	t.Title = "fractional knapsack, relative regret in %"
	fed := func(f *Finished, method string) (objective, constraint, data float64) {
		return f.Mean("(1,0,0)", method, "Fed"), f.Mean("(0,1,0)", method, "Fed"), f.Mean("(0,0,1)", method, "Fed")
	}
	t.Claims = []Claim{
		rspoLeast("section 4.1"),
		{ID: "data", AtPaperRates: true, Text: "of the three axes, heterogeneity of the data harms the federated model most, for every method (section 4.1)",
			Holds: func(f *Finished) bool {
				for _, m := range methods {
					if o, c, d := fed(f, m.name); !(d > o && d > c) {
						return false
					}
				}
				return true
			}},
		{ID: "constraint", AtPaperRates: true, Text: "heterogeneity of the constraint harms the federated model more than that of the objective, for every method but MSE (section 4.1; the paper's own numbers for MSE have it the other way round)",
			Holds: func(f *Finished) bool {
				for _, m := range methods[1:] {
					if o, c, _ := fed(f, m.name); !(c > o) {
						return false
					}
				}
				return true
			}},
	}
	if o.Rates == "matched" || o.Rates == "tuned" {
		t.Note = "Beside the paper's methods: RSPO+ followed by SPO+, its limit for small lambda, in personalisation; and RSPO+ that personalises for all ten rounds, as the other methods do, instead of stopping early."
		for _, e := range table3Settings {
			for _, m := range []struct {
				name string
				args []string
			}{{"RSPO+ then SPO+", []string{"-personal-loss", "spo+"}}, {"RSPO+ without early stop", []string{"-early-stop", "-1"}}} {
				t.Cells = append(t.Cells, Cell{Setting: e.String(), Method: m.name, Stage: "+P", Value: personalRegret, Digits: 2,
					Jobs: single(e.args(), []string{"-loss", "rspo+"}, m.args)})
			}
		}
	}
	return t
}

func table18(Options) *Table {
	t := regretTable("18", "-model", "linear")
	t.Title = "bias-free linear predictor, relative regret in %"
	t.Note = "The paper states neither the initialisation nor the learning rate of this table, and both matter; only the order is judged."
	t.OnlyOrder = true
	t.Claims = []Claim{
		rspoLeast("appendix C.7"),
		{ID: "personal", Text: "personalisation lowers the regret of every method in every setting",
			Holds: func(f *Finished) bool {
				return !slices.ContainsFunc(f.Entries, func(e Entry) bool {
					return e.Stage == "+P" && !(e.Mean < f.Mean(e.Setting, e.Method, "Fed"))
				})
			}},
	}
	return t
}

// least says whether method has the least mean in each setting and stage.
func (f *Finished) least(method string) bool {
	for _, e := range f.Entries {
		if e.Method != method && !(f.Mean(e.Setting, method, e.Stage) < e.Mean) {
			return false
		}
	}
	return true
}

// interpArgs is the protocol of Interp-DFFL on the knapsack.
var interpArgs = []string{"-loss", "spo+", "-personalizer", "interp", "-hold-out", "0.2", "-output-bound", "20",
	"-rounds", "50", "-epochs", "5", "-fraction", "0.2", "-personal-rounds", "50"}

// localArgs is local training, as long as it takes to reproduce the paper's
// local-only SPO+.
func localArgs(loss string) []string { return []string{"-regime", "local", "-loss", loss} }

func table4(o Options) *Table {
	t := &Table{ID: "4", Title: "Interp-DFFL, OptNet-style and FedRSPO+ after personalisation, knapsack rows, relative regret in %", Seeds: knapsackSeeds, Baseline: "FedRSPO+",
		Note: "The caption says absolute regret, the knapsack rows are relative regret. The paper's Interp-DFFL column equals its local-only SPO+ where both are printed; local endpoint (rho = 0) and local-only SPO+ stand beside it."}
	for _, e := range []eta{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}} {
		add := func(method, target, stage string, value func([]run.SeedResult) float64, args ...[]string) {
			c := Cell{Setting: e.String(), Method: method, Stage: "+P", Jobs: single(append([][]string{e.args()}, args...)...), Value: value, Digits: 2}
			if target != "" {
				c.Target = findTarget("4", e.String(), target, stage, "relative_regret")
			}
			t.Cells = append(t.Cells, c)
		}
		// The paper's number stands beside the one that is asked for.
		interp := map[string]string{o.interpReport(): "Interp-DFFL"}
		add("Interp-DFFL", interp["calibrated"], "interpolated", personalRegret, interpArgs)
		add("Interp-DFFL, local endpoint", interp["local-endpoint"], "interpolated", func(s []run.SeedResult) float64 { return 100 * s[0].LocalEndpoint.Relative }, interpArgs)
		add("local-only SPO+", interp["local-only"], "interpolated", personalRegret, localArgs("spo+"))
		add("OptNet", "OptNet", "personalized", personalRegret, []string{"-loss", "optnet"})
		add("FedRSPO+", "FedRSPO+", "personalized", personalRegret, []string{"-loss", "rspo+"})
	}
	return t
}

func table9(Options) *Table {
	t := &Table{ID: "9", Title: "knapsack component ablation, relative regret in %", Seeds: knapsackSeeds, Baseline: "RSPO+ (Full)"}
	t.Claims = []Claim{{ID: "least", AtPaperRates: true, Text: "the full method has the least regret in every setting (table 9)",
		Holds: func(f *Finished) bool {
			return !slices.ContainsFunc(f.Entries, func(e Entry) bool {
				return e.Method != "RSPO+ (Full)" && !(f.Mean(e.Setting, "RSPO+ (Full)", "personalized") < e.Mean)
			})
		}}}
	rspo := []string{"-loss", "rspo+"}
	for _, e := range []eta{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}} {
		add := func(method, stage string, value func([]run.SeedResult) float64, args ...string) {
			t.Cells = append(t.Cells, Cell{Setting: e.String(), Method: method, Stage: stage, Jobs: single(e.args(), args), Value: value, Digits: 2,
				Target: findTarget("9", e.String(), method, stage, "relative_regret")})
		}
		add("Local-only RSPO+", "local", personalRegret, localArgs("rspo+")...)
		add("FedSPO+", "fed", fedRegret, "-loss", "spo+")
		add("RSPO+ (surrogate only)", "fed", fedRegret, append(slices.Clone(rspo), "-calibration", "averaged")...)
		add("RSPO+ w/ lambda_j/eta_j", "fed", fedRegret, rspo...)
		add("RSPO+ w/ lambda_j/eta_j + P", "personalized", personalRegret, append(slices.Clone(rspo), "-kappa-lambda", "0", "-kappa-lr", "0", "-tau", "0")...)
		add("RSPO+ (Full)", "personalized", personalRegret, rspo...)
	}
	return t
}

func table14(Options) *Table {
	t := &Table{ID: "14", Title: "centralised and local-only baselines, relative regret in %", Seeds: knapsackSeeds,
		Note: "Centralised: for each client a model on everybody's data with that client's feasible set. The paper does not give the number of rounds; centralised and local training have 60 rounds of one epoch here."}
	t.Claims = []Claim{
		{ID: "centralised", AtPaperRates: true, Text: "centralised SPO+ has the least regret of all where clients share a distribution of features (appendix C.5)",
			Holds: func(f *Finished) bool {
				return !slices.ContainsFunc(f.Entries, func(e Entry) bool {
					return e.Setting == "(0,0,0)" && e.Mean < f.Mean("(0,0,0)", "SPO+", "centralized")
				})
			}},
		{ID: "local", AtPaperRates: true, Text: "local-only SPO+ beats centralised SPO+ where the clients' features differ (appendix C.5)",
			Holds: func(f *Finished) bool {
				return f.Mean("(0,0,0.5)", "SPO+", "local") < f.Mean("(0,0,0.5)", "SPO+", "centralized") &&
					f.Mean("(0,0,1)", "SPO+", "local") < f.Mean("(0,0,1)", "SPO+", "centralized")
			}},
	}
	for _, m := range []struct{ name, loss string }{{"SPO+", "spo+"}, {"RSPO+", "rspo+"}} {
		for _, e := range []eta{{0, 0, 0}, {0, 0, 0.5}, {0, 0, 1}} {
			add := func(stage string, value func([]run.SeedResult) float64, args ...string) {
				t.Cells = append(t.Cells, Cell{Setting: e.String(), Method: m.name, Stage: stage, Jobs: single(e.args(), args), Value: value, Digits: 2,
					Target: findTarget("14", e.String(), m.name, stage, "relative_regret")})
			}
			add("centralized", fedRegret, "-regime", "centralized", "-loss", m.loss)
			add("local", personalRegret, localArgs(m.loss)...)
			add("fed", fedRegret, "-loss", m.loss)
			add("personalized", personalRegret, "-loss", m.loss)
		}
	}
	return t
}

// grid27 is the full grid of heterogeneity.
func grid27() []eta {
	var out []eta
	for _, o := range []float64{0, 0.5, 1} {
		for _, c := range []float64{0, 0.5, 1} {
			for _, d := range []float64{0, 0.5, 1} {
				out = append(out, eta{o, c, d})
			}
		}
	}
	return out
}

// overGrid returns a Cell.Jobs of one run per setting of the grid.
func overGrid(args ...string) func(int64) []Job {
	return func(seed int64) []Job {
		var jobs []Job
		for _, e := range grid27() {
			jobs = append(jobs, Job{Args: slices.Concat(e.args(), args), Seed: seed})
		}
		return jobs
	}
}

// gridSetting is how the paper labels numbers over the grid.
const gridSetting = "knapsack 27 configurations"

func table16(Options) *Table {
	t := &Table{ID: "16", Title: "QP-LP alignment of the personalised models, knapsack row", Seeds: knapsackSeeds,
		Note: "Means over the 27 settings, clients and seeds, in %."}
	for _, m := range []struct {
		label, metric string
		of            func(run.Alignment) float64
	}{
		{"decision gap %", "qp_lp_decision_gap_normalized", func(a run.Alignment) float64 { return a.Decision }},
		{"objective gap %", "qp_lp_objective_gap_normalized", func(a run.Alignment) float64 { return a.Objective }},
	} {
		t.Cells = append(t.Cells, Cell{Setting: gridSetting, Method: "RSPO+", Stage: m.label, Digits: 2,
			Target: findTarget("16", gridSetting, "RSPO+", "personalized", m.metric),
			Jobs:   overGrid("-loss", "rspo+"),
			Value: func(s []run.SeedResult) float64 {
				return meanOf(s, func(r run.SeedResult) float64 { return overClients(r.Personal, alignmentOf(m.of)) })
			}})
	}
	return t
}

// Values of a setting of the grid, for one seed.
func globalGap(r run.SeedResult) float64 {
	return overClients(r.Fed, alignmentOf(func(a run.Alignment) float64 { return a.Gap }))
}

func personalGap(r run.SeedResult) float64 {
	return overClients(r.Personal, alignmentOf(func(a run.Alignment) float64 { return a.Gap }))
}

func finalFreeze(r run.SeedResult) float64 {
	return overClients(r.Personal, func(c run.ClientResult) float64 { return *c.Freeze })
}

func frozenShare(r run.SeedResult) float64 {
	return overClients(r.Personal, func(c run.ClientResult) float64 {
		if c.FrozenAfter != nil {
			return 1
		}
		return 0
	})
}

func alignmentOf(of func(run.Alignment) float64) func(run.ClientResult) float64 {
	return func(c run.ClientResult) float64 { return of(*c.Alignment) }
}

func overClients(s *run.StageResult, of func(run.ClientResult) float64) float64 {
	sum := 0.0
	for _, c := range s.Clients {
		sum += of(c)
	}
	return sum / float64(len(s.Clients))
}

func meanOf(s []run.SeedResult, of func(run.SeedResult) float64) float64 {
	sum := 0.0
	for _, r := range s {
		sum += of(r)
	}
	return sum / float64(len(s))
}

// perSetting returns, for each setting of the grid, the mean over seeds of a
// value. seeds[i] has the results of seed i in grid order.
func perSetting(seeds [][]run.SeedResult, of func(run.SeedResult) float64) []float64 {
	out := make([]float64, len(seeds[0]))
	for k := range out {
		for _, s := range seeds {
			out[k] += of(s[k]) / float64(len(seeds))
		}
	}
	return out
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func mean(v []float64) float64 {
	m, _ := run.MeanStd(v)
	return m
}

// perRun returns a value of every setting and seed, each setting's in order of
// seeds.
func perRun(seeds [][]run.SeedResult, of func(run.SeedResult) float64) []float64 {
	var out []float64
	for k := range seeds[0] {
		for _, s := range seeds {
			out = append(out, of(s[k]))
		}
	}
	return out
}

// sample is perRun or perSetting.
type sample func([][]run.SeedResult, func(run.SeedResult) float64) []float64

// statistics are the columns of table 17; "range" is two of them.
var statistics = []struct {
	name string
	of   func([]float64) float64
}{{"mean", mean}, {"median", median}, {"min", slices.Min[[]float64]}, {"max", slices.Max[[]float64]}}

func table17(Options) *Table {
	t := &Table{ID: "17", Title: "QP-LP alignment over the 27 knapsack settings", Seeds: knapsackSeeds,
		Note: "Mean, median, least and greatest over runs: 27 settings by five seeds, each run's mean over clients. That the paper's are over runs, and not over means of settings, shows in its frozen-client fractions: 0.300, 0.800 and 1.000 are shares of 20 clients. With more seeds the numbers are mean and deviation over groups of five seeds. Statistics of the settings' means stand below; their mean is the same."}
	plain := func(of func(run.SeedResult) float64) func(sample, [][]run.SeedResult) []float64 {
		return func(over sample, seeds [][]run.SeedResult) []float64 { return over(seeds, of) }
	}
	rows := []struct {
		label, metric, stage string
		of                   func(sample, [][]run.SeedResult) []float64
		digits               int
	}{
		{"global QP-LP gap", "global_qp_lp_gap", "fed", plain(globalGap), 3},
		{"personalised QP-LP gap", "personalized_qp_lp_gap", "personalized", plain(personalGap), 3},
		{"personalised/global ratio", "personalized_over_global_ratio", "personalized",
			func(over sample, seeds [][]run.SeedResult) []float64 {
				ratio, global := over(seeds, personalGap), over(seeds, globalGap)
				for k := range ratio {
					ratio[k] /= global[k]
				}
				return ratio
			}, 3},
		{"final freeze statistic", "final_freeze_statistic", "personalized", plain(finalFreeze), 5},
		{"frozen-client fraction", "frozen_client_fraction", "personalized", plain(frozenShare), 3},
	}
	for _, of := range []struct {
		suffix string
		over   sample
	}{{"", perRun}, {" of settings", perSetting}} {
		for _, m := range rows {
			for _, s := range statistics {
				c := Cell{Setting: m.label, Method: "RSPO+", Stage: s.name + of.suffix, Digits: m.digits, Jobs: overGrid("-loss", "rspo+"),
					Statistic: func(seeds [][]run.SeedResult) float64 { return s.of(m.of(of.over, seeds)) }}
				if of.suffix == "" {
					c.Target = findTarget("17", gridSetting, "RSPO+", m.stage, m.metric+"."+s.name)
				} else if s.name == "mean" {
					continue
				}
				t.Cells = append(t.Cells, c)
			}
		}
	}
	return t
}

// textTable is the knapsack numbers in the paper's running text.
func textTable(Options) *Table {
	t := &Table{ID: "text", Title: "Numbers in the text (knapsack)", Seeds: knapsackSeeds, PaperRates: true,
		Note: "Means over settings, correlations, least and greatest are over five seeds; with more seeds, the mean and deviation over groups of five. The sweeps' unit is percentage points of +P relative regret, SPO+ minus RSPO+ (inferred). The alpha sweep changes the personal alpha and averages over the 27 settings, the others are at (0,0,0); the paper does not say over which."}
	local := func(seeds [][]run.SeedResult) []float64 {
		return perSetting(seeds, func(r run.SeedResult) float64 { return 100 * r.Personal.Relative })
	}
	t.Cells = append(t.Cells,
		Cell{Setting: gridSetting, Method: "SPO+", Stage: "local", Digits: 2,
			Target:    findTarget("text-C.5", gridSetting, "SPO+", "local", "relative_regret"),
			Jobs:      overGrid(localArgs("spo+")...),
			Statistic: func(seeds [][]run.SeedResult) float64 { return mean(local(seeds)) }},
		Cell{Setting: gridSetting, Method: "SPO+", Stage: "local, deviation over settings", Digits: 2,
			Jobs: overGrid(localArgs("spo+")...),
			Statistic: func(seeds [][]run.SeedResult) float64 {
				_, std := run.MeanStd(local(seeds))
				return std
			}},
		Cell{Setting: gridSetting, Method: "RSPO+", Stage: "correlation of freeze statistic and gap", Digits: 3,
			Target: findTarget("text-C.6", gridSetting, "RSPO+", "personalized", "corr_freeze_statistic_vs_gap"),
			Jobs:   overGrid("-loss", "rspo+"),
			Statistic: func(seeds [][]run.SeedResult) float64 {
				return correlation(perSetting(seeds, finalFreeze), perSetting(seeds, personalGap))
			}})
	for _, a := range []struct{ label, alpha string }{{"alpha=1e-3", "0.001"}, {"alpha=0.1", "0.1"}} {
		t.Cells = append(t.Cells, improvementOverGrid(a.label, a.alpha))
	}
	t.Cells = append(t.Cells, improvement("50 clients", eta{}, []string{"-clients", "50"}, nil))
	for _, m := range []struct {
		name string
		of   func([]float64) float64
	}{{"min", slices.Min[[]float64]}, {"max", slices.Max[[]float64]}} {
		label := "validation samples 2..32 (" + m.name + ")"
		t.Cells = append(t.Cells, Cell{Setting: label, Method: "RSPO+ vs SPO+", Stage: "+P", Digits: 2,
			Target: findTarget("text-fig4", label, "RSPO+ vs SPO+", "personalized", "relative_regret_improvement"),
			Jobs:   monitorSweep,
			Statistic: func(seeds [][]run.SeedResult) float64 {
				v := perSetting(seeds, func(r run.SeedResult) float64 { return 100 * r.Personal.Relative })
				for k := range v[1:] {
					v[1+k] = v[0] - v[1+k]
				}
				return m.of(v[1:])
			}})
	}
	return t
}

// monitorSizes are the validation samples per client that figure 4 lets the
// freeze rule look at, and monitorData the data that have so many: 20 clients
// with 32.
var (
	monitorSizes = []float64{2, 4, 8, 16, 32}
	monitorData  = []string{"-validation-samples", "640"}
)

// monitorSweep is a run of SPO+, and one of RSPO+ for each monitor size.
func monitorSweep(seed int64) []Job {
	jobs := []Job{{Args: slices.Concat(eta{}.args(), []string{"-loss", "spo+"}, monitorData), Seed: seed}}
	for _, n := range monitorSizes {
		jobs = append(jobs, Job{Args: slices.Concat(eta{}.args(), []string{"-loss", "rspo+"}, monitorData, []string{"-monitor", number(n)}), Seed: seed})
	}
	return jobs
}

// improvement is the paper's sweep metric: +P relative regret of SPO+ minus
// that of RSPO+, in percentage points.
func improvement(label string, e eta, shared, rspo []string) Cell {
	return Cell{Setting: label, Method: "RSPO+ vs SPO+", Stage: "+P", Digits: 2,
		Target: findTarget("text-fig3", label, "RSPO+ vs SPO+", "personalized", "relative_regret_improvement"),
		Jobs: func(seed int64) []Job {
			return []Job{{Args: slices.Concat(e.args(), []string{"-loss", "spo+"}, shared), Seed: seed},
				{Args: slices.Concat(e.args(), []string{"-loss", "rspo+"}, shared, rspo), Seed: seed}}
		},
		Value: func(s []run.SeedResult) float64 { return 100 * (s[0].Personal.Relative - s[1].Personal.Relative) }}
}

// improvementOverGrid is improvement at a personal alpha, the mean over the 27
// settings.
func improvementOverGrid(label, alpha string) Cell {
	return Cell{Setting: label, Method: "RSPO+ vs SPO+", Stage: "+P", Digits: 2,
		Target: findTarget("text-fig3", label, "RSPO+ vs SPO+", "personalized", "relative_regret_improvement"),
		Jobs: func(seed int64) []Job {
			return append(overGrid("-loss", "spo+")(seed), overGrid("-loss", "rspo+", "-personal-alpha", alpha)(seed)...)
		},
		Value: func(s []run.SeedResult) float64 {
			n := len(s) / 2
			return 100 * (meanOf(s[:n], func(r run.SeedResult) float64 { return r.Personal.Relative }) -
				meanOf(s[n:], func(r run.SeedResult) float64 { return r.Personal.Relative }))
		}}
}

// correlation is Pearson's r.
func correlation(a, b []float64) float64 {
	ma, sa := run.MeanStd(a)
	mb, sb := run.MeanStd(b)
	sum := 0.0
	for i := range a {
		sum += (a[i] - ma) * (b[i] - mb)
	}
	if sa == 0 || sb == 0 {
		return math.NaN()
	}
	return sum / float64(len(a)-1) / (sa * sb)
}
