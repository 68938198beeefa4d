package train

import (
	"context"
	"fmt"
	"math"

	"fedrspo/federation"
	"fedrspo/internal/stream"
	"fedrspo/run"
)

// serverClients lists the clients for the coordinator.
func (r *Run) serverClients() []federation.Client {
	out := make([]federation.Client, len(r.task.Clients))
	for i, c := range r.task.Clients {
		out[i].ID = c.ID
		if !c.Late {
			out[i].Weight = float64(c.Train.Len())
		}
	}
	return out
}

func (r *Run) fedSettings() federation.Settings {
	return r.cfg.Coordinator.settings(r.cfg.Seed, r.cfg.Fed.Fraction)
}

// eligible counts the clients that may take part in a round.
func (r *Run) eligible() int {
	n := 0
	for _, c := range r.task.Clients {
		if c.Train.Len() > 0 && !c.Late {
			n++
		}
	}
	return n
}

func (r *Run) roundSize() int { return r.fedSettings().RoundSize(r.eligible()) }

// federateBest runs the federated stage, once for each candidate of its
// settings, and keeps the one whose model has the least validation regret.
func (r *Run) federateBest(ctx context.Context) error {
	candidates := r.candidates(r.fedPhase())
	best, bestRegret := (*fedStage)(nil), math.Inf(1)
	for _, m := range candidates {
		f, err := r.federate(ctx, m)
		if err != nil {
			return err
		}
		if len(candidates) == 1 {
			best = f
			break
		}
		regret, err := r.selectionRegret(ctx, f.server.Model())
		if err != nil {
			return err
		}
		if best == nil || regret < bestRegret {
			best, bestRegret = f, regret
		}
	}
	best.publish()
	return nil
}

// federate runs the rounds of paper, table 1, stage 2.
func (r *Run) federate(ctx context.Context, multiplier float64) (*fedStage, error) {
	server, err := r.newServer()
	if err != nil {
		return nil, err
	}
	f := &fedStage{Run: r, phase: r.fedPhase(), server: server, schedule: newSchedule(), multiplier: multiplier,
		sets: make([]*samples, len(r.task.Clients)), index: make(map[int]int, len(r.task.Clients)), monitor: r.pooledMonitor()}
	for i, c := range r.task.Clients {
		f.index[c.ID] = i
	}
	if r.cfg.SharedStatistics {
		f.shared = append(f.shared, r.statistics(r.state.Initial)...)
	}
	f.publish()
	for round := range r.cfg.Fed.Rounds {
		from := r.now()
		for again := true; again; {
			var err error
			if again, err = f.round(ctx, round); err != nil {
				return nil, fmt.Errorf("round %d: %w", round, err)
			}
		}
		s := &r.spent[len(r.spent)-1]
		s.Rounds = append(s.Rounds, r.now()-from)
		f.publish()
	}
	return f, nil
}

// fedStage is one run of the federated stage.
type fedStage struct {
	*Run
	phase      phase
	server     *federation.Server
	schedule   Schedule
	multiplier float64
	metrics    []run.Metric
	history    []federation.Plan
	// shared are the shared running statistics; empty if clients have their own.
	shared []float64

	index   map[int]int // client ID -> task index
	sets    []*samples  // made at a client's first visit
	monitor []monitorPart
	// freeze is Ũ at the λ factor freezeAt: without annealing λ never changes.
	freeze, freezeAt float64
}

// publish writes the stage as it stands to the run's state.
func (f *fedStage) publish() {
	state := f.server.State()
	f.state.Server, f.state.Schedule, f.state.FedMetrics = &state, f.schedule, f.metrics
	f.state.FedMultiplier, f.state.History = f.multiplier, f.history
}

// answer is what a participant sends back, or that its training failed.
type answer struct {
	failed bool
	params []float64
	loss   float64
	steps  int
	move   move
}

// round does a round, or an attempt at it; again says that it failed and is to
// be done with other participants.
func (f *fedStage) round(ctx context.Context, round int) (again bool, err error) {
	plan, err := f.server.Begin(round)
	if err != nil {
		return false, err
	}
	answers := make([]answer, len(plan.Participants))
	err = f.each(ctx, len(answers), func(w *worker, k int) (err error) {
		i := f.index[plan.Participants[k]]
		answers[k], err = f.local(ctx, w, i, plan)
		f.advance(f.phase.name, 1)
		if f.cfg.Coordinator.tolerates(err) {
			answers[k], err = answer{failed: true}, nil
		}
		return f.at(i, err)
	})
	if err != nil {
		return false, err
	}
	if f.cfg.SharedStatistics {
		for _, a := range answers {
			a.move.apply(f.shared)
		}
		for _, a := range answers { // the average of equal vectors is that vector
			copy(f.statistics(a.params), f.shared)
		}
	}
	m := run.Metric{Loss: f.phase.loss.Name(), Seed: f.cfg.Seed, Stage: f.phase.name, Round: round, Active: plan.Participants}
	outcome, err := f.gather(plan, answers, &m)
	if err != nil {
		return false, err
	}
	if outcome == federation.Retried {
		f.metrics = append(f.metrics, m)
		return true, nil
	}
	if f.cfg.personalizer().replays() {
		f.history = append(f.history, plan)
	}
	return false, f.finish(ctx, round, m)
}

// finish measures the model after a round, and moves the schedule on.
func (f *fedStage) finish(ctx context.Context, round int, m run.Metric) (err error) {
	if m.Validation, err = f.trackShared(ctx, f.server.Model()); err != nil {
		return err
	}
	clients := f.state.Clients
	lambda := 0.0
	for _, c := range clients {
		lambda += f.phase.lambda(f.schedule, c.Lambda, f.multiplier) / float64(len(clients))
		m.Rate += f.phase.rate(f.schedule, c.FedRate, round) / float64(len(clients))
	}
	if lambda > 0 {
		m.Lambda = &lambda
	}
	if f.phase.loss.Regularized() {
		if at := f.schedule.Lambda(1, f.phase.Stage); at != f.freezeAt {
			lambdaOf := func(i int) float64 { return f.schedule.Lambda(clients[i].Lambda, f.phase.Stage) }
			if f.freeze, err = f.freezeStatistic(f.workers[0], f.monitor, lambdaOf); err != nil {
				return err
			}
			f.freezeAt = at
		}
		m.Freeze = finite(f.freeze)
		f.schedule.Advance(round, f.freeze, f.phase.Stage)
	}
	f.metrics = append(f.metrics, m)
	return nil
}

// local is one participant's round: from the global model, with a fresh
// optimiser.
func (f *fedStage) local(ctx context.Context, w *worker, i int, plan federation.Plan) (a answer, err error) {
	if f.sets[i] == nil {
		f.sets[i] = f.ownSamples(i)
	}
	c := &f.state.Clients[i]
	w.session.Load(plan.Model)
	if f.cfg.SharedStatistics {
		f.clearStatistics(w)
	}
	w.session.ResetOptimizer()
	job := fit{
		loss: f.phase.loss, set: f.sets[i], epochs: f.phase.Epochs,
		lambda:  f.phase.lambda(f.schedule, c.Lambda, f.multiplier),
		rate:    f.phase.rate(f.schedule, c.FedRate, plan.Round),
		shuffle: stream.Key{Seed: f.cfg.Seed, Purpose: "federated shuffle", Round: plan.Round, Client: f.task.Clients[i].ID},
	}
	if f.cfg.Prox > 0 { // FedProx (Li et al. 2020)
		job.mu, job.ref = f.cfg.Prox, plan.Model
	}
	if a.loss, a.steps, err = w.train(ctx, job); err != nil {
		return a, err
	}
	if f.cfg.SharedStatistics {
		a.move = f.moveOf(w, a.steps)
	}
	a.params = make([]float64, len(plan.Model))
	w.session.Store(a.params)
	return a, nil
}
