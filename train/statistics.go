package train

import (
	"fmt"
	"math"

	"fedrspo/nn"
)

// Shared running statistics (Config.SharedStatistics) are one set that every
// training batch of every client moves: round after round, in each round client
// after client in ascending ID, in the order of the client's batches. Personal
// training goes on from the set that the federated stage ends with, and its
// models all have the last one.
//
// Training never reads running statistics, and a batch with statistics b moves
// the set r to (1-m) r + m b, so that a visit of k batches moves it to
// (1-m)^k r + s, with s where it would move a set of zeros. Visits therefore
// run in any order, each from zeros, and their moves are put together in the
// order above, the same at any number of workers.

// move is what one visit does to the shared statistics.
type move struct {
	keep float64   // (1-m)^k
	add  []float64 // s
}

// apply moves r.
func (m move) apply(r []float64) {
	for i, s := range m.add {
		r[i] = m.keep*r[i] + s
	}
}

// validateStatistics reports settings that shared statistics do not fit.
func (c *Config) validateStatistics() error {
	if !c.SharedStatistics {
		return nil
	}
	layout, co := c.Model.Layout(), c.Coordinator
	switch _, finetunes := c.personalizer().(FineTune); {
	case layout.Len() == layout.Trainable():
		return fmt.Errorf("shared statistics: model %s has no running statistics", c.Model.Name())
	case c.SinglePooled:
		return fmt.Errorf("shared statistics: a single pooled model shares its own with nobody")
	case !finetunes:
		return fmt.Errorf("shared statistics belong to the personalizer %s", FineTune{}.Name())
	case co.Aggregator != "" && co.Aggregator != AggregatorMean, co.Clip != 0, co.Privacy.Noise != 0, co.MinUpdates != 0:
		return fmt.Errorf("shared statistics take every participant's as they are: they do not go with another aggregator than the mean, clipped or private updates, or failed participants")
	case c.tunesEpsilon():
		return fmt.Errorf("shared statistics: the OptNet-style loss judges models before all clients have moved them")
	}
	return nil
}

// statistics returns the running statistics of a model.
func (r *Run) statistics(model []float64) []float64 { return model[r.cfg.Model.Layout().Trainable():] }

// clearStatistics starts a visit of worker w, whose session holds the model.
func (r *Run) clearStatistics(w *worker) {
	theta := grow(&w.theta, r.cfg.Model.Layout().Len())
	w.session.Store(theta)
	clear(r.statistics(theta))
	w.session.Load(theta)
}

// moveOf returns what a visit of some steps, whose end the session holds, does
// to the shared statistics.
func (r *Run) moveOf(w *worker, steps int) move {
	theta := grow(&w.theta, r.cfg.Model.Layout().Len())
	w.session.Store(theta)
	return move{keep: math.Pow(1-nn.NormMomentum, float64(steps)), add: append([]float64(nil), r.statistics(theta)...)}
}

// shareStatistics gives the clients' models the statistics that their visits
// have moved, in the order of rounds, from those of start.
func (r *Run) shareStatistics(start []float64, moves [][]move) {
	shared := append([]float64(nil), r.statistics(start)...)
	for round, more := 0, true; more; round++ {
		more = false
		for _, visits := range moves {
			if round < len(visits) {
				visits[round].apply(shared)
				more = true
			}
		}
	}
	for _, c := range r.state.Clients {
		copy(r.statistics(c.Model), shared)
	}
}
