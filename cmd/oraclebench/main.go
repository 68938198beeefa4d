// Command oraclebench measures the oracles of this module, checks their
// accuracy, and exports instances for other programs. Run oraclebench -h for its
// flags.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"fedrspo/internal/atomicfile"
	"fedrspo/internal/cli"
	"fedrspo/oracle/bench"
	"fedrspo/run"

	"golang.org/x/term"
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	kept := "what was finished is printed"
	return cli.Main("oraclebench", stdout, stderr, func() string { return "interrupted; " + kept }, func(ctx context.Context, stdout io.Writer) error {
		o, err := parse(args)
		if errors.Is(err, flag.ErrHelp) {
			o.help(stdout)
			return nil
		}
		if err != nil {
			return err
		}
		if o.mode == modeExport {
			kept = "nothing is written"
		}
		err = dispatch(ctx, o, stdout, stderr)
		if errors.Is(err, bench.ErrProblem) {
			err = cli.UsageError{Err: err}
		}
		return err
	})
}

// dispatch does what the flags say.
func dispatch(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	r := &report{Machine: bench.ThisMachine(), options: o, progress: stderr}
	r.Version = run.BuildVersion(r.Machine.Kernel)
	if f, ok := stderr.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		r.progress = io.Discard
	}
	switch o.mode {
	case modeExport:
		return r.export(ctx, stdout)
	case modeGoals:
		err = r.goals(ctx)
	case modeGrowth:
		err = bench.MeasureGrowth(ctx, o.seed, o.workers, o.duration, r.observe)
	case modeContract:
		var c bench.Contract
		c, err = bench.CheckContract(ctx, o.height, o.width, o.contract, o.seed, o.workers[0])
		r.Contract = &c
	default:
		err = r.measure(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if o.json {
		err = errors.Join(err, json.NewEncoder(stdout).Encode(r))
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

func (r *report) measure(ctx context.Context) error {
	for _, p := range r.options.problems() {
		for _, workers := range r.options.workers {
			results, err := bench.Measure(ctx, p, workers, r.options.duration)
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

func (r *report) goals(ctx context.Context) (err error) {
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
	r.Goals, err = bench.MeasureGoals(ctx, r.options.seed, r.options.duration, peers, r.observe)
	return err
}

// export writes the file whole or not at all.
func (r *report) export(ctx context.Context, stdout io.Writer) error {
	o := r.options
	err := atomicfile.WriteFile(o.export, func(w io.Writer) error {
		return bench.Export(ctx, w, o.problems(), o.rows, o.duration)
	})
	if err == nil {
		fmt.Fprintf(stdout, "instances written to %s\n", o.export)
	}
	return err
}
