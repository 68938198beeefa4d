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
	t := table{population: population}
	for _, r := range results {
		t.add(r, s.Config)
	}
	if err := t.print(w); err != nil {
		return err
	}
	printTuning(w, results)
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
	return nil
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
	return text + ", " + seedText(s.Seeds)
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

// columns are the two lines of headings; columns from optional on may be left
// out.
var columns = [][]string{
	{"", "", "relative", "over", "over", "absolute", "over", "over", "", "", "", ""},
	{"loss", "stage", "regret %", "seeds", "clients", "regret", "seeds", "clients", "lambda", "frozen %", "rho", "multiplier"},
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
	var relative, absolute, overClients, absOverClients, lambda, frozen, rho, multiplier []float64
	for _, s := range stages {
		relative = append(relative, 100*s.Relative)
		absolute = append(absolute, s.Absolute)
		var clients, absClients []float64
		stopped := 0.0
		l := 0.0
		for _, c := range s.Clients {
			clients = append(clients, 100*c.Relative)
			absClients = append(absClients, c.Absolute)
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
		_, absStd := t.meanStd(absClients)
		overClients, absOverClients = append(overClients, std), append(absOverClients, absStd)
		lambda, frozen = append(lambda, l), append(frozen, stopped)
	}
	rel, relStd := t.meanStd(relative)
	abs, absStd := t.meanStd(absolute)
	spread, _ := t.meanStd(overClients)
	absSpread, _ := t.meanStd(absOverClients)
	overSeeds := func(x float64, format string) string {
		if len(stages) == 1 {
			return "-"
		}
		return fmt.Sprintf(format, x)
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
	t.rows = append(t.rows, []string{loss, stage, fmt.Sprintf("%.2f", rel), overSeeds(relStd, "± %.2f"), fmt.Sprintf("± %.2f", spread),
		fmt.Sprintf("%.4g", abs), overSeeds(absStd, "± %.3g"), fmt.Sprintf("± %.3g", absSpread), mean(lambda, "%.3g", l > 0), mean(frozen, "%.0f", l > 0 && freezes && multiplier == nil),
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
	var text strings.Builder
	tw := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range slices.Concat(columns, t.rows) {
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
