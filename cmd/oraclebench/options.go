package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"fedrspo/internal/cli"
	"fedrspo/oracle/bench"
)

// mode is what to do.
type mode string

const (
	modeMeasure  mode = ""
	modeExport   mode = "export"
	modeGoals    mode = "goals"
	modeGrowth   mode = "growth"
	modeContract mode = "contract"
)

// effective lists the flags that shape each mode.
var effective = map[mode][]string{
	modeMeasure:  {"oracle", "grid", "dim", "batch", "workers", "lambda", "predictions", "warm", "instances", "duration", "seed", "json"},
	modeExport:   {"export", "rows", "oracle", "grid", "dim", "lambda", "predictions", "instances", "duration", "seed"},
	modeGoals:    {"goals", "peers", "duration", "seed", "json"},
	modeGrowth:   {"growth", "workers", "duration", "seed", "json"},
	modeContract: {"contract", "grid", "workers", "seed", "json"},
}

// options is the parsed command line.
type options struct {
	fs   *flag.FlagSet
	mode mode

	oracles          []string
	height, width    int
	dim              int
	batches, workers []int
	lambdas          []bench.Lambda
	predictions      []bench.Quality
	warm             []float64 // shares
	instances, rows  int
	duration         time.Duration
	seed             int64
	json             bool
	export, peers    string
	contract         int
}

// text is the flags that need more than package flag parses.
type text struct{ oracle, grid, batch, workers, lambda, predictions, warm string }

func parse(args []string) (*options, error) {
	o := &options{fs: flag.NewFlagSet("oraclebench", flag.ContinueOnError)}
	fs := o.fs
	fs.SetOutput(io.Discard)
	var t text
	var goals, growth bool
	fs.StringVar(&t.oracle, "oracle", "all", "`name`s of dijkstra, path, knapsack, topk, polyhedron; or all")
	fs.StringVar(&t.grid, "grid", "12", "`shape` of the grid of dijkstra and path: cells a side, or HxW")
	fs.IntVar(&o.dim, "dim", 0, "variables of the other oracles; 0 means 24 for topk, 50 for knapsack and polyhedron")
	fs.StringVar(&t.batch, "batch", "64", "`sizes` of the batches of one client that are solved in one call")
	fs.StringVar(&t.workers, "workers", "1", "`numbers` of goroutines over a batch; with -contract one number, by default one per CPU")
	fs.StringVar(&t.lambda, "lambda", "1,calibrated", "regularisation `weights`: numbers, calibrated (mean |c| over the radius of the set), calibrated/N")
	fs.StringVar(&t.predictions, "predictions", "good", "`qualities` of predicted costs: true, good (5 % noise), medium (blurred, 20 %), noisy (50 %), under (a third of the costs), init (an untrained network)")
	fs.StringVar(&t.warm, "warm", "0", "`percent` by which predictions changed since the warm start; 0 is a cold start; knapsack and topk know none")
	fs.IntVar(&o.instances, "instances", 0, "distinct instances; 0 means 4096, fewer of more than 144 variables")
	fs.DurationVar(&o.duration, "duration", 500*time.Millisecond, "`time` to measure every solver in every setting")
	fs.Int64Var(&o.seed, "seed", 1, "seed of the instances")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of tables")
	fs.StringVar(&o.export, "export", "", "write instances with answers and times to this npz `file` of NumPy; see go doc fedrspo/oracle/bench.Export")
	fs.IntVar(&o.rows, "rows", 256, "instances to export of every setting, evenly spaced")
	fs.BoolVar(&goals, "goals", false, "measure what has a goal, and print must, goal, obtained and verdict in Markdown")
	fs.StringVar(&o.peers, "peers", "", "`file` with the times of other programs that bench/peers/compare.py wrote, for -goals")
	fs.BoolVar(&growth, "growth", false, "measure grids of 12, 18, 24 and 30 cells a side and batches of 1 to 1024")
	fs.IntVar(&o.contract, "contract", 0, "check the accuracy of projections of `N` random instances, negative costs among them, onto path polytopes of -grid; exit code 1 if one breaks the contract")

	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, cli.UsageError{Err: err}
	case fs.NArg() > 0:
		return o, cli.Usagef("unexpected argument %q; settings are flags, as in -oracle path", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, m := range []struct {
		mode mode
		on   bool
	}{{modeExport, given["export"]}, {modeGoals, goals}, {modeGrowth, growth}, {modeContract, given["contract"]}} {
		if m.on && o.mode != modeMeasure {
			return o, cli.Usagef("-%s and -%s exclude each other", o.mode, m.mode)
		}
		if m.on {
			o.mode = m.mode
		}
	}
	if err := o.resolve(t); err != nil {
		return o, err
	}
	return o, o.check(given)
}

// resolve parses lists and shapes.
func (o *options) resolve(t text) (err error) {
	if o.oracles = strings.Split(t.oracle, ","); t.oracle == "all" {
		o.oracles = bench.Oracles()
	}
	for i, name := range o.oracles {
		if !slices.Contains(bench.Oracles(), name) {
			return cli.Usagef("oracle %q, want %s or all", name, strings.Join(bench.Oracles(), ", "))
		}
		if slices.Contains(o.oracles[:i], name) {
			return cli.Usagef("-oracle: %s is given twice", name)
		}
	}
	h, w, wide := strings.Cut(t.grid, "x")
	if !wide {
		w = h
	}
	var errH, errW error
	o.height, errH = strconv.Atoi(h)
	o.width, errW = strconv.Atoi(w)
	if errH != nil || errW != nil {
		return cli.Usagef("grid %q, want cells a side as in 12, or height and width as in 12x18", t.grid)
	}
	if o.batches, err = list("batch", t.batch, count); err != nil {
		return err
	}
	if o.workers, err = list("workers", t.workers, count); err != nil {
		return err
	}
	if o.lambdas, err = list("lambda", t.lambda, bench.ParseLambda); err != nil {
		return err
	}
	if o.predictions, err = list("predictions", t.predictions, bench.ParseQuality); err != nil {
		return err
	}
	o.warm, err = list("warm", t.warm, func(s string) (float64, error) {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x >= 0 && x <= 100) {
			return 0, fmt.Errorf("%q, want percent from 0 to 100", s)
		}
		return x / 100, nil
	})
	return err
}

// maxCount is far beyond use.
const maxCount = 1 << 16

func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxCount {
		return 0, fmt.Errorf("%q, want whole numbers from 1 to %d", s, maxCount)
	}
	return n, nil
}

// list parses a list of distinct comma-separated values.
func list[T comparable](name, text string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for _, s := range strings.Split(text, ",") {
		x, err := parse(strings.TrimSpace(s))
		if err != nil {
			return nil, cli.Usagef("-%s: %w", name, err)
		}
		if slices.Contains(out, x) {
			return nil, cli.Usagef("-%s: %v is given twice", name, x)
		}
		out = append(out, x)
	}
	return out, nil
}

// check refuses what describes nothing or would have no effect.
func (o *options) check(given map[string]bool) error {
	for name := range given {
		if !slices.Contains(effective[o.mode], name) {
			if o.mode == modeMeasure {
				return cli.Usagef("-%s has no effect here", name)
			}
			return cli.Usagef("-%s has no effect with -%s", name, o.mode)
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(o.oracles, func(n string) bool { return slices.Contains(names, n) })
	}
	switch {
	case o.mode == modeContract && o.contract < 1:
		return cli.Usagef("-contract %d, want 1 or more instances", o.contract)
	case o.mode == modeContract && len(o.workers) > 1:
		return cli.Usagef("-contract takes one number of workers, got %d", len(o.workers))
	case o.mode == modeExport && o.export == "":
		return cli.Usagef("-export needs the name of a file")
	case o.rows < 1:
		return cli.Usagef("-rows %d, want 1 or more", o.rows)
	case o.dim < 0 || o.instances < 0:
		return cli.Usagef("-dim and -instances must not be negative")
	case o.duration <= 0:
		return cli.Usagef("-duration %v, want more than 0", o.duration)
	case slices.Max(o.workers) > 1024:
		return cli.Usagef("-workers %d, want at most 1024", slices.Max(o.workers))
	}
	if o.mode == modeContract && !given["workers"] {
		o.workers = []int{runtime.GOMAXPROCS(0)}
	}
	if o.mode == modeContract || o.mode == modeMeasure || o.mode == modeExport {
		for _, c := range []struct {
			flag string
			ok   bool
		}{
			{"grid", has(bench.Dijkstra, bench.Path)}, {"dim", has(bench.Knapsack, bench.TopK, bench.Polyhedron)},
			{"lambda", has(bench.Path, bench.Knapsack, bench.TopK, bench.Polyhedron)},
			{"predictions", has(bench.Path, bench.Knapsack, bench.TopK, bench.Polyhedron)},
			{"warm", has(bench.Path, bench.Polyhedron)},
		} {
			if given[c.flag] && !c.ok {
				return cli.Usagef("-%s has no effect on oracle %s", c.flag, strings.Join(o.oracles, ", "))
			}
		}
		// What is wrong should say so before the first measurement.
		for _, p := range o.problems() {
			if err := p.Check(); err != nil {
				return cli.UsageError{Err: err}
			}
		}
	}
	return nil
}

// problems returns what to measure or export.
func (o *options) problems() []bench.Problem {
	var out []bench.Problem
	for _, name := range o.oracles {
		p := bench.Problem{Oracle: name, Seed: o.seed}
		d := o.dim
		switch name {
		case bench.Dijkstra, bench.Path:
			p.Height, p.Width = o.height, o.width
			d = o.height * o.width
		case bench.TopK:
			p.Dim = cmp.Or(d, 24)
		default:
			p.Dim = cmp.Or(d, 50)
		}
		for _, batch := range o.batches {
			p.Batch = batch
			if p.Instances = o.instances; p.Instances == 0 {
				p.Instances = max(bench.InstancesFor(max(d, 1)), batch)
			}
			out = append(out, o.settings(p)...)
		}
	}
	return out
}

// settings returns p with every prediction, lambda and warm start that it
// knows.
func (o *options) settings(p bench.Problem) []bench.Problem {
	if p.Oracle == bench.Dijkstra {
		fast := p
		p.Labels = true
		if o.mode == modeExport {
			return []bench.Problem{fast}
		}
		return []bench.Problem{fast, p}
	}
	warm := o.warm
	if p.Oracle == bench.Knapsack || p.Oracle == bench.TopK {
		warm = []float64{0}
	}
	var out []bench.Problem
	for _, p.Predictions = range o.predictions {
		for _, p.Lambda = range o.lambdas {
			for _, p.Warm = range warm {
				out = append(out, p)
			}
		}
	}
	return out
}
