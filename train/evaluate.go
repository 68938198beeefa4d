package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"fedrspo/oracle"
	"fedrspo/run"
	"fedrspo/task"
)

// Decision is the outcome of one test sample.
type Decision struct {
	// Sample is the index in the client's test split.
	Sample int
	// Chat is the prediction ĉ, W the decision w*(ĉ). Both are valid during
	// the call only.
	Chat, W []float64
	// Cost is c·w*(ĉ), Optimum z*(c).
	Cost, Optimum float64
}

// minOptimum stands for the denominator of relative regret where all optimal
// values of a client are zero (capacity 0, say): it then is 0 where the
// decisions are optimal, and a finite number otherwise.
const minOptimum = 1e-8

// errOptimum is about an optimality gap without a meaning.
var errOptimum = errors.New("the optimality gap needs positive optimal values")

// judging says what to evaluate: a predictor on samples of a client.
type judging struct {
	client int // index in the task
	split  task.Split
	optima []float64 // z* of the split's samples
	by     predictor
	// lambda, unless 0, is where to measure alignment.
	lambda float64
}

// score is what the decision on one sample was worth.
type score struct {
	cost float64 // c·w*(ĉ)
	// The terms of run.Alignment: |P_λ(ĉ)-w*(ĉ)|, |w*(ĉ)|, |c·(P_λ(ĉ)-w*(ĉ))|.
	gap, length, objective float64
}

// verdict is what the decisions of one judging were worth.
type verdict struct {
	run.Regret
	// alignment is nil unless it was asked for.
	alignment *run.Alignment
}

// examination is a batch of judgings under way. Those that share predictor and
// features also share the predictions.
type examination struct {
	run    *Run
	all    []judging
	groups [][]int   // indices of judgings with the same predictions
	scores [][]score // of each judging, by sample
}

func newExamination(r *Run, all []judging) *examination {
	e := &examination{run: r, all: all, scores: make([][]score, len(all))}
	for k, j := range all {
		e.scores[k] = make([]score, j.split.Len())
		at := len(e.groups) // a new group, or the last one with the predictions
		for g := range e.groups {
			if first := all[e.groups[g][0]]; first.by.same(j.by) && task.Same(first.split.X, j.split.X) {
				at = g
			}
		}
		if at == len(e.groups) {
			e.groups = append(e.groups, nil)
		}
		e.groups[at] = append(e.groups[at], k)
	}
	return e
}

// judge returns the regrets of predictors over samples (paper, appendix C.1):
// decisions are always LP decisions. Workers take chunks of samples, so that
// memory is bounded; sums run over each judging's samples in order.
func (r *Run) judge(ctx context.Context, all []judging) ([]verdict, error) {
	e := newExamination(r, all)
	type unit struct{ group, lo int }
	var units []unit
	for g, members := range e.groups {
		for lo := 0; lo < all[members[0]].split.Len(); lo += r.chunk() {
			units = append(units, unit{g, lo})
		}
	}
	err := r.each(ctx, len(units), func(w *worker, k int) error {
		return e.chunk(ctx, w, units[k].group, units[k].lo)
	})
	if err != nil {
		return nil, err
	}
	return e.verdicts()
}

// judgeOn is judge of one judging on one worker, for use inside Run.each.
func (r *Run) judgeOn(ctx context.Context, w *worker, j judging) (verdict, error) {
	e := newExamination(r, []judging{j})
	for lo := 0; lo < j.split.Len(); lo += r.chunk() {
		if err := e.chunk(ctx, w, 0, lo); err != nil {
			return verdict{}, err
		}
	}
	v, err := e.verdicts()
	if err != nil {
		return verdict{}, err
	}
	return v[0], nil
}

// chunk is the number of samples that are predicted, and then decided on, at a
// time: whole batches, so that it never shapes a prediction.
func (r *Run) chunk() int {
	const least = 256
	return r.cfg.Batch * ((least + r.cfg.Batch - 1) / r.cfg.Batch)
}

// chunk predicts the samples of a group from lo on and has every member decide
// on them. It replaces the session's parameters.
func (e *examination) chunk(ctx context.Context, w *worker, group, lo int) error {
	members := e.groups[group]
	first := &e.all[members[0]]
	hi := min(lo+e.run.chunk(), first.split.Len())
	chat := grow(&w.chat, (hi-lo)*w.cfg.Model.Out())
	if err := w.predict(ctx, first.split.X, first.by, lo, hi, chat); err != nil {
		return e.run.at(first.client, err)
	}
	for _, k := range members {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := e.decide(w, k, lo, chat); err != nil {
			return e.run.at(e.all[k].client, fmt.Errorf("samples from %d: %w", lo, err))
		}
	}
	return nil
}

// decide solves judging k's linear problem at the predictions chat of its
// samples from lo on, fills their scores, and returns the decisions, which are
// valid until the worker's next call.
func (e *examination) decide(w *worker, k, lo int, chat []float64) ([]float64, error) {
	j := &e.all[k]
	d, pool := w.cfg.Model.Out(), w.poolFor(e.run.task.Clients[j.client].Polytope)
	decisions := grow(&w.decisions, len(chat))
	if err := pool.SolveAll(decisions, chat); err != nil {
		return nil, err
	}
	var projected []float64
	if j.lambda > 0 {
		projected = grow(&w.projected, len(chat))
		if err := pool.ProjectAll(projected, chat, j.lambda, nil); err != nil {
			return nil, fmt.Errorf("alignment at lambda %g: %w", j.lambda, err)
		}
	}
	for i := range len(chat) / d {
		decision, cost := decisions[i*d:(i+1)*d], j.split.C.Row(lo+i)
		s := &e.scores[k][lo+i]
		s.cost = dot(cost, decision)
		if projected != nil {
			s.align(projected[i*d:(i+1)*d], decision, cost)
		}
	}
	return decisions, nil
}

// align fills the terms of alignment of decision w with projection p.
func (s *score) align(p, w, cost []float64) {
	gap, length, objective := 0.0, 0.0, 0.0
	for k, x := range w {
		gap += (p[k] - x) * (p[k] - x)
		length += x * x
		objective += cost[k] * (p[k] - x)
	}
	s.gap, s.length, s.objective = math.Sqrt(gap), math.Sqrt(length), math.Abs(objective)
}

// verdicts adds up the scores.
func (e *examination) verdicts() ([]verdict, error) {
	out := make([]verdict, len(e.all))
	for k, j := range e.all {
		var err error
		if out[k].Regret, err = regretOf(e.run.task.Metric, e.scores[k], j.optima); err != nil {
			return nil, e.run.at(j.client, err)
		}
		if j.lambda > 0 {
			a := alignmentOver(e.scores[k], j.optima)
			out[k].alignment = &a
		}
	}
	return out, nil
}

// regretOf averages over samples with scores s and optimal values z. Relative
// regret is a ratio of means, the optimality gap a mean of ratios.
func regretOf(metric task.Metric, s []score, z []float64) (run.Regret, error) {
	regret, scale, gap := 0.0, 0.0, 0.0
	for i, x := range s {
		regret += x.cost - z[i]
		scale += math.Abs(z[i])
		if metric == task.OptimalityGap {
			if !(z[i] > 0) {
				return run.Regret{}, fmt.Errorf("sample %d has the optimal value %v: %w", i, z[i], errOptimum)
			}
			gap += x.cost/z[i] - 1
		}
	}
	n := float64(len(s))
	if scale == 0 {
		scale = minOptimum * n
	}
	r := run.Regret{Absolute: regret / n, Relative: (regret / n) / (scale / n), Gap: gap / n}
	for _, x := range []float64{r.Relative, r.Gap} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return r, fmt.Errorf("regret is %v: %w", r.Absolute, oracle.ErrNonFinite)
		}
	}
	return r, nil
}

// alignmentOver averages the terms of alignment.
func alignmentOver(s []score, z []float64) run.Alignment {
	const epsilon = 1e-8 // the paper's guard against division by zero
	gap, length, objective := 0.0, 0.0, 0.0
	for i, x := range s {
		gap += x.gap
		length += x.length
		objective += x.objective / (math.Abs(z[i]) + epsilon)
	}
	n := float64(len(s))
	return run.Alignment{Gap: gap / n, Decision: 100 * (gap / n) / (length/n + epsilon), Objective: 100 * objective / n}
}

// optimalValues returns z*(c) of every sample of a split.
func optimalValues(s task.Split, solver *oracle.Solver) ([]float64, error) {
	z, w := make([]float64, s.Len()), solver.Scratch[0]
	for i := range z {
		var err error
		if z[i], err = solver.Minimize(w, s.C.Row(i)); err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return z, nil
}

// testOptima returns z* of the test samples of every client.
func (r *Run) testOptima(ctx context.Context) ([][]float64, error) {
	z := make([][]float64, len(r.task.Clients))
	err := r.each(ctx, len(z), func(w *worker, i int) (err error) {
		c := r.task.Clients[i]
		if z[i], err = optimalValues(c.Test, w.poolFor(c.Polytope).Solver()); err != nil {
			return r.at(i, fmt.Errorf("test %w", err))
		}
		return nil
	})
	return z, err
}

// constantCosts judges equal costs of 1 on the test samples with optimal values
// z: the decision then is the client's cheapest on average over what it does
// not know. It is nil for tasks that OptimalityGap does not judge.
func (r *Run) constantCosts(z [][]float64) (*run.StageResult, error) {
	if r.task.Metric != task.OptimalityGap {
		return nil, nil
	}
	clients := make([]run.ClientResult, len(r.task.Clients))
	for i, c := range r.task.Clients {
		solver := r.workers[0].poolFor(c.Polytope).Solver()
		w, ones := solver.Scratch[0], solver.Scratch[1]
		for k := range ones {
			ones[k] = 1
		}
		if _, err := solver.Minimize(w, ones); err != nil {
			return nil, r.at(i, fmt.Errorf("constant costs: %w", err))
		}
		s := make([]score, c.Test.Len())
		for k := range s {
			s[k].cost = dot(c.Test.C.Row(k), w)
		}
		regret, err := regretOf(r.task.Metric, s, z[i])
		if err != nil {
			return nil, r.at(i, fmt.Errorf("test %w", err))
		}
		clients[i] = run.ClientResult{Client: c.ID, Regret: regret}
	}
	return run.NewStageResult(clients), nil
}

// meanLambda is the mean of the clients' calibrated λ_j.
func (r *Run) meanLambda() float64 {
	sum := 0.0
	for _, c := range r.state.Clients {
		sum += c.Lambda
	}
	return sum / float64(len(r.state.Clients))
}

// evaluatePersonal judges the clients' own models.
func (r *Run) evaluatePersonal(ctx context.Context) (*run.StageResult, error) {
	return r.evaluate(ctx, r.personalPhase(""), func(i int) predictor {
		c := &r.state.Clients[i]
		if c.Interpolates {
			return predictor{model: c.Model, global: r.state.Server.Model, rho: c.Rho}
		}
		return predictor{model: c.Model}
	}, true)
}

// evaluate judges by(i) on the test samples of every client i. personal says
// that the clients' own schedules belong to these models.
func (r *Run) evaluate(ctx context.Context, ph phase, by func(i int) predictor, personal bool) (*run.StageResult, error) {
	clients, tests := make([]run.ClientResult, len(r.task.Clients)), make([]judging, len(r.task.Clients))
	for i, c := range r.task.Clients {
		state, out := &r.state.Clients[i], &clients[i]
		*out = run.ClientResult{Client: c.ID}
		if ph.loss.Regularized() {
			out.Lambda = r.state.Schedule.LastLambda(state.Lambda, ph.Stage)
			if personal {
				out.Lambda = state.Schedule.LastLambda(state.Lambda, ph.Stage)
				if n := len(state.Metrics); n > 0 {
					out.Freeze = state.Metrics[n-1].Freeze
				}
				if state.Schedule.Frozen {
					after := state.Schedule.FrozenAfter
					out.FrozenAfter = &after
				}
			}
		}
		if isOptNet(ph.loss) {
			out.Multiplier = r.state.FedMultiplier
			if personal {
				out.Multiplier = state.Multiplier
			}
			out.Lambda = out.Multiplier * state.Lambda
		}
		tests[i] = judging{client: i, split: c.Test, optima: r.optima[i], by: by(i)}
		if tests[i].by.global != nil {
			out.Rho = &state.Rho
		}
		if r.cfg.Alignment {
			tests[i].lambda = out.Lambda
			if r.cfg.AlignmentMeanLambda && !personal && out.Lambda > 0 {
				tests[i].lambda = r.meanLambda()
			}
		}
	}
	verdicts, err := r.judge(ctx, tests)
	if err != nil {
		return nil, fmt.Errorf("test: %w", err)
	}
	for i, v := range verdicts {
		clients[i].Regret, clients[i].Alignment = v.Regret, v.alignment
	}
	if r.cfg.Validation {
		if err := r.validate(ctx, tests, clients); err != nil {
			return nil, fmt.Errorf("validation: %w", err)
		}
	}
	return run.NewStageResult(clients), nil
}

// validate fills the validation regrets of the clients that have such samples,
// with the predictors of tests.
func (r *Run) validate(ctx context.Context, tests []judging, clients []run.ClientResult) error {
	var all []judging
	for i, c := range r.task.Clients {
		if c.Val.Len() == 0 {
			continue
		}
		z, err := optimalValues(c.Val, r.workers[0].poolFor(c.Polytope).Solver())
		if err != nil {
			return r.at(i, err)
		}
		all = append(all, judging{client: i, split: c.Val, optima: z, by: tests[i].by})
	}
	verdicts, err := r.judge(ctx, all)
	if err != nil {
		return err
	}
	for k, v := range verdicts {
		clients[all[k].client].Validation = &v.Regret
	}
	return nil
}
