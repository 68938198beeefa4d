package experiment

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/run"
)

// Cell is one number of a table, ours beside the paper's.
type Cell struct {
	// Setting, Method and Stage label the cell; with the table they are its ID.
	Setting, Method, Stage string
	// Target is the paper's number; nil where it prints none.
	Target *Target
	// Jobs are the runs behind one seed's value.
	Jobs func(seed int64) []Job
	// Value is the value of one seed, from the results of its jobs in order.
	// The cell is mean ± deviation over seeds.
	Value func(results []run.SeedResult) float64
	// Statistic replaces Value where the number is not a mean over seeds: it
	// gets the results of every seed.
	Statistic func(seeds [][]run.SeedResult) float64
	// Digits printed.
	Digits int
	// Sweep and X place the cell in a figure.
	Sweep string
	X     float64
}

// Table is a table, a figure's data or a set of numbers from the text.
type Table struct {
	// ID is the paper's number, such as "3", or a name.
	ID, Title string
	// Note says what a reader must know.
	Note  string
	Cells []Cell
	// Seeds are the paper's seeds for this table.
	Seeds []int64
	// OnlyOrder: cells are printed but not judged, Orders are.
	OnlyOrder bool
	// Orders are claims about the cells' means.
	Orders []Order
	// Baseline, if not empty, is the method that the others are compared with
	// in pairs of equal seeds.
	Baseline string
	// Plots draw the cells.
	Plots []Plot
}

// Order is a claim that holds or not.
type Order struct {
	// Claim in words.
	Claim string
	// Holds judges the finished table.
	Holds func(t *Finished) bool
}

// Entry is a finished cell.
type Entry struct {
	Cell
	// ID is table/setting/method/stage.
	ID string
	// Values has one entry per seed; empty for a Statistic.
	Values    []float64
	Mean, Std float64
	// Z compares the paper's number with the mean over our seeds, in units of
	// the standard error of their difference; NaN where it is not judged.
	Z float64
	// Verdict is "agrees", "differs", "known" (a difference with a recorded
	// reason) or "" where it is not judged.
	Verdict string
	// Reason of a known difference.
	Reason string
}

// Finished is a table with its numbers.
type Finished struct {
	*Table
	Options Options
	Entries []Entry
	// Held has the claims of Orders that hold, in their order.
	Held []bool
	// Rates are the learning rates that -lr tuned chose, by settings.
	Rates map[string]float64
}

// Options choose how a table is made.
type Options struct {
	// Seeds replace the paper's. Fifty takes the paper's and 45 others, Quick
	// the first of the paper's alone.
	Seeds        []int64
	Fifty, Quick bool
	// Rates is paper, matched or tuned.
	Rates string
	// Population divides variances by n instead of n-1.
	Population bool
	// InterpReport says which number of Interp-DFFL is compared in table 4:
	// calibrated (the default), local-endpoint or local-only.
	InterpReport string
}

// judgedSeeds is the least number of seeds whose spread is known well enough
// to judge agreement with the paper.
const judgedSeeds = 20

// seeds returns the seeds for a table whose paper seeds are given.
func (o Options) seeds(paper []int64) []int64 {
	switch {
	case o.Quick:
		return paper[:1]
	case o.Fifty:
		seeds := slices.Clone(paper)
		for s := int64(1000); len(seeds) < 50; s++ {
			seeds = append(seeds, s)
		}
		return seeds
	case o.Seeds != nil:
		return o.Seeds
	}
	return paper
}

// Finish runs what the table needs and judges it.
func (t *Table) Finish(ctx context.Context, r *Runner, o Options) (*Finished, error) {
	seeds := o.seeds(t.Seeds)
	f := &Finished{Table: t, Options: o, Rates: map[string]float64{}}
	f.Options.Seeds = seeds
	if f.Options.Rates == "" {
		f.Options.Rates = "paper"
	}
	if o.Rates == "tuned" {
		if err := f.tune(ctx, r, seeds); err != nil {
			return nil, err
		}
	}
	var all []Job
	for _, c := range t.Cells {
		for _, s := range seeds {
			all = append(all, f.jobs(c, s)...)
		}
	}
	if err := r.Run(ctx, all); err != nil {
		return nil, err
	}
	for _, c := range t.Cells {
		f.Entries = append(f.Entries, f.entry(c, r, seeds))
	}
	for _, order := range t.Orders {
		f.Held = append(f.Held, order.Holds(f))
	}
	return f, nil
}

// jobs are the cell's jobs for a seed, at the rates asked for.
func (f *Finished) jobs(c Cell, seed int64) []Job {
	jobs := slices.Clone(c.Jobs(seed))
	for i, j := range jobs {
		switch f.Options.Rates {
		case "matched":
			jobs[i] = j.at("matched")
		case "tuned":
			jobs[i] = j.at(scaledRate(f.Rates[strings.Join(j.Args, " ")]))
		}
	}
	return jobs
}

// at is the job at another learning rate.
func (j Job) at(lr string) Job {
	j.Args = append(slices.Clone(j.Args), "-lr", lr)
	return j
}

// scaledRate is a candidate of -lr tuned as a flag.
func scaledRate(rate float64) string { return scaledPrefix + number(rate) }

// tune chooses, for every setting with a method, the rate with the least mean
// validation regret of its last stage over all seeds.
func (f *Finished) tune(ctx context.Context, r *Runner, seeds []int64) error {
	var settings [][]string
	seen := map[string]bool{}
	for _, c := range f.Cells {
		for _, j := range c.Jobs(seeds[0]) {
			if k := strings.Join(j.Args, " "); !seen[k] {
				seen[k] = true
				settings = append(settings, j.Args)
			}
		}
	}
	var jobs []Job
	for _, args := range settings {
		for _, rate := range TuningRates {
			for _, s := range seeds {
				jobs = append(jobs, Job{args, s}.at(scaledRate(rate)))
			}
		}
	}
	if err := r.Run(ctx, jobs); err != nil {
		return err
	}
	for _, args := range settings {
		best, least := 0.0, math.Inf(1)
		for _, rate := range TuningRates {
			sum := 0.0
			for _, s := range seeds {
				regret, _ := lastValidation(r.Result(Job{args, s}.at(scaledRate(rate))))
				sum += regret
			}
			if sum < least {
				best, least = rate, sum
			}
		}
		f.Rates[strings.Join(args, " ")] = best
	}
	return nil
}

// entry computes and judges a cell.
func (f *Finished) entry(c Cell, r *Runner, seeds []int64) Entry {
	e := Entry{Cell: c, ID: strings.Join([]string{f.Table.ID, c.Setting, c.Method, c.Stage}, "/"), Z: math.NaN(), Std: math.NaN()}
	results := make([][]run.SeedResult, len(seeds))
	for i, s := range seeds {
		for _, j := range f.jobs(c, s) {
			results[i] = append(results[i], r.Result(j))
		}
	}
	// Estimates of the paper's statistic, each from paper of our seeds.
	paper, estimates := 1, []float64(nil)
	if c.Statistic != nil {
		e.Mean = c.Statistic(results)
		paper = len(f.Table.Seeds)
		for lo := 0; lo+paper <= len(results); lo += paper {
			estimates = append(estimates, c.Statistic(results[lo:lo+paper]))
		}
		if len(estimates) > 1 {
			_, e.Std = f.meanStd(estimates)
		}
	} else {
		for _, s := range results {
			e.Values = append(e.Values, c.Value(s))
		}
		e.Mean, e.Std = f.meanStd(e.Values)
		estimates = e.Values
	}
	if len(seeds) < judgedSeeds || c.Target == nil || f.Table.OnlyOrder || f.Options.Rates != "paper" {
		return e
	}
	// The paper's number is a mean of n_p values, ours of n; for a statistic,
	// one value against n groups.
	mean, std := run.MeanStd(estimates)
	np := float64(len(f.Table.Seeds)) / float64(paper)
	diff := math.Abs(c.Target.Mean - mean)
	diff = math.Copysign(max(0, diff-0.5*math.Pow(10, -float64(c.Target.Digits))), c.Target.Mean-mean)
	e.Z = diff / (std * math.Sqrt(1/np+1/float64(len(estimates))))
	switch reason, known := knownDifferences()[e.ID]; {
	case math.Abs(e.Z) <= maxZ:
		e.Verdict = "agrees"
	case known:
		e.Verdict, e.Reason = "known", reason
	default:
		e.Verdict = "differs"
	}
	return e
}

// maxZ is the largest |z| that counts as agreement.
const maxZ = 3

func (f *Finished) meanStd(v []float64) (mean, std float64) {
	mean, std = run.MeanStd(v)
	if n := float64(len(v)); f.Options.Population && n > 1 {
		std *= math.Sqrt((n - 1) / n)
	}
	return mean, std
}

// Differs lists the cells that differ without a recorded reason, and the
// claims that do not hold.
func (f *Finished) Differs() []string {
	var out []string
	for _, e := range f.Entries {
		if e.Verdict == "differs" {
			out = append(out, fmt.Sprintf("%s: ours %s, paper %s, z %+.1f", e.ID, f.ours(e), paperText(e.Target), e.Z))
		}
	}
	for i, held := range f.Held {
		if !held {
			out = append(out, fmt.Sprintf("table %s: does not hold: %s", f.Table.ID, f.Orders[i].Claim))
		}
	}
	return out
}

// Mean returns the mean of a cell; it panics if there is none such.
func (f *Finished) Mean(setting, method, stage string) float64 {
	for _, e := range f.Entries {
		if e.Setting == setting && e.Method == method && e.Stage == stage {
			return e.Mean
		}
	}
	panic(fmt.Sprintf("experiment: table %s has no cell %s/%s/%s", f.Table.ID, setting, method, stage))
}

func (f *Finished) ours(e Entry) string {
	if math.IsNaN(e.Std) || len(f.Options.Seeds) == 1 {
		return fmt.Sprintf("%.*f", e.Digits, e.Mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", e.Digits, e.Mean, e.Digits, e.Std)
}

func paperText(t *Target) string {
	switch {
	case t == nil:
		return ""
	case t.HasStd:
		return fmt.Sprintf("%.*f ± %.*f", t.Digits, t.Mean, t.Digits, t.Std)
	}
	return fmt.Sprintf("%.*f", t.Digits, t.Mean)
}

// Markdown writes the table for people.
func (f *Finished) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", f.heading())
	if f.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", f.Note)
	}
	fmt.Fprintf(&b, "Learning rates: %s. Seeds: %s.\n\n", f.Options.Rates, seedText(f.Options.Seeds))
	fmt.Fprint(&b, "| setting | method | stage | ours | paper | z | verdict |\n|---|---|---|---|---|---|---|\n")
	for _, e := range f.Entries {
		z := ""
		if !math.IsNaN(e.Z) {
			z = fmt.Sprintf("%+.1f", e.Z)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", e.Setting, e.Method, e.Stage, f.ours(e), paperText(e.Target), z, e.Verdict)
	}
	for i, held := range f.Held {
		verdict := "holds"
		if !held {
			verdict = "**does not hold**"
		}
		fmt.Fprintf(&b, "\n- %s: %s", f.Orders[i].Claim, verdict)
	}
	if len(f.Held) > 0 {
		fmt.Fprintln(&b)
	}
	for _, e := range f.Entries {
		if e.Reason != "" {
			fmt.Fprintf(&b, "\n- Known difference, %s: %s\n", e.ID, e.Reason)
		}
	}
	if len(f.Rates) > 0 {
		fmt.Fprint(&b, "\nChosen rates (validation regret):\n\n")
		for _, k := range slices.Sorted(mapKeys(f.Rates)) {
			fmt.Fprintf(&b, "- `%s`: %g\n", k, f.Rates[k])
		}
	}
	if f.Baseline != "" && len(f.Options.Seeds) > 1 {
		f.pairedMarkdown(&b)
	}
	fmt.Fprintln(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (f *Finished) heading() string {
	if _, err := strconv.Atoi(f.Table.ID); err == nil {
		return "Table " + f.Table.ID + ": " + f.Title
	}
	return f.Title
}

func seedText(seeds []int64) string {
	text := make([]string, 0, 6)
	for _, s := range seeds {
		if len(text) == 5 && len(seeds) > 6 {
			return strings.Join(text, ", ") + fmt.Sprintf(", ... (%d)", len(seeds))
		}
		text = append(text, strconv.FormatInt(s, 10))
	}
	return strings.Join(text, ", ")
}

// name is the stem of the table's files.
func (f *Finished) name() string {
	return strings.ReplaceAll(strings.ToLower(f.Table.ID), " ", "-") + "-" + f.Options.Rates
}

// Write writes the table as Markdown, CSV and JSON, with the commands behind
// every cell, and its plots, below the folder.
func (f *Finished) Write(folder *run.Folder) error {
	dir := f.name()
	err := folder.Write(filepath.Join(dir, "table.md"), f.Markdown)
	err = errors.Join(err, folder.Write(filepath.Join(dir, "cells.csv"), f.csv))
	err = errors.Join(err, folder.WriteJSON(filepath.Join(dir, "cells.json"), f.records()))
	for _, p := range f.Plots {
		err = errors.Join(err, p.write(f, folder, dir))
	}
	return err
}

// record is a cell in cells.json.
type record struct {
	ID       string    `json:"id"`
	Setting  string    `json:"setting"`
	Method   string    `json:"method"`
	Stage    string    `json:"stage"`
	Mean     float64   `json:"mean"`
	Std      *float64  `json:"std,omitempty"`
	Values   []float64 `json:"values,omitempty"`
	Paper    *float64  `json:"paper,omitempty"`
	PaperStd *float64  `json:"paper_std,omitempty"`
	Z        *float64  `json:"z,omitempty"`
	Verdict  string    `json:"verdict,omitempty"`
	Seeds    []int64   `json:"seeds"`
	// Commands repeat the first seed's runs; other seeds differ in -seed.
	Commands []string `json:"commands"`
}

func (f *Finished) records() []record {
	out := make([]record, len(f.Entries))
	for i, e := range f.Entries {
		r := record{ID: e.ID, Setting: e.Setting, Method: e.Method, Stage: e.Stage, Mean: e.Mean,
			Std: finiteOrNil(e.Std), Values: e.Values, Z: finiteOrNil(e.Z), Verdict: e.Verdict, Seeds: f.Options.Seeds}
		if e.Target != nil {
			r.Paper = &e.Target.Mean
			if e.Target.HasStd {
				r.PaperStd = &e.Target.Std
			}
		}
		for _, j := range f.jobs(e.Cell, f.Options.Seeds[0]) {
			r.Commands = append(r.Commands, j.Command())
		}
		out[i] = r
	}
	return out
}

func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (f *Finished) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	err := c.Write([]string{"id", "setting", "method", "stage", "mean", "std", "seeds", "paper_mean", "paper_std", "z", "verdict"})
	for _, e := range f.Entries {
		row := []string{e.ID, e.Setting, e.Method, e.Stage, number(e.Mean), optional(e.Std), strconv.Itoa(len(f.Options.Seeds)), "", "", optional(e.Z), e.Verdict}
		if e.Target != nil {
			row[7] = number(e.Target.Mean)
			if e.Target.HasStd {
				row[8] = number(e.Target.Std)
			}
		}
		err = errors.Join(err, c.Write(row))
	}
	c.Flush()
	return errors.Join(err, c.Error())
}

// optional prints x, or nothing if it is not finite.
func optional(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return number(x)
}
