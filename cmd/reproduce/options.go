package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
)

// options are the flags.
type options struct {
	fs                                                 *flag.FlagSet
	table, figure, seeds, rates, std, out, progress    string
	data                                               string
	interpReport, globalLambda, docs, program, pjmData string
	text, bounds, quick, check, version                bool
	workers                                            int
}

const help = `Regenerate the paper's tables and figures, and compare them with the printed
numbers.

    reproduce -table 3                 the paper's seeds
    reproduce -table 3 -seeds 50       judged: z against the paper over 50 seeds
    reproduce -table 3 -lr matched     every loss at the same pace
    reproduce -table all -check        exit 1 on a difference that is not recorded
    reproduce -figure 3                data, PNG and SVG
    reproduce -table 6 -data maps      Warcraft on the published maps, for hours;
                                       on generated ones without -data
    reproduce -table 5 -pjm-data FILE  PJM on the published table of prices; on
                                       generated ones without -pjm-data
    reproduce -text -bounds            numbers in the running text; theorem 3
    reproduce -table 14 -quick         one seed, to see that it runs
    reproduce -docs docs/experiments   everything, as pages

A table goes to standard output as Markdown, and to the -out folder as Markdown,
CSV and JSON with the train commands behind every cell. Results are kept there:
an interrupted table goes on where it stopped, with the same program.

`

func (o *options) help(w io.Writer) {
	fmt.Fprint(w, help)
	o.fs.SetOutput(w)
	o.fs.PrintDefaults()
}

// parse reads the flags. The error wraps cli.UsageError, or is flag.ErrHelp.
func parse(args []string) (*options, error) {
	fs := flag.NewFlagSet("reproduce", flag.ContinueOnError)
	o := &options{fs: fs}
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&o.table, "table", "", "comma `list` of tables: "+strings.Join(experiment.TableNames(), ", ")+", or all (those that do not take long: without "+strings.Join(experiment.LongTables(), ", ")+")")
	fs.StringVar(&o.data, "data", "", "`maps` of table 6: a folder with the published ones, or generated:N; empty is generated:10000")
	fs.StringVar(&o.pjmData, "pjm-data", "", "table of prices, a CSV `file`, for the tables about PJM: 4-pjm, 5, 11, 12, 13, 15, 16-pjm; empty generates prices")
	fs.StringVar(&o.figure, "figure", "", "comma `list` of figures: 3, 4")
	fs.BoolVar(&o.text, "text", false, "the numbers in the running text")
	fs.BoolVar(&o.bounds, "bounds", false, "the heterogeneity bounds of theorem 3, per pair of clients, on one seed")
	fs.StringVar(&o.docs, "docs", "", "`folder` for a page about each experiment, tables over 50 seeds; all of them are made first")
	fs.StringVar(&o.seeds, "seeds", "paper", "`seeds`: paper, 50 (the paper's and 45 others), or a list such as 1..10; 20 or more are judged")
	fs.StringVar(&o.rates, "lr", "paper", "learning `rates`: paper, matched or tuned (on validation data of the first five seeds); only paper is compared with the paper")
	fs.BoolVar(&o.quick, "quick", false, "one seed only")
	fs.BoolVar(&o.check, "check", false, "judge over 50 seeds, unless -seeds has others, and exit 1 on any difference or failing claim that is not recorded as known")
	fs.StringVar(&o.std, "std", "sample", "`deviation` over seeds: sample (n-1) or population (n)")
	fs.StringVar(&o.interpReport, "interp-report", "calibrated", "which `number` of Interp-DFFL is compared in table 4: calibrated, local-endpoint or local-only")
	fs.StringVar(&o.globalLambda, "qp-lp-global-lambda", "per-client", "`lambda` of table 17's global gap: per-client or mean")
	fs.StringVar(&o.out, "out", "results", "`folder` to write to and to go on from; none keeps nothing")
	fs.StringVar(&o.program, "program", "", "take the results that another `build` kept, named as in version.json of the -out folder; right only if both compute the same")
	fs.IntVar(&o.workers, "workers", 0, "runs at a time; 0 means one per CPU")
	fs.StringVar(&o.progress, "progress", "auto", "progress `bar`: auto (on a terminal), on, off")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		if err == flag.ErrHelp {
			return o, err
		}
		return o, cli.UsageError{Err: err}
	}
	return o, o.validate()
}

// validate reports values that are out of range, and flags that would have no
// effect.
func (o *options) validate() error {
	if o.fs.NArg() > 0 {
		return cli.Usagef("unexpected argument %q", o.fs.Arg(0))
	}
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"lr", o.rates, []string{"paper", "matched", "tuned"}},
		{"std", o.std, []string{"sample", "population"}},
		{"interp-report", o.interpReport, []string{"calibrated", "local-endpoint", "local-only"}},
		{"qp-lp-global-lambda", o.globalLambda, []string{"per-client", "mean"}},
		{"progress", o.progress, []string{"auto", "on", "off"}},
	} {
		if !slices.Contains(c.want, c.value) {
			return cli.Usagef("-%s %q, want %s", c.name, c.value, strings.Join(c.want, " or "))
		}
	}
	if o.workers < 0 || o.workers > 1024 {
		return cli.Usagef("-workers %d, want 0 to 1024", o.workers)
	}
	if o.version {
		return nil
	}
	if o.out == "" {
		return cli.Usagef(`-out "", want a folder or none`)
	}
	if strings.ContainsAny(o.program, `/\.`) {
		return cli.Usagef("-program %q, want a name from version.json", o.program)
	}
	set := map[string]bool{}
	o.fs.Visit(func(f *flag.Flag) { set[f.Name] = true })
	tables := o.table != "" || o.figure != "" || o.text
	has := func(number string) bool {
		names := list(o.table)
		return slices.Contains(names, number) || slices.Contains(names, "all")
	}
	switch {
	case o.docs != "":
		for _, name := range []string{"table", "data", "pjm-data", "figure", "text", "bounds", "seeds", "lr", "check", "std", "interp-report", "qp-lp-global-lambda"} {
			if set[name] {
				return cli.Usagef("-docs makes everything: drop -%s", name)
			}
		}
	case !tables && !o.bounds:
		return cli.Usagef("nothing to do: give -table, -figure, -text, -bounds or -docs")
	case !tables:
		for _, name := range []string{"seeds", "lr", "std", "quick", "workers", "program"} {
			if set[name] {
				return cli.Usagef("-%s has no effect on -bounds", name)
			}
		}
	case o.quick && set["seeds"]:
		return cli.Usagef("-quick and -seeds exclude each other; give one of them")
	case o.check && (o.quick || o.rates != "paper"):
		return cli.Usagef("-check judges over 50 seeds at the paper's rates: drop -quick and -lr")
	}
	if set["data"] && !slices.Contains(list(o.table), "6") {
		return cli.Usagef("-data has no effect without table 6")
	}
	if set["data"] && o.data == "" {
		return cli.Usagef(`-data "", want a folder or generated:N`)
	}
	if set["pjm-data"] && !slices.ContainsFunc(list(o.table), func(name string) bool { return name == "all" || experiment.AboutPJM(name) }) {
		return cli.Usagef("-pjm-data has no effect without a table about PJM")
	}
	if set["pjm-data"] && o.pjmData == "" {
		return cli.Usagef(`-pjm-data "", want a file`)
	}
	if set["interp-report"] && !has("4") && !has("4-pjm") {
		return cli.Usagef("-interp-report has no effect without table 4")
	}
	if set["qp-lp-global-lambda"] && !has("17") {
		return cli.Usagef("-qp-lp-global-lambda has no effect without table 17")
	}
	if set["program"] && o.out == "none" {
		return cli.Usagef("-program has no effect with -out none")
	}
	return nil
}

// list splits a comma list.
func list(text string) []string {
	if text == "" {
		return nil
	}
	names := strings.Split(text, ",")
	for i, n := range names {
		names[i] = strings.TrimSpace(n)
	}
	return names
}

// tableOptions are the flags that shape tables.
func (o *options) tableOptions() (experiment.Options, error) {
	opt := experiment.Options{Rates: o.rates, Population: o.std == "population", InterpReport: o.interpReport, WarcraftData: o.data, PJMData: o.pjmData}
	switch {
	case o.quick:
		opt.Quick = true
	case o.seeds == "50", o.check && o.seeds == "paper":
		opt.Fifty = true
	case o.seeds != "paper":
		seeds, err := experiment.ParseSeeds(o.seeds)
		if err != nil {
			return opt, cli.UsageError{Err: err}
		}
		if o.check && len(seeds) < experiment.JudgedSeeds {
			return opt, cli.Usagef("-check judges over %d seeds or more, -seeds has %d", experiment.JudgedSeeds, len(seeds))
		}
		opt.Seeds = seeds
	}
	return opt, nil
}

// tables are the tables and figures asked for, each once.
func (o *options) tables(opt experiment.Options) ([]*experiment.Table, error) {
	var out []*experiment.Table
	add := func(name string) error {
		tables, err := experiment.Tables(name, opt)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		for _, t := range tables {
			if slices.ContainsFunc(out, func(other *experiment.Table) bool { return other.ID == t.ID }) {
				continue
			}
			if t.PaperRates && opt.Rates != "paper" {
				return cli.Usagef("%s varies a learning rate itself: drop -lr", t.Name())
			}
			out = append(out, t)
		}
		return nil
	}
	for _, name := range list(o.table) {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	for _, name := range list(o.figure) {
		if err := add("figure " + name); err != nil {
			return nil, err
		}
	}
	if o.text {
		if err := add("text"); err != nil {
			return nil, err
		}
	}
	return out, nil
}
