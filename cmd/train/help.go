package main

import (
	"flag"
	"fmt"
	"io"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
)

// help prints the flags by group with their defaults.
func (o *options) help(w io.Writer) {
	regime := o.fs.Lookup("regime").Value.String()
	fmt.Fprintf(w, `Train a predictor for the quality of the decisions made from it, and report
the regret of those decisions.

    train -task warcraft                   shortest paths on pictured maps
    train -task warcraft -data maps        the published maps in a folder; also
                                           -data generated:10000
    train                                  rspo+ on the generated knapsack task
    train -loss rspo+,spo+,mse             compare losses on the same data
    train -seeds 1..5 -lr matched          five seeds, equal learning rates
    train -loss rspo+,spo+ -lr tuned       each loss at its best learning rate
    train -regime local                    every client alone
    train -data FOLDER                     your own data
    train -eval runs/NAME                  judge saved models again
    train -report-of runs/NAME -show 3:17  draw test sample 17 of client 3

Defaults are %s for -task %s -regime %s.
`, o.Protocol(), o.fs.Lookup("task").Value, regime)
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		for _, name := range g.Names {
			f := o.fs.Lookup(name)
			value, usage := flag.UnquoteUsage(f)
			if value != "" {
				value = " " + value
			}
			if k := experiment.FlagTask(name); k != "" && k != o.fs.Lookup("task").Value.String() {
				usage = "only with -task " + k + ": " + usage
			} else if r := experiment.FlagRegime(name); r != "" && string(r) != regime {
				usage = "only with -regime " + string(r) + ": " + usage
			} else if f.DefValue != "" && f.DefValue != "false" {
				usage += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(w, "  -%s%s\n%s", f.Name, value, cli.Wrap(usage, "        ", 80))
		}
	}
	fmt.Fprint(w, `
Other methods of the paper, on the knapsack:

    -loss optnet                           OptNet-style
    -prox 1                                FedProx in the federated stage
    -personalizer ditto                    Ditto; also -ditto-mode interleaved
    -loss spo+ -personalizer interp -hold-out 0.2 -output-bound 20 -rounds 50
      -epochs 5 -fraction 0.2 -personal-rounds 50               Interp-DFFL

-lr tuned trains every loss with each rate, on every seed, before the runs that
are reported; result.json keeps the choice.

A run folder holds config.toml (the resolved settings, -data as an absolute
path: train -config repeats the run), result.json, metrics.jsonl (a line a
round), models/LOSS/seed-N/ (in safetensors format), version.json and
timing.json. data_sha256 in result.json identifies the data of a seed.
report.html shows all this and a few test samples, in one file; report/ holds
its pictures. -report-of makes them again.

-eval writes its folder at the end, and replaces that of an earlier -eval.

Ctrl-C keeps what training has finished. Exit codes: 0 done, 1 failed, 2 a
mistake in the flags or the configuration file, 130 interrupted.
`)
}
