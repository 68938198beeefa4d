package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"fedrspo/oracle/bench"
)

// print prints the report as tables.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w, r.header())
	fmt.Fprintln(w)
	switch {
	case r.Contract != nil:
		printContract(w, r.Contract, r.options.contract)
	case r.Goals != nil:
		printGoals(w, r.Goals)
		fmt.Fprintln(w)
		printResults(w, r.Results)
	default:
		printResults(w, r.Results)
	}
}

// header names the machine and the program.
func (r *report) header() string {
	m, v := r.Machine, r.Version
	revision := v.Revision
	switch {
	case revision == "":
		revision = v.Version
	case v.Modified:
		revision += " with changes"
	}
	text := fmt.Sprintf("%s, %d cores, %s/%s, %s, kernels %s, commit %s, seed %d", m.CPU, m.Cores, m.OS, m.Arch, m.Go, m.Kernel, revision, r.options.seed)
	if m.Load != "" {
		text += ", load average " + m.Load
	}
	return text
}

func printResults(w io.Writer, results []bench.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row(t, "oracle", "size", "solve", "predictions", "lambda", "warm %", "batch", "workers", "µs", "per second", "ratio", "iterations", "gap", "not optimal", "interior %")
	for _, x := range results {
		predictions, lambda, warm, ratio := "-", "-", "-", "-"
		solve := x.Operation
		if x.Oracle == bench.Dijkstra {
			if solve = "fast"; x.Labels {
				solve = "paper's ties"
			}
		}
		interior := "-"
		if x.Operation == "project" {
			predictions, lambda, warm = x.Predictions.String(), x.Lambda.String(), "cold"
			ratio = fmt.Sprintf("%.2f", x.Ratio)
			if x.Warm > 0 {
				warm = fmt.Sprintf("%g", 100*x.Warm)
			}
			if x.Training {
				predictions, warm = "training", "last"
			}
			if x.Oracle == bench.Path {
				interior = fmt.Sprintf("%.0f", 100*x.Interior)
			}
		}
		row(t, x.Oracle, x.Size(), solve, predictions, lambda, warm, fmt.Sprint(x.Batch), fmt.Sprint(x.Workers), fmt.Sprintf("%.4g", x.Nanoseconds/1000),
			fmt.Sprintf("%.0f", x.PerSecond), ratio, fmt.Sprintf("%.1f", x.Iterations), fmt.Sprintf("%.1e", x.Gap), fmt.Sprint(x.NotOptimal), interior)
	}
	t.Flush()
}

// row prints the cells of a row.
func row(t *tabwriter.Writer, cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }

func printGoals(w io.Writer, goals []bench.Goal) {
	fmt.Fprintln(w, "| what | must | goal | obtained | verdict | parts |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for _, g := range goals {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", g.Name, g.Bound(g.Must), g.Bound(g.Want), g.Value(), g.Verdict, g.Parts)
	}
}

// printContract prints what is known of the wanted number of instances.
func printContract(w io.Writer, c *bench.Contract, wanted int) {
	fmt.Fprintf(w, "%d instances on %dx%d, %d pairs of endpoints, %d with a warm start.\n\n", c.Total.Instances, c.Height, c.Width, c.Endpoints, c.Warm)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row(t, "costs", "predictions", "instances", "interior", "fallbacks", "references short", "broken", "gap", "entry", "violation")
	print := func(costs, predictions string, g bench.ContractGroup) {
		row(t, costs, predictions, fmt.Sprint(g.Instances), fmt.Sprint(g.Interior), fmt.Sprint(g.Fallbacks), fmt.Sprint(g.References), fmt.Sprint(g.Broken),
			fmt.Sprintf("%.2e", g.Gap), fmt.Sprintf("%.2e", g.Entry), fmt.Sprintf("%.2e", g.Violation))
	}
	for _, g := range c.Groups {
		print(g.Costs, g.Predictions.String(), g)
	}
	print("all", "", c.Total)
	t.Flush()
	verdict := "All answers are within the contract."
	switch n := c.Total.Instances; {
	case c.Total.Broken > 0:
		verdict = "The contract is broken."
	case n < wanted:
		verdict = fmt.Sprintf("Interrupted: %d of %d instances are checked, and their answers are within the contract.", n, wanted)
	}
	fmt.Fprintf(w, "\n%s\n", verdict)
}
