package surrogate

import "fedrspo/oracle"

// MSE is the mean squared error of the prediction, the loss of
// predict-then-optimise without decision focus:
//
//	ℓ = (1/d) |ĉ-c|²,   ∇ = (2/d) (ĉ-c)
type MSE struct{}

// Name returns "mse".
func (MSE) Name() string { return "mse" }

// Regularized returns false.
func (MSE) Regularized() bool { return false }

// Prepare does nothing: MSE calls no oracle.
func (MSE) Prepare(*Targets, *oracle.Pool, float64) error { return nil }

// Row implements Loss.
func (MSE) Row(_ *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	c := b.Targets.Cost(b.Rows[i])
	inv := 1 / float64(len(chat))
	sum := 0.0
	for k, x := range chat {
		r := x - c[k]
		sum += r * r
		grad[k] = 2 * inv * r
	}
	return sum * inv, nil
}
