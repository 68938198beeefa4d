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

// evaluate returns the regret of the session's network over a client's test
// samples (paper, appendix C.1): decisions are always LP decisions, and relative
// regret is a ratio of means. optima are the z* of the samples. visit, if not
// nil, sees every decision in order.
func (w *worker) evaluate(ctx context.Context, c *task.Client, optima []float64, visit func(Decision) error) (run.Regret, error) {
	s := w.poolFor(c.Polytope).Solver()
	regret, scale := 0.0, 0.0
	err := w.predict(ctx, c.Test.X, func(i int, chat []float64) error {
		decision := s.Scratch[0]
		if _, err := s.Minimize(decision, chat); err != nil {
			return fmt.Errorf("test sample %d: %w", i, err)
		}
		d := Decision{Sample: i, Chat: chat, W: decision, Cost: dot(c.Test.C.Row(i), decision), Optimum: optima[i]}
		regret += d.Cost - d.Optimum
		scale += math.Abs(d.Optimum)
		if visit != nil {
			return visit(d)
		}
		return nil
	})
	if err != nil {
		return run.Regret{}, err
	}
	n := float64(c.Test.Len())
	if scale == 0 {
		scale = minOptimum * n
	}
	r := run.Regret{Absolute: regret / n, Relative: (regret / n) / (scale / n)}
	if math.IsNaN(r.Relative) || math.IsInf(r.Relative, 0) {
		return r, fmt.Errorf("regret is %v: %w", r.Absolute, oracle.ErrNonFinite)
	}
	return r, nil
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
