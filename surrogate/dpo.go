package surrogate

import "fedrspo/oracle"

// DPO is the differentiable perturbed optimizer of Berthet et al. (2020) under
// a squared decision error, with target y = w*(c):
//
//	ȳ = (1/M) Σ_m y_m,  y_m = w*(η_m);   ℓ = (1/d) |ȳ - y|²
//
// The gradient is the score-function estimator over the same draws, with the
// sample mean as baseline: with δ = (2/d)(ȳ - y) and the score s_m of draw m,
//
//	∇ = 1/(M-1) Σ_m s_m ⟨y_m - ȳ, δ⟩
//
// s_m = Z_m/ε for additive noise, Z_m/(εĉ) for multiplicative (0 where ĉ = 0,
// which noise cannot move).
type DPO struct {
	Perturbation
	// NoBaseline leaves the baseline out: ∇ = 1/M Σ_m s_m ⟨y_m, δ⟩. So does
	// M = 1.
	NoBaseline bool
}

// Name returns "dpo".
func (DPO) Name() string { return "dpo" }

// Regularized returns false.
func (DPO) Regularized() bool { return false }

// Prepare solves the LP at the true costs.
func (DPO) Prepare(t *Targets, pool *oracle.Pool, _ float64) error { return t.SolveOptima(pool) }

// Row implements Loss.
func (l DPO) Row(s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	p := l.Perturbation.resolved()
	m, err := p.draw(s, b, i, chat)
	if err != nil {
		return 0, err
	}
	y, delta, d := b.Targets.Optimum(b.Rows[i]), s.Scratch[1], len(chat)
	inv, value := 1/float64(d), 0.0
	for j, w := range y {
		r := m.mean[j] - w
		value += r * r
		delta[j] = 2 * inv * r
	}
	baseline, divisor := 0.0, float64(p.Samples)
	if !l.NoBaseline && p.Samples > 1 {
		divisor--
		for j, w := range m.mean {
			baseline += w * delta[j]
		}
	}
	clear(grad)
	for k := range p.Samples {
		z, ym := row(m.z, k, d), row(m.y, k, d)
		weight := -baseline
		for j, w := range ym {
			weight += w * delta[j]
		}
		weight /= divisor * p.Epsilon
		for j := range grad {
			grad[j] += weight * z[j]
		}
	}
	if p.Multiplicative {
		for j, c := range chat {
			if c == 0 {
				grad[j] = 0
			} else {
				grad[j] /= c
			}
		}
	}
	return value * inv, nil
}
