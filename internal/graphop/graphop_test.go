package graphop_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/graphop"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// square is the differentiable scalar Σ x² of x [n], made of this package's
// operations. runs counts its forward passes.
type square[T graphop.Float] struct {
	g    []T
	loss graphop.Scalar[T]
	fail error
	runs int
}

func (s *square[T]) apply(x *gorgonia.Node) (*gorgonia.Node, error) {
	n := x.Shape()[0]
	s.g, s.loss = make([]T, n), graphop.NewScalar[T]()
	gT, dt := graphop.Wrap(s.g, n), graphop.Dtype[T]()
	return graphop.Apply(graphop.Spec{
		Name: "square", Dtype: dt, Shape: tensor.ScalarShape(), Wrt: []bool{true},
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
			s.runs++
			if s.fail != nil {
				return nil, s.fail
			}
			sum := 0.0
			for k, v := range graphop.Data[T](in[0]) {
				sum += float64(v) * float64(v)
				s.g[k] = 2 * v
			}
			return s.loss.Set(sum), nil
		},
		Diff: func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
			n, err := graphop.Apply(graphop.Spec{Name: "square gradient", Dtype: dt, Shape: in[0].Shape(),
				Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
					scale := T(graphop.Number(in[1]))
					for k := range s.g {
						s.g[k] *= scale
					}
					return gT, nil
				}}, out, grad)
			return gorgonia.Nodes{n}, err
		},
	}, x)
}

// build returns the graph of 3 Σ x², the loss and its gradient.
func build[T graphop.Float](t *testing.T, s *square[T], x []T) (g *gorgonia.ExprGraph, loss, grad *gorgonia.Node) {
	t.Helper()
	graphop.Lock.Lock()
	defer graphop.Lock.Unlock()
	g = gorgonia.NewGraph()
	in := gorgonia.NewVector(g, graphop.Dtype[T](), gorgonia.WithName("x"), gorgonia.WithShape(len(x)), gorgonia.WithValue(graphop.Wrap(x, len(x))))
	loss, err := s.apply(in)
	if err != nil {
		t.Fatal(err)
	}
	if loss, err = gorgonia.Mul(loss, gorgonia.NewConstant(T(3))); err != nil {
		t.Fatal(err)
	}
	grads, err := gorgonia.Grad(loss, in)
	if err != nil {
		t.Fatal(err)
	}
	return g, loss, grads[0]
}

func machine(t *testing.T, g *gorgonia.ExprGraph) *graphop.Machine {
	t.Helper()
	m, err := graphop.NewMachine(g)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMachine: the machine computes what Gorgonia's own does, bit for bit, at
// every run, from the values that the inputs have then.
func TestMachine(t *testing.T) {
	t.Run("float64", testMachine[float64])
	t.Run("float32", testMachine[float32])
}

func testMachine[T graphop.Float](t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	x := make([]T, 9)
	s, twin := &square[T]{}, &square[T]{}
	g, loss, grad := build(t, s, x)
	tg, tloss, tgrad := build(t, twin, x)
	m, vm := machine(t, g), gorgonia.NewTapeMachine(tg)
	defer vm.Close()
	for range 5 {
		for k := range x {
			x[k] = T(r.NormFloat64())
		}
		vm.Reset()
		if err := errors.Join(m.Run(), vm.RunAll()); err != nil {
			t.Fatal(err)
		}
		if got, want := graphop.Number(m.Value(loss)), graphop.Number(tloss.Value()); got != want || got == 0 {
			t.Errorf("loss %v, want %v", got, want)
		}
		got := graphop.Data[T](m.Value(grad))
		if want := graphop.Data[T](tgrad.Value()); !slices.Equal(got, want) {
			t.Errorf("gradient %v, want %v", got, want)
		}
		for k, v := range x {
			if got[k] != 3*(2*v) {
				t.Errorf("gradient %v at %v", got[k], v)
			}
		}
	}
	if s.runs != 5 {
		t.Errorf("%d passes in 5 runs", s.runs)
	}
}

// TestMachineErrors: an operation's error comes back as it is and a panic as an
// error, and the machine goes on working.
func TestMachineErrors(t *testing.T) {
	x := []float64{1, 2}
	s := &square[float64]{}
	g, loss, _ := build(t, s, x)
	m := machine(t, g)
	s.fail = fmt.Errorf("wrapped: %w", errors.ErrUnsupported)
	if err := m.Run(); err != s.fail {
		t.Errorf("got error %v, want %v", err, s.fail)
	}
	s.fail = nil
	if err := m.Run(); err != nil || graphop.Number(m.Value(loss)) != 15 {
		t.Errorf("afterwards: loss %v, error %v", m.Value(loss), err)
	}

	g = gorgonia.NewGraph()
	in := gorgonia.NewVector(g, tensor.Float64, gorgonia.WithName("y"), gorgonia.WithShape(2))
	n, err := graphop.Apply(graphop.Spec{Name: "bad", Dtype: tensor.Float64, Shape: in.Shape(),
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) { panic("out of range") }}, in)
	if err != nil {
		t.Fatal(err)
	}
	m = machine(t, g)
	if err := m.Run(); err == nil || !strings.Contains(err.Error(), "input y has no value") {
		t.Errorf("an input without value: got error %v", err)
	}
	if err := gorgonia.Let(in, graphop.Wrap(x, 2)); err != nil {
		t.Fatal(err)
	}
	if err := m.Run(); err == nil || err.Error() != "bad: internal error: out of range" {
		t.Errorf("a panic: got error %v", err)
	}
	if _, err := n.Op().(gorgonia.SDOp).SymDiff(gorgonia.Nodes{in}, n, n); err == nil || !strings.Contains(err.Error(), "bad has no derivative") {
		t.Errorf("no derivative: got error %v", err)
	}
}

// TestOperationsAreNotMerged: Gorgonia merges equal operations on equal
// inputs; ours carry state, so that two of one name must both run.
func TestOperationsAreNotMerged(t *testing.T) {
	g := gorgonia.NewGraph()
	in := gorgonia.NewVector(g, tensor.Float64, gorgonia.WithName("x"), gorgonia.WithShape(1), gorgonia.WithValue(graphop.Wrap([]float64{5}, 1)))
	runs := 0
	var out gorgonia.Nodes
	for range 2 {
		loss := graphop.NewScalar[float64]()
		n, err := graphop.Apply(graphop.Spec{Name: "count", Dtype: tensor.Float64, Shape: tensor.ScalarShape(),
			Do: func(in []gorgonia.Value) (gorgonia.Value, error) { runs++; return loss.Set(float64(runs)), nil }}, in)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	m := machine(t, g)
	if err := m.Run(); err != nil || runs != 2 || graphop.Number(m.Value(out[0])) == graphop.Number(m.Value(out[1])) {
		t.Errorf("%d of 2 operations ran (error %v)", runs, err)
	}
}

// TestMachineAllocatesNothing in operations of this package.
func TestMachineAllocatesNothing(t *testing.T) {
	g := gorgonia.NewGraph()
	in := gorgonia.NewVector(g, tensor.Float64, gorgonia.WithName("x"), gorgonia.WithShape(3), gorgonia.WithValue(graphop.Wrap(make([]float64, 3), 3)))
	if _, err := (&square[float64]{}).apply(in); err != nil {
		t.Fatal(err)
	}
	m := machine(t, g)
	if allocs := testing.AllocsPerRun(20, func() {
		if err := m.Run(); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations a run", allocs)
	}
}

// TestValues: tensors share their slices, scalars keep their type.
func TestValues(t *testing.T) {
	testValues[float32](t)
	testValues[float64](t)
}

func testValues[T graphop.Float](t *testing.T) {
	data := []T{1, 2, 3, 4}
	v := graphop.Wrap(data, 2, 2)
	data[3] = 7
	if got := graphop.Data[T](v); &got[0] != &data[0] || got[3] != 7 || !v.Shape().Eq(tensor.Shape{2, 2}) {
		t.Errorf("a tensor of %v, shape %v", got, v.Shape())
	}
	s := graphop.NewScalar[T]()
	x := s.Set(0.1)
	if got := graphop.Number(x); got != float64(T(0.1)) || x.Dtype() != graphop.Dtype[T]() {
		t.Errorf("a scalar of %v, type %v", got, x.Dtype())
	}
	if s.Set(2) != x || graphop.Number(x) != 2 {
		t.Error("a scalar's second value is another graph value")
	}
}
