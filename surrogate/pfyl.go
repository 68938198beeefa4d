package surrogate

import "fedrspo/oracle"

// PFYL is the perturbed Fenchel-Young loss of Berthet et al. (2020), "Learning
// with differentiable perturbed optimizers", for minimisation, with target
// y = w*(c):
//
//	ℓ = ĉ·y - (1/M) Σ_m η_m·y_m,   ∇ = y - (1/M) Σ_m y_m,   y_m = w*(η_m)
//
// with y_m weighted by the noise factor in ∇ where the noise is multiplicative
// (Dalle et al. 2022). The constant Ω(y) of the full loss is left out, so a
// value can be negative. Loss and gradient are unbiased.
type PFYL struct{ Perturbation }

// Name returns "pfyl".
func (PFYL) Name() string { return "pfyl" }

// Regularized returns false.
func (PFYL) Regularized() bool { return false }

// Prepare solves the LP at the true costs.
func (PFYL) Prepare(t *Targets, pool *oracle.Pool, _ float64) error { return t.SolveOptima(pool) }

// Row implements Loss.
func (l PFYL) Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	p := l.Perturbation.resolved()
	m, err := p.draw(s, b, i, chat)
	if err != nil {
		return 0, err
	}
	y, d := b.Targets.Optimum(b.Rows[i]), len(chat)
	value := -m.value
	for j, w := range y {
		value += chat[j] * w
		grad[j] = w - m.mean[j]
	}
	if p.Multiplicative {
		inv := 1 / float64(p.Samples)
		copy(grad, y)
		for k := range p.Samples {
			z, ym := row(m.z, k, d), row(m.y, k, d)
			for j := range grad {
				grad[j] -= inv * p.factor(z[j]) * ym[j]
			}
		}
	}
	return value, nil
}
