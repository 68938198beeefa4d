package surrogate

import "fedrspo/oracle"

// RSPOPlus is the regularised SPO+ loss of the paper (section 3.1, corollary 1): SPO+ with
// the LP oracle replaced by the projection P_λ, which makes it differentiable
// with a (4/λ)-Lipschitz gradient. With a = 2ĉ-c, q = P_λ(c), p = P_λ(a):
//
//	ℓ = [a·q + (λ/2)|q|²] - [a·p + (λ/2)|p|²],   ∇ = 2(q - p)
//
// The two brackets agree in most digits when ĉ is near c or λ is small, so the
// value is computed from their difference in the factored form
// (q-p)·(a + (λ/2)(q+p)), which does not cancel. q depends on data and λ only
// and is kept in Targets.
type RSPOPlus struct{}

// Name returns "rspo+".
func (RSPOPlus) Name() string { return "rspo+" }

// Regularized returns true.
func (RSPOPlus) Regularized() bool { return true }

// Prepare projects the true costs at λ.
func (RSPOPlus) Prepare(t *Targets, pool *oracle.Pool, lambda float64) error {
	return t.ProjectCosts(pool, lambda)
}

// Row implements Loss.
func (l RSPOPlus) Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	return projectedRow(l, s, b, i, chat, grad)
}

func (RSPOPlus) ask(b *Batch, i int, chat, _ []float64, r *oracle.Projection) {
	reflect(r.Theta, chat, b.Targets.Cost(b.Rows[i]))
}

func (RSPOPlus) take(b *Batch, i int, _, grad []float64, r *oracle.Projection) float64 {
	a, q := r.Theta, b.Targets.Projected(b.Rows[i])
	half, value := b.Lambda/2, 0.0
	for k, x := range r.Dst {
		diff := q[k] - x
		value += diff * (a[k] + half*(q[k]+x))
		grad[k] = 2 * diff
	}
	return value
}
