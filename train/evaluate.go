package train

import (
	"context"
	"fmt"
	"math"

	"fedrspo/oracle"
	"fedrspo/run"
	"fedrspo/task"
)

// Decision is the outcome of one test sample.
type Decision struct {
	// Sample is the index in the client's test split.
	Sample int
	// Chat is the prediction ĉ, W the decision w*(ĉ). Both are valid during
	// the call only.
	Chat, W []float64
	// Cost is c·w*(ĉ), Optimum z*(c).
	Cost, Optimum float64
}

// minOptimum stands for the denominator of relative regret where all optimal
// values of a client are zero (capacity 0, say): it then is 0 where the
// decisions are optimal, and a finite number otherwise.
const minOptimum = 1e-8

// judging says what to evaluate.
type judging struct {
	client *task.Client
	split  task.Split
	optima []float64 // z* of the split's samples
	by     predictor
	// lambda, unless 0, is where to measure alignment.
	lambda    float64
	alignment *run.Alignment
	// visit, if not nil, sees every decision in order.
	visit func(Decision) error
}

// evaluate returns the regret of a predictor over a client's samples (paper,
// appendix C.1): decisions are always LP decisions, and relative regret is a
// ratio of means. It replaces the session's parameters.
func (w *worker) evaluate(ctx context.Context, j judging) (run.Regret, error) {
	s := w.poolFor(j.client.Polytope).Solver()
	regret, scale := 0.0, 0.0
	var align alignment
	err := w.predict(ctx, j.split.X, j.by, func(i int, chat []float64) error {
		decision := s.Scratch[0]
		if _, err := s.Minimize(decision, chat); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
		cost := j.split.C.Row(i)
		d := Decision{Sample: i, Chat: chat, W: decision, Cost: dot(cost, decision), Optimum: j.optima[i]}
		regret += d.Cost - d.Optimum
		scale += math.Abs(d.Optimum)
		if j.alignment != nil {
			if err := align.add(s, d, cost, j.lambda); err != nil {
				return fmt.Errorf("sample %d: %w", i, err)
			}
		}
		if j.visit != nil {
			return j.visit(d)
		}
		return nil
	})
	if err != nil {
		return run.Regret{}, err
	}
	n := float64(j.split.Len())
	if j.alignment != nil {
		*j.alignment = align.mean(n)
	}
	if scale == 0 {
		scale = minOptimum * n
	}
	r := run.Regret{Absolute: regret / n, Relative: (regret / n) / (scale / n)}
	if math.IsNaN(r.Relative) || math.IsInf(r.Relative, 0) {
		return r, fmt.Errorf("regret is %v: %w", r.Absolute, oracle.ErrNonFinite)
	}
	return r, nil
}

// alignment sums the terms of run.Alignment.
type alignment struct{ gap, length, objective float64 }

// add takes in a sample with decision d at true cost c.
func (a *alignment) add(s *oracle.Solver, d Decision, c []float64, lambda float64) error {
	const epsilon = 1e-8 // the paper's guard against division by zero
	p := s.Scratch[1]
	if err := s.Regularize(p, d.Chat, lambda, nil); err != nil {
		return fmt.Errorf("alignment at lambda %g: %w", lambda, err)
	}
	gap, length, objective := 0.0, 0.0, 0.0
	for k, w := range d.W {
		gap += (p[k] - w) * (p[k] - w)
		length += w * w
		objective += c[k] * (p[k] - w)
	}
	a.gap += math.Sqrt(gap)
	a.length += math.Sqrt(length)
	a.objective += math.Abs(objective) / (math.Abs(d.Optimum) + epsilon)
	return nil
}

func (a *alignment) mean(n float64) run.Alignment {
	const epsilon = 1e-8
	return run.Alignment{Gap: a.gap / n, Decision: 100 * (a.gap / n) / (a.length/n + epsilon), Objective: 100 * a.objective / n}
}

// optimalValues returns z*(c) of every sample of a split.
func optimalValues(s task.Split, solver *oracle.Solver) ([]float64, error) {
	z, w := make([]float64, s.Len()), solver.Scratch[0]
	for i := range z {
		var err error
		if z[i], err = solver.Minimize(w, s.C.Row(i)); err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return z, nil
}

// meanLambda is the mean of the clients' calibrated λ_j.
func (r *Run) meanLambda() float64 {
	sum := 0.0
	for _, c := range r.state.Clients {
		sum += c.Lambda
	}
	return sum / float64(len(r.state.Clients))
}

// evaluatePersonal judges the clients' own models.
func (r *Run) evaluatePersonal(ctx context.Context) (*run.StageResult, error) {
	return r.evaluate(ctx, r.personalPhase(""), func(i int) predictor {
		c := &r.state.Clients[i]
		if c.Interpolates {
			return predictor{model: c.Model, global: r.state.Server.Model, rho: c.Rho}
		}
		return predictor{model: c.Model}
	}, true)
}

// evaluate judges by(i) on the test samples of every client i. personal says
// that the clients' own schedules belong to these models.
func (r *Run) evaluate(ctx context.Context, ph phase, by func(i int) predictor, personal bool) (*run.StageResult, error) {
	clients := make([]run.ClientResult, len(r.task.Clients))
	err := r.each(ctx, len(clients), func(w *worker, i int) (err error) {
		c, state, out := r.task.Clients[i], &r.state.Clients[i], &clients[i]
		*out = run.ClientResult{Client: c.ID}
		if ph.loss.Regularized() {
			out.Lambda = r.state.Schedule.LastLambda(state.Lambda, ph.Stage)
			if personal {
				out.Lambda = state.Schedule.LastLambda(state.Lambda, ph.Stage)
				if n := len(state.Metrics); n > 0 {
					out.Freeze = state.Metrics[n-1].Freeze
				}
				if state.Schedule.Frozen {
					after := state.Schedule.FrozenAfter
					out.FrozenAfter = &after
				}
			}
		}
		if isOptNet(ph.loss) {
			out.Multiplier = r.state.FedMultiplier
			if personal {
				out.Multiplier = state.Multiplier
			}
			out.Lambda = out.Multiplier * state.Lambda
		}
		j := judging{client: c, split: c.Test, optima: r.optima[i], by: by(i), lambda: out.Lambda}
		if j.by.global != nil {
			out.Rho = &state.Rho
		}
		if r.cfg.Alignment && out.Lambda > 0 {
			out.Alignment = &run.Alignment{}
			j.alignment = out.Alignment
			if r.cfg.AlignmentMeanLambda && !personal {
				j.lambda = r.meanLambda()
			}
		}
		if out.Regret, err = w.evaluate(ctx, j); err != nil {
			return r.at(i, fmt.Errorf("test %w", err))
		}
		if r.cfg.Validation && c.Val.Len() > 0 {
			z, err := optimalValues(c.Val, w.poolFor(c.Polytope).Solver())
			if err != nil {
				return r.at(i, fmt.Errorf("validation %w", err))
			}
			v, err := w.evaluate(ctx, judging{client: c, split: c.Val, optima: z, by: j.by})
			if err != nil {
				return r.at(i, fmt.Errorf("validation %w", err))
			}
			out.Validation = &v
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return run.NewStageResult(clients), nil
}
