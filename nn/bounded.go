package nn

import (
	"fmt"
	"math"

	"fedrspo/internal/graphop"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Bounded is a model whose outputs are scaled down to a norm of at most Bound,
// sample by sample: y·min(1, Bound/√(|y|²+ε)), ε the machine precision. It is
// the output layer of Interp-DFFL's predictor on the knapsack.
type Bounded struct {
	Model
	Bound float64
}

// Build implements Model.
func (m Bounded) Build(b *Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	y, err := m.Model.Build(b, x)
	if err != nil {
		return nil, err
	}
	return b.BoundNorm(y, m.Bound)
}

// BoundNorm adds z = y·min(1, bound/√(|y|²+ε)), row by row, for y [batch, d].
func (b *Builder) BoundNorm(y *gorgonia.Node, bound float64) (*gorgonia.Node, error) {
	if !(bound > 0) || math.IsInf(bound, 1) {
		return nil, fmt.Errorf("nn: output bound %v, want a positive number", bound)
	}
	y, err := b.hostNode(y)
	if err != nil {
		return nil, err
	}
	if b.dtype == tensor.Float32 {
		y, err = addBoundNorm[float32](b, y, bound)
	} else {
		y, err = addBoundNorm[float64](b, y, bound)
	}
	if err == nil && b.device != nil {
		b.device.onHost[y] = true
	}
	return y, err
}

// boundNorm is the state of a BoundNorm's operations.
type boundNorm[T graphop.Float] struct {
	run     *RunState
	d       int
	bound   float64
	z, dy   []T
	zT, dyT *tensor.Dense
}

func addBoundNorm[T graphop.Float](b *Builder, y *gorgonia.Node, bound float64) (*gorgonia.Node, error) {
	n, d := b.run.Batch, y.Shape()[1]
	o := &boundNorm[T]{run: b.run, d: d, bound: bound, z: make([]T, n*d), dy: make([]T, n*d)}
	o.zT, o.dyT = graphop.Wrap(o.z, n, d), graphop.Wrap(o.dy, n, d)
	return graphop.Apply(graphop.Spec{Name: "bound norm", Dtype: b.dtype, Shape: y.Shape(), Do: o.forward, Wrt: []bool{true}, Diff: o.diff}, y)
}

// root returns √(|y|²+ε).
func root[T graphop.Float](y []T) float64 {
	sum := 0x1p-52
	for _, v := range y {
		sum += float64(v) * float64(v)
	}
	if math.IsInf(sum, 1) { // the squares overflow, the norm perhaps not
		norm := 0.0
		for _, v := range y {
			norm = math.Hypot(norm, float64(v))
		}
		return norm
	}
	return math.Sqrt(sum)
}

func (o *boundNorm[T]) forward(in []gorgonia.Value) (gorgonia.Value, error) {
	y := graphop.Data[T](in[0])
	for i := range o.run.Rows {
		row, out := y[i*o.d:(i+1)*o.d], o.z[i*o.d:(i+1)*o.d]
		scale := min(1, o.bound/root(row))
		for k, v := range row {
			out[k] = T(scale * float64(v))
		}
	}
	return o.zT, nil
}

func (o *boundNorm[T]) diff(in gorgonia.Nodes, _, dz *gorgonia.Node) (gorgonia.Nodes, error) {
	n, err := graphop.Apply(graphop.Spec{Name: "bound norm gradient", Dtype: graphop.Dtype[T](), Shape: in[0].Shape(), Do: o.backward}, in[0], dz)
	return gorgonia.Nodes{n}, err
}

// backward computes dy = dz inside the ball, and outside it, with s the root,
// dy = (bound/s)(dz - y (y·dz)/s²).
func (o *boundNorm[T]) backward(in []gorgonia.Value) (gorgonia.Value, error) {
	y, dz := graphop.Data[T](in[0]), graphop.Data[T](in[1])
	for i := range o.run.Rows {
		lo, hi := i*o.d, (i+1)*o.d
		s := root(y[lo:hi])
		if s <= o.bound {
			copy(o.dy[lo:hi], dz[lo:hi])
			continue
		}
		dot := 0.0
		for k, v := range y[lo:hi] {
			dot += float64(v) * float64(dz[lo+k])
		}
		dot /= s * s
		for k, v := range y[lo:hi] {
			o.dy[lo+k] = T(o.bound / s * (float64(dz[lo+k]) - dot*float64(v)))
		}
	}
	return o.dyT, nil
}
