package nn

import (
	"errors"
	"fmt"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Images is a node of a graph that holds images.
type Images struct {
	// Node is [batch, H*W*C]: each row is an image in row-major order, its
	// channels last.
	Node *gorgonia.Node
	// H, W and C are height, width and channels.
	H, W, C int

	tail any // *tail[T] of the operation that makes them, if it has one
}

func (x Images) size() int { return x.H * x.W * x.C }

// Images takes the rows of x [batch, h*w*c] as images of height h, width w and
// c channels, channels last.
func (b *Builder) Images(x *gorgonia.Node, h, w, c int) (Images, error) {
	im := Images{Node: x, H: h, W: w, C: c}
	return im, im.check(b.run.Batch)
}

// check returns an error unless the node holds images of that size.
func (x Images) check(batch int) error {
	if x.Node == nil {
		return errors.New("nn: images without a node")
	}
	// Divisions, because a product of wrong sizes may overflow to the right one.
	if s := x.Node.Shape(); x.H < 1 || x.W < 1 || x.C < 1 || s.Dims() != 2 || s[0] != batch ||
		s[1]%x.H != 0 || s[1]/x.H%x.W != 0 || s[1]/x.H/x.W != x.C {
		return fmt.Errorf("nn: %v as images of %dx%dx%d, want shape (%d, %dx%dx%d)", s, x.H, x.W, x.C, batch, x.H, x.W, x.C)
	}
	return nil
}

// memory is what the operations on images of a session's graphs share.
type memory[T graphop.Float] struct {
	scratch *kernel.Scratch[T]
	// outputs are the operations' outputs in order of building. The k-th
	// operation of each graph has the same: the graphs are of one model and
	// never run at once.
	outputs [][]T
	next    int
	// temp holds numbers that live within one operation.
	temp [2][]T
}

// evalImages returns how many images an evaluation takes through a block at a
// time: few enough to stay in the cache; on several threads more, so that
// starting these costs little.
func (m *memory[T]) evalImages() int {
	if t := m.scratch.Threads(); t > 1 {
		return 8 * t
	}
	return 2
}

// output returns the output of the next operation.
func (m *memory[T]) output(n int) []T {
	if m.next == len(m.outputs) {
		m.outputs = append(m.outputs, nil)
	}
	m.next++
	return need(&m.outputs[m.next-1], n)
}

// need returns the first n elements of *buf, made anew when there are fewer.
func need[T any](buf *[]T, n int) []T {
	if len(*buf) < n {
		*buf = make([]T, n)
	}
	return (*buf)[:n]
}

// imageOp is an operation on images. Its methods touch the live rows only.
type imageOp[T graphop.Float] interface {
	// forward computes the output y from the inputs x.
	forward(y []T, x [][]T)
	// backward computes the gradients dx of the inputs, where not nil, and
	// those of the parameters, after a forward in training.
	backward(dx, x [][]T, y, dy []T)
}

// A tail is the batch normalisation that an operation ends with, before a ReLU
// (and perhaps a pooling or a sum between them). Its backward pass begins with sums over the
// gradient of the operation's output. An operation behind it that is the only
// one can do these sums for each image while it is in the cache.
type tail[T graphop.Float] struct {
	norm *norm[T]
	x    *[]T // what is normalised, of the size of the output
	// gradient is the node by which the operation behind returns the gradient.
	gradient *gorgonia.Node
	// summed says that the operation behind does the sums, and that the
	// gradient it returns is already that before the ReLU.
	summed bool
}

// chain is the part of an operation that has a tail, or does the sums of the one
// before it.
type chain[T graphop.Float] struct{ previous, tail *tail[T] }

func (c *chain[T]) links() *chain[T] { return c }

// before tells where the operation's first input comes from.
func (c *chain[T]) before(x Images) { c.previous, _ = x.tail.(*tail[T]) }

// sums returns the work of the tail before the operation, if it is the
// operation's.
func (c *chain[T]) sums() kernel.Fusion[T] {
	if t := c.previous; t != nil && t.summed {
		return t.norm.before(*t.x)
	}
	return kernel.Fusion[T]{}
}

// addImages adds an operation with outputs of h x w x c. The parameters follow
// the inputs x.
func addImages[T graphop.Float](b *Builder, name string, h, w, c int, o imageOp[T], x []Images, params ...parameter[T]) (Images, error) {
	out := Images{H: h, W: w, C: c}
	batch, dtype := b.run.Batch, graphop.Dtype[T]()
	for _, im := range x {
		if err := im.check(batch); err != nil {
			return Images{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if most := maxElements / max(1, out.size()); batch > most {
		return Images{}, fmt.Errorf("nn: %s makes %d images of %dx%dx%d, want at most %d", name, batch, h, w, c, most)
	}
	y := b.memory.(*memory[T]).output(batch * out.size())
	yT := graphop.Wrap(y, batch, out.size())
	var inputs gorgonia.Nodes
	var wrt []bool
	for _, im := range x {
		inputs, wrt = append(inputs, im.Node), append(wrt, !im.Node.IsVar())
	}
	for _, p := range params {
		inputs, wrt = append(inputs, p.node), append(wrt, true)
	}
	var links *chain[T]
	if l, ok := o.(interface{ links() *chain[T] }); ok {
		links = l.links()
		if links.tail != nil {
			out.tail = links.tail
		}
	}
	data := make([][]T, len(x))
	read := func(in []gorgonia.Value) [][]T {
		for i := range data {
			data[i] = graphop.Data[T](in[i])
		}
		return data
	}
	forward := func(in []gorgonia.Value) (gorgonia.Value, error) {
		o.forward(y, read(in))
		return yT, nil
	}
	diff := func(in gorgonia.Nodes, out, dy *gorgonia.Node) (gorgonia.Nodes, error) {
		dx := make([][]T, len(x))
		grads := make([]*tensor.Dense, len(in))
		for i, im := range x {
			if wrt[i] {
				dx[i] = make([]T, batch*im.size())
				grads[i] = graphop.Wrap(dx[i], batch, im.size())
			}
		}
		for i, p := range params {
			grads[len(x)+i] = p.gradT
		}
		k := len(x)
		backward := func(in []gorgonia.Value) {
			o.backward(dx, read(in), graphop.Data[T](in[k]), graphop.Data[T](in[k+1]))
		}
		nodes, err := differentiate(name, dtype, backward, grads, append(in[:k:k], out, dy)...)
		if links != nil && err == nil {
			// Gorgonia differentiates the operations behind first. The gradient
			// is another node when it is a sum over several of them.
			if t := links.previous; t != nil {
				t.gradient = nodes[0]
			}
			if t := links.tail; t != nil {
				t.summed = t.gradient != nil && t.gradient == dy
			}
		}
		return nodes, err
	}
	var err error
	out.Node, err = graphop.Apply(graphop.Spec{Name: name, Dtype: dtype, Shape: yT.Shape().Clone(), Do: forward, Wrt: wrt, Diff: diff}, inputs...)
	return out, err
}
