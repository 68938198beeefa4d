// Package graphop turns a pair of Go functions into a differentiable Gorgonia
// operation. Every operation of this module's graphs is made here, so that the
// care Gorgonia v0.9.18 asks for is taken in one place:
//
//   - Gorgonia merges operations of equal hash on equal inputs; each operation
//     gets an identity of its own, because ours carry state.
//   - Do turns a panic into an error, also where another machine runs it on a
//     goroutine of its own.
//   - An operation owns its output and returns the same tensor from every run;
//     none asks for preallocation or in-place execution.
//   - Building graphs is not safe for concurrent use: callers hold [Lock].
//
// [Machine] runs the graphs.
package graphop

import (
	"fmt"
	"hash"
	"hash/fnv"
	"sync"
	"sync/atomic"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Lock is held while a graph is built or a machine is made from it: Gorgonia
// keeps a global counter that two builders race for.
var Lock sync.Mutex

// Float is the element type of a graph.
type Float interface{ float32 | float64 }

// Dtype returns the tensor type of T.
func Dtype[T Float]() tensor.Dtype {
	var zero T
	if _, ok := any(zero).(float32); ok {
		return tensor.Float32
	}
	return tensor.Float64
}

// Data returns the elements of v, a *tensor.Dense of T, without copying.
func Data[T Float](v gorgonia.Value) []T {
	d := v.(*tensor.Dense)
	var zero T
	if _, ok := any(zero).(float32); ok {
		return any(d.Float32s()).([]T)
	}
	return any(d.Float64s()).([]T)
}

// Wrap returns a tensor over data without copying it.
func Wrap[T Float](data []T, shape ...int) *tensor.Dense {
	return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
}

// Scalar is a reusable graph value holding one number.
type Scalar[T Float] struct {
	f32 *gorgonia.F32
	f64 *gorgonia.F64
}

// NewScalar returns a Scalar holding 0.
func NewScalar[T Float]() Scalar[T] {
	return Scalar[T]{gorgonia.NewF32(0), gorgonia.NewF64(0)}
}

// Set stores x and returns the graph value.
func (s Scalar[T]) Set(x float64) gorgonia.Value {
	if Dtype[T]() == tensor.Float32 {
		*s.f32 = gorgonia.F32(x)
		return s.f32
	}
	*s.f64 = gorgonia.F64(x)
	return s.f64
}

// Number returns the value of a scalar node as a float64.
func Number(v gorgonia.Value) float64 {
	switch x := v.(type) {
	case *gorgonia.F32:
		return float64(*x)
	case *gorgonia.F64:
		return float64(*x)
	}
	panic(fmt.Sprintf("graphop: %T is not a scalar", v))
}

// Spec describes an operation.
type Spec struct {
	// Name appears in errors and graph dumps.
	Name string
	// Dtype of the inputs and of the output.
	Dtype tensor.Dtype
	// Shape of the output; tensor.ScalarShape() for a number.
	Shape tensor.Shape
	// Do computes the output from the inputs.
	Do func(in []gorgonia.Value) (gorgonia.Value, error)
	// Wrt says for which inputs Diff returns a gradient; nil means none.
	Wrt []bool
	// Diff adds the gradient's operations to the graph and returns a node for
	// every input with Wrt set, nil for the others.
	Diff func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error)
}

var lastID atomic.Uint64

// Apply adds the operation to the graph of its inputs.
func Apply(s Spec, in ...*gorgonia.Node) (*gorgonia.Node, error) {
	o := &op{Spec: s, id: lastID.Add(1), arity: len(in)}
	types := make([]hm.Type, 0, len(in)+1)
	for _, n := range in {
		types = append(types, typeOf(s.Dtype, n.Shape()))
	}
	o.typ = hm.NewFnType(append(types, typeOf(s.Dtype, s.Shape))...)
	return gorgonia.ApplyOp(o, in...)
}

func typeOf(dt tensor.Dtype, s tensor.Shape) hm.Type {
	if s.IsScalar() {
		return dt
	}
	return gorgonia.TensorType{Dims: s.Dims(), Of: dt}
}

// op implements gorgonia.SDOp.
type op struct {
	Spec
	id    uint64
	arity int
	typ   hm.Type
}

func (o *op) Arity() int           { return o.arity }
func (o *op) Type() hm.Type        { return o.typ }
func (o *op) ReturnsPtr() bool     { return true }
func (o *op) CallsExtern() bool    { return false }
func (o *op) OverwritesInput() int { return -1 }
func (o *op) String() string       { return fmt.Sprintf("%s#%d", o.Name, o.id) }

func (o *op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) { return o.Shape.Clone(), nil }

func (o *op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "fedrspo %s#%d", o.Name, o.id) }

func (o *op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

func (o *op) Do(in ...gorgonia.Value) (out gorgonia.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("%s: internal error: %v", o.Name, r)
		}
	}()
	return o.Spec.Do(in)
}

func (o *op) DiffWRT(inputs int) []bool {
	if o.Wrt == nil {
		return make([]bool, inputs)
	}
	return o.Wrt
}

func (o *op) SymDiff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	if o.Diff == nil {
		return nil, fmt.Errorf("%s has no derivative", o.Name)
	}
	return o.Diff(in, out, grad)
}
