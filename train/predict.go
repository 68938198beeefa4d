package train

import (
	"context"

	"fedrspo/nn"
	"fedrspo/task"
)

// predictor is what makes a client's predictions: a model, or the mixture
// (1-rho) model + rho global in prediction space.
type predictor struct {
	model, global []float64
	rho           float64
}

// same says whether p and q are the same vectors in memory with the same
// weight.
func (p predictor) same(q predictor) bool {
	at := func(a, b []float64) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
	return at(p.model, q.model) && at(p.global, q.global) && p.rho == q.rho
}

// predict runs p on samples lo to hi-1 of x, in batches from lo on, and writes
// the predictions to chat [hi-lo, d].
func (w *worker) predict(ctx context.Context, x task.Features, p predictor, lo, hi int, chat []float64) error {
	d := w.cfg.Model.Out()
	if p.global == nil {
		w.session.Load(p.model)
	}
	for at := lo; at < hi; at += w.cfg.Batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		rows := min(w.cfg.Batch, hi-at)
		for i := range rows {
			w.setRow(i, x, at+i)
		}
		out := chat[(at-lo)*d : (at-lo+rows)*d]
		if p.global == nil {
			if err := w.session.Predict(out, rows); err != nil {
				return err
			}
			continue
		}
		global := grow(&w.blend, rows*d)
		w.session.Load(p.global)
		if err := w.session.Predict(global, rows); err != nil {
			return err
		}
		w.session.Load(p.model)
		if err := w.session.Predict(out, rows); err != nil {
			return err
		}
		for k, g := range global {
			out[k] = (1-p.rho)*out[k] + p.rho*g
		}
	}
	return nil
}

// setRow makes sample i of x row k of the session's next run, as float32 where
// both the network and the features are.
func (w *worker) setRow(k int, x task.Features, i int) {
	if x32, ok := x.(task.Features32); ok && w.cfg.Precision == nn.Float32 {
		x32.Copy32(grow(&w.x32, x.Dim()), i)
		w.session.SetRow32(k, w.x32)
		return
	}
	x.Copy(w.x, i)
	w.session.SetRow(k, w.x)
}

// grow returns the first n elements of *buf, made anew when there are fewer.
func grow[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	*buf = (*buf)[:n]
	return *buf
}
