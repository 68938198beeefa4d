package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"fedrspo/run"
)

// rateFindings is about the learning rates of table 3: versions are paper,
// matched and tuned.
func rateFindings(d *Docs, versions []*Finished) []string {
	paper := versions[0]
	// λ of the federated stage is the calibrated one: it is not annealed.
	var rates []float64
	for _, seed := range paper.Options.Seeds {
		r := d.Result(paper.Entry("(0,0,0)", "RSPO+", "Fed").Jobs(seed)[0])
		rates = append(rates, calibratedRate(overClients(r.Fed, func(c run.ClientResult) float64 { return c.Lambda })))
	}
	rate, _ := run.MeanStd(rates)
	out := []string{fmt.Sprintf("At (0,0,0) the calibrated learning rate of RSPO+ is %.4f on average, %.1f times the 0.001 of the other methods. A client takes few steps with a fresh optimiser each round, so that the rate decides how far it gets.", rate, rate/1e-3)}
	for _, f := range versions {
		out = append(out, fmt.Sprintf("At %s rates the least regret is that of %s.", f.Options.Rates, f.winners()))
	}
	for _, f := range versions {
		if len(f.Options.Seeds) < 2 {
			break
		}
		out = append(out, fmt.Sprintf("At %s rates, paired on the same seeds: %s.", f.Options.Rates, f.wins("RSPO+", "SPO+", "Fed", "+P")))
		if f.Options.Rates != "paper" {
			out = append(out, fmt.Sprintf("At %s rates, after personalisation: %s; %s; %s.", f.Options.Rates,
				f.wins("RSPO+ then SPO+", "SPO+", "+P"), f.wins("RSPO+ then SPO+", "RSPO+", "+P"), f.wins("RSPO+ without early stop", "RSPO+", "+P")))
		}
	}
	return out
}

// calibratedRate is η = α λ/4 at the paper's α for the knapsack.
func calibratedRate(lambda float64) float64 { return 0.01 * lambda / 4 }

// winners says which method is best in how many settings, by stage.
func (f *Finished) winners() string {
	var stages []string
	for _, stage := range []struct{ name, words string }{{"Fed", "federated"}, {"+P", "personalised"}} {
		counts := map[string]int{}
		var names []string
		for _, s := range table3Settings {
			best := ""
			for _, e := range f.Entries {
				if e.Setting == s.String() && e.Stage == stage.name && (best == "" || e.Mean < f.Mean(e.Setting, best, e.Stage)) {
					best = e.Method
				}
			}
			if counts[best]++; counts[best] == 1 {
				names = append(names, best)
			}
		}
		slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
		for k, n := range names {
			names[k] = fmt.Sprintf("%s in %d", n, counts[n])
		}
		stages = append(stages, fmt.Sprintf("%s of %d settings %s", strings.Join(names, ", "), len(table3Settings), stage.words))
	}
	return strings.Join(stages, " and ")
}

// wins says in how many settings and stages method a is better than b, with
// intervals that exclude 0.
func (f *Finished) wins(a, b string, stages ...string) string {
	better, worse, all := 0, 0, 0
	for _, s := range table3Settings {
		for _, stage := range stages {
			all++
			switch p := f.against(b, a, s.String(), stage); {
			case p.Low > 0:
				better++
			case p.High < 0:
				worse++
			}
		}
	}
	return fmt.Sprintf("%s is better than %s in %d of %d comparisons and worse in %d (95 %% intervals that exclude 0)", a, b, better, all, worse)
}

// interpFindings is about the printed column of Interp-DFFL.
func interpFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	var out []string
	for _, e := range f.Entries {
		if e.Method != "Interp-DFFL" {
			continue
		}
		printed := findTarget("4", e.Setting, "Interp-DFFL", "interpolated", "relative_regret")
		text := fmt.Sprintf("%s: the paper prints %s for Interp-DFFL; as described it gives %s, its local models alone %s, local-only SPO+ %s", e.Setting, paperText(printed),
			f.ours(e), f.ours(f.Entry(e.Setting, "Interp-DFFL, local endpoint", "+P")), f.ours(f.Entry(e.Setting, "local-only SPO+", "+P")))
		if len(f.Options.Seeds) >= JudgedSeeds {
			z := func(method string) float64 {
				return zScore(*printed, f.Entry(e.Setting, method, "+P").Values, len(f.Table.Seeds))
			}
			text += fmt.Sprintf(" (z %s, %s and %s)", zText(z("Interp-DFFL")), zText(z("Interp-DFFL, local endpoint")), zText(z("local-only SPO+")))
		}
		out = append(out, text+".")
	}
	for _, s := range []string{"(0,0,0)", "(0,0,1)"} {
		a, b := findTarget("4", s, "Interp-DFFL", "interpolated", "relative_regret"), findTarget("14", s, "SPO+", "local", "relative_regret")
		if a.Mean == b.Mean && a.Std == b.Std {
			out = append(out, fmt.Sprintf("%s: the printed number of Interp-DFFL, %s, is the one that table 14 prints for local-only SPO+.", s, paperText(a)))
		}
	}
	if len(f.Options.Seeds) > 1 {
		for _, e := range f.Entries {
			if e.Method == "Interp-DFFL" {
				out = append(out, fmt.Sprintf("%s: Interp-DFFL as described less FedRSPO+, paired: %s.", e.Setting, f.against("Interp-DFFL", "FedRSPO+", e.Setting, "+P").interval()))
			}
		}
	}
	return out
}

// ablationFindings compares each row of table 9 with the one above it.
func ablationFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	if len(f.Options.Seeds) < 2 {
		return nil
	}
	var out []string
	last := f.Entries[0]
	for _, e := range f.Entries[1:] {
		if e.Setting == last.Setting {
			p := Compare(last.Values, e.Values)
			effect := "no clear effect"
			switch {
			case p.Low > 0:
				effect = "better"
			case p.High < 0:
				effect = "worse"
			}
			out = append(out, fmt.Sprintf("%s: %s against %s, gain %s: %s.", e.Setting, e.Method, last.Method, p.interval(), effect))
		}
		last = e
	}
	return out
}

// centralisedFindings compares local-only SPO+ with FedRSPO+.
func centralisedFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	if len(f.Options.Seeds) < 2 {
		return nil
	}
	var out []string
	for _, s := range []string{"(0,0,0)", "(0,0,0.5)", "(0,0,1)"} {
		p := Compare(f.Entry(s, "SPO+", "local").Values, f.Entry(s, "RSPO+", "personalized").Values)
		out = append(out, fmt.Sprintf("%s: local-only SPO+ less personalised FedRSPO+, paired: %s.", s, p.interval()))
	}
	return out
}

// alignmentFindings is about table 17.
func alignmentFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	return []string{fmt.Sprintf("Personalisation shrinks the gap between the regularised and the linear decision to %.0f %% of what it is for the federated model (paper: %.0f %%).",
		100*f.Mean("personalised/global ratio", "RSPO+", "mean"), 100*f.Entry("personalised/global ratio", "RSPO+", "mean").Target.Mean)}
}

// linearFindings averages table 18 over its settings, as the text of appendix
// C.7 does.
func linearFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	var out []string
	for _, stage := range []struct {
		name, words, paper string
	}{{"Fed", "federated", "16.96 against 40.83"}, {"+P", "personalised", "14.87 against 38.00"}} {
		sums := map[string]float64{}
		for _, e := range f.Entries {
			if e.Stage == stage.name {
				sums[e.Method] += e.Mean / float64(len(table3Settings))
			}
		}
		strongest := math.Inf(1)
		name := ""
		for _, m := range methods {
			if m.name != "RSPO+" && sums[m.name] < strongest {
				name, strongest = m.name, sums[m.name]
			}
		}
		out = append(out, fmt.Sprintf("Averaged over settings, %s: RSPO+ %.2f against %.2f of the strongest other, %s (paper: %s).", stage.words, sums["RSPO+"], strongest, name, stage.paper))
	}
	return out
}

// textFindings is about the direction of the alpha sweep.
func textFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	low, high := f.Entry("alpha=1e-3", "RSPO+ vs SPO+", "+P"), f.Entry("alpha=0.1", "RSPO+ vs SPO+", "+P")
	direction := "grows"
	if high.Mean < low.Mean {
		direction = "falls"
	}
	return []string{fmt.Sprintf("From alpha 0.001 to 0.1 the advantage of RSPO+ %s, from %s to %s points; the paper has %s and %s.", direction, f.ours(low), f.ours(high), paperText(low.Target), paperText(high.Target))}
}

// sweepFindings gives the range of each sweep of a figure.
func sweepFindings(_ *Docs, versions []*Finished) []string {
	f := versions[0]
	var out []string
	for _, p := range f.Plots {
		var low, high Entry
		first := true
		for _, e := range f.Entries {
			if e.Sweep != p.Sweep {
				continue
			}
			if first || e.Mean < low.Mean {
				low = e
			}
			if first || e.Mean > high.Mean {
				high = e
			}
			first = false
		}
		out = append(out, fmt.Sprintf("%s: from %s points at %g to %s at %g.", p.Title, f.ours(low), low.X, f.ours(high), high.X))
	}
	return out
}
