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
func (RSPOPlus) Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	a, p := s.Scratch[0], s.Scratch[1]
	reflect(a, chat, b.Targets.Cost(b.Rows[i]))
	if err := s.Regularize(p, a, b.Lambda, nil); err != nil {
		return 0, err
	}
	q := b.Targets.Projected(b.Rows[i])
	half, value := b.Lambda/2, 0.0
	for k, x := range p {
		diff := q[k] - x
		value += diff * (a[k] + half*(q[k]+x))
		grad[k] = 2 * diff
	}
	return value, nil
}
