package surrogate

import (
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/oracle"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Apply adds the batch loss to the graph of chat [B, d], a node of float32 or
// float64 predictions, and returns the scalar loss node. src is read at every
// run: the trainer fills it first, with at most B rows. Row i of the batch is
// row i of chat; the gradient of the rows beyond the batch is zero.
//
// The forward operation computes value and gradient in one oracle pass, in
// float64; the backward operation scales the stored gradient.
func Apply(src Source, chat *gorgonia.Node) (*gorgonia.Node, error) {
	if chat.Dims() != 2 {
		return nil, fmt.Errorf("surrogate: predictions have shape %v, want [batch, costs]", chat.Shape())
	}
	switch dt := chat.Dtype(); dt {
	case tensor.Float64:
		return apply[float64](src, chat)
	case tensor.Float32:
		return apply[float32](src, chat)
	default:
		return nil, fmt.Errorf("surrogate: predictions are %v, want float32 or float64", dt)
	}
}

// lossOp is the state the forward and the backward operation share.
type lossOp[T graphop.Float] struct {
	src          Source
	rows, d      int
	chat         []float64 // predictions in float64
	values, grad []float64
	loss         graphop.Scalar[T]
	out          []T
	dchat        *tensor.Dense // over out
}

func apply[T graphop.Float](src Source, chat *gorgonia.Node) (*gorgonia.Node, error) {
	rows, d := chat.Shape()[0], chat.Shape()[1]
	o := &lossOp[T]{src: src, rows: rows, d: d,
		chat: make([]float64, rows*d), values: make([]float64, rows), grad: make([]float64, rows*d),
		loss: graphop.NewScalar[T](), out: make([]T, rows*d),
	}
	o.dchat = graphop.Wrap(o.out, rows, d)
	return graphop.Apply(graphop.Spec{
		Name: "surrogate", Dtype: graphop.Dtype[T](), Shape: tensor.ScalarShape(),
		Do: o.forward, Wrt: []bool{true}, Diff: o.diff,
	}, chat)
}

func (o *lossOp[T]) forward(in []gorgonia.Value) (gorgonia.Value, error) {
	n := o.src.Len()
	if n > o.rows {
		return nil, fmt.Errorf("surrogate: batch of %d rows in a graph of %d: %w", n, o.rows, oracle.ErrDimension)
	}
	if d := o.src.Dim(); d != o.d {
		return nil, fmt.Errorf("surrogate: feasible set of dimension %d, predictions of dimension %d: %w", d, o.d, oracle.ErrDimension)
	}
	live := o.chat[:n*o.d]
	for i, x := range graphop.Data[T](in[0])[:n*o.d] {
		live[i] = float64(x)
	}
	v, err := o.src.Eval(live, o.values, o.grad)
	if err != nil {
		return nil, err
	}
	return o.loss.Set(v), nil
}

func (o *lossOp[T]) diff(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	// out is an input so that the backward operation runs after the forward.
	n, err := graphop.Apply(graphop.Spec{
		Name: "surrogate gradient", Dtype: graphop.Dtype[T](), Shape: in[0].Shape(), Do: o.backward,
	}, out, grad)
	return gorgonia.Nodes{n}, err
}

func (o *lossOp[T]) backward(in []gorgonia.Value) (gorgonia.Value, error) {
	scale, live := graphop.Number(in[1]), o.src.Len()*o.d
	for i, g := range o.grad[:live] {
		o.out[i] = T(scale * g)
	}
	clear(o.out[live:])
	return o.dchat, nil
}
