package experiment

import (
	"context"
	"fmt"
	"math"

	"fedrspo/run"
	"fedrspo/task"
	"fedrspo/train"
)

// TuningRates are the learning rates that Tune tries, ascending.
var TuningRates = []float64{1e-3, 3e-3, 5e-3, 1e-2, 3e-2}

// Tune chooses a learning rate for each loss, one for both stages: the one of
// TuningRates with the least regret, in the task's metric, on validation samples after
// the last stage, as the mean over seeds and clients. Regularised losses scale it
// by λ_j/mean λ (train.RateScaled). Test samples play no part. The choices have
// the order of Losses; observe may be nil.
func (s Setting) Tune(ctx context.Context, observe func(Progress)) ([]run.Tuning, error) {
	return s.tune(ctx, &watcher{observe: observe, runs: s.tuningRuns()})
}

// tuningRuns is the number of training runs of Tune.
func (s Setting) tuningRuns() int { return len(TuningRates) * len(s.Losses) * len(s.Seeds) }

func (s Setting) tune(ctx context.Context, w *watcher) ([]run.Tuning, error) {
	out := make([]run.Tuning, len(s.Losses))
	for k := range out {
		for _, rate := range TuningRates {
			out[k].Candidates = append(out[k].Candidates, run.Candidate{Rate: rate})
		}
	}
	err := s.each(func(k int, t *task.Task, cfg train.Config) error {
		cfg.Rates, cfg.Validation = train.RateScaled, true
		for i := range out[k].Candidates {
			c := &out[k].Candidates[i]
			cfg.FixedRate = c.Rate
			r, err := train.New(cfg, t, w.next(cfg, c.Rate))
			if err == nil {
				err = r.Execute(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s, seed %d at the learning rate %g: %w", cfg.Loss.Name(), cfg.Seed, c.Rate, err)
			}
			regret, n := lastValidation(r.Result(), measure(t))
			if n == 0 {
				return fmt.Errorf("no client has validation samples to tune the learning rate on: %w", train.ErrConfig)
			}
			c.Regret += regret / float64(len(s.Seeds))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for k := range out {
		least := math.Inf(1)
		for _, c := range out[k].Candidates {
			if c.Regret < least {
				out[k].Rate, least = c.Rate, c.Regret
			}
		}
	}
	return out, nil
}

// lastValidation is the mean regret on validation samples after the last stage,
// over the n clients that have such samples.
func lastValidation(r run.SeedResult, m run.Measure) (regret float64, n int) {
	stage := r.Personal
	if stage == nil {
		stage = r.Fed
	}
	for _, c := range stage.Clients {
		if c.Validation != nil {
			regret += m.Of(*c.Validation)
			n++
		}
	}
	return regret / float64(max(n, 1)), n
}

// watcher tells an observer of several runs, numbered as they come.
type watcher struct {
	observe   func(Progress)
	run, runs int
}

// next returns what observes the next run, of cfg. trial is Progress.Trial.
func (w *watcher) next(cfg train.Config, trial float64) func(train.Progress) {
	p := Progress{Loss: cfg.Loss.Name(), Seed: cfg.Seed, Run: w.run, Runs: w.runs, Trial: trial}
	w.run++
	if w.observe == nil {
		return nil
	}
	return func(at train.Progress) {
		p := p
		p.Progress = at
		w.observe(p)
	}
}
