package train

import (
	"context"

	"fedrspo/run"
	"fedrspo/task"
)

// selectionSamples is the number of validation samples, the first ones in
// stored order, that settings are chosen on.
const selectionSamples = 8

// candidates lists the settings a phase is trained with: the multipliers of
// the OptNet-style loss, or the single 0 that stands for none. The paper trains
// the federated stage once with each, from the same seed, goes on from the
// model with the least mean regret on validation data, and lets each client
// choose its own for personalisation.
func (r *Run) candidates(p phase) []float64 {
	if isOptNet(p.loss) {
		return r.cfg.Multipliers
	}
	return []float64{0}
}

// selectionRegret is the mean over clients of the task's metric of model on the
// clients' selection samples. Clients without any, and late ones, are left out.
func (r *Run) selectionRegret(ctx context.Context, model []float64) (float64, error) {
	regrets := make([]float64, len(r.task.Clients))
	err := r.each(ctx, len(regrets), func(w *worker, i int) (err error) {
		regrets[i], err = r.clientSelectionRegret(ctx, w, i, model)
		return r.at(i, err)
	})
	if err != nil {
		return 0, err
	}
	sum, n := 0.0, 0
	for i, c := range r.task.Clients {
		if c.Val.Len() > 0 && !c.Late {
			sum += regrets[i]
			n++
		}
	}
	return sum / float64(max(n, 1)), nil
}

// clientSelectionRegret is the task's metric of model on client i's selection
// samples, 0 without any.
func (r *Run) clientSelectionRegret(ctx context.Context, w *worker, i int, model []float64) (float64, error) {
	c := r.task.Clients[i]
	n := min(selectionSamples, c.Val.Len())
	if n == 0 {
		return 0, nil
	}
	rows := make([]int, n)
	for k := range rows {
		rows[k] = k
	}
	first := task.Select(c.Val, rows)
	z, err := optimalValues(first, w.poolFor(c.Polytope).Solver())
	if err != nil {
		return 0, err
	}
	v, err := r.judgeOn(ctx, w, judging{client: i, split: first, optima: z, by: predictor{model: model}})
	return r.measure().Of(v.Regret), err
}

// measure is the task's metric.
func (r *Run) measure() run.Measure { return run.Measure(r.task.Metric.String()) }
