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
			s.Steps, s.Data = 0, ""
			s.Fed, s.Personal, s.LocalEndpoint = withoutClients(s.Fed), withoutClients(s.Personal), withoutClients(s.LocalEndpoint)
			s.Constant = withoutClients(s.Constant)
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

// printTable prints a row per loss and stage, and the notes below; population
// chooses the divisor of deviations.
func printTable(w io.Writer, s experiment.Setting, results []run.Result, population bool, notes []string) error {
	fmt.Fprintln(w, title(s))
	fmt.Fprintln(w)
	if err := printRows(w, s, results, population); err != nil {
		return err
	}
	notes = append(serverNotes(results), notes...)
	if note := constantNote(results); note != "" {
		notes = append([]string{note}, notes...)
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	return nil
}

// printRows prints the table of results and how learning rates were chosen.
func printRows(w io.Writer, s experiment.Setting, results []run.Result, population bool) error {
	t := table{population: population}
	for _, r := range results {
		t.metric = r.Metric
		t.add(r, s.Config)
	}
	if err := t.print(w); err != nil {
		return err
	}
	printTuning(w, results)
	return nil
}

// constantNote says what equal costs would have led to, or "".
func constantNote(results []run.Result) string {
	for _, r := range results {
		var values []float64
		for _, s := range r.Seeds {
			if s.Constant != nil {
				values = append(values, r.Metric.Of(s.Constant.Regret))
			}
		}
		if mean, _ := run.MeanStd(values); len(values) > 0 {
			unit, per := r.Metric.Unit()
			return fmt.Sprintf("Without a model, at equal costs everywhere, the %s is %.2f %s.", r.Metric.Title(), per*mean, unit)
		}
	}
	return ""
}

// freezeNote says where the freeze rule has nothing to look at, or "".
func freezeNote(s experiment.Setting) string {
	without, clients := s.Unmonitored()
	switch {
	case without == 0 || !experiment.Regularized(s.PersonalLosses()):
	case without == clients:
		return "There are no validation samples: the freeze rule of rspo+ never fires."
	case !s.Config.SinglePooled:
		return fmt.Sprintf("%d of %d clients have no validation samples: the freeze rule of rspo+ never fires there.", without, clients)
	}
	return ""
}

// seedText lists the first seeds.
func seedText(list []int64) string {
	seeds := make([]string, len(list))
	for i, n := range list {
		seeds[i] = fmt.Sprint(n)
	}
	if len(seeds) > 8 {
		return fmt.Sprintf("seed %s, ... (%d)", strings.Join(seeds[:8], ", "), len(seeds))
	}
	return "seed " + strings.Join(seeds, ", ")
}

// title says what was run.
func title(s experiment.Setting) string {
	text := fmt.Sprintf("task %s (%s), %s, %s", s.Kind.Name, s.Kind.Describe(s.Data), s.Config.Regime, s.Model) + serverTitle(s.Config.Coordinator)
	if p := s.Config.Personalizer; p != nil {
		text += ", +P by " + p.Name()
	}
	if l := s.Config.PersonalLoss; l != nil {
		text += ", +P with " + l.Name()
	}
	return text + ", " + seedText(s.Seeds)
}

// printTuning says how learning rates were chosen.
func printTuning(w io.Writer, results []run.Result) {
	for k, r := range results {
		if r.Tuning == nil {
			continue
		}
		unit, per := r.Metric.Unit()
		if k == 0 {
			fmt.Fprintf(w, "\nLearning rates, by %s on validation samples%s:\n", r.Metric.Title(), strings.TrimSuffix(" in "+unit, " in "))
		}
		var tried []string
		for _, c := range r.Tuning.Candidates {
			tried = append(tried, fmt.Sprintf("%g: %.2f", c.Rate, per*c.Regret))
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
	metric     run.Measure
	rows       [][]string
}

// columns are the two lines of headings; columns from optional on may be left
// out. Beside the task's metric stands the absolute regret, or beside that the
// relative one.
func (t *table) columns() [][]string {
	above := []string{"", "", "", "over", "over", "", "over", "over", "", "", "", ""}
	below := []string{"loss", "stage", "", "seeds", "clients", "", "seeds", "clients", "lambda", "frozen %", "rho", "multiplier"}
	for k, m := range t.measures() {
		unit, _ := m.Unit()
		first, second, _ := strings.Cut(m.Title(), " ")
		above[2+3*k], below[2+3*k] = first, strings.TrimSpace(second+" "+unit)
	}
	return [][]string{above, below}
}

// measures are the numbers in the table.
func (t *table) measures() [2]run.Measure {
	switch t.metric {
	case run.AbsoluteRegret:
		return [2]run.Measure{run.AbsoluteRegret, run.RelativeRegret}
	case run.OptimalityGap:
		return [2]run.Measure{run.OptimalityGap, run.AbsoluteRegret}
	}
	return [2]run.Measure{run.RelativeRegret, run.AbsoluteRegret}
}

// optional is the first column that may be left out.
const optional = 10

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
	var lambda, frozen, rho, multiplier []float64
	for _, s := range stages {
		stopped, l := 0.0, 0.0
		for _, c := range s.Clients {
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
		lambda, frozen = append(lambda, l), append(frozen, stopped)
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
	row := []string{loss, stage}
	for _, m := range t.measures() {
		row = append(row, t.cells(m, stages)...)
	}
	t.rows = append(t.rows, append(row, mean(lambda, "%.3g", l > 0), mean(frozen, "%.0f", l > 0 && freezes && multiplier == nil),
		mean(rho, "%.2f", true), mean(multiplier, "%.3g", true)))
}

// cells are a measure's mean, its deviation over seeds, and the mean over seeds
// of its deviation over clients.
func (t *table) cells(m run.Measure, stages []*run.StageResult) []string {
	value, spread := "%.2f", "± %.2f"
	if m == run.AbsoluteRegret {
		value, spread = "%.4g", "± %.3g"
	}
	_, per := m.Unit()
	var seeds, spreads []float64
	for _, s := range stages {
		var clients []float64
		for _, c := range s.Clients {
			clients = append(clients, per*m.Of(c.Regret))
		}
		_, std := t.meanStd(clients)
		seeds, spreads = append(seeds, per*m.Of(s.Regret)), append(spreads, std)
	}
	mean, std := t.meanStd(seeds)
	over, _ := t.meanStd(spreads)
	overSeeds := "-"
	if len(stages) > 1 {
		overSeeds = fmt.Sprintf(spread, std)
	}
	return []string{fmt.Sprintf(value, mean), overSeeds, fmt.Sprintf(spread, over)}
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
	var text strings.Builder
	tw := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range slices.Concat(t.columns(), t.rows) {
		for k, text := range row {
			if k < optional || slices.ContainsFunc(t.rows, func(r []string) bool { return r[k] != "-" }) {
				fmt.Fprint(tw, text, "\t")
			}
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	// The writer pads the first column too, and headings that end early.
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.TrimPrefix(line, "  "), " \n")); err != nil {
			return err
		}
	}
	return nil
}
