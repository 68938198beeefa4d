// Command train fits a predictor for the quality of the decisions made from
// it, centralised or federated, and reports decision regret. Run train -h for
// its flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
	"fedrspo/report"
	"fedrspo/run"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	return cli.Main("train", stdout, stderr, func() string { return "interrupted" }, func(ctx context.Context, stdout io.Writer) error {
		return dispatch(ctx, args, stdout, stderr)
	})
}

func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		o.help(stdout)
		return nil
	}
	if err != nil {
		return err
	}
	if err := experiment.CheckMachine(); err != nil {
		return err
	}
	if o.devices {
		for _, line := range experiment.DeviceReport() {
			fmt.Fprintln(stdout, line)
		}
		return nil
	}
	if o.version {
		return printJSON(stdout, experiment.Version())
	}
	s, err := o.setting()
	if err != nil {
		return err
	}
	switch {
	case o.export != "":
		d := s.Data
		d.Seed = s.Seeds[0]
		if err := s.Kind.Export(d, o.export); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "dataset written to %s\n", o.export)
		return nil
	case o.reportOf != "":
		return rewriteReport(ctx, o, s, stdout)
	case o.eval != "":
		return evaluate(ctx, o, s, stdout, stderr)
	}
	return trainAll(ctx, o, s, stdout, stderr)
}

// trainAll runs the setting and writes its folder.
func trainAll(ctx context.Context, o *options, s experiment.Setting, stdout, stderr io.Writer) error {
	start := time.Now()
	timing := run.Timing{Started: start.Format(time.RFC3339), Workers: defaultWorkers(o.workers)}
	// What is wrong with the data should say so before a folder is made.
	if err := s.Check(); err != nil {
		return err
	}
	folder, err := outFolder(o.out, s.Kind.Name, start)
	if err != nil {
		return err
	}
	if folder != nil {
		if err := folder.Write(run.ConfigFile, func(w io.Writer) error { return writeConfig(w, s) }); err != nil {
			return err
		}
		version, err := s.Version()
		if err != nil {
			return err
		}
		if err := folder.WriteJSON(run.VersionFile, version); err != nil {
			return err
		}
	}
	bar := newBar(o, stderr)
	results, err := s.Run(ctx, bar.observe, func(out experiment.Outcome) error {
		timing.Runs = append(timing.Runs, out.Timing)
		if folder == nil {
			return nil
		}
		return errors.Join(out.Save(folder), folder.AppendMetrics(out.Run.Metrics()))
	})
	bar.close()
	timing.WallSeconds = time.Since(start).Seconds()
	if folder != nil {
		if werr := errors.Join(folder.WriteResults(results), folder.WriteJSON(run.TimingFile, timing)); werr != nil {
			return errors.Join(err, werr)
		}
	}
	written := ""
	if folder != nil && o.report == "on" && slices.ContainsFunc(results, func(r run.Result) bool { return len(r.Seeds) > 0 }) {
		reporting := time.Now()
		// An interrupted run is shown too.
		if rerr := writeReport(context.WithoutCancel(ctx), o, s, folder, nil); rerr != nil {
			return errors.Join(err, rerr)
		}
		written = fmt.Sprintf(", %s in %.2f s", report.File, time.Since(reporting).Seconds())
	}
	var notes []string
	if note := s.SmallNote(); note != "" {
		notes = append(notes, note)
	}
	if note := freezeNote(s); note != "" {
		notes = append(notes, note)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		notes = append(notes, "Interrupted: only what was finished is shown.")
	case !slices.ContainsFunc(results, func(r run.Result) bool { return len(r.Seeds) > 0 }):
		return err
	default:
		notes = append(notes, "Failed: only what was finished is shown.")
	}
	if perr := printResults(o, s, results, timing, stdout, notes); perr != nil {
		return errors.Join(err, perr)
	}
	if folder != nil && !o.json {
		fmt.Fprintf(stdout, "\n%s in %.2f s%s\n", folder.Path(), timing.WallSeconds, written)
	}
	return err
}

// outFolder makes the run folder, or returns nil for -out none.
func outFolder(out, task string, now time.Time) (*run.Folder, error) {
	switch out {
	case "none":
		return nil, nil
	case "":
		base := filepath.Join("runs", task+"-"+now.Format("20060102-150405"))
		for k := 1; ; k++ {
			path := base
			if k > 1 {
				path = fmt.Sprintf("%s-%d", base, k)
			}
			if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
				return run.Create(path)
			}
		}
	}
	return run.Create(out)
}

// printResults prints the results as a table with notes, or as JSON.
func printResults(o *options, s experiment.Setting, results []run.Result, timing run.Timing, stdout io.Writer, notes []string) error {
	if o.json {
		return printJSON(stdout, jsonReport(results, timing))
	}
	return printTable(stdout, s, results, o.std == "population", notes)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	return enc.Encode(v)
}

// bar shows progress over all runs, or nothing.
type bar struct{ p *progressbar.ProgressBar }

func newBar(o *options, stderr io.Writer) *bar {
	show := o.progress == "on"
	if f, ok := stderr.(*os.File); ok && o.progress == "auto" && !o.json {
		show = term.IsTerminal(int(f.Fd()))
	}
	if !show {
		return &bar{}
	}
	return &bar{progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(stderr), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("starting"))}
}

func (b *bar) observe(p experiment.Progress) {
	if b.p == nil {
		return
	}
	b.p.ChangeMax64(int64(p.Runs) * int64(p.Total))
	text := fmt.Sprintf("%s seed %d, %s", p.Loss, p.Seed, p.Stage)
	if p.Trial > 0 {
		text = fmt.Sprintf("%s (trying %g)", text, p.Trial)
	}
	b.p.Describe(text)
	// An error here could only be about drawing.
	_ = b.p.Set64(int64(p.Run)*int64(p.Total) + int64(p.Done))
}

func (b *bar) close() {
	if b.p != nil {
		_ = b.p.Clear()
	}
}
