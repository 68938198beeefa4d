package experiment

import (
	"math"
	"slices"
	"strconv"

	"fedrspo/run"
	"fedrspo/task/pjm"
)

// pjmSeeds are the authors' program's seeds for PJM. The paper lists 67 in the
// place of 2000.
var pjmSeeds = []int64{42, 69, 1993, 2000, 2026}

// pjmSetting is how the paper's numbers are labelled.
const pjmSetting = "PJM"

// Values of a seed, in dollars.
func fedDollars(s []run.SeedResult) float64      { return s[0].Fed.Absolute }
func personalDollars(s []run.SeedResult) float64 { return s[0].Personal.Absolute }

// pjmTable is a table about PJM on the data that o names. On generated prices
// the numbers are not the paper's to match.
func pjmTable(o Options, id, title, note string) *Table {
	t := &Table{ID: id, Title: title, Seeds: pjmSeeds, Metric: run.AbsoluteRegret, Note: note}
	if note != "" {
		t.Note += " "
	}
	t.Note += "The seeds are those of the authors' program; they change initial model and training, not the data."
	if o.PJMData == "" {
		t.OnlyOrder, t.Variant = true, "generated"
		t.Note += " The prices are GENERATED, not the published ones: agreement with the paper's numbers is not judged. With the published table: reproduce -table " + id + " -pjm-data FILE, after scripts/fetch_data.sh pjm."
	} else {
		t.Note += " The prices are those of " + o.PJMData + "."
	}
	return t
}

// pjmTables are the tables about PJM.
var pjmTables = []string{"4-pjm", "5", "11", "12", "13", "15", "16-pjm"}

// AboutPJM says whether the table of that name takes Options.PJMData.
func AboutPJM(name string) bool { return slices.Contains(pjmTables, name) }

// pjmArgs are settings flags of a run on PJM.
func pjmArgs(o Options, args ...string) []string {
	all := []string{"-task", "pjm"}
	if o.PJMData != "" {
		all = append(all, "-data", o.PJMData)
	}
	return append(all, args...)
}

// constantLambda keeps λ and the learning rate of personalisation as they are,
// without freeze rule or early stop.
var constantLambda = []string{"-kappa-lambda", "0", "-kappa-lr", "0", "-tau", "0"}

// ablation are the rows of table 5 with their settings.
var ablation = []struct {
	method, target, stage string
	value                 func([]run.SeedResult) float64
	args                  []string
}{
	{"MSE", "5", "fed", fedDollars, []string{"-loss", "mse"}},
	{"SPO+", "5", "fed", fedDollars, []string{"-loss", "spo+"}},
	{"RSPO+", "5", "fed", fedDollars, averaged},
	{"RSPO+ w/ P", "5", "personalized", personalDollars, slices.Concat(averaged, []string{"-personal-alpha", "0.01"}, constantLambda)},
	{"RSPO+ w/ P + lambda_j/eta_j", "5", "personalized", personalDollars, slices.Concat([]string{"-loss", "rspo+"}, constantLambda)},
	{"RSPO+(Full)", "5", "personalized", personalDollars, []string{"-loss", "rspo+"}},
	{"RSPO+(Full)+Ditto", "5", "personalized", personalDollars, []string{"-loss", "rspo+", "-personalizer", "ditto"}},
	{"RSPO+(Full)+FedProx", "5", "personalized", personalDollars, []string{"-loss", "rspo+", "-prox", "1"}},
	{"PFYL", "text-4.2", "personalized", personalDollars, []string{"-loss", "pfyl", "-personal-rounds", "10"}},
	{"DPO", "text-4.2", "personalized", personalDollars, []string{"-loss", "dpo", "-personal-rounds", "10"}},
	{"MSE, personalised", "", "personalized", personalDollars, []string{"-loss", "mse"}},
	{"SPO+, personalised", "", "personalized", personalDollars, []string{"-loss", "spo+"}},
}

// averaged is RSPO+ with one λ and learning rate for all clients.
var averaged = []string{"-loss", "rspo+", "-calibration", "averaged"}

func table5(o Options) *Table {
	t := pjmTable(o, "5", "PJM ablation, absolute regret in $",
		"MSE, SPO+ and RSPO+ are federated only, as in the paper; their personalised versions stand below, beside PFYL and DPO of section 4.2. Personalisation has 15 rounds, the authors' program's number, and 10 for PFYL and DPO; table 10 says 10.")
	t.Baseline = "RSPO+(Full)"
	for _, m := range ablation {
		t.Cells = append(t.Cells, Cell{Setting: pjmSetting, Method: m.method, Stage: m.stage, Jobs: single(pjmArgs(o, m.args...)), Value: m.value, Digits: 3,
			Target: findTarget(m.target, pjmSetting, m.method, m.stage, "absolute_regret")})
	}
	mean := func(f *Finished, row int) float64 {
		return f.Mean(pjmSetting, ablation[row].method, ablation[row].stage)
	}
	t.Claims = []Claim{
		{ID: "surrogates", AtPaperRates: true, Text: "SPO+ has less regret than MSE, and RSPO+ less than SPO+, federated only, at the paper's learning rates (section 4.2)",
			Holds: func(f *Finished) bool { return mean(f, 0) > mean(f, 1) && mean(f, 1) > mean(f, 2) }},
		{ID: "components", AtPaperRates: true, Text: "personalisation, calibration per client and annealing each lower the regret of RSPO+ (section 4.2)",
			Holds: func(f *Finished) bool {
				return mean(f, 2) > mean(f, 3) && mean(f, 3) > mean(f, 4) && mean(f, 4) > mean(f, 5)
			}},
		{ID: "full", AtPaperRates: true, Text: "the full method has less regret than federated MSE and SPO+ (section 4.2)",
			Holds: func(f *Finished) bool { return mean(f, 5) < mean(f, 0) && mean(f, 5) < mean(f, 1) }},
	}
	return t
}

// table4PJM is the row of table 4 about PJM.
func table4PJM(o Options) *Table {
	t := pjmTable(o, "4-pjm", "Interp-DFFL, OptNet-style and FedRSPO+ after personalisation, PJM row, absolute regret in $",
		"The paper's Interp-DFFL number equals its local-only SPO+ of table 15; local endpoint (rho = 0) and local-only SPO+ stand beside it.")
	t.Baseline = "FedRSPO+"
	interp := pjmArgs(o, "-loss", "spo+", "-personalizer", "interp", "-personal-rounds", "45")
	add := func(method, target, stage string, value func([]run.SeedResult) float64, args []string) {
		t.Cells = append(t.Cells, Cell{Setting: pjmSetting, Method: method, Stage: "+P", Jobs: single(args), Value: value, Digits: 2,
			Target: findTarget("4", pjmSetting, target, stage, "absolute_regret")})
	}
	report := map[string]string{o.interpReport(): "Interp-DFFL"}
	add("Interp-DFFL", report["calibrated"], "interpolated", personalDollars, interp)
	add("Interp-DFFL, local endpoint", report["local-endpoint"], "interpolated", func(s []run.SeedResult) float64 { return s[0].LocalEndpoint.Absolute }, interp)
	add("local-only SPO+", report["local-only"], "interpolated", personalDollars, pjmArgs(o, localArgs("spo+")...))
	add("OptNet", "OptNet", "personalized", personalDollars, pjmArgs(o, "-loss", "optnet", "-personal-rounds", "10"))
	add("FedRSPO+", "FedRSPO+", "personalized", personalDollars, pjmArgs(o, "-loss", "rspo+"))
	return t
}

// lateDays are the training days of the client left out in tables 11 and 12.
var lateDays = []int{3, 7, 14, 30, 60}

// leaveOneOut returns the jobs behind a number of days, for one seed: for each
// zone a federated run that it joins late, and then local training of all zones
// on as many days. A zone's local model does not depend on the others.
func leaveOneOut(o Options, days int) func(int64) []Job {
	n := []string{"-loss", "rspo+", "-train-days", strconv.Itoa(days)}
	return func(seed int64) []Job {
		var jobs []Job
		for _, z := range pjm.Zones() {
			jobs = append(jobs, Job{Args: pjmArgs(o, append(slices.Clone(n), "-late-client", strconv.Itoa(z.ID))...), Seed: seed})
		}
		return append(jobs, Job{Args: pjmArgs(o, append(slices.Clone(n), "-regime", "local")...), Seed: seed})
	}
}

// lateRegrets are the regrets, by zone, of the results of leaveOneOut: of local
// training, of the federated model, and of that after personalisation.
func lateRegrets(s []run.SeedResult) (local, fed, personal []float64) {
	zones := pjm.Zones()
	of := func(stage *run.StageResult, id int) float64 {
		i := slices.IndexFunc(stage.Clients, func(c run.ClientResult) bool { return c.Client == id })
		return stage.Clients[i].Absolute
	}
	for k, z := range zones {
		local = append(local, of(s[len(zones)].Personal, z.ID))
		fed = append(fed, of(s[k].Fed, z.ID))
		personal = append(personal, of(s[k].Personal, z.ID))
	}
	return local, fed, personal
}

// lateMeans are the means over zones of lateRegrets.
func lateMeans(s []run.SeedResult) (local, fed, personal float64) {
	l, f, p := lateRegrets(s)
	return mean(l), mean(f), mean(p)
}

func lateSetting(days int) string { return "LOCO n=" + strconv.Itoa(days) + " days" }

func table11(o Options) *Table {
	t := pjmTable(o, "11", "PJM with a client left out of federated training, absolute regret in $",
		"Each of the 19 clients in turn has only its last n training days; the other 18 train a federated model, which the client uses as it is or personalises. Means over the clients; a relative reduction is one less the ratio of the means over seeds.")
	for _, n := range lateDays {
		add := func(method, stage, metric string, value func(local, fed, personal float64) float64) {
			t.Cells = append(t.Cells, Cell{Setting: lateSetting(n), Method: method, Stage: lateStage(stage, metric), Jobs: leaveOneOut(o, n), Digits: 2,
				Target: findTarget("11", lateSetting(n), method, stage, metric),
				Value:  func(s []run.SeedResult) float64 { return value(lateMeans(s)) }})
		}
		add("RSPO+", "local", "absolute_regret", func(local, _, _ float64) float64 { return local })
		add("RSPO+", "fed", "absolute_regret", func(_, fed, _ float64) float64 { return fed })
		add("FedRSPO+", "personalized", "absolute_regret", func(_, _, personal float64) float64 { return personal })
		add("FedRSPO+", "personalized", "gap_vs_local", func(local, _, personal float64) float64 { return local - personal })
		reduction := func(method, stage string, of func(local, fed, personal float64) float64) {
			const metric = "relative_reduction_vs_local"
			t.Cells = append(t.Cells, Cell{Setting: lateSetting(n), Method: method, Stage: lateStage(stage, metric), Jobs: leaveOneOut(o, n), Digits: 1,
				Target: findTarget("11", lateSetting(n), method, stage, metric),
				Statistic: func(seeds [][]run.SeedResult) float64 {
					ours, local := 0.0, 0.0
					for _, s := range seeds {
						l, f, p := lateMeans(s)
						ours, local = ours+of(l, f, p), local+l
					}
					return 100 * (1 - ours/local)
				}})
		}
		reduction("RSPO+", "fed", func(_, fed, _ float64) float64 { return fed })
		reduction("FedRSPO+", "personalized", func(_, _, personal float64) float64 { return personal })
	}
	t.Claims = []Claim{{ID: "federation", AtPaperRates: true, Text: "with 3 to 60 days of its own data, a client is better served by a federated model that never saw it than by local RSPO+ (appendix C.5)",
		Holds: func(f *Finished) bool {
			return !slices.ContainsFunc(lateDays, func(n int) bool {
				return !(f.Mean(lateSetting(n), "RSPO+", "fed") < f.Mean(lateSetting(n), "RSPO+", "local"))
			})
		}}}
	return t
}

// lateStage labels a column of table 11.
func lateStage(stage, metric string) string {
	switch metric {
	case "gap_vs_local":
		return stage + ", gap to local"
	case "relative_reduction_vs_local":
		return stage + ", reduction %"
	}
	return stage
}

func table12(o Options) *Table {
	t := pjmTable(o, "12", "PJM with a client left out: what the federated model saves each client against local RSPO+",
		"The regret of each client is averaged over seeds first; of the 19 reductions in % the table has median and quartiles, and how many are positive.")
	for _, n := range lateDays {
		for _, s := range []struct {
			label, metric string
			digits        int
			of            func(reductions []float64) float64
		}{
			{"clients better off", "clients_beating_local", 1, func(r []float64) float64 {
				count := 0.0
				for _, x := range r {
					if x > 0 {
						count++
					}
				}
				return count
			}},
			{"median reduction %", "median_client_reduction", 1, median},
			{"lower quartile", "q25_client_reduction", 1, func(r []float64) float64 { return quantile(r, 0.25) }},
			{"upper quartile", "q75_client_reduction", 1, func(r []float64) float64 { return quantile(r, 0.75) }},
		} {
			t.Cells = append(t.Cells, Cell{Setting: lateSetting(n), Method: "RSPO+", Stage: s.label, Jobs: leaveOneOut(o, n), Digits: s.digits,
				Target:    findTarget("12", lateSetting(n), "RSPO+", "fed", s.metric),
				Statistic: func(seeds [][]run.SeedResult) float64 { return s.of(clientReductions(seeds)) }})
		}
	}
	return t
}

// clientReductions are the percentages by which the federated model's regret,
// averaged over seeds, is below local training's, by zone.
func clientReductions(seeds [][]run.SeedResult) []float64 {
	n := len(pjm.Zones())
	local, fed := make([]float64, n), make([]float64, n)
	for _, s := range seeds {
		l, f, _ := lateRegrets(s)
		for k := range n {
			local[k] += l[k]
			fed[k] += f[k]
		}
	}
	out := make([]float64, n)
	for k := range out {
		out[k] = 100 * (1 - fed[k]/local[k])
	}
	return out
}

// quantile interpolates linearly between order statistics, as NumPy does.
func quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	at := q * float64(len(s)-1)
	lo := int(math.Floor(at))
	hi := min(lo+1, len(s)-1)
	return s[lo] + (at-float64(lo))*(s[hi]-s[lo])
}

func table13(o Options) *Table {
	t := pjmTable(o, "13", "PJM with equal demands: change of the gap between federated SPO+ and FedRSPO+, in %",
		"The gap is regret of federated SPO+ less that of personalised RSPO+; its change is against the gap at the clients' own demands, seed by seed.")
	const method = "SPO+ fed minus FedRSPO+ personalized"
	for _, k := range []int{4, 6, 8, 10, 12} {
		demand := []string{"-demand", strconv.Itoa(k)}
		spo, rspo := []string{"-loss", "spo+"}, []string{"-loss", "rspo+"}
		setting := "common demand " + strconv.Itoa(k)
		t.Cells = append(t.Cells, Cell{Setting: setting, Method: method, Stage: "mixed", Digits: 2,
			Target: findTarget("13", setting, method, "mixed", "gap_change_vs_heterogeneous"),
			Jobs: func(seed int64) []Job {
				var jobs []Job
				for _, args := range [][]string{slices.Concat(spo, demand), slices.Concat(rspo, demand), spo, rspo} {
					jobs = append(jobs, Job{Args: pjmArgs(o, args...), Seed: seed})
				}
				return jobs
			},
			Value: func(s []run.SeedResult) float64 {
				gap, own := s[0].Fed.Absolute-s[1].Personal.Absolute, s[2].Fed.Absolute-s[3].Personal.Absolute
				return 100 * (gap - own) / own
			}})
	}
	return t
}

func table15(o Options) *Table {
	t := pjmTable(o, "15", "PJM: centralised, local-only and federated training, absolute regret in $",
		"Centralised: for each client a model on everybody's data with that client's feasible set. The paper does not give the number of rounds; centralised and local training have 45 rounds of one epoch here.")
	t.Baseline = "RSPO+"
	for _, m := range []struct{ name, loss string }{{"MSE", "mse"}, {"SPO+", "spo+"}, {"RSPO+", "rspo+"}} {
		add := func(stage string, value func([]run.SeedResult) float64, args ...string) {
			t.Cells = append(t.Cells, Cell{Setting: pjmSetting, Method: m.name, Stage: stage, Jobs: single(pjmArgs(o, args...)), Value: value, Digits: 2,
				Target: findTarget("15", pjmSetting, m.name, stage, "absolute_regret")})
		}
		add("centralized", fedDollars, "-regime", "centralized", "-loss", m.loss)
		add("local", personalDollars, localArgs(m.loss)...)
		naive := []string{"-loss", m.loss}
		if m.loss == "rspo+" {
			naive = averaged
		}
		add("fed", fedDollars, naive...)
	}
	const full = "FedRSPO+ (Full)"
	t.Cells = append(t.Cells, Cell{Setting: pjmSetting, Method: full, Stage: "personalized", Jobs: single(pjmArgs(o, "-loss", "rspo+")), Value: personalDollars, Digits: 2,
		Target: findTarget("15", pjmSetting, full, "personalized", "absolute_regret")})
	t.Claims = []Claim{{ID: "mse", AtPaperRates: true, Text: "local-only and federated MSE need decision-aware training to catch up: their regret is above that of SPO+ and RSPO+ (appendix C.5)",
		Holds: func(f *Finished) bool {
			for _, stage := range []string{"local", "fed"} {
				for _, other := range []string{"SPO+", "RSPO+"} {
					if !(f.Mean(pjmSetting, "MSE", stage) > f.Mean(pjmSetting, other, stage)) {
						return false
					}
				}
			}
			return true
		}}}
	return t
}

// table16PJM is the row of table 16 about PJM, with the gaps of appendix C.6.
func table16PJM(o Options) *Table {
	t := pjmTable(o, "16-pjm", "QP-LP alignment of the personalised models, PJM row", "Personalisation has 10 rounds here, as the paper's note says.")
	const setting = "PJM 10 personalization rounds"
	jobs := single(pjmArgs(o, "-loss", "rspo+", "-personal-rounds", "10"))
	add := func(label string, target *Target, digits int, value func(run.SeedResult) float64) {
		t.Cells = append(t.Cells, Cell{Setting: setting, Method: "RSPO+", Stage: label, Jobs: jobs, Digits: digits, Target: target,
			Value: func(s []run.SeedResult) float64 { return value(s[0]) }})
	}
	percent := func(label, metric string, of func(run.Alignment) float64) {
		add(label, findTarget("16", setting, "RSPO+", "personalized", metric), 2,
			func(r run.SeedResult) float64 { return overClients(r.Personal, alignmentOf(of)) })
	}
	percent("decision gap %", "qp_lp_decision_gap_normalized", func(a run.Alignment) float64 { return a.Decision })
	percent("objective gap %", "qp_lp_objective_gap_normalized", func(a run.Alignment) float64 { return a.Objective })
	add("global gap", findTarget("text-C.6", pjmSetting, "RSPO+", "fed", "qp_lp_gap"), 3, globalGap)
	add("personalised gap", findTarget("text-C.6", pjmSetting, "RSPO+", "personalized", "qp_lp_gap"), 3, personalGap)
	t.Claims = []Claim{{ID: "gap", AtPaperRates: true, Text: "personalisation brings regularised and linear decisions closer together (appendix C.6)",
		Holds: func(f *Finished) bool {
			return f.Mean(setting, "RSPO+", "personalised gap") < f.Mean(setting, "RSPO+", "global gap")
		}}}
	return t
}
