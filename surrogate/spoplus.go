package surrogate

import "fedrspo/oracle"

// SPOPlus is the SPO+ loss of Elmachtoub and Grigas (2022), "Smart predict,
// then optimize", Management Science 68(1), with factor 2:
//
//	ℓ = (2ĉ-c)·(w*(c) - w*(2ĉ-c)),   2(w*(c) - w*(2ĉ-c)) a subgradient
//
// It is the convex upper bound of the regret c·w*(ĉ) - z*(c). Where the LP at
// 2ĉ-c has several optimisers, the oracle's tie order picks the subgradient.
type SPOPlus struct{}

// Name returns "spo+".
func (SPOPlus) Name() string { return "spo+" }

// Regularized returns false.
func (SPOPlus) Regularized() bool { return false }

// Prepare solves the LP at the true costs.
func (SPOPlus) Prepare(t *Targets, pool *oracle.Pool, _ float64) error { return t.SolveOptima(pool) }

// Row implements Loss.
func (SPOPlus) Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	a, w := s.Scratch[0], s.Scratch[1]
	reflect(a, chat, b.Targets.Cost(b.Rows[i]))
	if _, err := s.Minimize(w, a); err != nil {
		return 0, err
	}
	opt := b.Targets.Optimum(b.Rows[i])
	value := 0.0
	for k, x := range w {
		diff := opt[k] - x
		value += a[k] * diff
		grad[k] = 2 * diff
	}
	return value, nil
}
