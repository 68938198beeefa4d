// Command reproduce regenerates the paper's tables and figures and compares
// them with the printed numbers. Run reproduce -h for its flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
	"fedrspo/run"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	again := "the same command goes on from here"
	return cli.Main("reproduce", stdout, stderr, func() string { return "interrupted; " + again }, func(ctx context.Context, stdout io.Writer) error {
		o, err := parse(args)
		if errors.Is(err, flag.ErrHelp) {
			o.help(stdout)
			return nil
		}
		if err != nil {
			return err
		}
		if o.out == "none" {
			again = "nothing is kept, as -out none asks"
		}
		err = o.dispatch(ctx, stdout, stderr)
		if d := differences(nil); errors.As(err, &d) {
			for _, line := range d {
				fmt.Fprintln(stderr, line)
			}
		}
		return err
	})
}

// differences is the error of -check.
type differences []string

func (d differences) Error() string {
	return fmt.Sprintf("not as recorded: the %d differences above", len(d))
}

// dispatch does what the flags say.
func (o *options) dispatch(ctx context.Context, stdout, stderr io.Writer) error {
	if err := experiment.CheckMachine(); err != nil {
		return err
	}
	if o.version {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(experiment.Version())
	}
	opt, err := o.tableOptions()
	if err != nil {
		return err
	}
	tables, err := o.tables(opt)
	if err != nil {
		return err
	}
	s := &session{Runner: &experiment.Runner{Workers: o.workers, Program: o.program, GlobalLambdaMean: o.globalLambda == "mean"}, progress: o.bar(stderr), stderr: stderr}
	s.Start, s.Observe = s.start, s.observe
	if o.out != "none" {
		if s.folder, err = openFolder(o.out); err != nil {
			return err
		}
		s.Cache = s.folder
	}
	if o.docs != "" {
		return s.docs(ctx, o.docs, o.quick)
	}
	var differs differences
	for _, t := range tables {
		f, err := s.finish(ctx, t, opt)
		if err != nil {
			return err
		}
		if err := f.Markdown(stdout); err != nil {
			return err
		}
		differs = append(differs, f.Differs()...)
	}
	if o.bounds {
		d, err := s.bounds(ctx, stdout)
		if err != nil {
			return err
		}
		differs = append(differs, d...)
	}
	if o.check && len(differs) > 0 {
		return differs
	}
	return nil
}

// openFolder opens the folder of results and says in it which program writes
// there; a folder that cannot be written says so before hours of training.
func openFolder(path string) (*run.Folder, error) {
	folder, err := run.Reopen(path)
	if err != nil {
		return nil, err
	}
	id, err := experiment.ProgramID()
	if err != nil {
		return nil, err
	}
	return folder, folder.WriteJSON(run.VersionFile, struct {
		Program string `json:"program"`
		run.Version
	}{id, experiment.Version()})
}

// session is the state of one call: it runs tables and tells how far they are.
type session struct {
	*experiment.Runner
	folder   *run.Folder // nil for -out none
	progress *progress   // nil without
	stderr   io.Writer
	what     string // is being done
}

// finish makes a table and writes its files.
func (s *session) finish(ctx context.Context, t *experiment.Table, opt experiment.Options) (*experiment.Finished, error) {
	s.what = t.Name()
	f, err := t.Finish(ctx, s.Runner, opt)
	s.progress.clear()
	if err != nil {
		return nil, err
	}
	if s.folder != nil {
		_, err = f.Write(s.folder)
	}
	return f, err
}

// start tells the estimate.
func (s *session) start(p experiment.Plan) {
	if p.Runs == 0 {
		return
	}
	runs := "runs"
	if p.Runs == 1 {
		runs = "run"
	}
	fmt.Fprintf(s.stderr, "%s: %d %s to do, %d at a time, about %s", s.what, p.Runs, runs, p.Workers, round(p.Time))
	if p.Kept > 0 {
		fmt.Fprintf(s.stderr, "; %d are there", p.Kept)
	}
	fmt.Fprintln(s.stderr)
}

func (s *session) observe(done, total int, left time.Duration) {
	s.progress.show(fmt.Sprintf("%s: %d of %d runs, about %s left", s.what, done, total, round(left)), done, total)
}

// bounds prints theorem 3 for each axis of heterogeneity.
func (s *session) bounds(ctx context.Context, stdout io.Writer) ([]string, error) {
	if _, err := fmt.Fprintf(stdout, "## %s\n\n%s", experiment.BoundsTitle, experiment.BoundsHeader); err != nil {
		return nil, err
	}
	var differs []string
	for _, e := range experiment.BoundsSettings {
		b, err := experiment.KnapsackBounds(ctx, e, experiment.BoundsSeed)
		if err != nil {
			return nil, err
		}
		if err := b.Markdown(stdout); err != nil {
			return nil, err
		}
		if s.folder != nil {
			if err := b.Write(s.folder); err != nil {
				return nil, err
			}
		}
		differs = append(differs, b.Differs()...)
	}
	_, err := fmt.Fprintln(stdout)
	return differs, err
}

// docs writes the pages about all experiments.
func (s *session) docs(ctx context.Context, dir string, quick bool) error {
	folder, err := run.Reopen(dir)
	if err != nil {
		return err
	}
	return experiment.Docs{Folder: folder, Quick: quick, Finish: s.finish, Result: s.Result, Cost: s.Cost}.Write(ctx)
}
