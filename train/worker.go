package train

import (
	"context"
	"fmt"

	"fedrspo/internal/stream"
	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/surrogate"
	"fedrspo/task"

	"gorgonia.org/gorgonia"
)

// samples is a training set: features and the true costs' oracle answers over
// one feasible set. One worker uses it at a time.
type samples struct {
	x        task.Features
	targets  *surrogate.Targets
	polytope oracle.Polytope
}

func newSamples(s task.Split, p oracle.Polytope) *samples {
	return &samples{x: s.X, targets: surrogate.NewTargets(s.C.Data, p.Dim()), polytope: p}
}

// worker is what one goroutine owns: a compiled network, the batches its loss
// operation reads, and scratch. It holds no client's state.
type worker struct {
	cfg     *Config
	session nn.Session
	// source is what the loss operation reads; batch is what it usually is.
	source timedSource
	batch  surrogate.Batch
	meter  meter
	// oracles is the number of goroutines that a batch's oracle calls, and the
	// network's operations on images, fan over: the cores that too few clients
	// would leave idle.
	oracles int
	pool    *oracle.Pool
	perm    []int
	x       []float64
	x32     []float32
	// Predictions, those of a global model to mix in, and what the oracle
	// answers to them, [rows, Out] each.
	chat, blend, decisions, projected []float64
	// theta holds the parameters while they are judged between rounds.
	theta []float64
}

// purpose says what a worker is for.
type purpose uint8

const (
	trains   purpose = iota
	predicts         // and cannot train
)

func newWorker(cfg *Config, oracles int, p purpose) (*worker, error) {
	w := &worker{cfg: cfg, oracles: oracles, meter: meter{clock: cfg.Clock}, x: make([]float64, cfg.Model.In())}
	w.source.meter = &w.meter
	session := nn.SessionConfig{Model: cfg.Model, Batch: cfg.Batch, Precision: cfg.Precision, Threads: oracles, Device: cfg.Device}
	if p == trains {
		session.Loss = func(out *gorgonia.Node) (*gorgonia.Node, error) { return surrogate.Apply(&w.source, out) }
	}
	s, err := nn.NewSession(session)
	if err != nil {
		return nil, err
	}
	w.session = s
	return w, nil
}

// poolFor returns a pool over p, the last one if it was over p too.
func (w *worker) poolFor(p oracle.Polytope) *oracle.Pool {
	if w.pool == nil || w.pool.Polytope() != p {
		w.dropPool()
		w.pool = w.newPool(p)
	}
	return w.pool
}

func (w *worker) newPool(p oracle.Polytope) *oracle.Pool { return oracle.NewPool(p, w.oracles) }

// fit is one round of training.
type fit struct {
	loss surrogate.Loss
	// set is what to train on, lambda its λ.
	set    *samples
	lambda float64
	rate   float64
	epochs int
	// shuffle names the stream of the sample order; its Epoch is set here.
	// Noise has the same name with " noise" behind its purpose.
	shuffle stream.Key
	// ref, unless nil, adds (mu/2)|θ-ref|² to every batch loss. The reported
	// loss leaves it out.
	mu  float64
	ref []float64
}

// train runs the round from the session's parameters and returns the mean loss
// over the samples visited and the number of gradient steps. An error names
// epoch and batch.
func (w *worker) train(ctx context.Context, f fit) (loss float64, steps int, err error) {
	b := &w.batch
	b.Loss, b.Pool, b.Targets, b.Lambda = f.loss, w.poolFor(f.set.polytope), f.set.targets, f.lambda
	w.source.Source = b
	return w.epochs(ctx, f, f.set.targets.Len(), func(rows []int) {
		b.Rows = rows
		for i, r := range rows {
			w.setRow(i, f.set.x, r)
		}
	}, func(noise stream.Family) { b.Noise = noise })
}

// epochs passes f.epochs times over n samples in shuffled batches: fill sets
// the features and the source of a batch, noise the streams of an epoch.
func (w *worker) epochs(ctx context.Context, f fit, n int, fill func(rows []int), noise func(stream.Family)) (loss float64, steps int, err error) {
	if cap(w.perm) < n {
		w.perm = make([]int, n)
	}
	perm := w.perm[:n]
	sum := 0.0
	from, oracles := w.meter.now(), w.source.spent
	defer func() {
		spent := w.source.spent - oracles
		w.meter.oracle += int64(w.oracles) * spent
		w.meter.network += w.meter.now() - from - spent
		w.meter.steps += steps
	}()
	for e := range f.epochs {
		f.shuffle.Epoch = e
		stream.Permute(stream.New(f.shuffle), perm)
		key := f.shuffle
		key.Purpose += " noise"
		noise(stream.NewFamily(key))
		for lo := 0; lo < n; lo += w.cfg.Batch {
			if err := ctx.Err(); err != nil {
				return 0, 0, err
			}
			rows := perm[lo:min(lo+w.cfg.Batch, n)]
			fill(rows)
			v, err := w.session.Gradient(len(rows))
			if err == nil {
				if f.ref != nil {
					w.session.AddProximal(f.mu, f.ref)
				}
				err = w.session.Update(w.cfg.Adam, f.rate)
			}
			if err != nil {
				return 0, 0, fmt.Errorf("epoch %d, batch %d: %w", e, lo/w.cfg.Batch, err)
			}
			sum += v * float64(len(rows))
			steps++
		}
	}
	return sum / float64(n*f.epochs), steps, nil
}
