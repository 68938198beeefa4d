package nn

import (
	"fmt"
	"slices"

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
	// Version numbers the contents of the parameters: it changes whenever they
	// do, so that operations know when a packed form is out of date.
	Version uint64
}

// Builder adds a model's layers to one graph. Its operations read parameters
// from the session's flat buffer and write gradients straight into the
// session's gradient buffer.
type Builder struct {
	graph       *gorgonia.ExprGraph
	run         *RunState
	layout      *Layout
	dtype       tensor.Dtype
	value       any // []T, the whole vector
	grad        any // []T, its trainable prefix
	memory      any // *memory[T]
	convolution Convolution
	used        gorgonia.Nodes
	device      *deviceGraph // nil: the operations are those of the processor
}

// parameter is a named parameter of the graph with the slices of the session's
// buffers that hold its value and its gradient.
type parameter[T graphop.Float] struct {
	node        *gorgonia.Node
	value, grad []T
	gradT       *tensor.Dense // header over grad
}

// param returns a named parameter. Each may be used once: its one backward
// operation overwrites the gradient buffer.
func param[T graphop.Float](b *Builder, name string) (p parameter[T], err error) {
	s, err := b.unused(name)
	if err != nil {
		return p, err
	}
	p.value = b.value.([]T)[s.Offset : s.Offset+s.Len]
	p.grad = b.grad.([]T)[s.Offset : s.Offset+s.Len]
	p.gradT = graphop.Wrap(p.grad, s.Shape...)
	p.node = b.use(s, graphop.Wrap(p.value, s.Shape...))
	return p, nil
}

// unused returns the segment of a parameter that no operation has yet.
func (b *Builder) unused(name string) (Segment, error) {
	s, ok := b.layout.Find(name)
	if !ok || !s.Trainable {
		return s, fmt.Errorf("the layout has no parameter %q", name)
	}
	for _, u := range b.used {
		if u.Name() == name {
			return s, fmt.Errorf("parameter %q is used twice; tied parameters are not supported", name)
		}
	}
	return s, nil
}

// use adds the node of a parameter.
func (b *Builder) use(s Segment, value *tensor.Dense) *gorgonia.Node {
	n := gorgonia.NewTensor(b.graph, b.dtype, len(s.Shape), gorgonia.WithName(s.Name), gorgonia.WithShape(s.Shape...), gorgonia.WithValue(value))
	b.used = append(b.used, n)
	return n
}

// untrained returns the name of a parameter of the layout that no operation uses,
// or nothing.
func (b *Builder) untrained() string {
	for _, s := range b.layout.Segments() {
		if s.Trainable && !slices.ContainsFunc(b.used, func(n *gorgonia.Node) bool { return n.Name() == s.Name }) {
			return s.Name
		}
	}
	return ""
}

// buffer returns the slice of the session's vector that holds a named buffer.
func buffer[T graphop.Float](b *Builder, name string) ([]T, error) {
	s, ok := b.layout.Find(name)
	if !ok || s.Trainable {
		return nil, fmt.Errorf("the layout has no buffer %q", name)
	}
	return b.value.([]T)[s.Offset : s.Offset+s.Len], nil
}

// has says whether the layout has an array of that name.
func (b *Builder) has(name string) bool {
	_, ok := b.layout.Find(name)
	return ok
}

// prefixed returns "name.", or nothing for an empty name.
func prefixed(name string) string {
	if name == "" {
		return ""
	}
	return name + "."
}

// differentiate adds one backward operation, which fills the gradients grads,
// nil where there is none, from the values of in. It returns a node for each
// gradient: the operation itself for the first, picks for the others.
func differentiate(name string, dtype tensor.Dtype, backward func(in []gorgonia.Value), grads []*tensor.Dense, in ...*gorgonia.Node) (gorgonia.Nodes, error) {
	nodes := make(gorgonia.Nodes, len(grads))
	var op *gorgonia.Node
	for i, g := range grads {
		if g == nil {
			continue
		}
		spec, inputs := graphop.Spec{Name: "pick", Dtype: dtype, Shape: g.Shape().Clone()}, gorgonia.Nodes{op}
		if op == nil {
			spec.Name, inputs = name+" gradient", in
		}
		first := op == nil
		spec.Do = func(in []gorgonia.Value) (gorgonia.Value, error) {
			if first {
				backward(in)
			}
			return g, nil
		}
		n, err := graphop.Apply(spec, inputs...)
		if err != nil {
			return nil, err
		}
		if nodes[i] = n; op == nil {
			op = n
		}
	}
	return nodes, nil
}

// Linear adds y = x Wᵀ + bias, and max(0, y) if relu, for x [batch, in], as one
// operation forward and one backward. The parameters are name.weight [out, in]
// and, if the layout has it, name.bias [out]; an empty name means "weight" and
// "bias".
func (b *Builder) Linear(x *gorgonia.Node, name string, relu bool) (*gorgonia.Node, error) {
	if b.device != nil {
		return b.device.linear(b, x, name, relu)
	}
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

	yT    *tensor.Dense   // header over y
	grads []*tensor.Dense // headers over dx, dw and db
}

func addLinear[T graphop.Float](b *Builder, x *gorgonia.Node, name string, relu bool) (*gorgonia.Node, error) {
	prefix := prefixed(name)
	w, err := param[T](b, prefix+"weight")
	if err != nil {
		return nil, err
	}
	shape := w.node.Shape()
	if len(shape) != 2 || x.Dims() != 2 || shape[1] != x.Shape()[1] {
		return nil, fmt.Errorf("linear %q: weight %v does not fit input %v", name, shape, x.Shape())
	}
	o := &linear[T]{run: b.run, in: shape[1], out: shape[0], relu: relu, dw: w.grad}
	o.y = make([]T, b.run.Batch*o.out)
	o.yT = graphop.Wrap(o.y, b.run.Batch, o.out)
	o.grads = []*tensor.Dense{nil, w.gradT}
	inputs := gorgonia.Nodes{x, w.node}
	wrt := []bool{!x.IsVar(), true}
	if b.has(prefix + "bias") {
		bias, err := param[T](b, prefix+"bias")
		if err != nil {
			return nil, err
		}
		if len(bias.grad) != o.out {
			return nil, fmt.Errorf("linear %q: bias of length %d, want %d", name, len(bias.grad), o.out)
		}
		o.db, o.grads = bias.grad, append(o.grads, bias.gradT)
		inputs, wrt = append(inputs, bias.node), append(wrt, true)
	}
	if relu {
		o.dz = make([]T, b.run.Batch*o.out)
	}
	if wrt[0] {
		o.dx = make([]T, b.run.Batch*o.in)
		o.grads[0] = graphop.Wrap(o.dx, b.run.Batch, o.in)
	}
	return graphop.Apply(graphop.Spec{
		Name: "linear " + name, Dtype: b.dtype, Shape: tensor.Shape{b.run.Batch, o.out},
		Do: o.forward, Wrt: wrt,
		Diff: func(in gorgonia.Nodes, y, dy *gorgonia.Node) (gorgonia.Nodes, error) {
			return differentiate("linear "+name, graphop.Dtype[T](), o.backward, o.grads, in[0], in[1], y, dy)
		},
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

func (o *linear[T]) backward(in []gorgonia.Value) {
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
}
