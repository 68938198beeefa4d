package train

import (
	"context"
	"fmt"
	"slices"
)

// Ditto pulls personal training towards the global model (Li, Hu, Beirami and
// Smith 2021): every batch loss gets the term (μ/2)|θ - θ_ref|².
//
// In its sequential form it follows the federated stage: personalisation
// starts from the final global model, which is θ_ref. In its interleaved form
// the personal models start at the initial model and train beside the
// federated stage: a client that takes part in global round t trains one
// personal round with θ_ref the global model that round t started from; its
// optimiser, schedule, freeze and early stop advance in those rounds only. The
// global model is the same in both forms, and the same as without Ditto, so
// the interleaved form replays the rounds afterwards.
type Ditto struct {
	// Mu is μ.
	Mu float64
	// Interleaved selects the second form.
	Interleaved bool
}

// Name returns "ditto".
func (Ditto) Name() string { return "ditto" }

func (d Ditto) validate(c *Config) error {
	if !positive(d.Mu) {
		return fmt.Errorf("ditto: mu %v, want a positive number", d.Mu)
	}
	if d.Interleaved && c.Fed.Rounds != c.Personal.Rounds {
		return fmt.Errorf("ditto: interleaved training needs as many personal as federated rounds, got %d and %d", c.Personal.Rounds, c.Fed.Rounds)
	}
	return nil
}

func (d Ditto) replays() bool { return d.Interleaved }

func (d Ditto) train(ctx context.Context, r *Run, w *worker, i int, job course, start []float64, c *ClientState) error {
	job.mu = d.Mu
	job.ref = func(int) []float64 { return start }
	if d.Interleaved {
		var refs [][]float64
		for _, plan := range r.state.History {
			if slices.Contains(plan.Participants, r.task.Clients[i].ID) {
				refs = append(refs, plan.Model)
			}
		}
		r.advance(job.phase.name, job.rounds-len(refs))
		job.rounds, job.ref = len(refs), func(round int) []float64 { return refs[round] }
		start = r.state.Initial
	}
	w.session.Load(start)
	return r.follow(ctx, w, i, job, c)
}
