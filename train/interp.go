package train

import (
	"context"
	"fmt"
	"math"

	"fedrspo/oracle"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// Interp is Interp-DFFL: each client trains a local model L from the initial
// model, and predicts (1-ρ) L(x) + ρ G(x) with the global model G. ρ is the
// first minimiser, over {0, 0.05, ..., 1}, of the mean SPO+ loss on the
// client's validation samples, its calibration data.
type Interp struct {
	// ByPrediction selects ρ by the mean squared error of the prediction
	// instead.
	ByPrediction bool
}

// rhoSteps is the number of intervals of the grid of ρ.
const rhoSteps = 20

// Name returns "interp".
func (Interp) Name() string { return "interp" }

func (Interp) validate(*Config) error { return nil }
func (Interp) replays() bool          { return false }

func (p Interp) train(ctx context.Context, r *Run, w *worker, i int, job course, start []float64, c *ClientState) error {
	client := r.task.Clients[i]
	if client.Val.Len() == 0 {
		return fmt.Errorf("interp: no validation samples to choose rho on")
	}
	w.session.Load(r.state.Initial)
	if err := r.follow(ctx, w, i, job, c); err != nil {
		return err
	}
	local := make([]float64, len(start))
	w.session.Store(local)
	rho, err := p.choose(ctx, w, client, local, start)
	if err != nil {
		return fmt.Errorf("interp: %w", err)
	}
	c.Rho, c.Interpolates = rho, true
	w.session.Load(local) // predicting has changed the session's parameters
	return nil
}

// choose returns the ρ of least mean loss; ties go to the smallest.
func (p Interp) choose(ctx context.Context, w *worker, c *task.Client, local, global []float64) (float64, error) {
	n, d := c.Val.Len(), w.cfg.Model.Out()
	l, g := make([]float64, n*d), make([]float64, n*d)
	for _, m := range []struct{ theta, chat []float64 }{{local, l}, {global, g}} {
		if err := w.predict(ctx, c.Val.X, predictor{model: m.theta}, 0, n, m.chat); err != nil {
			return 0, err
		}
	}
	loss := surrogate.Loss(surrogate.SPOPlus{})
	if p.ByPrediction {
		loss = surrogate.MSE{}
	}
	b := surrogate.Batch{Loss: loss, Pool: oracle.NewPool(c.Polytope, 1), Targets: surrogate.NewTargets(c.Val.C.Data, d), Rows: make([]int, n)}
	for i := range b.Rows {
		b.Rows[i] = i
	}
	chat, values, grad := make([]float64, n*d), make([]float64, n), make([]float64, n*d)
	best, bestLoss := 0.0, math.Inf(1)
	for k := range rhoSteps + 1 {
		rho := float64(k) / rhoSteps
		for i := range chat {
			chat[i] = (1-rho)*l[i] + rho*g[i]
		}
		v, err := b.Eval(chat, values, grad)
		if err != nil {
			return 0, err
		}
		if v < bestLoss {
			best, bestLoss = rho, v
		}
	}
	return best, nil
}
