package main

import (
	"flag"
	"fmt"
	"io"

	"fedrspo/internal/cli"
)

var groups = []struct {
	title string
	names []string
}{
	{"What to measure", []string{"oracle", "grid", "dim", "predictions", "lambda", "warm", "batch", "workers"}},
	{"How", []string{"duration", "instances", "seed", "json"}},
	{"Instead of that", []string{"goals", "peers", "growth", "contract", "export", "rows"}},
}

// help prints the flags by group with their defaults.
func (o *options) help(w io.Writer) {
	fmt.Fprint(w, `Measure the oracles of this module: linear minimisers and projections.

    oraclebench                                      every oracle, once
    oraclebench -oracle path -warm 0,3 -lambda 2,1,0.5,0.2,calibrated
    oraclebench -oracle path -predictions good,medium,noisy,init -workers 1,2
    oraclebench -goals                               the goals and what is obtained
    oraclebench -growth -workers 1,2                 larger grids and batches
    oraclebench -contract 10000                      accuracy on random instances
    oraclebench -export path.npz -oracle path        instances for other programs
`)
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, name := range g.names {
			f := o.fs.Lookup(name)
			value, usage := flag.UnquoteUsage(f)
			if value != "" {
				value = " " + value
			}
			if f.DefValue != "" && f.DefValue != "false" {
				usage += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(w, "  -%s%s\n%s", f.Name, value, cli.Wrap(usage, "        ", 80))
		}
	}
	fmt.Fprint(w, `
Plurals are lists separated by commas; everything is measured in every
combination. Instances are synthetic: maps with smooth regions of five kinds of
ground between 44 pairs of opposite border cells, knapsacks of the paper's
synthetic task, choices of a third of all hours by price, and allocations of
d/2 resources to d activities.

Columns:
  µs          time of a solve. One worker: processor time (on Linux), in the
              median run of every chunk of instances. Several: wall time, in the
              fastest run.
  per second  solves
  ratio       time over that of the linear minimiser, measured in the same run in
              turns; of path, over the fast shortest path
  iterations  the solver's own count, see its package
  gap         worst duality gap of 256 answers, with p = -theta/lambda the bound
              of |w-w*|²/2, computed by the linear minimiser; interior is the
              share of them that the interior point method gave

Exit codes: 0 done, 1 failed or contract broken, 2 a mistake in the flags,
130 interrupted, after printing what was finished.
`)
}
