package surrogate

import (
	"fmt"
	"math"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
)

// Perturbation is the noise of the perturbed losses: M draws η_m around the
// prediction ĉ, with Z_m standard normal,
//
//	additive        η = ĉ + εZ                                  (Berthet et al. 2020)
//	multiplicative  η = ĉ·exp(εZ - ε²/2), component by component (Dalle et al. 2022)
//
// The multiplicative factor has mean one and keeps the sign of every cost, as an
// oracle that needs non-negative costs wants it.
type Perturbation struct {
	// Samples is M; 0 means 10.
	Samples int
	// Epsilon is ε; 0 means 1.
	Epsilon float64
	// Multiplicative selects the second form.
	Multiplicative bool
}

// Validate reports a setting out of range.
func (p Perturbation) Validate() error {
	if p.Samples < 0 || p.Samples > 1_000_000 {
		return fmt.Errorf("%d perturbation samples, want 1 to 1000000", p.Samples)
	}
	if !(p.Epsilon >= 0) || math.IsInf(p.Epsilon, 1) {
		return fmt.Errorf("perturbation epsilon %v, want a positive number", p.Epsilon)
	}
	return nil
}

// resolved fills in the documented zero values.
func (p Perturbation) resolved() Perturbation {
	if p.Samples == 0 {
		p.Samples = 10
	}
	if p.Epsilon == 0 {
		p.Epsilon = 1
	}
	return p
}

// draws is a solver's memory of the M draws of one sample.
type draws struct {
	rng  *stream.Stream
	z, y []float64 // [M, d] Z_m, and w*(η_m)
	mean []float64 // [d] ȳ
	// value is the mean of η_m·y_m.
	value float64
}

// draw perturbs chat and solves the LP at every draw. The stream is that of
// the row's sample in the batch's visit.
func (p Perturbation) draw(s *oracle.Solver, b *Batch, i int, chat []float64) (*draws, error) {
	d := len(chat)
	m, ok := s.Memo.(*draws)
	if !ok {
		m = &draws{rng: stream.NewStream()}
		s.Memo = m
	}
	if n := p.Samples * d; len(m.z) != n || len(m.mean) != d {
		m.z, m.y, m.mean = make([]float64, n), make([]float64, n), make([]float64, d)
	}
	b.Noise.Open(m.rng, b.Rows[i])
	for k := range m.z {
		m.z[k] = m.rng.NormFloat64()
	}
	eta := s.Scratch[0]
	m.value = 0
	clear(m.mean)
	for k := range p.Samples {
		z, y := row(m.z, k, d), row(m.y, k, d)
		for j, c := range chat {
			if p.Multiplicative {
				eta[j] = c * p.factor(z[j])
			} else {
				eta[j] = c + p.Epsilon*z[j]
			}
		}
		v, err := s.Minimize(y, eta)
		if err != nil {
			return nil, fmt.Errorf("draw %d: %w", k, err)
		}
		m.value += v
		for j, w := range y {
			m.mean[j] += w
		}
	}
	inv := 1 / float64(p.Samples)
	m.value *= inv
	for j := range m.mean {
		m.mean[j] *= inv
	}
	return m, nil
}

// factor is exp(εz - ε²/2).
func (p Perturbation) factor(z float64) float64 {
	return math.Exp(p.Epsilon*z - p.Epsilon*p.Epsilon/2)
}
