package nn

import (
	"fmt"
	"math"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"
)

// Adam is the optimiser of every experiment of the paper (appendix C.1): gradient
// clipping, then Adam (Kingma and Ba 2015) without weight decay.
type Adam struct {
	// Beta1 and Beta2 are the decay rates of the moments; 0 means 0.9 and 0.999.
	Beta1, Beta2 float64
	// Epsilon is added to the root of the corrected second moment; 0 means 1e-8.
	Epsilon float64
	// Clip bounds the Euclidean norm of the gradient; 0 means no clipping.
	Clip float64
	// ClipGlobal bounds the norm of the whole gradient. By default Clip bounds
	// each parameter array separately: g ← g·min(1, Clip/|g|).
	ClipGlobal bool
}

// Validate reports a setting out of range.
func (o Adam) Validate() error {
	switch {
	case !(o.Beta1 >= 0 && o.Beta1 < 1) || !(o.Beta2 >= 0 && o.Beta2 < 1):
		return fmt.Errorf("nn: Adam decay rates %v and %v, want numbers in [0, 1)", o.Beta1, o.Beta2)
	case !(o.Epsilon >= 0) || math.IsInf(o.Epsilon, 1):
		return fmt.Errorf("nn: Adam epsilon %v, want a positive number", o.Epsilon)
	case !(o.Clip >= 0):
		return fmt.Errorf("nn: clip %v, want a positive norm, or 0 for none", o.Clip)
	}
	return nil
}

// resolved returns o with the documented zero values filled in.
func (o Adam) resolved() Adam {
	if o.Beta1 == 0 {
		o.Beta1 = 0.9
	}
	if o.Beta2 == 0 {
		o.Beta2 = 0.999
	}
	if o.Epsilon == 0 {
		o.Epsilon = 1e-8
	}
	return o
}

// adamState is the moments of the trainable prefix.
type adamState[T graphop.Float] struct {
	step int
	m, v []T
}

func (a *adamState[T]) init(n int) { a.m, a.v = make([]T, n), make([]T, n) }

func (s *session[T]) ResetOptimizer() {
	s.adam.step = 0
	clear(s.adam.m)
	clear(s.adam.v)
}

// step returns o with the documented zero values filled in, or an error about o
// or the learning rate.
func (o Adam) step(lr float64) (Adam, error) {
	if err := o.Validate(); err != nil {
		return o, err
	}
	if !(lr > 0) || math.IsInf(lr, 1) {
		return o, fmt.Errorf("nn: learning rate %v, want a positive number", lr)
	}
	return o.resolved(), nil
}

// finiteNorm reports a sum of squares of an array's gradient that is no number.
func finiteNorm(a Segment, squares float64) error {
	if math.IsNaN(squares) || math.IsInf(squares, 0) {
		return fmt.Errorf("gradient of %s has norm %v: %w", a.Name, math.Sqrt(squares), ErrNonFinite)
	}
	return nil
}

func (s *session[T]) Update(o Adam, lr float64) error {
	o, err := o.step(lr)
	if err != nil {
		return err
	}
	segments := s.layout.Segments()
	total := 0.0
	for _, g := range segments {
		if !g.Trainable {
			break
		}
		sum := kernel.SumSquares(s.grad[g.Offset : g.Offset+g.Len])
		if err := finiteNorm(g, sum); err != nil {
			return err
		}
		total += sum
	}
	s.adam.step++
	s.run.Version++
	step := kernel.AdamStep{Rate: lr, Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, Step: s.adam.step, GradScale: clipScale(o.Clip, total)}
	if o.ClipGlobal || o.Clip == 0 {
		n := s.layout.Trainable()
		kernel.Adam(s.value[:n], s.grad, s.adam.m, s.adam.v, step)
		return nil
	}
	for _, g := range segments {
		if !g.Trainable {
			break
		}
		lo, hi := g.Offset, g.Offset+g.Len
		step.GradScale = clipScale(o.Clip, kernel.SumSquares(s.grad[lo:hi]))
		kernel.Adam(s.value[lo:hi], s.grad[lo:hi], s.adam.m[lo:hi], s.adam.v[lo:hi], step)
	}
	return nil
}

// clipScale is min(1, clip/norm), and 1 without clipping.
func clipScale(clip, sumSquares float64) float64 {
	if norm := math.Sqrt(sumSquares); clip > 0 && norm > clip {
		return clip / norm
	}
	return 1
}
