package surrogate

import "fedrspo/oracle"

// OptNet is decision cost through a regularised layer, in the style of OptNet
// (Amos and Kolter 2017) and of Wilder, Dilkina and Tambe (2019):
//
//	w = P_ε(ĉ),   ℓ = c·w,   ∇ = (∂w/∂ĉ)ᵀ c = -(1/ε) J c
//
// with J the Jacobian of the projection onto S at -ĉ/ε, by implicit
// differentiation. ε is Batch.Lambda. The loss is bounded but not convex in ĉ.
type OptNet struct{}

// Name returns "optnet".
func (OptNet) Name() string { return "optnet" }

// Regularized returns false: ε is constant, it neither anneals nor freezes.
func (OptNet) Regularized() bool { return false }

// Prepare does nothing: the loss needs no oracle answer at the true costs.
func (OptNet) Prepare(*Targets, *oracle.Pool, float64) error { return nil }

// Row implements Loss.
func (l OptNet) Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	return projectedRow(l, s, b, i, chat, grad)
}

func (OptNet) ask(b *Batch, i int, chat, grad []float64, r *oracle.Projection) {
	copy(r.Theta, chat)
	r.V, r.JV = b.Targets.Cost(b.Rows[i]), grad
}

func (OptNet) take(b *Batch, i int, _, grad []float64, r *oracle.Projection) float64 {
	c, value := r.V, 0.0
	for k, x := range r.Dst {
		value += c[k] * x
		grad[k] *= -1 / b.Lambda
	}
	return value
}
