package train

import (
	"errors"
	"fmt"
	"strconv"

	"fedrspo/nn"
	"fedrspo/surrogate"
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
// the key "client.ID". Where clients interpolate, their global model is
// "global", and the text entry "rho.client.ID" is its weight.
func (r *Run) Models(stage string) (nn.Checkpoint, bool) {
	c := nn.Checkpoint{Precision: r.cfg.Precision, Models: map[string][]float64{}, Meta: map[string]string{
		"task": r.task.Name, "loss": r.stageLoss(stage).Name(), "model": r.cfg.Model.Name(), "stage": stage,
		"seed": strconv.FormatInt(r.cfg.Seed, 10),
	}}
	switch {
	case stage == StageFed && r.state.Fed != nil && r.cfg.Regime == Federated:
		c.Models[""] = r.state.Server.Model
	case stage == StageFed && r.state.Fed != nil && r.cfg.SinglePooled:
		c.Models[""] = r.state.Clients[0].Model
	case stage == StageFed && r.state.Fed != nil, stage == StagePersonal && r.state.Personal != nil:
		for i, s := range r.state.Clients {
			key := clientKey(r.task.Clients[i].ID)
			c.Models[key] = s.Model
			if s.Interpolates {
				c.Models[globalKey] = r.state.Server.Model
				c.Meta[rhoKey(key)] = strconv.FormatFloat(s.Rho, 'g', -1, 64)
			}
		}
	default:
		return nn.Checkpoint{}, false
	}
	return c, true
}

// Layout names the parameters of the run's models.
func (r *Run) Layout() *nn.Layout { return r.cfg.Model.Layout() }

func (r *Run) stageLoss(stage string) surrogate.Loss {
	if stage == StagePersonal {
		return r.cfg.personalLoss()
	}
	return r.cfg.Loss
}

const globalKey = "global"

func rhoKey(client string) string { return "rho." + client }

func clientKey(id int) string { return "client." + strconv.Itoa(id) }

// savedPredictor finds client id's model, of the given length, in a checkpoint.
func savedPredictor(models nn.Checkpoint, id, length int) (predictor, error) {
	var p predictor
	key := clientKey(id)
	var ok bool
	if p.model, ok = models.Models[key]; !ok {
		p.model, ok = models.Models[""]
	}
	if !ok {
		return p, errors.New("the checkpoint has no model for the client")
	}
	if text, ok := models.Meta[rhoKey(key)]; ok {
		rho, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rho >= 0 && rho <= 1) {
			return p, fmt.Errorf("the checkpoint's weight %s is %q, want a number from 0 to 1", rhoKey(key), text)
		}
		if p.rho, p.global = rho, models.Models[globalKey]; p.global == nil {
			return p, fmt.Errorf("the checkpoint has a weight %s but no model %q", rhoKey(key), globalKey)
		}
	}
	for _, theta := range [][]float64{p.model, p.global} {
		if theta != nil && len(theta) != length {
			return p, fmt.Errorf("saved model has %d parameters, want %d", len(theta), length)
		}
	}
	return p, nil
}
