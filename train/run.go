package train

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	// Lambda is the calibrated λ_j; 0 for losses without λ.
	Lambda float64
	// FedRate and PersonalRate are the learning rates η_j of round 0.
	FedRate, PersonalRate float64
	// Schedule of the client's personalisation.
	Schedule Schedule
	// Model is the client's model after personalisation; nil before.
	Model []float64
	// Metrics of the client's rounds.
	Metrics []run.Metric
	// Steps counts the client's personal gradient steps.
	Steps int
}

// State is everything that changes during a run, as plain data: a run goes on
// from it. Optimiser moments are not part of it: they live within one client's
// visit, and visits are atomic.
type State struct {
	// Initial is the initial model.
	Initial []float64
	// Clients in task order.
	Clients []ClientState
	// Server is the federated stage's coordinator; nil in other regimes.
	Server *federation.State
	// Schedule of the federated stage; one for all clients.
	Schedule Schedule
	// FedMetrics of the rounds done, FedSteps the gradient steps in them.
	FedMetrics []run.Metric
	FedSteps   int
	// Fed and Personal are the evaluated stages; nil before.
	Fed, Personal *run.StageResult
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
	pooled   task.Split // all training data; centralised regime only
	state    State
	executed bool

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
	if err := r.start(); err != nil {
		return err
	}
	defer r.stop()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	switch r.cfg.Regime {
	case Federated:
		if err := r.federate(ctx); err != nil {
			return fmt.Errorf("federated stage: %w", err)
		}
		global := r.state.Server.Model
		var err error
		if r.state.Fed, err = r.evaluate(ctx, func(int) []float64 { return global }, false); err != nil {
			return fmt.Errorf("federated model: %w", err)
		}
		if err := r.personalize(ctx, "personal", global, r.ownSamples); err != nil {
			return fmt.Errorf("personalisation: %w", err)
		}
		if r.state.Personal, err = r.evaluate(ctx, r.personalModel, true); err != nil {
			return fmt.Errorf("personal models: %w", err)
		}
	case Local:
		if err := r.personalize(ctx, "local", r.state.Initial, r.ownSamples); err != nil {
			return fmt.Errorf("local training: %w", err)
		}
		var err error
		if r.state.Personal, err = r.evaluate(ctx, r.personalModel, true); err != nil {
			return fmt.Errorf("local models: %w", err)
		}
	case Centralized:
		if err := r.personalize(ctx, "centralized", r.state.Initial, r.pooledSamples); err != nil {
			return fmt.Errorf("centralised training: %w", err)
		}
		var err error
		if r.state.Fed, err = r.evaluate(ctx, r.personalModel, true); err != nil {
			return fmt.Errorf("centralised models: %w", err)
		}
	}
	return nil
}

// State returns the run's state. It must not be changed.
func (r *Run) State() *State { return &r.state }

// Result returns what is finished.
func (r *Run) Result() run.SeedResult {
	s := run.SeedResult{Seed: r.cfg.Seed, Fed: r.state.Fed, Personal: r.state.Personal, Steps: r.state.FedSteps}
	for _, c := range r.state.Clients {
		s.Steps += c.Steps
	}
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

// start makes the workers.
func (r *Run) start() error {
	n := min(r.cfg.workers(), len(r.task.Clients))
	for range n {
		w, err := newWorker(&r.cfg, max(1, r.cfg.workers()/n))
		if err != nil {
			r.stop()
			return err
		}
		r.workers = append(r.workers, w)
	}
	stage := r.cfg.Personal
	units := stage.Rounds * len(r.task.Clients)
	if r.cfg.Regime == Federated {
		units += r.cfg.Fed.Rounds * r.roundSize()
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

// prepare solves the test samples, calibrates, and draws the monitors.
func (r *Run) prepare(ctx context.Context) error {
	n := len(r.task.Clients)
	r.optima = make([][]float64, n)
	r.monitors = make([]monitorPart, n)
	if r.cfg.Regime == Centralized {
		splits := make([]task.Split, n)
		for i, c := range r.task.Clients {
			splits[i] = c.Train
		}
		r.pooled = task.Pool(splits...)
	}
	err := r.each(ctx, n, func(w *worker, i int) (err error) {
		c := r.task.Clients[i]
		solver := w.poolFor(c.Polytope).Solver()
		if r.optima[i], err = optimalValues(c.Test, solver); err != nil {
			return r.at(i, fmt.Errorf("test %w", err))
		}
		if !r.cfg.Loss.Regularized() && r.cfg.Rates != RateMatched {
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

// setRates resolves the learning rates of both stages (paper, equation 11, for
// η_j) and the averaged variant of the calibration.
func (r *Run) setRates() {
	clients := r.state.Clients
	mean := 0.0
	for _, c := range clients {
		mean += c.Lambda / float64(len(clients))
	}
	own := r.cfg.Loss.Regularized()
	for i := range clients {
		c := &clients[i]
		lambda := c.Lambda
		if r.cfg.Calibration.Averaged || !own {
			lambda = mean
		}
		of := func(s Stage) float64 {
			switch {
			case r.cfg.Rates == RateFixed:
				return r.cfg.FixedRate
			case own || r.cfg.Rates == RateMatched:
				return rate(s.Alpha, lambda)
			}
			return s.Rate
		}
		c.FedRate, c.PersonalRate = of(r.cfg.Fed), of(r.cfg.Personal)
		c.Lambda = 0
		if own {
			c.Lambda = lambda
		}
		c.Schedule = newSchedule()
	}
}

func (r *Run) ownSamples(i int) *samples {
	c := r.task.Clients[i]
	return newSamples(c.Train, c.Polytope)
}

func (r *Run) pooledSamples(i int) *samples {
	return newSamples(r.pooled, r.task.Clients[i].Polytope)
}

// serverClients lists the clients for the coordinator.
func (r *Run) serverClients() []federation.Client {
	out := make([]federation.Client, len(r.task.Clients))
	for i, c := range r.task.Clients {
		out[i] = federation.Client{ID: c.ID, Weight: float64(c.Train.Len())}
	}
	return out
}

func (r *Run) fedSettings() federation.Settings {
	return federation.Settings{Seed: r.cfg.Seed, Fraction: r.cfg.Fed.Fraction}
}

func (r *Run) roundSize() int {
	n := 0
	for _, c := range r.task.Clients {
		if c.Train.Len() > 0 {
			n++
		}
	}
	return r.fedSettings().RoundSize(n)
}

// federate runs the rounds of paper, table 1, stage 2.
func (r *Run) federate(ctx context.Context) error {
	server, err := federation.New(r.fedSettings(), federation.FedAvg{}, r.serverClients(), r.state.Initial)
	if err != nil {
		return err
	}
	f := fedStage{Run: r, server: server, sets: make([]*samples, len(r.task.Clients)),
		index: make(map[int]int, len(r.task.Clients)), monitor: r.pooledMonitor()}
	for i, c := range r.task.Clients {
		f.index[c.ID] = i
	}
	for round := range r.cfg.Fed.Rounds {
		if err := f.round(ctx, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	state := server.State()
	r.state.Server = &state
	return nil
}

// fedStage is the scratch of the federated stage; none of it outlives a resume.
type fedStage struct {
	*Run
	server  *federation.Server
	index   map[int]int // client ID -> task index
	sets    []*samples  // made at a client's first visit
	monitor []monitorPart
	// freeze is Ũ at the λ factor freezeAt: without annealing λ never changes.
	freeze, freezeAt float64
}

// answer is what a participant sends back.
type answer struct {
	params []float64
	loss   float64
	steps  int
}

func (f *fedStage) round(ctx context.Context, round int) error {
	stage, schedule := f.cfg.Fed, &f.state.Schedule
	plan, err := f.server.Begin(round)
	if err != nil {
		return err
	}
	answers := make([]answer, len(plan.Participants))
	err = f.each(ctx, len(answers), func(w *worker, k int) (err error) {
		i := f.index[plan.Participants[k]]
		answers[k], err = f.local(ctx, w, i, plan)
		f.advance("federated", 1)
		return f.at(i, err)
	})
	if err != nil {
		return err
	}
	m := run.Metric{Loss: f.cfg.Loss.Name(), Seed: f.cfg.Seed, Stage: "federated", Round: round, Active: plan.Participants}
	weight := 0.0
	for k, a := range answers {
		id := plan.Participants[k]
		if err := f.server.Submit(federation.Update{Round: round, Client: id, Params: a.params}); err != nil {
			return err
		}
		n := float64(f.task.Clients[f.index[id]].Train.Len())
		m.TrainLoss += n * a.loss
		weight += n
		f.state.FedSteps += a.steps
	}
	m.TrainLoss /= weight
	if _, err := f.server.Close(); err != nil {
		return err
	}
	clients := f.state.Clients
	lambda := 0.0
	for _, c := range clients {
		lambda += schedule.Lambda(c.Lambda, stage) / float64(len(clients))
		m.Rate += f.scheduledRate(*schedule, c.FedRate, stage) / float64(len(clients))
	}
	if f.cfg.Loss.Regularized() {
		if at := schedule.Lambda(1, stage); at != f.freezeAt {
			if f.freeze, err = f.freezeStatistic(f.workers[0], f.monitor, func(i int) float64 { return at * clients[i].Lambda }); err != nil {
				return err
			}
			f.freezeAt = at
		}
		m.Lambda, m.Freeze = &lambda, finite(f.freeze)
		schedule.Advance(round, f.freeze, stage)
	}
	f.state.FedMetrics = append(f.state.FedMetrics, m)
	return nil
}

// local is one participant's round: from the global model, with a fresh
// optimiser.
func (f *fedStage) local(ctx context.Context, w *worker, i int, plan federation.Plan) (a answer, err error) {
	if f.sets[i] == nil {
		f.sets[i] = f.ownSamples(i)
	}
	stage, c := f.cfg.Fed, &f.state.Clients[i]
	w.session.Load(plan.Model)
	w.session.ResetOptimizer()
	a.loss, a.steps, err = w.train(ctx, fit{
		set: f.sets[i], epochs: stage.Epochs,
		lambda:  f.state.Schedule.Lambda(c.Lambda, stage),
		rate:    f.scheduledRate(f.state.Schedule, c.FedRate, stage),
		shuffle: stream.Key{Seed: f.cfg.Seed, Purpose: "federated shuffle", Round: plan.Round, Client: f.task.Clients[i].ID},
	})
	if err != nil {
		return a, err
	}
	a.params = make([]float64, len(plan.Model))
	w.session.Store(a.params)
	return a, nil
}

// scheduledRate anneals the rates of regularised losses; others are constant.
func (r *Run) scheduledRate(s Schedule, base float64, stage Stage) float64 {
	if !r.cfg.Loss.Regularized() {
		return base
	}
	return s.Rate(base, stage)
}

// pooledMonitor chooses the clients whose validation samples the federated
// freeze statistic pools.
func (r *Run) pooledMonitor() []monitorPart {
	ids := make([]int, len(r.monitors))
	for i := range ids {
		ids[i] = i
	}
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
		if err := p.excess(lambda(p.client), solver, &num, &den); err != nil {
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

// personalize trains every client from start on its set, all rounds of a
// client in one go, so that optimiser state lives only for the clients at work.
func (r *Run) personalize(ctx context.Context, name string, start []float64, set func(i int) *samples) error {
	return r.each(ctx, len(r.task.Clients), func(w *worker, i int) error {
		next := r.state.Clients[i]
		w.session.Load(start)
		w.session.ResetOptimizer()
		if err := r.rounds(ctx, w, i, name, set(i), &next); err != nil {
			return r.at(i, err)
		}
		next.Model = make([]float64, len(start))
		w.session.Store(next.Model)
		r.state.Clients[i] = next
		return nil
	})
}

// rounds trains client i on data, until the last round or an early stop.
func (r *Run) rounds(ctx context.Context, w *worker, i int, name string, data *samples, c *ClientState) error {
	stage, id := r.cfg.Personal, r.task.Clients[i].ID
	for round := range stage.Rounds {
		if data.targets.Len() == 0 || c.Schedule.Stopped(round, stage) {
			r.advance(name, stage.Rounds-round)
			return nil
		}
		lambda := c.Schedule.Lambda(c.Lambda, stage)
		m := run.Metric{Loss: r.cfg.Loss.Name(), Seed: r.cfg.Seed, Stage: name, Round: round, Client: &id,
			Rate: r.scheduledRate(c.Schedule, c.PersonalRate, stage)}
		loss, steps, err := w.train(ctx, fit{
			set: data, epochs: stage.Epochs, lambda: lambda, rate: m.Rate,
			shuffle: stream.Key{Seed: r.cfg.Seed, Purpose: name + " shuffle", Round: round, Client: id},
		})
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		m.TrainLoss = loss
		c.Steps += steps
		if r.cfg.Loss.Regularized() {
			u, err := r.freezeStatistic(w, []monitorPart{r.monitors[i].first(stage.Monitor)}, func(int) float64 { return lambda })
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			m.Lambda, m.Freeze = &lambda, finite(u)
			c.Schedule.Advance(round, u, stage)
		}
		c.Metrics = append(c.Metrics, m)
		r.advance(name, 1)
	}
	return nil
}

func (r *Run) personalModel(i int) []float64 { return r.state.Clients[i].Model }

// evaluate judges model(i) on the test samples of every client i. personal
// says that the clients' own schedules belong to these models.
func (r *Run) evaluate(ctx context.Context, model func(i int) []float64, personal bool) (*run.StageResult, error) {
	clients := make([]run.ClientResult, len(r.task.Clients))
	err := r.each(ctx, len(clients), func(w *worker, i int) error {
		c, state := r.task.Clients[i], &r.state.Clients[i]
		w.session.Load(model(i))
		regret, err := w.evaluate(ctx, c, r.optima[i], nil)
		if err != nil {
			return r.at(i, err)
		}
		clients[i] = run.ClientResult{Client: c.ID, Regret: regret, Lambda: r.state.Schedule.LastLambda(state.Lambda, r.cfg.Fed)}
		if personal {
			clients[i].Lambda = state.Schedule.LastLambda(state.Lambda, r.cfg.Personal)
			if state.Schedule.Frozen {
				clients[i].FrozenAfter = &state.Schedule.FrozenAfter
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return run.NewStageResult(clients), nil
}
