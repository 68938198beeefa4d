package knapsack

import (
	"math"
	"slices"

	"fedrspo/task"
)

// scaler maps a feature x_k to (x_k - mean_k) / scale_k.
type scaler struct {
	mean, scale []float64
}

// minScale is added to a standard deviation, so that a constant feature becomes
// 0 and not NaN.
const minScale = 1e-8

// newScaler returns the scaler of all rows of the matrices: mean, and sample
// standard deviation (n-1; 0 for a single row) plus minScale. The deviation is
// taken around the mean in a second pass, which keeps its digits when the mean
// is large.
func newScaler(matrices ...task.Matrix) *scaler {
	p := matrices[0].Cols
	s := &scaler{mean: make([]float64, p), scale: make([]float64, p)}
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

// overflow returns the first feature whose mean or scale is not finite, or -1.
func (s *scaler) overflow() int {
	return slices.IndexFunc(s.scale, func(x float64) bool { return x-x != 0 })
}

// apply returns the scaled rows of m.
func (s *scaler) apply(m task.Matrix) task.Matrix {
	out := task.Matrix{Cols: m.Cols, Data: make([]float64, len(m.Data))}
	for i, x := range m.Data {
		out.Data[i] = (x - s.mean[i%m.Cols]) / s.scale[i%m.Cols]
	}
	return out
}
