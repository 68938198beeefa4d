// Command reproduce regenerates the paper's tables and figures and compares
// them with the printed numbers. Run reproduce -h for its flags.
package main

import (
	"cmp"
	"context"
	"encoding/json"
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
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	out := &checkedWriter{w: stdout}
	o, err := parse(args)
	if err == nil {
		err = o.dispatch(ctx, out, stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		o.help(out)
		err = nil
	}
	if err == nil {
		err = out.err
	}
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		again := "the same command goes on from here"
		if o.out == "none" {
			again = "nothing is kept, as -out none asks"
		}
		fmt.Fprintf(stderr, "reproduce: interrupted; %s\n", again)
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "reproduce: %v\nRun reproduce -h for the flags.\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "reproduce: %v\n", err)
	return exitFailed
}

// checkedWriter remembers the first failure, so that a full disk or a closed
// pipe behind standard output makes the program fail.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		err = fmt.Errorf("standard output: %w", err)
		c.err = cmp.Or(c.err, err)
	}
	return n, err
}

// differences is the error of -check.
type differences []string

func (d differences) Error() string {
	return fmt.Sprintf("not as recorded, %d in number:\n%s", len(d), strings.Join(d, "\n"))
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
