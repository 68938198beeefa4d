package train

import (
	"context"
	"fmt"
	"math"
	"slices"

	"fedrspo/federation"
	"fedrspo/internal/stream"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// prepare solves the test samples, calibrates, and draws the monitors.
func (r *Run) prepare(ctx context.Context) error {
	n := len(r.task.Clients)
	var err error
	if r.optima, err = r.testOptima(ctx); err != nil {
		return err
	}
	if r.state.Constant, err = r.constantCosts(r.optima); err != nil {
		return err
	}
	r.monitors = make([]monitorPart, n)
	r.tracked = make([]trackPart, n)
	if r.cfg.Regime == Centralized {
		splits := make([]task.Split, n)
		for i, c := range r.task.Clients {
			splits[i] = c.Train
		}
		r.pooled = task.Pool(splits...)
	}
	err = r.each(ctx, n, func(w *worker, i int) (err error) {
		c := r.task.Clients[i]
		solver := w.poolFor(c.Polytope).Solver()
		if r.tracked[i], err = newTrackPart(c, r.cfg.Track, solver); err != nil {
			return r.at(i, fmt.Errorf("tracked validation %w", err))
		}
		if !r.calibrates() {
			return nil
		}
		costs := c.Train.C
		if r.cfg.Regime == Centralized {
			costs = r.pooled.C
		}
		if r.state.Clients[i].Lambda, err = calibrate(costs, c.Polytope.Radius(), r.cfg.Calibration); err != nil {
			return r.at(i, fmt.Errorf("calibration: %w", err))
		}
		// A stage's monitor is the first of these.
		want := r.cfg.Personal.Monitor
		if r.cfg.Regime == Federated {
			want = max(want, r.cfg.Fed.Monitor)
		}
		rows := make([]int, c.Val.Len())
		for k := range rows {
			rows[k] = k
		}
		s := stream.New(stream.Key{Seed: r.cfg.Seed, Purpose: "monitor", Client: c.ID})
		rows = stream.Choose(s, rows, min(want, len(rows)))
		r.monitors[i], err = newMonitorPart(i, c, rows, solver)
		return err
	})
	if err != nil {
		return err
	}
	r.setRates()
	return nil
}

// calibrates says whether some stage needs λ_j or η_j.
func (r *Run) calibrates() bool {
	return r.cfg.Rates == RateMatched || r.cfg.Loss.Regularized() || r.cfg.personalLoss().Regularized() || r.cfg.tunesEpsilon()
}

// phase is a stage with the loss it trains.
type phase struct {
	Stage
	// name labels metrics and random streams.
	name string
	loss surrogate.Loss
	// anneals the learning rates of losses without λ too.
	anneals bool
}

func (r *Run) fedPhase() phase { return phase{Stage: r.cfg.Fed, name: "federated", loss: r.cfg.Loss} }

func (r *Run) personalPhase(name string) phase {
	return phase{Stage: r.cfg.Personal, name: name, loss: r.cfg.personalLoss(), anneals: r.cfg.AnnealRates}
}

// lambda is the regularisation weight in a round, for the calibrated λ_j:
// annealed for regularised losses, m λ_j for the OptNet-style one.
func (p phase) lambda(s Schedule, base, multiplier float64) float64 {
	switch {
	case p.loss.Regularized():
		return s.Lambda(base, p.Stage)
	case isOptNet(p.loss):
		return multiplier * base
	}
	return 0
}

// rate anneals the rates of regularised losses by their schedule; others are
// constant, or annealed from round to round.
func (p phase) rate(s Schedule, base float64, round int) float64 {
	switch {
	case p.loss.Regularized():
		return s.Rate(base, p.Stage)
	case p.anneals:
		return Schedule{Step: round}.Rate(base, p.Stage)
	}
	return base
}

// setRates resolves the learning rates of both stages (paper, equation 11, for
// η_j) and the averaged variant of the calibration.
func (r *Run) setRates() {
	clients := r.state.Clients
	early := r.early()
	mean := 0.0
	for _, i := range early {
		mean += clients[i].Lambda / float64(len(early))
	}
	for i := range clients {
		c := &clients[i]
		if r.cfg.Calibration.Averaged {
			c.Lambda = mean
		}
		of := func(p phase) float64 {
			switch {
			case r.cfg.Rates == RateScaled && p.loss.Regularized():
				return r.cfg.FixedRate * (c.Lambda / mean)
			case r.cfg.Rates == RateFixed, r.cfg.Rates == RateScaled:
				return r.cfg.FixedRate
			case p.loss.Regularized():
				return rate(p.Alpha, c.Lambda)
			case r.cfg.Rates == RateMatched:
				return rate(p.Alpha, mean)
			}
			return p.Stage.Rate
		}
		c.FedRate, c.PersonalRate = of(r.fedPhase()), of(r.personalPhase(""))
		if !r.cfg.Loss.Regularized() && !r.cfg.personalLoss().Regularized() && !r.cfg.tunesEpsilon() {
			c.Lambda = 0
		}
		c.Schedule = newSchedule()
	}
}

// early lists the clients that are there from the start: all, if all are late.
func (r *Run) early() []int {
	var out, all []int
	for i, c := range r.task.Clients {
		all = append(all, i)
		if !c.Late {
			out = append(out, i)
		}
	}
	if out == nil {
		return all
	}
	return out
}

func (r *Run) ownSamples(i int) *samples {
	c := r.task.Clients[i]
	return newSamples(c.Train, c.Polytope)
}

// pooledMonitor chooses the clients whose validation samples the federated
// freeze statistic pools.
func (r *Run) pooledMonitor() []monitorPart {
	ids := r.early()
	m := federation.Settings{Fraction: r.cfg.Fed.MonitorFraction}.RoundSize(len(ids))
	ids = stream.Choose(stream.New(stream.Key{Seed: r.cfg.Seed, Purpose: "monitor clients"}), ids, m)
	slices.Sort(ids)
	parts := make([]monitorPart, m)
	for k, i := range ids {
		parts[k] = r.monitors[i].first(r.cfg.Fed.Monitor)
	}
	return parts
}

// freezeStatistic computes Ũ over the parts, with lambda(i) the λ of client i.
func (r *Run) freezeStatistic(w *worker, parts []monitorPart, lambda func(i int) float64) (float64, error) {
	num, den, n := 0.0, 0.0, 0
	for _, p := range parts {
		solver := w.poolFor(r.task.Clients[p.client].Polytope).Solver()
		if err := w.timed(func() error { return p.excess(lambda(p.client), solver, &num, &den) }); err != nil {
			return 0, fmt.Errorf("monitor of client %d: %w", r.task.Clients[p.client].ID, err)
		}
		n += len(p.costs)
	}
	return freezeStatistic(num, den, n), nil
}

// finite returns &x, or nil for NaN.
func finite(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}
