package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"fedrspo/experiment"
	"fedrspo/run"
	"fedrspo/train"
)

// jsonRun is one loss in the output of -json: a run.Result without the
// clients, and with the wall time where it is known.
type jsonRun struct {
	run.Result
	WallSeconds *float64 `json:"wall_seconds,omitempty"`
}

// jsonReport is the object -json prints: the run itself, or a list of runs.
func jsonReport(results []run.Result, timing run.Timing) any {
	runs := make([]jsonRun, len(results))
	for k, r := range results {
		runs[k] = jsonRun{Result: r}
		runs[k].Seeds = slices.Clone(r.Seeds)
		for i := range runs[k].Seeds {
			s := &runs[k].Seeds[i]
			s.Steps = 0
			s.Fed, s.Personal = withoutClients(s.Fed), withoutClients(s.Personal)
		}
		for _, t := range timing.Runs {
			if t.Loss != r.Loss {
				continue
			}
			if runs[k].WallSeconds == nil {
				runs[k].WallSeconds = new(float64)
			}
			*runs[k].WallSeconds += t.WallSeconds
		}
	}
	if len(runs) == 1 {
		runs[0].WallSeconds = &timing.WallSeconds
		return runs[0]
	}
	return struct {
		Runs        []jsonRun `json:"runs"`
		WallSeconds float64   `json:"wall_seconds"`
	}{runs, timing.WallSeconds}
}

func withoutClients(s *run.StageResult) *run.StageResult {
	if s == nil {
		return nil
	}
	return &run.StageResult{Regret: s.Regret}
}

// printTable prints a row per loss and stage; population chooses the divisor of
// deviations.
func printTable(w io.Writer, s experiment.Setting, results []run.Result, population bool) error {
	fmt.Fprintln(w, title(s))
	fmt.Fprintln(w)
	t := table{population: population}
	for _, r := range results {
		t.add(r, s.Config)
	}
	if err := t.print(w); err != nil {
		return err
	}
	printTuning(w, results)
	if slices.ContainsFunc(results, func(r run.Result) bool { return !r.Complete }) {
		fmt.Fprint(w, "\nInterrupted: only what was finished is shown.\n")
	}
	return nil
}

// title says what was run.
func title(s experiment.Setting) string {
	seeds := make([]string, len(s.Seeds))
	for i, n := range s.Seeds {
		seeds[i] = fmt.Sprint(n)
	}
	list := strings.Join(seeds, ", ")
	if len(seeds) > 8 {
		list = fmt.Sprintf("%s, ... (%d)", strings.Join(seeds[:8], ", "), len(seeds))
	}
	data := "generated data"
	if s.Data.Dir != "" {
		data = s.Data.Dir
	} else if s.Data.EtaObj != 0 || s.Data.EtaConstr != 0 || s.Data.EtaData != 0 {
		data = fmt.Sprintf("generated data, heterogeneity (%g, %g, %g)", s.Data.EtaObj, s.Data.EtaConstr, s.Data.EtaData)
	}
	text := fmt.Sprintf("task %s (%s), %s, %s", s.Kind.Name, data, s.Config.Regime, s.Model)
	if p := s.Config.Personalizer; p != nil {
		text += ", +P by " + p.Name()
	}
	if l := s.Config.PersonalLoss; l != nil {
		text += ", +P with " + l.Name()
	}
	return text + ", seed " + list
}

// printTuning says how learning rates were chosen.
func printTuning(w io.Writer, results []run.Result) {
	for k, r := range results {
		if r.Tuning == nil {
			continue
		}
		if k == 0 {
			fmt.Fprint(w, "\nLearning rates, by relative regret on validation samples in %:\n")
		}
		var tried []string
		for _, c := range r.Tuning.Candidates {
			tried = append(tried, fmt.Sprintf("%g: %.2f", c.Rate, 100*c.Regret))
		}
		fmt.Fprintf(w, "  %s %g (%s)\n", r.Loss, r.Tuning.Rate, strings.Join(tried, ", "))
	}
}

func stageName(regime train.Regime, personal bool) string {
	switch {
	case regime == train.Federated && personal:
		return "+P"
	case regime == train.Federated:
		return "Fed"
	}
	return string(regime)
}

// table is the rows of a run's table. Columns that say something in no row are
// left out, but for the first ones.
type table struct {
	population bool
	rows       [][]string
}

// columns are the headings; those from optional on may be left out.
var columns = []string{"loss", "stage", "relative regret %", "over seeds", "over clients", "absolute regret", "over seeds", "lambda", "frozen %", "rho", "multiplier"}

// optional is the first column that may be left out.
const optional = 9

// add adds the rows of a loss.
func (t *table) add(r run.Result, cfg train.Config) {
	for _, personal := range []bool{false, true} {
		if stages := r.Stages(personal); len(stages) > 0 {
			t.row(r.Loss, stageName(cfg.Regime, personal), stages, personal || cfg.Regime == train.Centralized)
		}
	}
	var local []*run.StageResult
	for _, s := range r.Seeds {
		if s.LocalEndpoint != nil {
			local = append(local, s.LocalEndpoint)
		}
	}
	if len(local) > 0 {
		t.row(r.Loss, "+P, rho 0", local, true)
	}
}

// row adds a row; freezes says that the stage has schedules that may freeze.
func (t *table) row(loss, stage string, stages []*run.StageResult, freezes bool) {
	var relative, absolute, overClients, lambda, frozen, rho, multiplier []float64
	for _, s := range stages {
		relative = append(relative, 100*s.Relative)
		absolute = append(absolute, s.Absolute)
		var clients []float64
		stopped := 0.0
		l := 0.0
		for _, c := range s.Clients {
			clients = append(clients, 100*c.Relative)
			l += c.Lambda / float64(len(s.Clients))
			if c.FrozenAfter != nil {
				stopped += 100 / float64(len(s.Clients))
			}
			if c.Rho != nil {
				rho = append(rho, *c.Rho)
			}
			if c.Multiplier > 0 {
				multiplier = append(multiplier, c.Multiplier)
			}
		}
		_, std := t.meanStd(clients)
		overClients, lambda, frozen = append(overClients, std), append(lambda, l), append(frozen, stopped)
	}
	rel, relStd := t.meanStd(relative)
	abs, absStd := t.meanStd(absolute)
	spread, _ := t.meanStd(overClients)
	deviation := func(x float64, digits int) string {
		if len(stages) == 1 {
			return "-"
		}
		return fmt.Sprintf("± %.*f", digits, x)
	}
	// A dash stands for what the loss or the stage does not have.
	mean := func(v []float64, format string, there bool) string {
		if !there || len(v) == 0 {
			return "-"
		}
		m, _ := t.meanStd(v)
		return fmt.Sprintf(format, m)
	}
	l, _ := t.meanStd(lambda)
	t.rows = append(t.rows, []string{loss, stage, fmt.Sprintf("%.2f", rel), deviation(relStd, 2), fmt.Sprintf("± %.2f", spread),
		fmt.Sprintf("%.4g", abs), deviation(absStd, 3), mean(lambda, "%.3g", l > 0), mean(frozen, "%.0f", l > 0 && freezes && multiplier == nil),
		mean(rho, "%.2f", true), mean(multiplier, "%.3g", true)})
}

// meanStd is run.MeanStd with the table's divisor.
func (t *table) meanStd(v []float64) (mean, std float64) {
	mean, std = run.MeanStd(v)
	if n := float64(len(v)); t.population && n > 1 {
		std *= math.Sqrt((n - 1) / n)
	}
	return mean, std
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{columns}, t.rows...) {
		for k, text := range row {
			if k < optional || slices.ContainsFunc(t.rows, func(r []string) bool { return r[k] != "-" }) {
				fmt.Fprint(tw, text, "\t")
			}
		}
		fmt.Fprintln(tw)
	}
	return tw.Flush()
}
