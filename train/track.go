package train

import (
	"context"
	"fmt"

	"fedrspo/oracle"
	"fedrspo/run"
	"fedrspo/task"
)

// trackPart is the validation samples of one client that its regret is
// measured on after every round, with their optimal values.
type trackPart struct {
	split  task.Split
	optima []float64
}

// newTrackPart takes n validation samples of c, spread evenly over the split,
// since its order may mean something (dates, say).
func newTrackPart(c *task.Client, n int, solver *oracle.Solver) (p trackPart, err error) {
	if n = min(n, c.Val.Len()); n == 0 {
		return p, nil
	}
	rows := make([]int, n)
	for k := range rows {
		rows[k] = k * c.Val.Len() / n
	}
	p.split = task.Select(c.Val, rows)
	p.optima, err = optimalValues(p.split, solver)
	return p, err
}

// trackClient returns the regret of client i's model, now in w's session, on
// the client's tracked samples, or nil without any. The session's parameters
// and optimiser stay as they are.
func (r *Run) trackClient(ctx context.Context, w *worker, i int) (*run.Regret, error) {
	p := &r.tracked[i]
	if len(p.optima) == 0 {
		return nil, nil
	}
	// Storing and loading gives every parameter the same bits again.
	if w.theta == nil {
		w.theta = make([]float64, r.cfg.Model.Layout().Len())
	}
	w.session.Store(w.theta)
	return r.trackModel(ctx, w, i, w.theta)
}

// trackModel is trackClient for a model that replaces the session's.
func (r *Run) trackModel(ctx context.Context, w *worker, i int, model []float64) (*run.Regret, error) {
	v, err := r.judgeOn(ctx, w, r.tracking(i, model))
	if err != nil {
		return nil, fmt.Errorf("tracked validation: %w", err)
	}
	return &v.Regret, nil
}

// tracking is the judging of a model on client i's tracked samples.
func (r *Run) tracking(i int, model []float64) judging {
	p := &r.tracked[i]
	return judging{client: i, split: p.split, optima: p.optima, by: predictor{model: model}}
}

// trackShared returns the mean regret of one model for all over the clients
// that have tracked samples, or nil if none has.
func (r *Run) trackShared(ctx context.Context, model []float64) (*run.Regret, error) {
	var all []judging
	for i, p := range r.tracked {
		if len(p.optima) > 0 {
			all = append(all, r.tracking(i, model))
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	verdicts, err := r.judge(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("tracked validation: %w", err)
	}
	clients := make([]run.ClientResult, len(all))
	for k, v := range verdicts {
		clients[k].Regret = v.Regret
	}
	return &run.NewStageResult(clients).Regret, nil
}
