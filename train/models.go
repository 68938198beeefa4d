package train

import (
	"context"
	"fmt"
	"strconv"

	"fedrspo/nn"
	"fedrspo/run"
	"fedrspo/task"
)

// Names of the stages of a result, and of their model files.
const (
	// StageFed is the federated model, or the centralised ones.
	StageFed = "fed"
	// StagePersonal is the models after personalisation or local training.
	StagePersonal = "personal"
)

// Models returns the models of a finished stage as a checkpoint, or false if
// the run has none. One global model has the key ""; a model per client has
// the key "client.ID".
func (r *Run) Models(stage string) (nn.Checkpoint, bool) {
	c := nn.Checkpoint{Precision: r.cfg.Precision, Models: map[string][]float64{}, Meta: map[string]string{
		"task": r.task.Name, "loss": r.cfg.Loss.Name(), "model": r.cfg.Model.Name(), "stage": stage,
		"seed": strconv.FormatInt(r.cfg.Seed, 10),
	}}
	switch {
	case stage == StageFed && r.state.Fed != nil && r.cfg.Regime == Federated:
		c.Models[""] = r.state.Server.Model
	case stage == StageFed && r.state.Fed != nil, stage == StagePersonal && r.state.Personal != nil:
		for i, s := range r.state.Clients {
			c.Models[clientKey(r.task.Clients[i].ID)] = s.Model
		}
	default:
		return nn.Checkpoint{}, false
	}
	return c, true
}

// Layout names the parameters of the run's models.
func (r *Run) Layout() *nn.Layout { return r.cfg.Model.Layout() }

func clientKey(id int) string { return "client." + strconv.Itoa(id) }

// Evaluate judges saved models on the test samples of t: the model of key
// "client.ID", or else the one of key "", serves client ID. visit, if not nil,
// sees every decision, in order of clients and samples.
func Evaluate(ctx context.Context, cfg Config, t *task.Task, models nn.Checkpoint, visit func(*task.Client, Decision) error) (*run.StageResult, error) {
	cfg.Precision = models.Precision
	r, err := New(cfg, t, nil)
	if err != nil {
		return nil, err
	}
	w, err := newWorker(&r.cfg, cfg.workers())
	if err != nil {
		return nil, err
	}
	r.workers = []*worker{w}
	defer r.stop()
	clients := make([]run.ClientResult, len(t.Clients))
	for i, c := range t.Clients {
		theta, ok := models.Models[clientKey(c.ID)]
		if !ok {
			theta, ok = models.Models[""]
		}
		if !ok {
			return nil, fmt.Errorf("no model for client %d", c.ID)
		}
		if want := r.Layout().Len(); len(theta) != want {
			return nil, r.at(i, fmt.Errorf("saved model has %d parameters, %s has %d", len(theta), cfg.Model.Name(), want))
		}
		w.session.Load(theta)
		z, err := optimalValues(c.Test, w.poolFor(c.Polytope).Solver())
		if err != nil {
			return nil, r.at(i, err)
		}
		see := func(d Decision) error { return visit(c, d) }
		if visit == nil {
			see = nil
		}
		regret, err := w.evaluate(ctx, c, z, see)
		if err != nil {
			return nil, r.at(i, err)
		}
		clients[i] = run.ClientResult{Client: c.ID, Regret: regret}
	}
	return run.NewStageResult(clients), nil
}
