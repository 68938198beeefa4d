// Command reproduce regenerates the paper's tables and figures and compares
// them with the printed numbers. Run reproduce -h for its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"fedrspo/experiment"
	"fedrspo/run"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	table, figure, seeds, rates, std, out, progress string
	interpReport, globalLambda                      string
	text, bounds, quick, check, version             bool
	workers                                         int
}

// errUsage marks a mistake in the flags.
type errUsage struct{ error }

func (e errUsage) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

const help = `Regenerate the paper's knapsack tables and figures, and compare them with the
printed numbers.

    reproduce -table 3                 the paper's seeds
    reproduce -table 3 -seeds 50       judged: z against the paper over 50 seeds
    reproduce -table 3 -lr matched     every loss at the same pace
    reproduce -table all -check        exit 1 on a difference that is not recorded
    reproduce -figure 3                data, PNG and SVG
    reproduce -table 14 -quick         one seed, to see that it runs

A table goes to standard output as Markdown, and to the -out folder as Markdown,
CSV and JSON with the train command behind every cell. Results are kept there:
an interrupted table goes on where it stopped, with the same program.

`

// parse reads the flags.
func parse(args []string) (*options, *flag.FlagSet, error) {
	o := &options{}
	fs := flag.NewFlagSet("reproduce", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.StringVar(&o.table, "table", "", "`number` of a table: "+strings.Join(experiment.TableNames(), ", ")+", or all")
	fs.StringVar(&o.figure, "figure", "", "`number` of a figure: 3 or 4")
	fs.BoolVar(&o.text, "text", false, "the numbers in the running text")
	fs.BoolVar(&o.bounds, "bounds", false, "the heterogeneity bounds of theorem 3, per pair of clients")
	fs.StringVar(&o.seeds, "seeds", "paper", "`seeds`: paper, 50 (the paper's and 45 others), or a list such as 1..10; 20 or more are judged")
	fs.StringVar(&o.rates, "lr", "paper", "learning `rates`: paper, matched or tuned; only paper is compared with the paper")
	fs.BoolVar(&o.quick, "quick", false, "one seed only")
	fs.BoolVar(&o.check, "check", false, "judge over 50 seeds and exit 1 on any difference or claim that is not recorded as known")
	fs.StringVar(&o.std, "std", "sample", "deviation over seeds: `sample` (n-1) or population (n)")
	fs.StringVar(&o.interpReport, "interp-report", "calibrated", "which `number` of Interp-DFFL is compared in table 4: calibrated, local-endpoint or local-only")
	fs.StringVar(&o.globalLambda, "qp-lp-global-lambda", "per-client", "`lambda` of table 17's global gap: per-client or mean")
	fs.StringVar(&o.out, "out", "results", "`folder` to write and to go on from; none keeps nothing")
	fs.IntVar(&o.workers, "workers", 0, "runs at a time; 0 means one per CPU")
	fs.StringVar(&o.progress, "progress", "auto", "progress `bar`: auto (on a terminal), on, off")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := fs.Parse(args); err != nil {
		return o, fs, errUsage{err}
	}
	if fs.NArg() > 0 {
		return o, fs, usagef("unexpected argument %q", fs.Arg(0))
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
		if !contains(c.want, c.value) {
			return o, fs, usagef("-%s %q, want %s", c.name, c.value, strings.Join(c.want, " or "))
		}
	}
	if o.workers < 0 || o.workers > 1024 {
		return o, fs, usagef("-workers %d, want 0 to 1024", o.workers)
	}
	if o.table == "" && o.figure == "" && !o.text && !o.bounds && !o.version {
		return o, fs, usagef("nothing to do: give -table, -figure, -text or -bounds")
	}
	if o.check && (o.quick || o.rates != "paper") {
		return o, fs, usagef("-check judges over 50 seeds at the paper's rates: drop -quick and -lr")
	}
	return o, fs, nil
}

func contains(list []string, v string) bool {
	for _, s := range list {
		if s == v {
			return true
		}
	}
	return false
}

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := dispatch(ctx, args, stdout, stderr)
	var usage errUsage
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "reproduce: interrupted; the same command goes on from here")
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "reproduce: %v\nRun reproduce -h for the flags.\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "reproduce: %v\n", err)
	return exitFailed
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, fs, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return nil
	}
	if err != nil {
		return err
	}
	if err := experiment.CheckMachine(); err != nil {
		return err
	}
	if o.version {
		_, err := fmt.Fprintf(stdout, "%+v\n", experiment.Version())
		return err
	}
	opt, err := o.tableOptions()
	if err != nil {
		return err
	}
	var names []string
	if o.table != "" {
		names = append(names, strings.Split(o.table, ",")...)
	}
	if o.figure != "" {
		names = append(names, "figure "+o.figure)
	}
	if o.text {
		names = append(names, "text")
	}
	var tables []*experiment.Table
	for _, name := range names {
		t, err := experiment.Tables(name, opt)
		if err != nil {
			return errUsage{err}
		}
		tables = append(tables, t...)
	}
	r := &experiment.Runner{Workers: o.workers, GlobalLambdaMean: o.globalLambda == "mean"}
	var folder *run.Folder
	if o.out != "none" {
		if folder, err = run.Reopen(o.out); err != nil {
			return err
		}
		r.Cache = folder
	}
	var differs []string
	for _, t := range tables {
		bar := newBar(o, stderr, t)
		r.Observe = bar.observe
		f, err := t.Finish(ctx, r, opt)
		bar.close()
		if err != nil {
			return err
		}
		if err := f.Markdown(stdout); err != nil {
			return err
		}
		if folder != nil {
			if err := f.Write(folder); err != nil {
				return err
			}
		}
		differs = append(differs, f.Differs()...)
	}
	if o.bounds {
		d, err := bounds(ctx, o, folder, stdout)
		if err != nil {
			return err
		}
		differs = append(differs, d...)
	}
	if o.check && len(differs) > 0 {
		return fmt.Errorf("%d differences that are not recorded as known:\n%s", len(differs), strings.Join(differs, "\n"))
	}
	return nil
}

func (o *options) tableOptions() (experiment.Options, error) {
	opt := experiment.Options{Rates: o.rates, Population: o.std == "population", InterpReport: o.interpReport}
	switch {
	case o.quick:
		opt.Quick = true
	case o.check || o.seeds == "50":
		opt.Fifty = true
	case o.seeds != "paper":
		seeds, err := experiment.ParseSeeds(o.seeds)
		if err != nil {
			return opt, errUsage{err}
		}
		opt.Seeds = seeds
	}
	return opt, nil
}

// bounds prints theorem 3 for four settings.
func bounds(ctx context.Context, o *options, folder *run.Folder, stdout io.Writer) ([]string, error) {
	if _, err := io.WriteString(stdout, experiment.BoundsHeader); err != nil {
		return nil, err
	}
	var differs []string
	for _, e := range [][3]float64{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}} {
		b, err := experiment.KnapsackBounds(ctx, e, 42)
		if err != nil {
			return nil, err
		}
		if err := b.Markdown(stdout); err != nil {
			return nil, err
		}
		if folder != nil {
			if err := b.Write(folder); err != nil {
				return nil, err
			}
		}
		for _, p := range b.Violations() {
			differs = append(differs, fmt.Sprintf("bounds %s: clients %d and %d: gap %g above the bound %g", b.Setting, p.I, p.J, p.Observed, p.Bound))
		}
	}
	_, err := fmt.Fprintln(stdout)
	return differs, err
}

// bar shows progress over the runs of a table, or nothing.
type bar struct{ p *progressbar.ProgressBar }

func newBar(o *options, stderr io.Writer, t *experiment.Table) *bar {
	show := o.progress == "on"
	if f, ok := stderr.(*os.File); ok && o.progress == "auto" {
		show = term.IsTerminal(int(f.Fd()))
	}
	if !show {
		return &bar{}
	}
	return &bar{progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(stderr), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(t.ID))}
}

func (b *bar) observe(done, total int, left time.Duration) {
	if b.p == nil {
		return
	}
	b.p.ChangeMax64(int64(total))
	b.p.Describe(fmt.Sprintf("%d of %d runs, about %s left", done, total, left.Round(time.Second)))
	_ = b.p.Set64(int64(done)) // an error could only be about drawing
}

func (b *bar) close() {
	if b.p != nil {
		_ = b.p.Clear()
	}
}
