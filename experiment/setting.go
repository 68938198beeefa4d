package experiment

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/resnet"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/train"
)

// Setting is one training setting to run over losses and seeds.
type Setting struct {
	Kind Kind
	// Data; its Seed is replaced by each seed in turn.
	Data  Data
	Model string
	// Device is where the network runs: "cpu", also for the empty string, "cuda",
	// "cuda:N", or "auto", which Check replaces by what there is. TF32 lets a
	// CUDA device round float32 products.
	Device string
	TF32   bool
	// OutputBound, unless 0, scales predictions down to at most this norm.
	OutputBound float64
	Losses      []surrogate.Loss
	Seeds       []int64
	// Tuned makes Run choose the learning rates first, by Tune.
	Tuned bool
	// Config holds the hyper-parameters; Loss, Model and Seed are filled in.
	Config train.Config

	// rates, unless nil, are the chosen rates of Losses.
	rates []float64
	// checked is what Check loaded.
	checked *loaded
}

// loaded is a task and what it was made of. The task is dropped once it is used,
// where other data follow.
type loaded struct {
	data Data
	task *task.Task
	// clients is their number, unmonitored that of those without validation
	// samples.
	clients, unmonitored int
}

// Validate checks everything that can be checked before data are there.
func (s Setting) Validate() error {
	if len(s.Losses) == 0 || len(s.Seeds) == 0 {
		return fmt.Errorf("no loss or no seed: %w", train.ErrConfig)
	}
	if err := s.Kind.Check(s.Kind.resolve(s.Data)); err != nil {
		return err
	}
	if !positiveOrZero(s.OutputBound) {
		return fmt.Errorf("output bound %v, want 0 or more: %w", s.OutputBound, train.ErrConfig)
	}
	for _, l := range s.Losses {
		cfg := s.Config
		// The model's sizes come with the data.
		cfg.Loss, cfg.Model = l, nn.NewLinear(1, 1)
		if hasStatistics(s.Model) {
			m, err := resnet.New(resnet.Config{Grid: 1})
			if err != nil {
				return err
			}
			cfg.Model = m
		}
		if err := cfg.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// positiveOrZero says whether x is a finite number, not negative.
func positiveOrZero(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// CheckMachine reports an environment that asks for arithmetic kernels this
// machine does not have.
func CheckMachine() error { return nn.CheckKernel() }

// Version identifies the program and the machine's arithmetic.
func Version() run.Version { return run.BuildVersion(nn.KernelLevel()) }

// Progress says how far a Setting is.
type Progress struct {
	Loss string
	Seed int64
	// Run counts training runs from 0; Runs is their number: losses x seeds,
	// after those of Tune.
	Run, Runs int
	// Trial is the learning rate that Tune tries, 0 in other runs.
	Trial float64
	train.Progress
}

// Outcome is one finished, or interrupted, training run of a Setting.
type Outcome struct {
	Loss string
	Seed int64
	Run  *train.Run
	// Timing says where the time went.
	Timing run.SeedTiming
}

// Run trains every loss on every seed: seeds outside, so that losses share
// data. Where the learning rates are Tuned, it starts with Tune. done, if not
// nil, sees each outcome; observe may be nil. The results have the order of
// Losses. When ctx ends or a run fails, they hold what is
// finished, with Complete false for the losses that lack something, beside the
// error.
func (s Setting) Run(ctx context.Context, observe func(Progress), done func(Outcome) error) ([]run.Result, error) {
	results := make([]run.Result, len(s.Losses))
	for k, l := range s.Losses {
		results[k] = run.Result{Task: s.Kind.Name, Loss: l.Name(), Seeds: []run.SeedResult{}}
	}
	w := &watcher{observe: observe, runs: len(s.Seeds) * len(s.Losses)}
	if s.Tuned {
		w.runs += s.tuningRuns()
		tunings, err := s.tune(ctx, w)
		if err != nil {
			return results, err
		}
		s.rates = make([]float64, len(tunings))
		for k, t := range tunings {
			results[k].Tuning, s.rates[k] = &t, t.Rate
		}
	}
	finished := make([]int, len(s.Losses))
	var sums fingerprints
	err := s.each(func(k int, t *task.Task, cfg train.Config) error {
		o := Outcome{Loss: cfg.Loss.Name(), Seed: cfg.Seed}
		releaseMemory()
		watch := startStopwatch()
		cfg.Clock = watch.nanoseconds
		var err error
		if o.Run, err = train.New(cfg, t, w.next(cfg, 0)); err != nil {
			return err
		}
		err = o.Run.Execute(ctx)
		o.Timing = watch.timing(o.Loss, o.Seed, o.Run.Spent())
		interrupted := err != nil && ctx.Err() != nil
		if err != nil && !interrupted {
			return fmt.Errorf("%s, seed %d: %w", o.Loss, o.Seed, diverged(o.Run, err))
		}
		r := o.Run.Result()
		r.Data = sums.get(t)
		results[k].Metric = measure(t)
		results[k].Seeds = append(results[k].Seeds, r)
		if err == nil {
			finished[k]++
		}
		if done != nil {
			// That an outcome could not be kept matters more than the
			// interruption.
			if err := done(o); err != nil {
				return err
			}
		}
		return err
	})
	for k := range results {
		results[k].Complete = finished[k] == len(s.Seeds)
		results[k].Summarize()
	}
	return results, err
}

// measure is the task's metric as results have it.
func measure(t *task.Task) run.Measure { return run.Measure(t.Metric.String()) }

// diverged adds to an error of numbers that overflow in training what helps.
func diverged(r *train.Run, err error) error {
	if !errors.Is(err, nn.ErrNonFinite) && !errors.Is(err, oracle.ErrNonFinite) {
		return err
	}
	// The learning rates stand once the data are prepared.
	if c := r.State().Clients; len(c) == 0 || c[0].PersonalRate == 0 {
		return err
	}
	return fmt.Errorf("%w; training diverges: try a smaller learning rate (-lr)", err)
}

// Check loads the data of the first seed, which Run and Evaluate then use, and
// reports what would stop Run at its start.
func (s *Setting) Check() error {
	d, err := s.device()
	if err != nil {
		return err
	}
	if s.Device == "auto" {
		s.Device = "cuda"
		if d == nil {
			s.Device = "cpu"
		}
	}
	first := *s
	first.checked, first.Seeds = nil, s.Seeds[:min(1, len(s.Seeds))]
	return first.each(func(_ int, t *task.Task, cfg train.Config) error {
		s.checked = &loaded{data: first.dataOf(cfg.Seed), task: t, clients: len(t.Clients)}
		for _, c := range t.Clients {
			if c.Val.Len() == 0 {
				s.checked.unmonitored++
			}
		}
		_, err := train.New(cfg, t, nil)
		return err
	})
}

// Unmonitored returns how many of how many clients lack validation samples, so
// that their freeze rule never fires, in the data that Check loaded; 0 of 0
// before.
func (s Setting) Unmonitored() (without, clients int) {
	if s.checked == nil {
		return 0, 0
	}
	return s.checked.unmonitored, s.checked.clients
}

// PersonalLosses are the losses of the personal, or only, stage.
func (s Setting) PersonalLosses() []surrogate.Loss {
	if l := s.Config.PersonalLoss; l != nil {
		return []surrogate.Loss{l}
	}
	return s.Losses
}

// dataOf is the data of a seed.
func (s Setting) dataOf(seed int64) Data {
	d := s.Kind.resolve(s.Data)
	d.Seed = seed
	return d
}

// SmallNote says that the data are the kind's small ones, with a short
// protocol, or is "".
func (s Setting) SmallNote() string {
	if s.Kind.isSmall(s.Data) {
		return s.Kind.Small.Note
	}
	return ""
}

// varies says whether the data depend on the seed.
func (s Setting) varies() bool { return s.Data.Dir == "" || s.Data.HoldOut > 0 || s.Kind.Seeded }

// load returns valid data that every client can be trained and judged on.
func (s Setting) load(seed int64) (*task.Task, error) {
	d := s.dataOf(seed)
	if c := s.checked; c != nil && c.task != nil && c.data == d {
		t := c.task
		if len(s.Seeds) > 1 && s.varies() {
			c.task = nil
		}
		return t, nil
	}
	t, err := s.Kind.Load(d)
	if err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	name := "generated data"
	if d.Dir != "" {
		name = "data " + d.Dir
	}
	for _, c := range t.Clients {
		if c.Test.Len() == 0 {
			return nil, fmt.Errorf("%s: client %d has no test samples to judge its decisions on", name, c.ID)
		}
		if c.Train.Len() == 0 && s.Config.Regime == train.Local {
			return nil, fmt.Errorf("%s: client %d has no training samples to train alone on", name, c.ID)
		}
	}
	return t, nil
}

// each calls f for every seed and loss, with the index k of the loss. Data that
// do not depend on the seed are loaded once.
func (s Setting) each(f func(k int, t *task.Task, cfg train.Config) error) error {
	device, err := s.device()
	if err != nil {
		return err
	}
	var t *task.Task
	for _, seed := range s.Seeds {
		if t == nil || s.varies() {
			t = nil // it need not stay in memory beside the next one
			releaseMemory()
			var err error
			if t, err = s.load(seed); err != nil {
				return err
			}
		}
		model, err := NewModel(s.Model, t)
		if err != nil {
			return err
		}
		if s.OutputBound > 0 {
			model = nn.Bounded{Model: model, Bound: s.OutputBound}
		}
		for k, l := range s.Losses {
			cfg := s.Config
			cfg.Seed, cfg.Loss, cfg.Model, cfg.Precision = seed, l, model, modelPrecision(s.Model)
			cfg.Device = device
			cfg.Batch = min(cfg.Batch, mostSamples(t))
			if s.rates != nil {
				cfg.Rates, cfg.FixedRate = train.RateScaled, s.rates[k]
			}
			if err := f(k, t, cfg); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostSamples bounds the samples that any one training set or test split of t
// has: a larger batch would only cost memory.
func mostSamples(t *task.Task) int {
	train, test := 0, 1
	for _, c := range t.Clients {
		train += c.Train.Len()
		test = max(test, c.Test.Len())
	}
	return max(train, test)
}

// Save writes the models of the outcome's finished stages to the folder.
func (o Outcome) Save(f *run.Folder) error {
	for _, stage := range []string{train.StageFed, train.StagePersonal} {
		if c, ok := o.Run.Models(stage); ok {
			if err := f.Write(run.ModelFile(o.Loss, o.Seed, stage), func(w io.Writer) error { return c.Write(w, o.Run.Layout()) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// ErrNoModel is wrapped by errors about a client that a run has no model for.
var ErrNoModel = errors.New("no model for a client")

// Evaluate reloads the models a run of this setting saved in the folder from
// and judges them again; what judging does not tell is taken from the run's
// result. Unless to is nil, every prediction and decision is written there, as
// LOSS/seed-N/STAGE.csv. done, if not nil, sees the time of each loss and seed.
//
// What an interrupted run did not reach is left out, with Complete false; a
// model that the run's result says there should be is an error. A stage without
// a model for one of the clients, which happens on other data than the run's,
// is left out too: the rest is returned beside an error that wraps ErrNoModel.
func (s Setting) Evaluate(ctx context.Context, from, to *run.Folder, done func(run.SeedTiming)) ([]run.Result, error) {
	saved, err := from.Results()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	results := make([]run.Result, len(s.Losses))
	for k, l := range s.Losses {
		results[k] = run.Result{Task: s.Kind.Name, Loss: l.Name(), Seeds: []run.SeedResult{}}
	}
	// Seeds that were not reached need no data.
	all := len(s.Seeds)
	s.Seeds = slices.DeleteFunc(slices.Clone(s.Seeds), func(seed int64) bool { return !s.reached(from, saved, seed) })
	if len(s.Seeds) == 0 {
		return nil, fmt.Errorf("%s holds no models of these losses and seeds: %w", from.Path(), run.ErrFolder)
	}
	for k := range results {
		results[k].Complete = len(s.Seeds) == all
	}
	var sums fingerprints
	var absent error
	err = s.each(func(k int, t *task.Task, cfg train.Config) error {
		start := time.Now()
		r := run.SeedResult{Seed: cfg.Seed, Data: sums.get(t)}
		results[k].Metric = measure(t)
		for _, stage := range []string{train.StageFed, train.StagePersonal} {
			res, local, err := evaluateStage(ctx, cfg, t, stage, from, to)
			if errors.Is(err, ErrNoModel) {
				if absent == nil {
					absent = err
				}
				continue
			}
			if err == nil && res == nil && holds(saved, cfg.Loss.Name(), cfg.Seed, stage) {
				err = fmt.Errorf("%s: %w", from.Path(run.ModelFile(cfg.Loss.Name(), cfg.Seed, stage)), os.ErrNotExist)
			}
			if err != nil {
				return fmt.Errorf("%s, seed %d, %s: %w", cfg.Loss.Name(), cfg.Seed, stage, err)
			}
			if stage == train.StageFed {
				r.Fed = res
			} else {
				r.Personal, r.LocalEndpoint = res, local
			}
		}
		hasFed, hasPersonal := cfg.Regime != train.Local, cfg.Regime != train.Centralized
		if hasFed && r.Fed == nil || hasPersonal && r.Personal == nil {
			results[k].Complete = false
		}
		if r.Fed != nil || r.Personal != nil {
			var err error
			if r.Constant, err = train.ConstantCosts(ctx, cfg, t); err != nil {
				return fmt.Errorf("seed %d: %w", cfg.Seed, err)
			}
			results[k].Seeds = append(results[k].Seeds, r)
		}
		if done != nil {
			done(run.SeedTiming{Loss: cfg.Loss.Name(), Seed: cfg.Seed, WallSeconds: time.Since(start).Seconds()})
		}
		return nil
	})
	for k := range results {
		results[k].Summarize()
		for _, trained := range saved {
			if trained.Loss == results[k].Loss {
				results[k].Adopt(trained)
			}
		}
	}
	if err == nil {
		err = absent
	}
	return results, err
}

// reached says whether the folder has, or should have, a model of the seed.
func (s Setting) reached(from *run.Folder, saved []run.Result, seed int64) bool {
	for _, l := range s.Losses {
		for _, stage := range []string{train.StageFed, train.StagePersonal} {
			_, err := os.Stat(from.Path(run.ModelFile(l.Name(), seed, stage)))
			if err == nil || holds(saved, l.Name(), seed, stage) {
				return true
			}
		}
	}
	return false
}

// holds says whether the results have the stage of a loss and seed.
func holds(results []run.Result, loss string, seed int64, stage string) bool {
	for _, r := range results {
		for _, s := range r.Seeds {
			if r.Loss == loss && s.Seed == seed {
				return stage == train.StageFed && s.Fed != nil || stage == train.StagePersonal && s.Personal != nil
			}
		}
	}
	return false
}

// evaluateStage judges a stage, and the local models that the clients'
// predictions interpolate, where they do. Both are nil if the folder has no
// models of the stage.
func evaluateStage(ctx context.Context, cfg train.Config, t *task.Task, stage string, from, to *run.Folder) (res, local *run.StageResult, err error) {
	name := run.ModelFile(cfg.Loss.Name(), cfg.Seed, stage)
	data, err := os.ReadFile(from.Path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	models, err := nn.ReadCheckpoint(data, cfg.Model.Layout())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from.Path(name), err)
	}
	if _, shared := models.Models[""]; !shared {
		for _, c := range t.Clients {
			if _, ok := models.Models["client."+strconv.Itoa(c.ID)]; !ok {
				return nil, nil, fmt.Errorf("%w: client %d took no part in the run, so %s has none of its own for it; leave the client out of the data, or train again with it", ErrNoModel, c.ID, from.Path(name))
			}
		}
	}
	if _, ok := cfg.Personalizer.(train.Interp); ok && stage == train.StagePersonal {
		own := models
		own.Meta = nil // without the weights of the global model
		if local, err = train.Evaluate(ctx, cfg, t, own, nil); err != nil {
			return nil, nil, err
		}
	}
	if to == nil {
		res, err = train.Evaluate(ctx, cfg, t, models, nil)
		return res, local, err
	}
	table := filepath.Join(cfg.Loss.Name(), "seed-"+strconv.FormatInt(cfg.Seed, 10), stage+".csv")
	err = to.Write(table, func(w io.Writer) error {
		d := newDecisionTable(w, t.Out)
		res, err = train.Evaluate(ctx, cfg, t, models, d.row)
		return errors.Join(err, d.flush())
	})
	return res, local, err
}

// decisionTable writes a row for each test sample: what it cost, what was
// predicted and what was decided.
type decisionTable struct {
	w      *csv.Writer
	record []string
	err    error
}

func newDecisionTable(w io.Writer, d int) *decisionTable {
	header := []string{"client", "sample", "cost", "optimum", "regret"}
	for _, name := range []string{"chat_", "w_"} {
		for i := range d {
			header = append(header, name+strconv.Itoa(i))
		}
	}
	t := &decisionTable{w: csv.NewWriter(w)}
	t.err = t.w.Write(header)
	return t
}

func (t *decisionTable) row(c *task.Client, d train.Decision) error {
	if t.err != nil {
		return t.err
	}
	t.record = append(t.record[:0], strconv.Itoa(c.ID), strconv.Itoa(d.Sample))
	for _, x := range []float64{d.Cost, d.Optimum, d.Cost - d.Optimum} {
		t.record = append(t.record, number(x))
	}
	for _, v := range [][]float64{d.Chat, d.W} {
		for _, x := range v {
			t.record = append(t.record, number(x))
		}
	}
	return t.w.Write(t.record)
}

func (t *decisionTable) flush() error {
	t.w.Flush()
	return errors.Join(t.err, t.w.Error())
}

// number prints x so that reading it back gives the same bits.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
