package surrogate_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/graphop"
	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/surrogate"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// allLosses are the losses whose gradient is the derivative of their value;
// perturbedLosses estimate that of an expectation.
var (
	allLosses       = []surrogate.Loss{surrogate.MSE{}, surrogate.SPOPlus{}, surrogate.RSPOPlus{}, surrogate.OptNet{}}
	perturbedLosses = []surrogate.Loss{surrogate.PFYL{}, surrogate.DPO{},
		surrogate.PFYL{Perturbation: surrogate.Perturbation{Samples: 3, Epsilon: 0.5, Multiplicative: true}},
		surrogate.DPO{Perturbation: surrogate.Perturbation{Samples: 1, Epsilon: 2}},
		surrogate.DPO{Perturbation: surrogate.Perturbation{Samples: 4, Multiplicative: true}, NoBaseline: true}}
	everyLoss = slices.Concat(allLosses, perturbedLosses)
)

// newBatch returns a batch over n samples on a knapsack, with no rows yet.
func newBatch(r *rand.Rand, l surrogate.Loss, n, d, workers int) *surrogate.Batch {
	return &surrogate.Batch{Loss: l, Pool: oracle.NewPool(knapsackSet(r, d).polytope, workers),
		Targets: surrogate.NewTargets(normals(r, n*d, 1), d), Lambda: 0.5}
}

// graph is scale times the batch loss of predictions chat [rows, d].
type graph[T graphop.Float] struct {
	chat []T
	m    *graphop.Machine
	loss *gorgonia.Node
	grad *gorgonia.Node // with respect to chat
}

func newGraph[T graphop.Float](t *testing.T, b surrogate.Source, rows, d int, scale float64) *graph[T] {
	t.Helper()
	graphop.Lock.Lock()
	defer graphop.Lock.Unlock()
	g, dt := gorgonia.NewGraph(), graphop.Dtype[T]()
	o := &graph[T]{chat: make([]T, rows*d)}
	x := gorgonia.NewMatrix(g, dt, gorgonia.WithName("chat"), gorgonia.WithShape(rows, d), gorgonia.WithValue(graphop.Wrap(o.chat, rows, d)))
	var err error
	if o.loss, err = surrogate.Apply(b, x); err != nil {
		t.Fatal(err)
	}
	if scale != 1 {
		if o.loss, err = gorgonia.Mul(o.loss, gorgonia.NewConstant(T(scale))); err != nil {
			t.Fatal(err)
		}
	}
	grads, err := gorgonia.Grad(o.loss, x)
	if err != nil {
		t.Fatal(err)
	}
	o.grad = grads[0]
	if o.m, err = graphop.NewMachine(g); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *graph[T]) run() (loss float64, grad []T, err error) {
	if err := o.m.Run(); err != nil {
		return 0, nil, err
	}
	return graphop.Number(o.m.Value(o.loss)), graphop.Data[T](o.m.Value(o.grad)), nil
}

// TestApplyEqualsEval: in a graph, loss and gradient are the bits of Batch.Eval
// rounded to the graph's precision, times the scale of what follows; the rows
// beyond a short batch have gradient 0, whatever stood there before.
func TestApplyEqualsEval(t *testing.T) {
	t.Run("float64", testApply[float64])
	t.Run("float32", testApply[float32])
}

func testApply[T graphop.Float](t *testing.T) {
	const capacity, samples, d = 6, 9, 5
	for _, l := range everyLoss {
		for _, scale := range []float64{1, 3} {
			t.Run(fmt.Sprintf("%s/scale=%v", l.Name(), scale), func(t *testing.T) {
				r := rand.New(rand.NewPCG(31, 31))
				b := newBatch(r, l, samples, d, 1)
				g := newGraph[T](t, b, capacity, d, scale)
				for _, rows := range [][]int{{3, 1, 4, 0, 5, 8}, {2, 6, 5}, {7}, {0, 1, 2, 3, 4, 5}} {
					chat, n := make([]float64, capacity*d), len(rows)
					for i, x := range normals(r, capacity*d, 1) {
						g.chat[i] = T(x)
						chat[i] = float64(g.chat[i])
					}
					b.Rows = rows
					loss, grad, err := g.run()
					if err != nil {
						t.Fatal(err)
					}
					values, want := make([]float64, n), make([]float64, capacity*d)
					v, err := b.Eval(chat, values, want)
					if err != nil {
						t.Fatal(err)
					}
					if w := float64(T(v) * T(scale)); loss != w {
						t.Errorf("%d rows: loss %v, want %v", n, loss, w)
					}
					for i, w := range want {
						if grad[i] != T(scale*w) {
							t.Errorf("%d rows: gradient %d is %v, want %v", n, i, grad[i], T(scale*w))
							break
						}
					}
				}
			})
		}
	}
}

// TestSessionGradient compares the gradient of a whole network's loss with
// central differences in the parameters.
func TestSessionGradient(t *testing.T) {
	const capacity, samples, in, d = 5, 7, 3, 4
	model := nn.NewMLP(in, 6, d)
	for _, l := range allLosses {
		for _, rows := range [][]int{{6, 2, 0, 3, 5}, {4, 1}} {
			t.Run(fmt.Sprintf("%s/rows=%d", l.Name(), len(rows)), func(t *testing.T) {
				r := rand.New(rand.NewPCG(32, 32))
				b := newBatch(r, l, samples, d, 1)
				s, err := nn.NewSession(nn.SessionConfig{Model: model, Batch: capacity,
					Loss: func(out *gorgonia.Node) (*gorgonia.Node, error) { return surrogate.Apply(b, out) }})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				b.Rows = rows
				n := len(rows)
				for i := range capacity {
					s.SetRow(i, normals(r, in, 1))
				}
				theta := make([]float64, model.Layout().Len())
				model.Init(theta, r)
				predict := func(theta []float64) []float64 {
					s.Load(theta)
					chat := make([]float64, n*d)
					if err := s.Predict(chat, n); err != nil {
						t.Fatal(err)
					}
					return chat
				}
				loss := func(theta []float64) float64 {
					s.Load(theta)
					v, err := s.Gradient(n)
					if err != nil {
						t.Fatal(err)
					}
					return v
				}
				v := loss(theta)
				grad := make([]float64, len(theta))
				s.CopyGradient(grad)
				if norm(grad) == 0 {
					t.Fatal("the gradient is zero: the case shows nothing")
				}
				// The derivative by one parameter is at most L|J|²/n-Lipschitz,
				// with J the derivative of all predictions and L that of the
				// row's loss; SPO+ is piecewise linear and MSE quadratic.
				const step = 1e-6
				most := 0.0
				for k := range theta {
					up := add(theta, 0, theta)
					up[k] += step
					j := norm(sub(predict(up), predict(theta))) / step
					most = max(most, j*j)
				}
				lipschitz := 2.0 / d
				if l.Regularized() {
					lipschitz = 4 / b.Lambda
				}
				checkGradient(t, loss, theta, grad, step, lipschitz*most/float64(n), 1e-14*(1+v))
			})
		}
	}
}

// TestErrorsThroughGraph: bad input to the operation surfaces from a running
// graph as one error that errors.Is can look into, and the graph goes on
// working.
func TestErrorsThroughGraph(t *testing.T) {
	const capacity, d = 4, 3
	r := rand.New(rand.NewPCG(33, 33))
	for _, l := range allLosses {
		good := newBatch(r, l, 8, d, 1)
		good.Rows = []int{0, 1, 2, 3}
		b := *good
		g := newGraph[float64](t, &b, capacity, d, 1)
		fill := func(x float64) {
			for i := range g.chat {
				g.chat[i] = 0.1 * float64(i)
			}
			g.chat[d] = x
		}
		fill(1)
		want, _, err := g.run()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name     string
			spoil    func()
			sentinel error
			says     string
		}{
			{"NaN", func() { fill(math.NaN()) }, oracle.ErrNonFinite, l.Name() + ": row 1: prediction[0] is NaN"},
			{"infinity", func() { fill(math.Inf(1)) }, oracle.ErrNonFinite, l.Name() + ": row 1: prediction[0] is +Inf"},
			{"overflow", func() { fill(math.MaxFloat64) }, oracle.ErrNonFinite, l.Name() + ": row 1"},
			{"too many rows", func() { b.Rows = []int{0, 1, 2, 3, 4} }, oracle.ErrDimension, "batch of 5 rows in a graph of 4"},
			{"no rows", func() { b.Rows = nil }, oracle.ErrDimension, "batch of 0 rows"},
			{"other set", func() { b.Pool = oracle.NewPool(unitBox(d+1), 1) }, oracle.ErrDimension, "feasible set of dimension 4"},
			{"other targets", func() { b.Targets = surrogate.NewTargets(make([]float64, 10), 2) }, oracle.ErrDimension, "targets of dimension 2"},
			{"row beyond", func() { b.Rows = []int{100} }, nil, "internal error"},
		} {
			t.Run(l.Name()+"/"+c.name, func(t *testing.T) {
				c.spoil()
				_, _, err := g.run()
				if err == nil || !strings.Contains(err.Error(), c.says) || c.sentinel != nil && !errors.Is(err, c.sentinel) {
					t.Errorf("got error %v, want %q wrapping %v", err, c.says, c.sentinel)
				} else if strings.Contains(err.Error(), "instruction") {
					t.Errorf("the error speaks of the machine: %v", err)
				}
				b.Rows, b.Pool, b.Targets = good.Rows, good.Pool, good.Targets
				fill(1)
				if got, _, err := g.run(); err != nil || got != want {
					t.Errorf("afterwards: loss %v, error %v, want loss %v", got, err, want)
				}
			})
		}
	}
	for _, lambda := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		b := newBatch(r, surrogate.RSPOPlus{}, 2, d, 1)
		b.Rows, b.Lambda = []int{0}, lambda
		if _, _, err := newGraph[float64](t, b, capacity, d, 1).run(); !errors.Is(err, oracle.ErrLambda) {
			t.Errorf("lambda %v: got error %v, want ErrLambda", lambda, err)
		}
	}
}

// TestErrorThroughSession: the same from a training session.
func TestErrorThroughSession(t *testing.T) {
	const in, d = 2, 3
	r := rand.New(rand.NewPCG(34, 34))
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		b := newBatch(r, surrogate.RSPOPlus{}, 4, d, 1)
		b.Rows = []int{0, 1}
		s, err := nn.NewSession(nn.SessionConfig{Model: nn.NewLinear(in, d), Batch: 2, Precision: precision,
			Loss: func(out *gorgonia.Node) (*gorgonia.Node, error) { return surrogate.Apply(b, out) }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Load([]float64{1, 1, 1, 1, 1, 1})
		s.SetRow(0, []float64{1, 2})
		s.SetRow(1, []float64{1, math.Inf(1)})
		_, err = s.Gradient(2)
		if !errors.Is(err, oracle.ErrNonFinite) || !strings.Contains(err.Error(), "rspo+: row 1: prediction[0] is +Inf") {
			t.Errorf("%v: got error %v", precision, err)
		}
		if _, err = s.Gradient(3); err == nil {
			t.Errorf("%v: 3 rows in a graph of 2: no error", precision)
		}
	}
}

func TestApplyRejects(t *testing.T) {
	b := newBatch(rand.New(rand.NewPCG(35, 35)), surrogate.MSE{}, 2, 3, 1)
	g := gorgonia.NewGraph()
	for _, n := range []*gorgonia.Node{
		gorgonia.NewVector(g, tensor.Float64, gorgonia.WithShape(3), gorgonia.WithName("vector")),
		gorgonia.NewMatrix(g, tensor.Int, gorgonia.WithShape(2, 3), gorgonia.WithName("integers")),
	} {
		if _, err := surrogate.Apply(b, n); err == nil {
			t.Errorf("a loss of %v %v: no error", n.Dtype(), n.Shape())
		}
	}
}

// TestPoolSizeDoesNotMatter: values and gradients are the same bits for any
// number of goroutines.
func TestPoolSizeDoesNotMatter(t *testing.T) {
	const n, d = 61, 12
	for _, l := range everyLoss {
		var loss float64
		var values, grad []float64
		for _, workers := range []int{1, 2, 8} {
			r := rand.New(rand.NewPCG(36, 36))
			b := newBatch(r, l, n, d, workers)
			b.Rows = r.Perm(n)
			v, g := make([]float64, n), make([]float64, n*d)
			got, err := b.Eval(normals(r, n*d, 1), v, g)
			if err != nil {
				t.Fatal(err)
			}
			if workers == 1 {
				loss, values, grad = got, v, g
			} else if got != loss || !slices.Equal(v, values) || !slices.Equal(g, grad) {
				t.Errorf("%s: other bits with %d workers", l.Name(), workers)
			}
		}
	}
}

// TestEvalErrorRow: the error names the lowest bad row at any pool size.
func TestEvalErrorRow(t *testing.T) {
	const n, d = 61, 4
	for _, workers := range []int{1, 2, 8} {
		r := rand.New(rand.NewPCG(37, 37))
		b := newBatch(r, surrogate.RSPOPlus{}, n, d, workers)
		b.Rows = r.Perm(n)
		chat := normals(r, n*d, 1)
		chat[17*d+2], chat[30*d], chat[60*d] = math.NaN(), math.NaN(), math.NaN()
		_, err := b.Eval(chat, make([]float64, n), make([]float64, n*d))
		if !errors.Is(err, oracle.ErrNonFinite) || !strings.Contains(err.Error(), "row 17: prediction[2]") {
			t.Errorf("%d workers: got error %v", workers, err)
		}
	}
}

// TestEvalAllocatesNothing with a pool of size 1, once the targets are there.
func TestEvalAllocatesNothing(t *testing.T) {
	const n, d = 16, 10
	for _, l := range everyLoss {
		r := rand.New(rand.NewPCG(38, 38))
		b := newBatch(r, l, n, d, 1)
		b.Rows = r.Perm(n)
		chat, values, grad := normals(r, n*d, 1), make([]float64, n), make([]float64, n*d)
		lambda := 0.0
		allocs := testing.AllocsPerRun(20, func() {
			lambda++ // each run projects the true costs anew
			b.Lambda = lambda
			if _, err := b.Eval(chat, values, grad); err != nil {
				t.Fatal(err)
			}
		})
		limit := 0.0
		if l.Regularized() {
			limit = 1 // the description of the projections
		}
		if allocs > limit {
			t.Errorf("%s: %v allocations with a new lambda", l.Name(), allocs)
		}
		if allocs := testing.AllocsPerRun(20, func() {
			if _, err := b.Eval(chat, values, grad); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("%s: %v allocations", l.Name(), allocs)
		}
	}
}

// TestTargetsFollow: the oracle answers kept in Targets are those of the
// batch's set and λ, also when these change, and after a failed solve.
func TestTargetsFollow(t *testing.T) {
	const n, d = 3, 4
	r := rand.New(rand.NewPCG(39, 39))
	costs, chat := normals(r, n*d, 1), normals(r, n*d, 1)
	for k := range d {
		// At the λ that overflows, this sample still solves, before the others
		// fail: a half-done refresh must not pass for the answers at the last λ.
		costs[k] = -1e-320
	}
	sets := []oracle.Polytope{knapsackSet(r, d).polytope, topKSet(r, d).polytope, unitBox(d)}
	for _, l := range everyLoss[1:] {
		kept := surrogate.NewTargets(costs, d)
		for range 60 {
			b := surrogate.Batch{Loss: l, Pool: oracle.NewPool(sets[r.IntN(len(sets))], 1), Targets: kept,
				Rows: []int{2, 0, 1}, Lambda: []float64{0.1, 2, math.NaN(), math.SmallestNonzeroFloat64}[r.IntN(4)]}
			values, grad := make([]float64, n), make([]float64, n*d)
			got, err := b.Eval(chat, values, grad)
			b.Targets = surrogate.NewTargets(costs, d)
			want, wantErr := b.Eval(chat, values, make([]float64, n*d))
			if got != want || (err == nil) != (wantErr == nil) {
				t.Fatalf("%s, lambda %v: loss %v (%v), with fresh targets %v (%v)", l.Name(), b.Lambda, got, err, want, wantErr)
			}
		}
	}
}

func TestByName(t *testing.T) {
	names := surrogate.Names()
	for _, l := range everyLoss {
		if !slices.Contains(names, l.Name()) {
			t.Errorf("%s is not among the names %v", l.Name(), names)
		}
	}
	for _, name := range names {
		if l, err := surrogate.ByName(name); err != nil || l.Name() != name || l.Regularized() != (name == "rspo+") {
			t.Errorf("%s: got %v, error %v", name, l, err)
		}
	}
	if _, err := surrogate.ByName("spo"); err == nil || !strings.Contains(err.Error(), strings.Join(names, ", ")) {
		t.Errorf("an unknown loss: got error %v", err)
	}
}
