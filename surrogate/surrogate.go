// Package surrogate holds the training losses of decision-focused learning: a
// loss judges a predicted cost vector ĉ by the decision it leads to, through
// the oracles of a feasible set S.
//
// Each loss is a pure function of one sample (value and gradient with respect
// to ĉ) in a file of its own; [Batch.Eval] runs a batch of them over an
// oracle.Pool, and [Apply] adds the batch loss to a Gorgonia graph. All sums
// run in row order, so values and gradients do not depend on the number of
// goroutines.
//
// Notation follows the paper: c true cost, ĉ (chat) predicted cost, a = 2ĉ-c,
// w*(θ) an LP optimiser, P_λ(θ) = Π_S(-θ/λ) the regularised decision. All
// problems minimise.
package surrogate

import (
	"fmt"
	"math"
	"strings"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
)

// Loss is a training loss. It holds no data and no mutable state, and is safe
// to share.
type Loss interface {
	// Name is the loss's name on the command line.
	Name() string
	// Regularized says whether the loss depends on Batch.Lambda.
	Regularized() bool
	// Prepare has t hold the oracle answers at the true costs that Row needs.
	Prepare(t *Targets, pool *oracle.Pool, lambda float64) error
	// Row returns the loss of batch row i at prediction chat [d] and writes its
	// (sub)gradient with respect to chat to grad [d].
	Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error)
}

// losses in the order help texts list them.
var losses = []Loss{RSPOPlus{}, SPOPlus{}, MSE{}, PFYL{}, DPO{}, OptNet{}}

// Names lists the losses ByName knows.
func Names() []string {
	names := make([]string, len(losses))
	for i, l := range losses {
		names[i] = l.Name()
	}
	return names
}

// ByName returns the loss of that name.
func ByName(name string) (Loss, error) {
	for _, l := range losses {
		if l.Name() == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("unknown loss %q, want one of %s", name, strings.Join(Names(), ", "))
}

// Targets holds the true costs of a set of samples, and the oracle answers at
// those costs, which depend on the data only and are computed once.
type Targets struct {
	d int
	c []float64 // [n, d] true costs
	w []float64 // [n, d] w*(c), nil until SolveOptima
	q []float64 // [n, d] P_λ(c) for lambda, nil until ProjectCosts

	lambda float64
	// over is the feasible set that w and q belong to.
	over oracle.Polytope
}

// NewTargets returns Targets over costs [n, d], which it does not copy and
// which must not change.
func NewTargets(costs []float64, d int) *Targets {
	return &Targets{d: d, c: costs}
}

// Len is the number of samples.
func (t *Targets) Len() int { return len(t.c) / t.d }

// Cost is the true cost of sample i.
func (t *Targets) Cost(i int) []float64 { return row(t.c, i, t.d) }

// Optimum is w*(c) of sample i, after SolveOptima.
func (t *Targets) Optimum(i int) []float64 { return row(t.w, i, t.d) }

// Projected is P_λ(c) of sample i for the λ of the last ProjectCosts.
func (t *Targets) Projected(i int) []float64 { return row(t.q, i, t.d) }

// bind forgets the answers over another feasible set.
func (t *Targets) bind(p oracle.Polytope) {
	if t.over != p {
		t.w, t.q, t.over = nil, nil, p
	}
}

// SolveOptima computes w*(c) of all samples, unless it holds them for the
// pool's feasible set already.
func (t *Targets) SolveOptima(pool *oracle.Pool) error {
	if t.bind(pool.Polytope()); t.w != nil {
		return nil
	}
	w := make([]float64, len(t.c))
	if err := pool.SolveAll(w, t.c); err != nil {
		return fmt.Errorf("optimal decisions of the true costs: %w", err)
	}
	t.w = w
	return nil
}

// ProjectCosts computes P_λ(c) of all samples, unless it holds them for the
// pool's feasible set and this λ already (λ changes at most once a round).
func (t *Targets) ProjectCosts(pool *oracle.Pool, lambda float64) error {
	if t.bind(pool.Polytope()); t.q != nil && t.lambda == lambda {
		return nil
	}
	if t.q == nil {
		t.q = make([]float64, len(t.c))
	}
	t.lambda = math.NaN() // nothing valid until all rows are
	if err := pool.ProjectAll(t.q, t.c, lambda, nil); err != nil {
		return fmt.Errorf("regularised decisions of the true costs at lambda %g: %w", lambda, err)
	}
	t.lambda = lambda
	return nil
}

// Batch describes one evaluation of a loss: which samples, over which feasible
// set, at which regularisation. The trainer fills it before each run of the
// graph; it belongs to one goroutine.
type Batch struct {
	// Loss to evaluate.
	Loss Loss
	// Pool solves over the client's feasible set.
	Pool *oracle.Pool
	// Targets of all training samples of the client.
	Targets *Targets
	// Rows names the sample of each row; its length is the batch length n.
	Rows []int
	// Lambda is the regularisation weight: λ of RSPO+, ε of the OptNet-style
	// loss; other losses ignore it.
	Lambda float64
	// Noise holds the random streams of this visit, one for each sample; the
	// perturbed losses PFYL and DPO draw from it.
	Noise stream.Family

	job       job
	projected projectedJob
}

// Source is what a graph's loss operation reads: a Batch, or a Mixed one.
type Source interface {
	// Len is the number of rows, Dim the number of costs of a row.
	Len() int
	Dim() int
	// Eval is Batch.Eval.
	Eval(chat, values, grad []float64) (float64, error)
}

// Switch is a Source that can be pointed at another one between runs.
type Switch struct{ Source }

// Len is the batch length n.
func (b *Batch) Len() int { return len(b.Rows) }

// Dim is the dimension of the feasible set.
func (b *Batch) Dim() int { return b.Pool.Polytope().Dim() }

// Mixed is a batch whose rows belong to several feasible sets: the rows of
// Parts[0], then those of Parts[1], and so on. Parts may be empty. Its loss is
// the mean over all rows.
type Mixed struct{ Parts []Batch }

// Len is the number of rows of all parts.
func (m *Mixed) Len() int {
	n := 0
	for k := range m.Parts {
		n += m.Parts[k].Len()
	}
	return n
}

// Dim is the dimension of the feasible sets.
func (m *Mixed) Dim() int { return m.Parts[0].Dim() }

// Eval implements Source.
func (m *Mixed) Eval(chat, values, grad []float64) (float64, error) {
	n, d, lo, sum := m.Len(), m.Dim(), 0, 0.0
	for k := range m.Parts {
		part := &m.Parts[k]
		rows := part.Len()
		if rows == 0 {
			continue
		}
		v, err := part.Eval(chat[lo*d:(lo+rows)*d], values[lo:lo+rows], grad[lo*d:(lo+rows)*d])
		if err != nil {
			return 0, fmt.Errorf("part %d: %w", k, err)
		}
		share := float64(rows) / float64(n)
		sum += share * v
		for i := range grad[lo*d : (lo+rows)*d] {
			grad[lo*d+i] *= share
		}
		lo += rows
	}
	return sum, nil
}

// job is the oracle.Job of one Eval.
type job struct {
	b                  *Batch
	chat, values, grad []float64
	d                  int
}

func (j *job) Row(s *oracle.Solver, i int) error {
	chat, grad := row(j.chat, i, j.d), row(j.grad, i, j.d)
	if err := oracle.CheckVector("prediction", chat, j.d); err != nil {
		return err
	}
	v, err := j.b.Loss.Row(s, j.b, i, chat, grad)
	if err != nil {
		return err
	}
	return j.keep(i, v, grad)
}

// keep stores the loss of row i, unless it or its gradient overflows.
func (j *job) keep(i int, v float64, grad []float64) error {
	sum := v
	for _, g := range grad {
		sum += g - g // NaN if any is not finite
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("loss or gradient overflows (loss %v): %w", v, oracle.ErrNonFinite)
	}
	j.values[i] = v
	return nil
}

// Eval returns the batch loss, the mean over the n = len(Rows) rows, at
// predictions chat [n, d]. It writes the loss of each row to values [n] and
// the gradient of the batch loss with respect to chat to grad [n, d]. Longer
// slices are allowed; what lies beyond n rows is not touched. An error names
// the row of the batch.
func (b *Batch) Eval(chat, values, grad []float64) (float64, error) {
	d, n := b.Pool.Polytope().Dim(), len(b.Rows)
	if n == 0 || len(chat) < n*d || len(grad) < n*d || len(values) < n || b.Targets.d != d {
		return 0, fmt.Errorf("surrogate: batch of %d rows of %d costs does not fit predictions %d, values %d, gradient %d, targets of dimension %d: %w",
			n, d, len(chat), len(values), len(grad), b.Targets.d, oracle.ErrDimension)
	}
	if err := b.Loss.Prepare(b.Targets, b.Pool, b.Lambda); err != nil {
		return 0, fmt.Errorf("%s: %w", b.Loss.Name(), err)
	}
	b.job = job{b: b, chat: chat, values: values, grad: grad, d: d}
	var err error
	if loss, ok := b.Loss.(projected); ok {
		b.projected = projectedJob{job: &b.job, loss: loss}
		err = b.Pool.RunProjections(n, &b.projected)
	} else {
		err = b.Pool.Run(n, &b.job)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", b.Loss.Name(), err)
	}
	sum := 0.0
	for _, v := range values[:n] {
		sum += v
	}
	inv := 1 / float64(n)
	for i := range grad[:n*d] {
		grad[i] *= inv
	}
	return sum * inv, nil
}

// row is row i of the row-major matrix m with d columns.
func row(m []float64, i, d int) []float64 { return m[i*d : (i+1)*d : (i+1)*d] }

// reflect writes a = 2ĉ-c to dst: the cost vector at which SPO+ and RSPO+ call
// their oracle.
func reflect(dst, chat, c []float64) {
	for k, x := range chat {
		dst[k] = 2*x - c[k]
	}
}
