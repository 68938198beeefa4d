package nn

import (
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/internal/graphop"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// chainNet is a stem and two blocks. Branched, the stem's output and the first
// block's go two ways each: into the next block, and into a sum with its output.
type chainNet struct {
	branched bool
	layout   Layout
	tails    []*tail[float64]
}

func newChainNet(branched bool) *chainNet {
	m := &chainNet{branched: branched}
	norm := func(name string) {
		m.layout.Add(name+".weight", 4)
		m.layout.Add(name+".bias", 4)
	}
	m.layout.Add("conv1.weight", 4, 2, 3, 3)
	norm("bn1")
	names := []string{"bn1"}
	for _, b := range []string{"a", "b"} {
		for _, i := range []string{"1", "2"} {
			m.layout.Add(b+".conv"+i+".weight", 4, 4, 3, 3)
			norm(b + ".bn" + i)
			names = append(names, b+".bn"+i)
		}
	}
	for _, n := range names {
		m.layout.AddBuffer(n+".running_mean", 4)
		m.layout.AddBuffer(n+".running_var", 4)
	}
	return m
}

func (m *chainNet) Name() string    { return "chain" }
func (m *chainNet) In() int         { return 12 * 8 * 2 }
func (m *chainNet) Out() int        { return 2 }
func (m *chainNet) Layout() *Layout { return &m.layout }

func (m *chainNet) Init(theta []float64, r *rand.Rand) {
	for i := range theta {
		theta[i] = r.NormFloat64()
	}
}

func (m *chainNet) Build(b *Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	m.tails = nil
	im, err := b.Images(x, 12, 8, 2)
	if err != nil {
		return nil, err
	}
	if im, err = b.Stem(im, "conv1", "bn1"); err != nil {
		return nil, err
	}
	keep := func() {
		if t, ok := im.tail.(*tail[float64]); ok {
			m.tails = append(m.tails, t)
		}
	}
	for _, name := range []string{"a", "b"} {
		keep()
		before := im
		if im, err = b.BasicBlock(im, name); err != nil {
			return nil, err
		}
		if m.branched {
			keep()
			if im, err = b.Add(im, before); err != nil {
				return nil, err
			}
		}
	}
	if !m.branched {
		keep()
	}
	im, err = b.MeanHead(im, 2, 1)
	return im.Node, err
}

// halfSquares is the loss Σ y²/2 over all rows.
func halfSquares(out *gorgonia.Node) (*gorgonia.Node, error) {
	loss, g := graphop.NewScalar[float64](), make([]float64, out.Shape().TotalSize())
	gT := graphop.Wrap(g, out.Shape()...)
	return graphop.Apply(graphop.Spec{
		Name: "half squares", Dtype: tensor.Float64, Shape: tensor.ScalarShape(), Wrt: []bool{true},
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
			sum := 0.0
			for i, v := range graphop.Data[float64](in[0]) {
				g[i] = v
				sum += v * v / 2
			}
			return loss.Set(sum), nil
		},
		Diff: func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
			n, err := graphop.Apply(graphop.Spec{Name: "half squares gradient", Dtype: tensor.Float64, Shape: in[0].Shape(),
				Do: func([]gorgonia.Value) (gorgonia.Value, error) { return gT, nil }}, out, grad)
			return gorgonia.Nodes{n}, err
		},
	}, out)
}

// TestChain: a block or a head does the sums of the operation before it where it is the
// only one behind that, and nowhere else; the gradients are central differences
// either way.
func TestChain(t *testing.T) {
	for _, branched := range []bool{false, true} {
		m := newChainNet(branched)
		s, err := newSession[float64](SessionConfig{Model: m, Batch: 3, Loss: halfSquares})
		if err != nil {
			t.Fatal(err)
		}
		if len(m.tails) < 2 {
			t.Errorf("branched %v: %d tails", branched, len(m.tails))
		}
		for i, tail := range m.tails {
			if tail.summed == branched {
				t.Errorf("branched %v: tail %d summed behind: %v", branched, i, tail.summed)
			}
		}
		r := rand.New(rand.NewPCG(3, 4))
		theta := make([]float64, m.layout.Len())
		m.Init(theta, r)
		x := make([]float64, m.In())
		for i := range 3 {
			for k := range x {
				x[k] = r.NormFloat64()
			}
			s.SetRow(i, x)
		}
		loss := func() float64 {
			s.Load(theta)
			v, err := s.Gradient(3)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		loss()
		grad := make([]float64, m.layout.Trainable())
		s.CopyGradient(grad)
		// The error of a difference is about step² times a third derivative, and
		// 1e-15/step times the loss.
		const step = 1e-5
		scale := 0.0
		for _, v := range grad {
			scale = max(scale, math.Abs(v))
		}
		for i := 0; i < len(grad); i += 3 {
			at := func(d float64) float64 {
				old := theta[i]
				theta[i] += d
				defer func() { theta[i] = old }()
				return loss()
			}
			d1, d2 := (at(step)-at(-step))/(2*step), (at(step/4)-at(-step/4))/(step/2)
			if math.Abs(d1-d2) > 1e-5*scale {
				continue // a maximum or a sign changed
			}
			if d := math.Abs(grad[i] - d1); d > 1e-5*scale {
				t.Errorf("branched %v: gradient[%d] = %v, central difference %v, scale %v", branched, i, grad[i], d1, scale)
			}
		}
	}
}
