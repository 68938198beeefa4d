package nn

import (
	"errors"
	"fmt"
	"slices"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/kernels"
	"fedrspo/internal/graphop"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// deviceGraph is what the operations of a session's graphs on a device share. The
// graphs are the same as on the processor; a value is a tensor over device
// memory, and an operation queues kernels. Only the network's output comes to
// the host.
type deviceGraph struct {
	queue  *kernels.Queue
	engine *deviceEngine
	dtype  tensor.Dtype
	// value and grad are the vector and the gradient of its trainable prefix.
	value, grad kernels.Ptr
	// owned is all memory that the operations allocated.
	owned []cuda.Memory
	hosts []interface{ Close() error }
	// outputs are the operations' outputs in order of building, which both
	// graphs share as in [memory].
	outputs []cuda.Memory
	next    int
	// temp holds numbers that live within one operation.
	temp [2]cuda.Memory
	// onHost are the nodes with values in host memory, training says for which
	// graph operations are added.
	onHost   map[*gorgonia.Node]bool
	training bool
}

// alloc returns device memory for n elements, zeroed.
func (g *deviceGraph) alloc(n int) (kernels.Ptr, error) {
	return g.allocBytes(n * g.queue.Elem().Size())
}

func (g *deviceGraph) allocBytes(bytes int) (kernels.Ptr, error) {
	m, err := g.queue.Device().Alloc(uint64(bytes))
	if err != nil {
		return 0, err
	}
	g.owned = append(g.owned, m)
	g.queue.Zero(m.Ptr, m.Bytes)
	return m.Ptr, g.queue.Err()
}

// output returns the output of the next operation.
func (g *deviceGraph) output(n int) (kernels.Ptr, error) {
	if g.next == len(g.outputs) {
		g.outputs = append(g.outputs, cuda.Memory{})
	}
	g.next++
	return g.atLeast(&g.outputs[g.next-1], n)
}

// atLeast returns *m, made anew when it has fewer than n elements. It is called
// before anything runs.
func (g *deviceGraph) atLeast(m *cuda.Memory, n int) (kernels.Ptr, error) {
	if bytes := n * g.queue.Elem().Size(); m.Bytes < uint64(bytes) {
		if _, err := g.allocBytes(bytes); err != nil {
			return 0, err
		}
		*m = g.owned[len(g.owned)-1]
	}
	return m.Ptr, nil
}

// reserve makes the k-th temporary at least n elements long.
func (g *deviceGraph) reserve(k, n int) error {
	_, err := g.atLeast(&g.temp[k], n)
	return err
}

// close gives all memory back. The queue's work is done.
func (g *deviceGraph) close() error {
	for _, m := range g.owned {
		g.queue.Device().Free(m)
	}
	g.owned = nil
	var errs []error
	for _, h := range g.hosts {
		errs = append(errs, h.Close())
	}
	g.hosts = nil
	return errors.Join(errs...)
}

// tensor returns a graph value over device memory.
func (g *deviceGraph) tensor(p kernels.Ptr, shape ...int) *tensor.Dense {
	bytes := uintptr(tensor.Shape(shape).TotalSize() * g.queue.Elem().Size())
	return tensor.New(tensor.Of(g.dtype), tensor.WithShape(shape...), tensor.WithEngine(g.engine), tensor.FromMemory(uintptr(p), bytes))
}

// address returns the device memory of a graph value.
func address(v gorgonia.Value) kernels.Ptr {
	d := v.(*tensor.Dense)
	if _, ok := d.Engine().(*deviceEngine); !ok {
		panic("a value in host memory where one on the device belongs")
	}
	return kernels.Ptr(d.Uintptr())
}

// deviceParam is a parameter with its places in the session's vectors.
type deviceParam struct {
	node        *gorgonia.Node
	value, grad kernels.Ptr
	len         int
	gradT       *tensor.Dense // header over grad
}

// param returns a named parameter; see the function of that name.
func (g *deviceGraph) param(b *Builder, name string) (p deviceParam, err error) {
	s, err := b.unused(name)
	if err != nil {
		return p, err
	}
	offset := kernels.Ptr(s.Offset * g.queue.Elem().Size())
	p.value, p.grad, p.len = g.value+offset, g.grad+offset, s.Len
	p.gradT = g.tensor(p.grad, s.Shape...)
	p.node = b.use(s, g.tensor(p.value, s.Shape...))
	return p, nil
}

// buffer returns the place of a named buffer.
func (g *deviceGraph) buffer(b *Builder, name string) (kernels.Ptr, int, error) {
	s, ok := b.layout.Find(name)
	if !ok || s.Trainable {
		return 0, 0, fmt.Errorf("the layout has no buffer %q", name)
	}
	return g.value + kernels.Ptr(s.Offset*g.queue.Elem().Size()), s.Len, nil
}

// deviceOp is an operation on a device. Its methods queue work on the live rows
// only.
type deviceOp interface {
	// forward computes the output y from the inputs x.
	forward(y kernels.Ptr, x []kernels.Ptr)
	// backward computes the gradients dx of the inputs, where not 0, and those
	// of the parameters, after a forward in training.
	backward(dx, x []kernels.Ptr, y, dy kernels.Ptr)
}

// apply adds an operation with an output of [batch, size]. The parameters follow
// the inputs x.
func (g *deviceGraph) apply(b *Builder, name string, size int, o deviceOp, x []*gorgonia.Node, params ...deviceParam) (*gorgonia.Node, error) {
	batch := b.run.Batch
	y, err := g.output(batch * size)
	if err != nil {
		return nil, fmt.Errorf("nn: %s: %w", name, err)
	}
	yT := g.tensor(y, batch, size)
	inputs := slices.Clone(gorgonia.Nodes(x))
	var wrt []bool
	for _, n := range x {
		if g.onHost[n] {
			return nil, fmt.Errorf("nn: %s: its input was computed in host memory", name)
		}
		wrt = append(wrt, !n.IsVar())
	}
	for _, p := range params {
		inputs, wrt = append(inputs, p.node), append(wrt, true)
	}
	data := make([]kernels.Ptr, len(x))
	read := func(in []gorgonia.Value) []kernels.Ptr {
		for i := range data {
			data[i] = address(in[i])
		}
		return data
	}
	forward := func(in []gorgonia.Value) (gorgonia.Value, error) {
		o.forward(y, read(in))
		return yT, g.queue.Err()
	}
	diff := func(in gorgonia.Nodes, out, dy *gorgonia.Node) (gorgonia.Nodes, error) {
		dx := make([]kernels.Ptr, len(x))
		grads := make([]*tensor.Dense, len(in))
		for i := range x {
			if !wrt[i] {
				continue
			}
			n := x[i].Shape()[1]
			var err error
			if dx[i], err = g.alloc(batch * n); err != nil {
				return nil, fmt.Errorf("nn: gradient of %s: %w", name, err)
			}
			grads[i] = g.tensor(dx[i], batch, n)
		}
		for i, p := range params {
			grads[len(x)+i] = p.gradT
		}
		k := len(x)
		backward := func(in []gorgonia.Value) { o.backward(dx, read(in), address(in[k]), address(in[k+1])) }
		return differentiate(name, g.dtype, backward, grads, append(in[:k:k], out, dy)...)
	}
	return graphop.Apply(graphop.Spec{Name: name, Dtype: g.dtype, Shape: yT.Shape().Clone(), Do: forward, Wrt: wrt, Diff: diff}, inputs...)
}

// images is apply for an operation with images of h x w x c as output.
func (g *deviceGraph) images(b *Builder, name string, h, w, c int, o deviceOp, x []Images, params ...deviceParam) (Images, error) {
	nodes := make([]*gorgonia.Node, len(x))
	for i, im := range x {
		nodes[i] = im.Node
	}
	out := Images{H: h, W: w, C: c}
	var err error
	out.Node, err = g.apply(b, name, out.size(), o, nodes, params...)
	return out, err
}

// toHost returns a node with the value of x in host memory; the gradient goes the
// other way. It waits for the device, and there errors of what was queued before
// it come to light.
func toHost[T graphop.Float](b *Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	g := b.device
	if g.onHost[x] {
		return x, nil
	}
	batch, n := x.Shape()[0], x.Shape()[1]
	dx, err := g.alloc(batch * n)
	if err != nil {
		return nil, fmt.Errorf("nn: copy to the host: %w", err)
	}
	var staging [2]cuda.Host[T] // value and gradient
	for i := range staging {
		if staging[i], err = cuda.NewHost[T](g.queue.Device(), batch*n); err != nil {
			return nil, fmt.Errorf("nn: copy to the host: %w", err)
		}
		g.hosts = append(g.hosts, &staging[i])
	}
	y, dy := staging[0].Data, staging[1].Data
	yT, dxT := graphop.Wrap(y, batch, n), g.tensor(dx, batch, n)
	run, queue := b.run, g.queue
	out, err := graphop.Apply(graphop.Spec{
		Name: "to host", Dtype: g.dtype, Shape: x.Shape().Clone(), Wrt: []bool{true},
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
			cuda.Download(queue.Stream, y[:run.Rows*n], address(in[0]))
			return yT, queue.Sync()
		},
		Diff: func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
			node, err := graphop.Apply(graphop.Spec{Name: "to device", Dtype: g.dtype, Shape: in[0].Shape(),
				Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
					// The last upload is done: the forward pass has waited since.
					copy(dy, graphop.Data[T](in[0])[:run.Rows*n])
					cuda.Upload(queue.Stream, dx, dy[:run.Rows*n])
					return dxT, queue.Err()
				}}, grad)
			return gorgonia.Nodes{node}, err
		},
	}, x)
	if err == nil {
		g.onHost[out] = true
	}
	return out, err
}

// hostNode returns x with its value in host memory, wherever it is.
func (b *Builder) hostNode(x *gorgonia.Node) (*gorgonia.Node, error) {
	switch {
	case b.device == nil:
		return x, nil
	case b.dtype == tensor.Float32:
		return toHost[float32](b, x)
	}
	return toHost[float64](b, x)
}

// deviceEngine is the engine of tensors on a device. It has the one operation
// that Gorgonia adds to a graph on its own, the sum of the gradients of a value
// that several operations read, and refuses everything else.
type deviceEngine struct {
	graph *deviceGraph
	// sums are the outputs by the addresses of the operands. Operations return
	// the same tensors at every run, so each sum of a graph has one.
	sums map[[2]kernels.Ptr]*tensor.Dense
}

var errEngine = errors.New("a tensor in device memory has no such operation")

// AllocAccessible says that Go cannot read the memory.
func (e *deviceEngine) AllocAccessible() bool { return false }

// Alloc refuses: memory comes from the session.
func (e *deviceEngine) Alloc(int64) (tensor.Memory, error) { return nil, errEngine }

// Free refuses, as Alloc does.
func (e *deviceEngine) Free(tensor.Memory, int64) error { return errEngine }

// Memset refuses.
func (e *deviceEngine) Memset(tensor.Memory, any) error { return errEngine }

// Memclr does nothing; Gorgonia calls it on tensors that it is about to drop.
func (e *deviceEngine) Memclr(tensor.Memory) {}

// Memcpy refuses.
func (e *deviceEngine) Memcpy(dst, src tensor.Memory) error { return errEngine }

// Accessible refuses.
func (e *deviceEngine) Accessible(tensor.Memory) (tensor.Memory, error) { return nil, errEngine }

// WorksWith says that any order is as good as another.
func (e *deviceEngine) WorksWith(tensor.DataOrder) bool { return true }

// Add returns the sum of two tensors of one shape in memory of its own.
func (e *deviceEngine) Add(a, b tensor.Tensor, opts ...tensor.FuncOpt) (tensor.Tensor, error) {
	da, ok := a.(*tensor.Dense)
	db, ok2 := b.(*tensor.Dense)
	if !ok || !ok2 || da.Engine() != tensor.Engine(e) || db.Engine() != tensor.Engine(e) || !a.Shape().Eq(b.Shape()) {
		return nil, fmt.Errorf("sum of %v and %v: %w", a.Shape(), b.Shape(), errEngine)
	}
	pa, pb := address(da), address(db)
	out := e.sums[[2]kernels.Ptr{pa, pb}]
	n := a.Shape().TotalSize()
	if out == nil {
		p, err := e.graph.alloc(n)
		if err != nil {
			return nil, err
		}
		out = e.graph.tensor(p, a.Shape()...)
		e.sums[[2]kernels.Ptr{pa, pb}] = out
	}
	e.graph.queue.Add(address(out), pa, pb, n)
	return out, e.graph.queue.Err()
}

// AddScalar refuses.
func (e *deviceEngine) AddScalar(tensor.Tensor, any, bool, ...tensor.FuncOpt) (tensor.Tensor, error) {
	return nil, errEngine
}
