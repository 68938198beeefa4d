package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"fedrspo/federation"
	"fedrspo/internal/stream"
	"fedrspo/run"
	"fedrspo/task"
)

// ClientState is what a run knows of one client.
type ClientState struct {
	// Lambda is the calibrated λ_j; 0 where no loss needs it.
	Lambda float64
	// FedRate and PersonalRate are the learning rates η_j of round 0.
	FedRate, PersonalRate float64
	// Schedule of the client's personalisation.
	Schedule Schedule
	// Model is the client's model after personalisation; nil before.
	Model []float64
	// Multiplier is m of ε_j = m λ_j chosen for the personal stage
	// (OptNet-style loss).
	Multiplier float64
	// Rho is the weight of the global model in the client's predictions
	// (Interp-DFFL); Interpolates says whether it has a meaning.
	Rho          float64
	Interpolates bool
	// Metrics of the client's rounds.
	Metrics []run.Metric
	// Steps counts the client's personal gradient steps.
	Steps int
}

// State is everything that changes during a run, as plain data, up to date at
// the end of every federated round and of every client's personal training.
// Optimiser moments are not part of it: they live within one client's visit,
// and visits are atomic.
type State struct {
	// Initial is the initial model.
	Initial []float64
	// Clients in task order.
	Clients []ClientState
	// Server is the federated stage's coordinator; nil in other regimes.
	Server *federation.State
	// Schedule of the federated stage; one for all clients.
	Schedule Schedule
	// FedMetrics of the rounds done, FedSteps the gradient steps in them, over
	// all candidates where the stage has several.
	FedMetrics []run.Metric
	FedSteps   int
	// FedMultiplier is m chosen for the federated stage (OptNet-style loss).
	FedMultiplier float64
	// History holds, for each federated round, who took part and the model it
	// started from. Kept for personalizers that replay the rounds only.
	History []federation.Plan
	// Constant is what constant costs lead to; see run.SeedResult.
	Constant *run.StageResult
	// Fed and Personal are the evaluated stages, LocalEndpoint the local models
	// that Interp-DFFL mixes in; nil before.
	Fed, Personal, LocalEndpoint *run.StageResult
}

// Progress tells an observer how far a run is: units are visits of a client in
// a round.
type Progress struct {
	Stage       string
	Done, Total int
}

// Run trains one predictor setting for one seed. It belongs to one goroutine.
type Run struct {
	cfg      Config
	task     *task.Task
	observe  func(Progress)
	workers  []*worker
	optima   [][]float64 // z* of the test samples of each client
	monitors []monitorPart
	tracked  []trackPart
	pooled   task.Split // all training data; centralised regime only
	state    State
	executed bool
	// spent is what Spent returns, since when its last stage is at work.
	spent []Spent
	since int64

	done, total atomic.Int64
	observing   sync.Mutex
}

// New checks cfg against t and prepares a run. observe may be nil; it is
// called from one goroutine at a time. t must be valid (task.Validate) and must
// not change.
func New(cfg Config, t *task.Task, observe func(Progress)) (*Run, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Model.In() != t.In || cfg.Model.Out() != t.Out {
		return nil, fmt.Errorf("model %s maps %d features to %d costs, task %s has %d and %d: %w",
			cfg.Model.Name(), cfg.Model.In(), cfg.Model.Out(), t.Name, t.In, t.Out, ErrConfig)
	}
	for _, c := range t.Clients {
		if c.Test.Len() == 0 {
			return nil, fmt.Errorf("task %s: client %d has no test samples: %w", t.Name, c.ID, ErrConfig)
		}
		if c.Train.Len() == 0 && cfg.Regime == Local {
			return nil, fmt.Errorf("task %s: client %d has no training samples to train alone on: %w", t.Name, c.ID, ErrConfig)
		}
	}
	r := &Run{cfg: cfg, task: t, observe: observe}
	r.state.Schedule = newSchedule()
	r.state.Clients = make([]ClientState, len(t.Clients))
	r.state.Initial = make([]float64, cfg.Model.Layout().Len())
	cfg.Model.Init(r.state.Initial, stream.New(stream.Key{Seed: cfg.Seed, Purpose: "init"}))
	if cfg.Coordinator != (Coordinator{}) {
		// That the rounds are large enough shows with the clients.
		if _, err := r.newServer(); err != nil {
			return nil, fmt.Errorf("task %s: %w: %w", t.Name, err, ErrConfig)
		}
	}
	return r, nil
}

// Execute trains and evaluates, once. When ctx ends it returns ctx's error as soon
// as the current batches are done; Result then tells what was finished. An
// error of training names stage, round, client, epoch and batch.
func (r *Run) Execute(ctx context.Context) error {
	if r.executed {
		return errors.New("train: a run executes once; make another with New")
	}
	r.executed = true
	if err := r.start(trains); err != nil {
		return err
	}
	defer r.stop()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	switch r.cfg.Regime {
	case Federated:
		return r.executeFederated(ctx)
	case Local:
		r.begin("local")
		if err := r.personalize(ctx, FineTune{}, r.personalPhase("local"), r.state.Initial, r.ownSamples); err != nil {
			return fmt.Errorf("local training: %w", err)
		}
		r.trained()
		var err error
		if r.state.Personal, err = r.evaluatePersonal(ctx); err != nil {
			return fmt.Errorf("local models: %w", err)
		}
		r.evaluated()
	case Centralized:
		r.begin("centralized")
		if err := r.centralize(ctx); err != nil {
			return fmt.Errorf("centralised training: %w", err)
		}
		r.trained()
		var err error
		if r.state.Fed, err = r.evaluatePersonal(ctx); err != nil {
			return fmt.Errorf("centralised models: %w", err)
		}
		r.evaluated()
	}
	return nil
}

// executeFederated is the federated stage and personalisation.
func (r *Run) executeFederated(ctx context.Context) (err error) {
	r.begin("federated")
	if err := r.federateBest(ctx); err != nil {
		return fmt.Errorf("federated stage: %w", err)
	}
	r.trained()
	global := r.state.Server.Model
	if r.state.Fed, err = r.evaluate(ctx, r.fedPhase(), func(int) predictor { return predictor{model: global} }, false); err != nil {
		return fmt.Errorf("federated model: %w", err)
	}
	r.evaluated()
	r.begin("personal")
	p := r.cfg.personalizer()
	if err := r.personalize(ctx, p, r.personalPhase("personal"), global, r.ownSamples); err != nil {
		return fmt.Errorf("personalisation: %w", err)
	}
	r.trained()
	if r.state.Personal, err = r.evaluatePersonal(ctx); err != nil {
		return fmt.Errorf("personal models: %w", err)
	}
	if _, ok := p.(Interp); ok {
		if r.state.LocalEndpoint, err = r.evaluate(ctx, r.personalPhase("personal"), func(i int) predictor { return predictor{model: r.state.Clients[i].Model} }, true); err != nil {
			return fmt.Errorf("local endpoint: %w", err)
		}
	}
	r.evaluated()
	return nil
}

// State returns the run's state. It must not be changed.
func (r *Run) State() *State { return &r.state }

// Result returns what is finished.
func (r *Run) Result() run.SeedResult {
	s := run.SeedResult{Seed: r.cfg.Seed, Fed: r.state.Fed, Personal: r.state.Personal, Constant: r.state.Constant, LocalEndpoint: r.state.LocalEndpoint, Steps: r.state.FedSteps}
	for _, c := range r.state.Clients {
		s.Steps += c.Steps
	}
	r.faults(&s)
	return s
}

// Metrics returns the rounds done: the federated ones, then those of each
// client in ascending ID.
func (r *Run) Metrics() []run.Metric {
	out := slices.Clone(r.state.FedMetrics)
	for _, c := range r.state.Clients {
		out = append(out, c.Metrics...)
	}
	return out
}

// start makes the workers for a purpose.
func (r *Run) start(p purpose) error {
	n := min(r.cfg.workers(), len(r.task.Clients))
	if p == trains && r.cfg.SinglePooled {
		n = 1 // one model is trained by one worker
	}
	for range n {
		w, err := newWorker(&r.cfg, max(1, r.cfg.workers()/n), p)
		if err != nil {
			r.stop()
			return err
		}
		r.workers = append(r.workers, w)
	}
	personal := r.personalPhase("")
	units := personal.Rounds * len(r.task.Clients) * len(r.candidates(personal))
	if r.cfg.Regime == Federated {
		units += r.cfg.Fed.Rounds * r.roundSize() * len(r.candidates(r.fedPhase()))
	}
	r.total.Store(int64(units))
	return nil
}

func (r *Run) stop() {
	for _, w := range r.workers {
		// Closing releases memory early; there is nothing to lose.
		_ = w.session.Close()
	}
	r.workers = nil
}

// each runs f(w, i) for i in [0, n), one worker a goroutine. It returns the
// error of the lowest i that failed.
func (r *Run) each(ctx context.Context, n int, f func(w *worker, i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, n)
	for _, w := range r.workers[:min(len(r.workers), n)] {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = ctx.Err(); errs[i] == nil {
					errs[i] = f(w, i)
				}
				if errs[i] != nil {
					next.Store(int64(n)) // lower i are all taken: they finish
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// advance reports units of progress.
func (r *Run) advance(stage string, units int) {
	done := r.done.Add(int64(units))
	if r.observe != nil {
		r.observing.Lock()
		defer r.observing.Unlock()
		r.observe(Progress{Stage: stage, Done: int(done), Total: int(r.total.Load())})
	}
}

// at prefixes an error with the client it happened in.
func (r *Run) at(i int, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("client %d: %w", r.task.Clients[i].ID, err)
}
