package train

import (
	"fmt"
	"math"

	"fedrspo/oracle"
	"fedrspo/task"
)

// Schedule is the annealing state of one client, or of the federated stage
// (paper, section 3.2): a step index t that advances once per round until the
// freeze rule stops it. Rounds count from 0.
type Schedule struct {
	// Step is t; the first round uses t = 0.
	Step int
	// Frozen says whether the freeze rule has fired, FrozenAfter in which
	// round (-1 before).
	Frozen      bool
	FrozenAfter int
}

func newSchedule() Schedule { return Schedule{FrozenAfter: -1} }

// Lambda returns λ_t = λ_0/(1+κ^λ t).
func (s Schedule) Lambda(base float64, stage Stage) float64 {
	return base / (1 + stage.KappaLambda*float64(s.Step))
}

// Rate returns η_t = η_0/(1+κ^LR t).
func (s Schedule) Rate(base float64, stage Stage) float64 {
	return base / (1 + stage.KappaRate*float64(s.Step))
}

// LastLambda returns λ_t of the last round that was advanced over, or λ_0
// before the first.
func (s Schedule) LastLambda(base float64, stage Stage) float64 {
	if !s.Frozen && s.Step > 0 {
		s.Step--
	}
	return s.Lambda(base, stage)
}

// Advance ends a round whose freeze statistic, at the λ used in it, was u. If
// u ≤ τ the schedule freezes: t, λ and η keep this round's values.
func (s *Schedule) Advance(round int, u float64, stage Stage) {
	if !s.Frozen && u <= stage.Tau {
		s.Frozen, s.FrozenAfter = true, round
	}
	if !s.Frozen {
		s.Step++
	}
}

// Stopped says whether early stopping skips the round: a client trains
// EarlyStop rounds after the one it froze in.
func (s Schedule) Stopped(round int, stage Stage) bool {
	return stage.EarlyStop >= 0 && s.Frozen && round > s.FrozenAfter+stage.EarlyStop
}

// monitorPart is one client's share of the samples of the freeze statistic
// (paper, equation 6)
//
//	Ũ = mean_i(c_i·P_λ(c_i) - z*_i) / (mean_i |z*_i| + 1e-8)
//
// over validation samples i, as a ratio of means. It depends on the costs and
// λ only, not on a model.
type monitorPart struct {
	client int // index in the task
	costs  [][]float64
	z      []float64 // z*_i
}

// newMonitorPart solves the LP at the chosen validation samples of a client.
func newMonitorPart(index int, c *task.Client, rows []int, solver *oracle.Solver) (monitorPart, error) {
	p := monitorPart{client: index}
	w := solver.Scratch[0]
	for _, i := range rows {
		cost := c.Val.C.Row(i)
		z, err := solver.Minimize(w, cost)
		if err != nil {
			return p, fmt.Errorf("client %d: validation sample %d: %w", c.ID, i, err)
		}
		p.costs = append(p.costs, cost)
		p.z = append(p.z, z)
	}
	return p, nil
}

// first returns the part's first n samples, or all where it has fewer.
func (p monitorPart) first(n int) monitorPart {
	n = min(n, len(p.z))
	p.costs, p.z = p.costs[:n], p.z[:n]
	return p
}

// excess adds the part's Σ(c·P_λ(c)-z*) and Σ|z*| to the totals.
func (p monitorPart) excess(lambda float64, solver *oracle.Solver, num, den *float64) error {
	w := solver.Scratch[0]
	for i, cost := range p.costs {
		if err := solver.Regularize(w, cost, lambda, nil); err != nil {
			return fmt.Errorf("freeze statistic at lambda %g: %w", lambda, err)
		}
		*num += dot(cost, w) - p.z[i]
		*den += math.Abs(p.z[i])
	}
	return nil
}

// freezeStatistic finishes Ũ from the totals over n samples. Without samples
// it is NaN, which never freezes.
func freezeStatistic(num, den float64, n int) float64 {
	return (num / float64(n)) / (den/float64(n) + 1e-8)
}

func dot(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}
