// Package nn holds networks as Gorgonia graphs of fused operations over flat
// parameter vectors, and what training them needs: seeded initialisers, Adam
// with clipping, and checkpoints that PyTorch users can open.
//
// A [Model] names its parameters (Layout), initialises them and builds its
// graph. A [Session] is one worker's compiled copy: it loads a flat vector,
// computes predictions or a gradient, and updates. Sessions are independent
// and run in parallel; a model is shared.
//
// A [Builder] has a dense layer, layers on images, and blocks that fuse several
// of those: [Builder.Stem], [Builder.BasicBlock] and two heads. Running
// statistics of batch normalisation are buffers of the Layout: only training
// runs move them, and they are loaded, stored, averaged and saved with the
// parameters.
//
// Vectors cross the package's border as []float64, also for float32 models, so
// that averaging rounds once.
package nn

import (
	"fmt"
	"math/rand/v2"

	"gorgonia.org/gorgonia"
)

// Model describes a network. It holds no parameters and is safe to share.
type Model interface {
	// Name is the model's name on the command line.
	Name() string
	// In and Out are the number of features and of outputs of a sample.
	In() int
	Out() int
	// Layout names the parameters. Every call returns the same layout.
	Layout() *Layout
	// Init writes initial parameters to theta, of length Layout().Len().
	Init(theta []float64, r *rand.Rand)
	// Build adds the network to the builder's graph and returns the output
	// node [batch, Out] for input node x [batch, In].
	Build(b *Builder, x *gorgonia.Node) (*gorgonia.Node, error)
}

// MLP is the paper's predictor for tables (appendix C.1): In features, one hidden
// layer with ReLU, Out unbounded linear outputs.
type MLP struct {
	in, hidden, out int
	layout          Layout
}

// NewMLP returns an MLP with parameters fc1.weight [hidden, in], fc1.bias,
// fc2.weight [out, hidden], fc2.bias.
func NewMLP(in, hidden, out int) *MLP {
	m := &MLP{in: in, hidden: hidden, out: out}
	m.layout.Add("fc1.weight", hidden, in)
	m.layout.Add("fc1.bias", hidden)
	m.layout.Add("fc2.weight", out, hidden)
	m.layout.Add("fc2.bias", out)
	return m
}

// Name returns "mlp".
func (m *MLP) Name() string { return "mlp" }

// In returns the number of features.
func (m *MLP) In() int { return m.in }

// Out returns the number of outputs.
func (m *MLP) Out() int { return m.out }

// Layout implements Model.
func (m *MLP) Layout() *Layout { return &m.layout }

// Init draws weights Glorot uniform and sets biases to zero.
func (m *MLP) Init(theta []float64, r *rand.Rand) { initLinear(&m.layout, theta, r) }

// Build implements Model.
func (m *MLP) Build(b *Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	h, err := b.Linear(x, "fc1", true)
	if err != nil {
		return nil, err
	}
	return b.Linear(h, "fc2", false)
}

// Linear is the bias-free linear predictor ĉ = Θx of the paper's table 18.
type Linear struct {
	in, out int
	layout  Layout
}

// NewLinear returns a Linear with the parameter weight [out, in].
func NewLinear(in, out int) *Linear {
	m := &Linear{in: in, out: out}
	m.layout.Add("weight", out, in)
	return m
}

// Name returns "linear".
func (m *Linear) Name() string { return "linear" }

// In returns the number of features.
func (m *Linear) In() int { return m.in }

// Out returns the number of outputs.
func (m *Linear) Out() int { return m.out }

// Layout implements Model.
func (m *Linear) Layout() *Layout { return &m.layout }

// Init draws the weight Glorot uniform.
func (m *Linear) Init(theta []float64, r *rand.Rand) { initLinear(&m.layout, theta, r) }

// Build implements Model.
func (m *Linear) Build(b *Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	return b.Linear(x, "", false)
}

// initLinear draws every matrix of l Glorot uniform, with its rows as fan out
// and its columns as fan in, and sets every vector to zero.
func initLinear(l *Layout, theta []float64, r *rand.Rand) {
	if len(theta) != l.Len() {
		panic(fmt.Sprintf("nn: init of a vector of length %d, want %d", len(theta), l.Len()))
	}
	clear(theta)
	for _, s := range l.Segments() {
		if len(s.Shape) == 2 {
			GlorotUniform(s.Slice(theta), s.Shape[1], s.Shape[0], r)
		}
	}
}
