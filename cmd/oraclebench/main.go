// Command oraclebench measures the oracles of this module, checks their
// accuracy, and exports instances for other programs. Run oraclebench -h for its
// flags.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"fedrspo/oracle/bench"
	"fedrspo/run"

	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	out := &checkedWriter{w: stdout}
	err := dispatch(args, out, stderr)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "oraclebench: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	var usage usageError
	if errors.As(err, &usage) || errors.Is(err, bench.ErrProblem) {
		fmt.Fprintln(stderr, "Run oraclebench -h for the flags.")
		return exitUsage
	}
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

func dispatch(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		o.help(stdout)
		return nil
	}
	if err != nil {
		return err
	}
	r := &report{Machine: bench.ThisMachine(), options: o, progress: stderr}
	r.Version = run.BuildVersion(r.Machine.Kernel)
	if f, ok := stderr.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		r.progress = io.Discard
	}
	switch o.mode {
	case modeExport:
		return r.export(stdout)
	case modeGoals:
		err = r.goals()
	case modeGrowth:
		err = bench.MeasureGrowth(o.seed, o.workers, o.duration, r.observe)
	case modeContract:
		var c bench.Contract
		c, err = bench.CheckContract(o.height, o.width, o.contract, o.seed, o.workers[0])
		r.Contract = &c
	default:
		err = r.measure()
	}
	if err != nil {
		return err
	}
	if o.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		r.print(stdout)
	}
	if c := r.Contract; err == nil && c != nil && c.Total.Broken > 0 {
		return fmt.Errorf("%d of %d answers break the contract, first %s", c.Total.Broken, c.Total.Instances, c.First)
	}
	return err
}

// report is what the program prints.
type report struct {
	Machine  bench.Machine   `json:"machine"`
	Version  run.Version     `json:"version"`
	Results  []bench.Result  `json:"results,omitempty"`
	Goals    []bench.Goal    `json:"goals,omitempty"`
	Contract *bench.Contract `json:"contract,omitempty"`

	options  *options
	progress io.Writer
}

// observe takes a result, and shows it on a terminal.
func (r *report) observe(x bench.Result) {
	r.Results = append(r.Results, x)
	fmt.Fprintf(r.progress, "%s %s, lambda %v, %v predictions: %.4g µs\n", x.Oracle, x.Operation, x.Lambda, x.Predictions, x.Nanoseconds/1000)
}

func (r *report) measure() error {
	for _, p := range r.options.problems() {
		for _, workers := range r.options.workers {
			results, err := bench.Measure(p, workers, r.options.duration)
			if err != nil {
				return fmt.Errorf("%s: %w", p.Oracle, err)
			}
			for _, x := range results {
				r.observe(x)
			}
		}
	}
	return nil
}

func (r *report) goals() (err error) {
	var peers *bench.Peers
	if name := r.options.peers; name != "" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if peers, err = bench.ReadPeers(f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	r.Goals, err = bench.MeasureGoals(r.options.seed, r.options.duration, peers, r.observe)
	return err
}

// export writes the file whole or not at all.
func (r *report) export(stdout io.Writer) (err error) {
	name := r.options.export
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = bench.Export(f, r.options.problems(), r.options.rows, r.options.duration)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), name); err == nil {
		fmt.Fprintf(stdout, "instances written to %s\n", name)
	}
	return err
}
