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

// worker is what one goroutine owns: a compiled network, the batch its loss
// operation reads, and scratch. It holds no client's state.
type worker struct {
	cfg     *Config
	session nn.Session
	batch   surrogate.Batch
	// oracles is the number of goroutines a batch's oracle calls fan over: the
	// cores that too few clients would leave idle.
	oracles int
	pool    *oracle.Pool
	perm    []int
	x       []float64
	chat    []float64
}

func newWorker(cfg *Config, oracles int) (*worker, error) {
	w := &worker{cfg: cfg, oracles: oracles, x: make([]float64, cfg.Model.In()), chat: make([]float64, cfg.Batch*cfg.Model.Out())}
	w.batch.Loss = cfg.Loss
	s, err := nn.NewSession(nn.SessionConfig{
		Model: cfg.Model, Batch: cfg.Batch, Precision: cfg.Precision,
		Loss: func(out *gorgonia.Node) (*gorgonia.Node, error) { return surrogate.Apply(&w.batch, out) },
	})
	if err != nil {
		return nil, err
	}
	w.session = s
	return w, nil
}

// poolFor returns a pool over p, the last one if it was over p too.
func (w *worker) poolFor(p oracle.Polytope) *oracle.Pool {
	if w.pool == nil || w.pool.Polytope() != p {
		w.pool = oracle.NewPool(p, w.oracles)
	}
	return w.pool
}

// fit is one round of training on one set.
type fit struct {
	set          *samples
	lambda, rate float64
	epochs       int
	// shuffle names the stream of the sample order; its Epoch is set here.
	shuffle stream.Key
}

// train runs the round from the session's parameters and returns the mean loss
// over the samples visited and the number of gradient steps. An error names
// epoch and batch.
func (w *worker) train(ctx context.Context, f fit) (loss float64, steps int, err error) {
	n := f.set.targets.Len()
	w.batch.Pool, w.batch.Targets, w.batch.Lambda = w.poolFor(f.set.polytope), f.set.targets, f.lambda
	if cap(w.perm) < n {
		w.perm = make([]int, n)
	}
	perm := w.perm[:n]
	sum := 0.0
	for e := range f.epochs {
		f.shuffle.Epoch = e
		stream.Permute(stream.New(f.shuffle), perm)
		for lo := 0; lo < n; lo += w.cfg.Batch {
			if err := ctx.Err(); err != nil {
				return 0, 0, err
			}
			rows := perm[lo:min(lo+w.cfg.Batch, n)]
			for i, r := range rows {
				f.set.x.Copy(w.x, r)
				w.session.SetRow(i, w.x)
			}
			w.batch.Rows = rows
			v, err := w.session.Gradient(len(rows))
			if err == nil {
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

// predict runs the session's network on the samples of x in order and hands
// visit each prediction, valid during the call.
func (w *worker) predict(ctx context.Context, x task.Features, visit func(i int, chat []float64) error) error {
	n, d := x.Len(), w.cfg.Model.Out()
	for lo := 0; lo < n; lo += w.cfg.Batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := min(w.cfg.Batch, n-lo)
		for i := range rows {
			x.Copy(w.x, lo+i)
			w.session.SetRow(i, w.x)
		}
		if err := w.session.Predict(w.chat[:rows*d], rows); err != nil {
			return err
		}
		for i := range rows {
			if err := visit(lo+i, w.chat[i*d:(i+1)*d]); err != nil {
				return err
			}
		}
	}
	return nil
}
