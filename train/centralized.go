package train

import (
	"context"
	"fmt"
	"math"
	"slices"

	"fedrspo/internal/stream"
	"fedrspo/run"
	"fedrspo/surrogate"
)

// centralize trains on the pooled data of all clients: a model for each client
// with its own feasible set in the loss, as the authors' program does, or one
// model for all (Config.SinglePooled), as the paper's text says.
func (r *Run) centralize(ctx context.Context) error {
	ph := r.personalPhase("centralized")
	if r.cfg.SinglePooled {
		return r.centralizeSingle(ctx, ph)
	}
	return r.personalize(ctx, FineTune{}, ph, r.state.Initial, func(i int) *samples {
		return newSamples(r.pooled, r.task.Clients[i].Polytope)
	})
}

// centralizeSingle trains one model: every sample is judged over its owner's
// feasible set at its owner's λ_j, at the mean of the clients' rates, with one
// schedule whose freeze statistic pools all monitors. Of several candidates of
// the phase's settings it keeps the one with the least mean validation regret.
func (r *Run) centralizeSingle(ctx context.Context, ph phase) error {
	m := newMixture(r)
	candidates := r.candidates(ph)
	best, bestRegret, steps := pooledFit{}, math.Inf(1), 0
	for k, multiplier := range candidates {
		next, err := r.fitPooled(ctx, ph, m, multiplier)
		if err != nil {
			return err
		}
		steps += next.steps
		if len(candidates) > 1 {
			regret, err := r.selectionRegret(ctx, next.model)
			if err != nil {
				return err
			}
			if k > 0 && !(regret < bestRegret) {
				continue
			}
			bestRegret = regret
		}
		best = next
		for i := range r.state.Clients {
			c := &r.state.Clients[i]
			c.Model, c.Schedule, c.Multiplier = next.model, next.schedule, multiplier
		}
	}
	r.state.FedMetrics, r.state.FedSteps = best.metrics, steps
	return nil
}

// pooledFit is one training of the single model.
type pooledFit struct {
	model    []float64
	schedule Schedule
	metrics  []run.Metric
	steps    int
}

func (r *Run) fitPooled(ctx context.Context, ph phase, m *mixture, multiplier float64) (pooledFit, error) {
	w, clients := r.workers[0], r.state.Clients
	defer m.count(w)
	w.session.Load(r.state.Initial)
	w.session.ResetOptimizer()
	rate := 0.0
	parts := make([]monitorPart, len(clients))
	for i, c := range clients {
		rate += c.PersonalRate / float64(len(clients))
		parts[i] = r.monitors[i].first(ph.Monitor)
	}
	f := pooledFit{model: make([]float64, len(r.state.Initial)), schedule: newSchedule()}
	for round := range ph.Rounds {
		if m.len() == 0 || f.schedule.Stopped(round, ph.Stage) {
			r.advance(ph.name, (ph.Rounds-round)*len(clients))
			break
		}
		lambda := func(i int) float64 { return ph.lambda(f.schedule, clients[i].Lambda, multiplier) }
		metric := run.Metric{Loss: ph.loss.Name(), Seed: r.cfg.Seed, Stage: ph.name, Round: round, Rate: ph.rate(f.schedule, rate, round)}
		loss, steps, err := w.trainMixed(ctx, m, lambda, fit{loss: ph.loss, rate: metric.Rate, epochs: ph.Epochs,
			shuffle: stream.Key{Seed: r.cfg.Seed, Purpose: ph.name + " shuffle", Round: round}})
		if err != nil {
			return f, fmt.Errorf("round %d: %w", round, err)
		}
		metric.TrainLoss = loss
		w.session.Store(f.model)
		if metric.Validation, err = r.trackShared(ctx, f.model); err != nil {
			return f, fmt.Errorf("round %d: %w", round, err)
		}
		f.steps += steps
		mean := 0.0
		for i := range clients {
			mean += lambda(i) / float64(len(clients))
		}
		if mean > 0 {
			metric.Lambda = &mean
		}
		if ph.loss.Regularized() {
			u, err := r.freezeStatistic(w, parts, lambda)
			if err != nil {
				return f, fmt.Errorf("round %d: %w", round, err)
			}
			metric.Freeze = finite(u)
			f.schedule.Advance(round, u, ph.Stage)
		}
		f.metrics = append(f.metrics, metric)
		r.advance(ph.name, len(clients))
	}
	w.session.Store(f.model)
	return f, nil
}

// mixture is the training data of all clients, each over its own set.
type mixture struct {
	sets []*samples
	// ends[k] is the number of samples of sets 0..k.
	ends []int
	surrogate.Mixed
}

// count moves the counts of the pools to the worker.
func (m *mixture) count(w *worker) {
	for k := range m.Parts {
		if p := &m.Parts[k]; p.Pool != nil {
			w.meter.tally.Add(p.Pool.Tally())
			p.Pool = nil
		}
	}
}

// len is the number of samples.
func (m *mixture) len() int { return m.ends[len(m.ends)-1] }

func newMixture(r *Run) *mixture {
	m := &mixture{}
	n := 0
	for i := range r.task.Clients {
		s := r.ownSamples(i)
		n += s.targets.Len()
		m.sets, m.ends = append(m.sets, s), append(m.ends, n)
	}
	m.Parts = make([]surrogate.Batch, len(m.sets))
	return m
}

// trainMixed is train over a mixture, with lambda(k) the λ of set k. The rows
// of a batch are ordered by owner.
func (w *worker) trainMixed(ctx context.Context, m *mixture, lambda func(k int) float64, f fit) (loss float64, steps int, err error) {
	for k, s := range m.sets {
		b := &m.Parts[k]
		b.Loss, b.Targets, b.Lambda = f.loss, s.targets, lambda(k)
		if b.Pool == nil {
			b.Pool = w.newPool(s.polytope)
		}
	}
	w.source.Source = m
	return w.epochs(ctx, f, m.len(), func(rows []int) {
		slices.Sort(rows)
		from, start := 0, 0
		for k, end := range m.ends {
			b := &m.Parts[k]
			b.Rows = b.Rows[:0]
			for ; from < len(rows) && rows[from] < end; from++ {
				i := rows[from] - start
				b.Rows = append(b.Rows, i)
				w.setRow(from, m.sets[k].x, i)
			}
			start = end
		}
	}, func(noise stream.Family) {
		// A family per owner: sample numbers repeat between owners.
		for k := range m.Parts {
			m.Parts[k].Noise = noise.Sub(k)
		}
	})
}
