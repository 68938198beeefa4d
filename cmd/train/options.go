package main

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
)

// options is the parsed command line and configuration file.
type options struct {
	*experiment.Flags
	fs *flag.FlagSet
	// given are the flags on the command line itself, inFile those that were set
	// by the configuration file, file.
	given, inFile map[string]bool
	file          string

	// How to run it.
	workers, track             int
	out, progress, config, std string
	eval, export               string
	report, reportOf, show     string
	json, version, devices     bool
}

// groups are the headings of the help text: the settings, which say what is
// computed, and how to run it, which never changes a result.
var groups = slices.Concat(experiment.FlagGroups, []experiment.FlagGroup{
	{Title: "Running", Names: []string{"config", "out", "workers", "progress", "json", "std", "report", "track"}},
	{Title: "Instead of training", Names: []string{"eval", "report-of", "show", "export", "devices", "version"}},
})

// newOptions declares the flags that are no settings.
func newOptions(fs *flag.FlagSet) *options {
	o := &options{fs: fs}
	fs.IntVar(&o.workers, "workers", 0, "goroutines that train clients; 0 means one per CPU; never changes a result")
	fs.StringVar(&o.out, "out", "", "`folder` to write, which must be empty or new; empty makes one below runs/, none writes nothing")
	fs.StringVar(&o.progress, "progress", "auto", "progress `bar`: auto (on a terminal), on, off")
	fs.StringVar(&o.config, "config", "", "TOML `file` of settings whose keys are these flags; flags win over it")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
	fs.StringVar(&o.std, "std", "sample", "`deviation` over seeds and clients in the table: sample (n-1) or population (n)")
	fs.BoolVar(&o.devices, "devices", false, "list where networks can run, and why a device cannot be used, and exit")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	fs.StringVar(&o.eval, "eval", "", "judge the models saved in the run folder `RUN` again (on -data, if given) and write predictions and decisions as CSV, to -out or RUN/eval")
	fs.StringVar(&o.report, "report", reportDefault, "`on|off`: whether the run folder gets report.html and its pictures")
	fs.IntVar(&o.track, "track", 4, "validation samples per client on which the regret is measured after every round, for metrics.jsonl and the report; 0 for none; never changes a result")
	fs.StringVar(&o.reportOf, "report-of", "", "write the report of the run folder `RUN` again")
	fs.StringVar(&o.show, "show", "", "with -report-of: comma `list` of the test samples to draw, as client:sample; empty draws one of the clients of least, median and greatest regret")
	fs.StringVar(&o.export, "export", "", "write the task's dataset to this `folder`, in the format -data reads, and exit")
	return o
}

// parse reads the command line and the configuration file it names. With -h
// the error is flag.ErrHelp and the options are those to describe.
func parse(args []string) (o *options, err error) {
	flags, err := experiment.ParseFlags(func(fs *flag.FlagSet) error {
		o = newOptions(fs)
		return o.load(args)
	})
	o.Flags = flags
	var usage cli.UsageError
	if err != nil && !errors.Is(err, flag.ErrHelp) && !errors.As(err, &usage) {
		err = cli.UsageError{Err: err}
	}
	return o, err
}

// load sets the flags from the command line and the files it names.
func (o *options) load(args []string) error {
	help, err := o.parseArgs(args)
	switch {
	case help:
		return flag.ErrHelp
	case err != nil:
		return err
	case o.fs.NArg() > 0:
		return cli.Usagef("unexpected argument %q; settings are flags, as in -loss spo+", o.fs.Arg(0))
	}
	for _, name := range []string{"config", "eval", "report-of", "export"} {
		if f := o.fs.Lookup(name); o.given[name] && f.Value.String() == "" {
			return cli.Usagef("-%s has an empty value, want a path", name)
		}
	}
	switch {
	case o.eval != "":
		return o.fromRun("eval", o.eval, "data", "out", "workers", "progress", "json", "loss", "seed", "seeds", "std", "device", "tf32")
	case o.reportOf != "":
		return o.fromRun("report-of", o.reportOf, "show", "workers", "std")
	case o.given["show"]:
		return cli.Usagef("-show has no effect without -report-of")
	case o.config != "":
		return o.read(o.config)
	}
	return nil
}

// named is how the user wrote a flag: as one, or as a key of the file.
func (o *options) named(name string) string {
	if o.inFile[name] {
		return fmt.Sprintf("config: %s: key %q", o.file, name)
	}
	return "-" + name
}

// parseArgs parses the command line, reading on after -h.
func (o *options) parseArgs(args []string) (help bool, err error) {
	err = o.fs.Parse(args)
	for errors.Is(err, flag.ErrHelp) {
		help = true
		err = o.fs.Parse(o.fs.Args())
	}
	o.given = map[string]bool{}
	o.fs.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	return help, err
}

// setting resolves the options into what to run. It refuses a flag that would
// have no effect.
func (o *options) setting() (experiment.Setting, error) {
	for _, u := range o.Unused() {
		switch {
		case o.given[u.Flag]:
			return experiment.Setting{}, cli.Usagef("-%s has no effect here: %s", u.Flag, u.Why)
		case o.eval == "" && o.reportOf == "": // -eval may ask for a part of what the file says
			return experiment.Setting{}, cli.Usagef("%s has no effect here: %s", o.named(u.Flag), u.Why)
		}
	}
	s, err := o.Setting()
	var bad *experiment.FlagError
	switch {
	case errors.As(err, &bad):
		return s, cli.Usagef("%s %s", o.named(bad.Flag), bad.Problem)
	case err != nil:
		return s, cli.UsageError{Err: err}
	}
	s.Config.Workers = o.workers
	if o.out != "none" { // metrics.jsonl is the place of what it measures
		s.Config.Track = o.track
	}
	switch {
	case o.workers < 0 || o.workers > maxWorkers:
		return s, cli.Usagef("%s is %d, want a whole number from 0 to %d", o.named("workers"), o.workers, maxWorkers)
	case !slices.Contains([]string{"auto", "on", "off"}, o.progress):
		return s, cli.Usagef("%s is %q, want auto, on or off", o.named("progress"), o.progress)
	case o.track < 0 || o.track > maxTrack:
		return s, cli.Usagef("%s is %d, want a whole number from 0 to %d", o.named("track"), o.track, maxTrack)
	case o.report != "on" && o.report != "off":
		return s, cli.Usagef("%s is %q, want on or off", o.named("report"), o.report)
	case o.out == "none" && (o.given["report"] && o.report == "on" || o.given["track"] && o.track > 0):
		return s, cli.Usagef("-report and -track have no effect with -out none: there is no folder for them")
	case o.std != "sample" && o.std != "population":
		return s, cli.Usagef("%s is %q, want sample or population", o.named("std"), o.std)
	case o.given["std"] && o.json:
		return s, cli.Usagef("-std has no effect with -json: it shapes the table")
	}
	switch {
	case o.export != "":
		return s, o.checkExport(s)
	case o.eval != "" && (o.given["loss"] || o.given["seed"] || o.given["seeds"]):
		return s, o.checkSelection(s)
	}
	return s, nil
}

// maxWorkers is far beyond use, and keeps memory within bounds.
const maxWorkers = 1024

// maxTrack is far more than a few samples.
const maxTrack = 1_000_000

// checkExport refuses flags of the command line that do not shape a dataset. A
// configuration file may hold them, so that a run's data can be exported.
func (o *options) checkExport(s experiment.Setting) error {
	for _, g := range groups {
		for _, name := range g.Names {
			if o.given[name] && !slices.Contains(append([]string{"export", "config", "task", "seed", "seeds"}, experiment.DataFlags...), name) {
				return cli.Usagef("-%s has no effect with -export", name)
			}
		}
	}
	if (o.given["seed"] || o.given["seeds"]) && s.Data.Dir != "" && s.Data.HoldOut == 0 {
		return cli.Usagef("-seed has no effect with -export and -data: -data names the dataset")
	}
	if len(s.Seeds) > 1 {
		return cli.Usagef("-export writes the dataset of one seed, got %d seeds; give -seed", len(s.Seeds))
	}
	return nil
}

// defaultWorkers is what -workers 0 stands for.
func defaultWorkers(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}
