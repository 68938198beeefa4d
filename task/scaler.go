package task

import (
	"math"
	"slices"
)

// Scaler standardises features as the paper does (appendix C): feature k of a
// sample becomes (x_k - mean_k) / (deviation_k + 1e-8), with the mean and the
// sample standard deviation (divisor n-1; 0 for a single row) of the training
// rows that it was made from.
type Scaler struct {
	mean, scale []float64
}

// minScale is added to a standard deviation, so that a constant feature becomes
// 0 and not NaN.
const minScale = 1e-8

// NewScaler returns the scaler of all rows of the matrices, at least one row in
// matrices of equal width. The deviation is taken around the mean in a second
// pass, which keeps its digits when the mean is large.
func NewScaler(matrices ...Matrix) *Scaler {
	p := matrices[0].Cols
	s := &Scaler{mean: make([]float64, p), scale: make([]float64, p)}
	n := 0
	for _, m := range matrices {
		n += m.Len()
		for i, x := range m.Data {
			s.mean[i%p] += x
		}
	}
	for k := range s.mean {
		s.mean[k] /= float64(n)
	}
	for _, m := range matrices {
		for i, x := range m.Data {
			d := x - s.mean[i%p]
			s.scale[i%p] += float64(d * d)
		}
	}
	for k := range s.scale {
		s.scale[k] = math.Sqrt(s.scale[k]/float64(max(n-1, 1))) + minScale
	}
	return s
}

// Overflow returns the first feature whose mean or scale is not finite, or -1.
func (s *Scaler) Overflow() int {
	return slices.IndexFunc(s.scale, func(x float64) bool { return x-x != 0 })
}

// Apply returns the scaled rows of m.
func (s *Scaler) Apply(m Matrix) Matrix {
	out := Matrix{Cols: m.Cols, Data: make([]float64, len(m.Data))}
	for i, x := range m.Data {
		out.Data[i] = (x - s.mean[i%m.Cols]) / s.scale[i%m.Cols]
	}
	return out
}
