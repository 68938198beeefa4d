package train

import (
	"context"
	"fmt"
	"math"

	"fedrspo/internal/stream"
	"fedrspo/run"
)

// Personalizer makes the clients' models after, or beside, the federated
// stage. FineTune, Ditto and Interp implement it.
type Personalizer interface {
	// Name is the personalizer's name on the command line.
	Name() string
	// validate reports settings that do not fit the configuration.
	validate(c *Config) error
	// replays says whether train needs State.History.
	replays() bool
	// train makes client i's model on worker w and leaves it in the session;
	// it fills c. start is the global model.
	train(ctx context.Context, r *Run, w *worker, i int, job course, start []float64, c *ClientState) error
}

// FineTune continues training from the global model on the client's own data.
type FineTune struct{}

// Name returns "finetune".
func (FineTune) Name() string { return "finetune" }

func (FineTune) validate(*Config) error { return nil }
func (FineTune) replays() bool          { return false }

func (FineTune) train(ctx context.Context, r *Run, w *worker, i int, job course, start []float64, c *ClientState) error {
	w.session.Load(start)
	return r.follow(ctx, w, i, job, c)
}

// course is a client's personal training.
type course struct {
	phase phase
	set   *samples
	// multiplier is m of ε_j = m λ_j.
	multiplier float64
	// mu and ref, unless ref is nil, pull the model to ref(round).
	mu  float64
	ref func(round int) []float64
	// rounds replaces phase.Rounds.
	rounds int
	// moves, unless nil, collects what every round does to shared running
	// statistics.
	moves *[]move
}

// personalize trains every client, all its rounds in one go, so that optimiser
// state lives only for the clients at work. Where the phase has several
// candidates of its settings, each client keeps its best on validation data.
func (r *Run) personalize(ctx context.Context, p Personalizer, ph phase, start []float64, set func(i int) *samples) error {
	candidates := r.candidates(ph)
	moves := make([][]move, len(r.task.Clients))
	err := r.each(ctx, len(r.task.Clients), func(w *worker, i int) error {
		job := course{phase: ph, set: set(i), rounds: ph.Rounds}
		if r.cfg.SharedStatistics {
			job.moves = &moves[i]
		}
		best, bestRegret, steps := ClientState{}, math.Inf(1), 0
		for k, m := range candidates {
			job.multiplier = m
			next := r.state.Clients[i]
			w.session.ResetOptimizer()
			if err := p.train(ctx, r, w, i, job, start, &next); err != nil {
				return r.at(i, err)
			}
			next.Model = make([]float64, len(start))
			w.session.Store(next.Model)
			next.Multiplier = m
			steps += next.Steps
			if len(candidates) > 1 {
				regret, err := r.clientSelectionRegret(ctx, w, i, next.Model)
				if err != nil {
					return r.at(i, err)
				}
				if k > 0 && !(regret < bestRegret) {
					continue
				}
				bestRegret = regret
			}
			best = next
		}
		best.Steps = steps
		r.state.Clients[i] = best
		return nil
	})
	if err == nil && r.cfg.SharedStatistics {
		r.shareStatistics(start, moves)
	}
	return err
}

// follow trains client i from the session's parameters, round after round,
// until the last one or an early stop.
func (r *Run) follow(ctx context.Context, w *worker, i int, job course, c *ClientState) error {
	ph, id := job.phase, r.task.Clients[i].ID
	for round := range job.rounds {
		if job.set.targets.Len() == 0 || c.Schedule.Stopped(round, ph.Stage) {
			r.advance(ph.name, job.rounds-round)
			return nil
		}
		lambda := ph.lambda(c.Schedule, c.Lambda, job.multiplier)
		m := run.Metric{Loss: ph.loss.Name(), Seed: r.cfg.Seed, Stage: ph.name, Round: round, Client: &id,
			Rate: ph.rate(c.Schedule, c.PersonalRate, round)}
		f := fit{loss: ph.loss, set: job.set, epochs: ph.Epochs, lambda: lambda, rate: m.Rate,
			shuffle: stream.Key{Seed: r.cfg.Seed, Purpose: ph.name + " shuffle", Round: round, Client: id}}
		if job.ref != nil {
			f.mu, f.ref = job.mu, job.ref(round)
		}
		if job.moves != nil {
			r.clearStatistics(w)
		}
		loss, steps, err := w.train(ctx, f)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		m.TrainLoss = loss
		if job.moves != nil {
			// The model is judged at the end, once all clients have moved them.
			*job.moves = append(*job.moves, r.moveOf(w, steps))
		} else if m.Validation, err = r.trackClient(ctx, w, i); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		c.Steps += steps
		if lambda > 0 {
			m.Lambda = &lambda
		}
		if ph.loss.Regularized() {
			u, err := r.freezeStatistic(w, []monitorPart{r.monitors[i].first(ph.Monitor)}, func(int) float64 { return lambda })
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			m.Freeze = finite(u)
			c.Schedule.Advance(round, u, ph.Stage)
		}
		c.Metrics = append(c.Metrics, m)
		r.advance(ph.name, 1)
	}
	return nil
}
