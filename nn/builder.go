package nn

import (
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// RunState is what the operations of a session's graphs read at every run.
type RunState struct {
	// Batch is the row capacity, fixed when the graph is built.
	Batch int
	// Rows is the number of live rows of this run: operations touch only
	// rows [0, Rows) and leave finite numbers in the others.
	Rows int
	// Train is true for a training run (batch statistics), false for
	// evaluation.
	Train bool
}

// Builder adds a model's layers to one graph. Its operations read parameters
// from the session's flat buffer and write gradients straight into the
// session's gradient buffer.
type Builder struct {
	graph  *gorgonia.ExprGraph
	run    *RunState
	layout *Layout
	dtype  tensor.Dtype
	value  any // []T, the whole vector
	grad   any // []T, its trainable prefix
	used   gorgonia.Nodes
}

// param returns the graph node of a named parameter. Each may be used once: its
// one backward operation overwrites the gradient buffer.
func param[T graphop.Float](b *Builder, name string) (n *gorgonia.Node, value, grad []T, err error) {
	s, ok := b.layout.Find(name)
	if !ok || !s.Trainable {
		return nil, nil, nil, fmt.Errorf("the layout has no parameter %q", name)
	}
	for _, u := range b.used {
		if u.Name() == name {
			return nil, nil, nil, fmt.Errorf("parameter %q is used twice; tied parameters are not supported", name)
		}
	}
	value = b.value.([]T)[s.Offset : s.Offset+s.Len]
	grad = b.grad.([]T)[s.Offset : s.Offset+s.Len]
	n = gorgonia.NewTensor(b.graph, b.dtype, len(s.Shape), gorgonia.WithName(name),
		gorgonia.WithShape(s.Shape...), gorgonia.WithValue(graphop.Wrap(value, s.Shape...)))
	b.used = append(b.used, n)
	return n, value, grad, nil
}

// Linear adds y = x Wᵀ + bias, and max(0, y) if relu, for x [batch, in], as one
// operation forward and one backward. The parameters are name.weight [out, in]
// and, if the layout has it, name.bias [out]; an empty name means "weight" and
// "bias".
func (b *Builder) Linear(x *gorgonia.Node, name string, relu bool) (*gorgonia.Node, error) {
	if b.dtype == tensor.Float32 {
		return addLinear[float32](b, x, name, relu)
	}
	return addLinear[float64](b, x, name, relu)
}

// linear is the state of a Linear's operations.
type linear[T graphop.Float] struct {
	run     *RunState
	in, out int
	relu    bool

	dw, db []T // gradients, in the session's buffer; db is nil without bias
	y      []T // [batch, out]
	dx     []T // [batch, in]; nil when nobody needs it
	dz     []T // [batch, out], the gradient before the ReLU; nil without

	yT, dxT, dwT, dbT *tensor.Dense // headers over the above
}

func addLinear[T graphop.Float](b *Builder, x *gorgonia.Node, name string, relu bool) (*gorgonia.Node, error) {
	prefix := name
	if prefix != "" {
		prefix += "."
	}
	w, _, dw, err := param[T](b, prefix+"weight")
	if err != nil {
		return nil, err
	}
	if w.Dims() != 2 || x.Dims() != 2 || w.Shape()[1] != x.Shape()[1] {
		return nil, fmt.Errorf("linear %q: weight %v does not fit input %v", name, w.Shape(), x.Shape())
	}
	o := &linear[T]{run: b.run, in: w.Shape()[1], out: w.Shape()[0], relu: relu, dw: dw}
	o.y = make([]T, b.run.Batch*o.out)
	o.yT = graphop.Wrap(o.y, b.run.Batch, o.out)
	o.dwT = graphop.Wrap(o.dw, o.out, o.in)
	inputs := gorgonia.Nodes{x, w}
	wrt := []bool{!x.IsVar(), true}
	if _, ok := b.layout.Find(prefix + "bias"); ok {
		bias, _, db, err := param[T](b, prefix+"bias")
		if err != nil {
			return nil, err
		}
		if len(db) != o.out {
			return nil, fmt.Errorf("linear %q: bias of length %d, want %d", name, len(db), o.out)
		}
		o.db, o.dbT = db, graphop.Wrap(db, o.out)
		inputs, wrt = append(inputs, bias), append(wrt, true)
	}
	if relu {
		o.dz = make([]T, b.run.Batch*o.out)
	}
	if wrt[0] {
		o.dx = make([]T, b.run.Batch*o.in)
		o.dxT = graphop.Wrap(o.dx, b.run.Batch, o.in)
	}
	return graphop.Apply(graphop.Spec{
		Name: "linear " + name, Dtype: b.dtype, Shape: tensor.Shape{b.run.Batch, o.out},
		Do: o.forward, Wrt: wrt, Diff: o.diff,
	}, inputs...)
}

func (o *linear[T]) forward(in []gorgonia.Value) (gorgonia.Value, error) {
	x, w := graphop.Data[T](in[0]), graphop.Data[T](in[1])
	e := kernel.Epilogue[T]{ReLU: o.relu}
	if o.db != nil {
		e.Bias = graphop.Data[T](in[2])
	}
	kernel.Gemm(false, true, o.run.Rows, o.out, o.in, x, o.in, w, o.in, o.y, o.out, e)
	return o.yT, nil
}

// diff adds one backward operation, whose value is dW, and picks for the other
// gradients it fills.
func (o *linear[T]) diff(in gorgonia.Nodes, y, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	dt := graphop.Dtype[T]()
	dw, err := graphop.Apply(graphop.Spec{Name: "linear gradient", Dtype: dt, Shape: in[1].Shape(), Do: o.backward}, in[0], in[1], y, dy)
	if err != nil {
		return nil, err
	}
	grads := gorgonia.Nodes{nil, dw}
	pick := func(v *tensor.Dense) (*gorgonia.Node, error) {
		return graphop.Apply(graphop.Spec{Name: "pick", Dtype: dt, Shape: v.Shape(),
			Do: func([]gorgonia.Value) (gorgonia.Value, error) { return v, nil }}, dw)
	}
	if o.dx != nil {
		if grads[0], err = pick(o.dxT); err != nil {
			return nil, err
		}
	}
	if o.db != nil {
		db, err := pick(o.dbT)
		if err != nil {
			return nil, err
		}
		grads = append(grads, db)
	}
	return grads, nil
}

func (o *linear[T]) backward(in []gorgonia.Value) (gorgonia.Value, error) {
	x, w := graphop.Data[T](in[0]), graphop.Data[T](in[1])
	n := o.run.Rows
	dz := graphop.Data[T](in[3])[:n*o.out]
	switch {
	case o.relu && o.db != nil:
		y := graphop.Data[T](in[2])[:n*o.out]
		kernel.ReLUGradColSums(o.dz[:n*o.out], o.db, dz, y, n, o.out, false)
	case o.relu:
		kernel.ReLUGrad(o.dz[:n*o.out], dz, graphop.Data[T](in[2])[:n*o.out])
	case o.db != nil:
		kernel.ColSums(o.db, dz, n, o.out, false)
	}
	if o.relu {
		dz = o.dz[:n*o.out]
	}
	kernel.Gemm(true, false, o.out, o.in, n, dz, o.out, x, o.in, o.dw, o.in, kernel.Epilogue[T]{})
	if o.dx != nil {
		kernel.Gemm(false, false, n, o.in, o.out, dz, o.out, w, o.in, o.dx, o.in, kernel.Epilogue[T]{})
	}
	return o.dwT, nil
}
