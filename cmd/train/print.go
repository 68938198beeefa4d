package main

import (
	"fmt"
	"io"
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

// printTable prints a row per loss and stage.
func printTable(w io.Writer, s experiment.Setting, results []run.Result) error {
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
	fmt.Fprintf(w, "task %s (%s), %s, %s, seed %s\n\n", s.Kind.Name, data, s.Config.Regime, s.Model, list)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "loss\tstage\trelative regret %\tover seeds\tover clients\tabsolute regret\tover seeds\tlambda\tfrozen %\t\n")
	incomplete := false
	for _, r := range results {
		incomplete = incomplete || !r.Complete
		for _, personal := range []bool{false, true} {
			stages := r.Stages(personal)
			if len(stages) == 0 {
				continue
			}
			printRow(tw, r.Loss, stageName(s.Config.Regime, personal), stages)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if incomplete {
		fmt.Fprint(w, "\nInterrupted: only what was finished is shown.\n")
	}
	return nil
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

func printRow(w io.Writer, loss, stage string, stages []*run.StageResult) {
	var relative, absolute, overClients, lambda, frozen []float64
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
		}
		_, std := run.MeanStd(clients)
		overClients, lambda, frozen = append(overClients, std), append(lambda, l), append(frozen, stopped)
	}
	rel, relStd := run.MeanStd(relative)
	abs, absStd := run.MeanStd(absolute)
	spread, _ := run.MeanStd(overClients)
	l, _ := run.MeanStd(lambda)
	f, _ := run.MeanStd(frozen)
	deviation := func(x float64, digits int) string {
		if len(stages) == 1 {
			return "-"
		}
		return fmt.Sprintf("± %.*f", digits, x)
	}
	last := "-\t-"
	if l > 0 {
		last = fmt.Sprintf("%.3g\t%.0f", l, f)
		if stage == "Fed" {
			last = fmt.Sprintf("%.3g\t-", l)
		}
	}
	fmt.Fprintf(w, "%s\t%s\t%.2f\t%s\t± %.2f\t%.4g\t%s\t%s\t\n", loss, stage, rel, deviation(relStd, 2), spread, abs, deviation(absStd, 3), last)
}
