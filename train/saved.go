package train

import (
	"context"
	"fmt"

	"fedrspo/nn"
	"fedrspo/run"
	"fedrspo/task"
)

// Evaluate judges saved models on the test samples of t: the model of key
// "client.ID", or else the one of key "", serves client ID. visit, if not nil,
// sees every decision, in order of clients and samples.
func Evaluate(ctx context.Context, cfg Config, t *task.Task, models nn.Checkpoint, visit func(*task.Client, Decision) error) (*run.StageResult, error) {
	cfg.Precision = models.Precision
	r, err := New(cfg, t, nil)
	if err != nil {
		return nil, err
	}
	all := make([]judging, len(t.Clients))
	for i, c := range t.Clients {
		by, err := savedPredictor(models, c.ID, r.Layout().Len())
		if err != nil {
			return nil, r.at(i, err)
		}
		all[i] = judging{client: i, split: c.Test, by: by}
	}
	if err := r.start(predicts); err != nil {
		return nil, err
	}
	defer r.stop()
	z, err := r.testOptima(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].optima = z[i]
	}
	var verdicts []verdict
	if visit == nil {
		verdicts, err = r.judge(ctx, all)
	} else {
		verdicts, err = r.judgeInOrder(ctx, all, visit)
	}
	if err != nil {
		return nil, err
	}
	clients := make([]run.ClientResult, len(all))
	for i, v := range verdicts {
		clients[i] = run.ClientResult{Client: t.Clients[i].ID, Regret: v.Regret}
	}
	return run.NewStageResult(clients), nil
}

// ConstantCosts judges equal costs everywhere on the test samples of t; see
// run.SeedResult. It is nil for tasks that OptimalityGap does not judge.
func ConstantCosts(ctx context.Context, cfg Config, t *task.Task) (*run.StageResult, error) {
	if t.Metric != task.OptimalityGap {
		return nil, nil
	}
	r, err := New(cfg, t, nil)
	if err != nil {
		return nil, err
	}
	if err := r.start(predicts); err != nil {
		return nil, err
	}
	defer r.stop()
	z, err := r.testOptima(ctx)
	if err != nil {
		return nil, err
	}
	return r.constantCosts(z)
}

// mostKept bounds the predicted costs that are held at a time: 128 MiB.
const mostKept = 1 << 24

// judgeInOrder is judge that shows every decision to visit, in order. Workers
// predict ahead, a window of samples at a time; clients that follow one another
// and fit into one window share its predictions.
func (r *Run) judgeInOrder(ctx context.Context, all []judging, visit func(*task.Client, Decision) error) ([]verdict, error) {
	e := newExamination(r, all)
	d, chunk := r.cfg.Model.Out(), r.chunk()
	window := chunk * max(1, mostKept/(d*chunk))
	var chat []float64
	held := -1 // whose predictions chat holds, all of them
	for k := range all {
		j, c := &all[k], r.task.Clients[all[k].client]
		for lo := 0; lo < j.split.Len(); lo += window {
			hi := min(lo+window, j.split.Len())
			if whole := lo == 0 && hi == j.split.Len(); !whole || held < 0 || !all[held].by.same(j.by) || !task.Same(all[held].split.X, j.split.X) {
				if err := r.predictAll(ctx, j, lo, hi, grow(&chat, (hi-lo)*d)); err != nil {
					return nil, r.at(k, err)
				}
				if held = -1; whole {
					held = k
				}
			}
			for at := lo; at < hi; at += chunk {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				costs := chat[(at-lo)*d : (min(at+chunk, hi)-lo)*d]
				decisions, err := e.decide(r.workers[0], k, at, costs)
				if err != nil {
					return nil, r.at(k, fmt.Errorf("samples from %d: %w", at, err))
				}
				for i := range len(costs) / d {
					row := func(m []float64) []float64 { return m[i*d : (i+1)*d] }
					out := Decision{Sample: at + i, Chat: row(costs), W: row(decisions), Cost: e.scores[k][at+i].cost, Optimum: j.optima[at+i]}
					if err := visit(c, out); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return e.verdicts()
}

// predictAll predicts samples lo to hi-1 of a judging with all workers.
func (r *Run) predictAll(ctx context.Context, j *judging, lo, hi int, chat []float64) error {
	d, chunk := r.cfg.Model.Out(), r.chunk()
	return r.each(ctx, (hi-lo+chunk-1)/chunk, func(w *worker, k int) error {
		from := lo + k*chunk
		to := min(from+chunk, hi)
		return w.predict(ctx, j.split.X, j.by, from, to, chat[(from-lo)*d:(to-lo)*d])
	})
}
