package nn_test

import (
	"math/rand/v2"
	"testing"

	"fedrspo/internal/graphop"
	"fedrspo/nn"

	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The network and batch of the paper's knapsack task (appendix C.2).
const benchIn, benchHidden, benchOut, benchBatch = 8, 64, 50, 64

// BenchmarkMLPStep measures one training step, forward, backward and a clipped
// Adam update, of a session beside the same network in Gorgonia's own
// operations. The loss is ½ mean_i Σ_j (y_ij - t_ij)²; no oracle is called.
//
//	go test ./nn -run - -bench MLPStep
func BenchmarkMLPStep(b *testing.B) {
	r := rand.New(rand.NewPCG(31, 32))
	x, tgt := normals(r, benchBatch*benchIn), normals(r, benchBatch*benchOut)
	b.Run("impl=fused", func(b *testing.B) { benchFused(b, nn.Float64, x, tgt) })
	b.Run("impl=fused32", func(b *testing.B) { benchFused(b, nn.Float32, x, tgt) })
	// Stock Gorgonia multiplies by Gonum, and by our kernels where this package is
	// linked in.
	b.Run("impl=gorgonia-kernels", func(b *testing.B) { benchStock(b, x, tgt) })
	b.Run("impl=gorgonia", func(b *testing.B) {
		ours := gorgonia.WhichBLAS()
		defer gorgonia.Use(ours)
		gorgonia.Use(gonum.Implementation{})
		benchStock(b, x, tgt)
	})
}

func benchFused(b *testing.B, p nn.Precision, x, tgt []float64) {
	m := nn.NewMLP(benchIn, benchHidden, benchOut)
	l := &target{rows: benchBatch, t: tgt}
	s := newSession(b, nn.SessionConfig{Model: m, Batch: benchBatch, Precision: p, Loss: l.apply})
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, rand.New(rand.NewPCG(33, 34)))
	s.Load(theta)
	for i := range benchBatch {
		s.SetRow(i, x[i*benchIn:(i+1)*benchIn])
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Gradient(benchBatch); err != nil {
			b.Fatal(err)
		}
		if err := s.Update(nn.Adam{Clip: 1}, 1e-3); err != nil {
			b.Fatal(err)
		}
	}
}

// benchStock is the network as a reader of Gorgonia's documentation would write
// it: a multiplication, a broadcast addition and a rectifier a layer.
func benchStock(b *testing.B, x, tgt []float64) {
	g := gorgonia.NewGraph()
	must := func(n *gorgonia.Node, err error) *gorgonia.Node {
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	input := func(name string, data []float64, cols int) *gorgonia.Node {
		return gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithName(name), gorgonia.WithShape(benchBatch, cols),
			gorgonia.WithValue(graphop.Wrap(data, benchBatch, cols)))
	}
	r := rand.New(rand.NewPCG(33, 34))
	var learnables gorgonia.Nodes
	param := func(name string, rows, cols int) *gorgonia.Node {
		w := make([]float64, rows*cols)
		nn.GlorotUniform(w, rows, cols, r)
		n := gorgonia.NewMatrix(g, tensor.Float64, gorgonia.WithName(name), gorgonia.WithShape(rows, cols),
			gorgonia.WithValue(graphop.Wrap(w, rows, cols)))
		learnables = append(learnables, n)
		return n
	}
	in, t := input("x", x, benchIn), input("t", tgt, benchOut)
	w1, b1 := param("w1", benchIn, benchHidden), param("b1", 1, benchHidden)
	w2, b2 := param("w2", benchHidden, benchOut), param("b2", 1, benchOut)
	h := must(gorgonia.Rectify(must(gorgonia.BroadcastAdd(must(gorgonia.Mul(in, w1)), b1, nil, []byte{0}))))
	y := must(gorgonia.BroadcastAdd(must(gorgonia.Mul(h, w2)), b2, nil, []byte{0}))
	loss := must(gorgonia.Mean(must(gorgonia.Square(must(gorgonia.Sub(y, t))))))
	if _, err := gorgonia.Grad(loss, learnables...); err != nil {
		b.Fatal(err)
	}
	vm := gorgonia.NewTapeMachine(g, gorgonia.BindDualValues(learnables...))
	defer vm.Close()
	solver := gorgonia.NewAdamSolver(gorgonia.WithLearnRate(1e-3), gorgonia.WithClip(1))
	b.ReportAllocs()
	for b.Loop() {
		if err := vm.RunAll(); err != nil {
			b.Fatal(err)
		}
		if err := solver.Step(gorgonia.NodesToValueGrads(learnables)); err != nil {
			b.Fatal(err)
		}
		vm.Reset()
	}
}
