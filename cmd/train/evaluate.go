package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"fedrspo/experiment"
	"fedrspo/run"
)

// evaluate judges the models of an earlier run. Its folder appears at the end,
// whole or not at all.
func evaluate(ctx context.Context, o *options, s experiment.Setting, stdout, stderr io.Writer) (err error) {
	start := time.Now()
	from, err := run.Open(o.eval)
	if err != nil {
		return err
	}
	var draft *run.Draft
	var to *run.Folder
	if o.out != "none" {
		path := o.out
		if path == "" {
			path = from.Path("eval")
		}
		if draft, err = run.NewDraft(path); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, draft.Discard()) }()
		to = draft.Folder
	}
	var timing run.Timing
	results, err := s.Evaluate(ctx, from, to, func(t run.SeedTiming) { timing.Runs = append(timing.Runs, t) })
	// What can be judged of other data is worth having.
	partial := errors.Is(err, experiment.ErrNoModel) && slices.ContainsFunc(results, func(r run.Result) bool { return len(r.Seeds) > 0 })
	if err != nil && !partial {
		return err
	}
	noModel := err
	if draft != nil {
		version, err := s.Version()
		if err := errors.Join(err, to.WriteJSON(run.VersionFile, version), to.WriteResults(results)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := draft.Commit(); err != nil {
			return err
		}
	}
	timing.WallSeconds = time.Since(start).Seconds()
	var notes []string
	switch {
	case partial:
		notes = append(notes, "Only what every client has a model for is shown.")
	case slices.ContainsFunc(results, func(r run.Result) bool { return !r.Complete }):
		notes = append(notes, "Interrupted: only what was finished is shown.")
	}
	if err := printResults(o, s, results, timing, stdout, notes); err != nil {
		return err
	}
	if noModel != nil {
		return noModel
	}
	if to != nil {
		fmt.Fprintf(stderr, "Predictions and decisions are in %s.\n", to.Path())
	}
	return compare(o, from, results, stderr)
}

// compare checks the results against those of the run and says what was
// compared.
func compare(o *options, from *run.Folder, results []run.Result, stderr io.Writer) error {
	saved, err := from.Results()
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(stderr, "The run was killed before it wrote %s; its models are judged, not compared.\n", from.Path(run.ResultFile))
		return nil
	}
	if err != nil {
		return err
	}
	if o.given["data"] && !slices.ContainsFunc(saved, func(r run.Result) bool { return len(r.Seeds) > 0 && r.Seeds[0].Data != "" }) {
		fmt.Fprintf(stderr, "%s does not say on which data: nothing is compared.\n", from.Path(run.ResultFile))
		return nil
	}
	err = run.SameRegrets(results, saved)
	switch {
	case errors.Is(err, run.ErrData) && o.given["data"]:
		fmt.Fprintf(stderr, "These are other data than the run's: nothing to compare with %s.\n", from.Path(run.ResultFile))
		return nil
	case errors.Is(err, run.ErrData):
		return fmt.Errorf("the dataset has changed since the run, so its models cannot reproduce %s: %w", from.Path(run.ResultFile), err)
	case err != nil && o.given["data"]:
		return fmt.Errorf("on these data the saved models do not reproduce %s: %w", from.Path(run.ResultFile), err)
	case err != nil:
		return fmt.Errorf("the saved models do not reproduce %s: %w", from.Path(run.ResultFile), err)
	}
	seeds, clients, stages := 0, 0, 0
	for _, r := range results {
		seeds += len(r.Seeds)
		for _, s := range r.Seeds {
			for _, stage := range []*run.StageResult{s.Fed, s.Personal, s.LocalEndpoint} {
				if stage != nil {
					stages++
					clients += len(stage.Clients)
				}
			}
		}
	}
	fmt.Fprintf(stderr, "Computed again and equal to %s, bit for bit: %s of clients, %s of stages, and the means over seeds, of %s. Steps, lambda, frozen, rho, multiplier and tuning are copied from it.\n",
		from.Path(run.ResultFile), count(clients, "regret"), count(stages, "mean"), count(seeds, "training run"))
	return nil
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
