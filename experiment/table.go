package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
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
	// Variant, unless empty, tells the files of this version from those of
	// others.
	Variant string
	// Metric is the task's; empty is relative regret.
	Metric run.Measure
	// OnlyOrder: cells are printed but not judged, Claims are.
	OnlyOrder bool
	// Claims are statements about the cells.
	Claims []Claim
	// Baseline, if not empty, is the method that the others are compared with
	// in pairs of equal seeds.
	Baseline string
	// PaperRates: the table varies a learning rate itself, and has no matched
	// or tuned version.
	PaperRates bool
	// Plots draw the cells.
	Plots []Plot
}

// Claim is a statement, of the paper or about a table, that holds or not.
type Claim struct {
	// ID is unique in the table; known.csv names TABLE/claim/ID.
	ID string
	// Text in words.
	Text string
	// AtPaperRates: it is about the paper's learning rates only.
	AtPaperRates bool
	// Holds judges the finished table.
	Holds func(t *Finished) bool
}

// Verdicts on cells and claims. An empty one means that it is not judged.
const (
	// Agrees: |z| is at most 3.
	Agrees = "agrees"
	// Differs: it is more, and nothing is recorded about it.
	Differs = "differs"
	// Known: it is more, for a recorded reason.
	Known = "known"
	// Holds and Fails are said of claims; Known of one that fails for a
	// recorded reason.
	Holds = "holds"
	Fails = "does not hold"
)

// Entry is a finished cell.
type Entry struct {
	Cell
	// ID is table/setting/method/stage.
	ID string
	// Values has one entry per seed; empty for a Statistic.
	Values []float64
	// Mean and Std are over all seeds. Those of a Statistic are over groups of
	// as many seeds as the paper has; with fewer than two groups it is that of
	// all seeds, and Std is NaN.
	Mean, Std float64
	// PaperMean and PaperStd are ours over the paper's seeds, where these are
	// the first of more; NaN elsewhere.
	PaperMean, PaperStd float64
	// Z compares the paper's number with ours, in units of the standard error
	// of their difference; NaN where it is not judged.
	Z float64
	// Verdict is Agrees, Differs, Known or empty.
	Verdict string
	// Reason of a known difference.
	Reason string
}

// Judged is a claim with its verdict.
type Judged struct {
	// ID is table/claim/name.
	ID, Text string
	// Verdict is Holds, Fails or Known.
	Verdict string
	// Reason of a known failure.
	Reason string
}

// Finished is a table with its numbers.
type Finished struct {
	*Table
	Options Options
	Entries []Entry
	// Judged are the claims that apply, in their order.
	Judged []Judged
	// Rates are the learning rates that -lr tuned chose, by settings.
	Rates map[string]float64
	// Jobs are all runs behind the table, those of tuning among them.
	Jobs []Job
}

// Options choose how a table is made.
type Options struct {
	// Seeds replace the paper's. Fifty takes the paper's and 45 others, Quick
	// the first of the paper's alone.
	Seeds        []int64
	Fifty, Quick bool
	// Rates is paper (the default), matched or tuned.
	Rates string
	// Population divides variances by n instead of n-1.
	Population bool
	// WarcraftData are the maps of table 6, as -data has them; empty is as many
	// generated ones as the paper has.
	WarcraftData string
	// PJMData is the table of prices that tables about PJM are made from; empty
	// generates one.
	PJMData string
	// InterpReport says which number of Interp-DFFL is compared in table 4:
	// calibrated (the default), local-endpoint or local-only.
	InterpReport string
}

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

// interpReport is InterpReport or its default.
func (o Options) interpReport() string { return cmp.Or(o.InterpReport, "calibrated") }

// tuningSeeds is the number of seeds, the first ones, on whose validation data
// -lr tuned chooses: as many as the paper has.
const tuningSeeds = 5

// Finish runs what the table needs and judges it.
func (t *Table) Finish(ctx context.Context, r *Runner, o Options) (*Finished, error) {
	if o.Rates == "" {
		o.Rates = "paper"
	}
	if t.PaperRates && o.Rates != "paper" {
		return nil, fmt.Errorf("%s varies a learning rate itself: it has no %s version", t.Name(), o.Rates)
	}
	o.Seeds = o.seeds(t.Seeds)
	f := &Finished{Table: t, Options: o, Rates: map[string]float64{}}
	if o.Rates == "tuned" {
		if err := f.tune(ctx, r); err != nil {
			return nil, err
		}
	}
	for _, c := range t.Cells {
		for _, s := range o.Seeds {
			f.Jobs = append(f.Jobs, f.jobs(c, s)...)
		}
	}
	if err := r.Run(ctx, f.Jobs); err != nil {
		return nil, err
	}
	for _, c := range t.Cells {
		f.Entries = append(f.Entries, f.entry(c, r))
	}
	f.judgeClaims()
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
			jobs[i] = j.at(scaledRate(f.Rates[j.recipe()]))
		}
	}
	return jobs
}

// at is the job at another learning rate.
func (j Job) at(lr string) Job {
	args := make([]string, 0, len(j.Args)+2)
	for i := 0; i < len(j.Args); i++ {
		// A rate that is given leaves nothing to calibrate.
		if name := j.Args[i]; strings.HasPrefix(lr, scaledPrefix) && (name == "-alpha" || name == "-personal-alpha") {
			i++
			continue
		}
		args = append(args, j.Args[i])
	}
	j.Args = append(args, "-lr", lr)
	return j
}

// scaledRate is a candidate of -lr tuned as a flag.
func scaledRate(rate float64) string { return scaledPrefix + number(rate) }

// tune chooses, for every setting with a method, the rate with the least mean
// validation regret of its last stage over the first seeds. Test samples play
// no part.
func (f *Finished) tune(ctx context.Context, r *Runner) error {
	seeds := f.Options.Seeds
	seeds = seeds[:min(tuningSeeds, len(seeds))]
	var recipes []Job
	seen := map[string]bool{}
	for _, c := range f.Cells {
		for _, j := range c.Jobs(seeds[0]) {
			if !seen[j.recipe()] {
				seen[j.recipe()] = true
				recipes = append(recipes, j)
			}
		}
	}
	for _, j := range recipes {
		for _, rate := range TuningRates {
			for _, s := range seeds {
				f.Jobs = append(f.Jobs, Job{j.Args, s}.at(scaledRate(rate)))
			}
		}
	}
	if err := r.Run(ctx, f.Jobs); err != nil {
		return err
	}
	for _, j := range recipes {
		least := math.Inf(1)
		for _, rate := range TuningRates {
			sum := 0.0
			for _, s := range seeds {
				regret, n := lastValidation(r.Result(Job{j.Args, s}.at(scaledRate(rate))), f.Metric)
				if n == 0 {
					return fmt.Errorf("%s: no client has validation samples to tune the learning rate on", j.Command())
				}
				sum += regret
			}
			if sum < least {
				f.Rates[j.recipe()], least = rate, sum
			}
		}
	}
	return nil
}

// results are the results of the cell's jobs, by seed.
func (f *Finished) results(c Cell, r *Runner) [][]run.SeedResult {
	out := make([][]run.SeedResult, len(f.Options.Seeds))
	for i, s := range f.Options.Seeds {
		for _, j := range f.jobs(c, s) {
			out[i] = append(out[i], r.Result(j))
		}
	}
	return out
}

// entry computes and judges a cell.
func (f *Finished) entry(c Cell, r *Runner) Entry {
	nan := math.NaN()
	e := Entry{Cell: c, ID: strings.Join([]string{f.Table.ID, c.Setting, c.Method, c.Stage}, "/"), Std: nan, PaperMean: nan, PaperStd: nan, Z: nan}
	results := f.results(c, r)
	group := len(f.Table.Seeds)
	// beyond says that the paper's seeds are the first of more.
	beyond := len(results) > group && slices.Equal(f.Options.Seeds[:group], f.Table.Seeds)
	// The paper's number is one of these, or the mean of some.
	var estimates []float64
	if c.Statistic != nil {
		for lo := 0; lo+group <= len(results); lo += group {
			estimates = append(estimates, c.Statistic(results[lo:lo+group]))
		}
		if len(estimates) > 1 {
			e.Mean, e.Std = f.meanStd(estimates)
		} else {
			e.Mean = c.Statistic(results)
		}
		if beyond {
			e.PaperMean = estimates[0]
		}
		group = 1
	} else {
		for _, s := range results {
			e.Values = append(e.Values, c.Value(s))
		}
		estimates = e.Values
		e.Mean, e.Std = f.meanStd(e.Values)
		if beyond {
			e.PaperMean, e.PaperStd = f.meanStd(e.Values[:group])
		}
	}
	if len(results) < JudgedSeeds || c.Target == nil || f.Table.OnlyOrder || f.Options.Rates != "paper" {
		return e
	}
	e.Z = zScore(*c.Target, estimates, group)
	e.Verdict, e.Reason = judge(e.ID, math.Abs(e.Z) <= maxZ, Agrees, Differs)
	return e
}

func (f *Finished) meanStd(v []float64) (mean, std float64) {
	mean, std = run.MeanStd(v)
	if n := float64(len(v)); f.Options.Population && n > 1 {
		std *= math.Sqrt((n - 1) / n)
	}
	return mean, std
}

// Entry returns a cell; it panics if there is none such.
func (f *Finished) Entry(setting, method, stage string) Entry {
	for _, e := range f.Entries {
		if e.Setting == setting && e.Method == method && e.Stage == stage {
			return e
		}
	}
	panic(fmt.Sprintf("experiment: table %s has no cell %s/%s/%s", f.Table.ID, setting, method, stage))
}

// Mean returns the mean of a cell; it panics if there is none such.
func (f *Finished) Mean(setting, method, stage string) float64 {
	return f.Entry(setting, method, stage).Mean
}
