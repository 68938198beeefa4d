// Package resnet is the paper's network for maps (paper, appendix C): ResNet-18
// (He et al. 2016) cut off after its first two residual blocks, without
// pretraining. From an image [8G, 8G, 3], channels last, to a grid [G, G]:
//
//	conv 7x7/2, 3→64 · batch norm · ReLU · max pool 3x3/2    [2G, 2G, 64]
//	two basic blocks of conv 3x3 · batch norm · ReLU
//	  · conv 3x3 · batch norm · + identity · ReLU             [2G, 2G, 64]
//	max pool to the grid                                      [G, G, 64]
//	mean over the channels                                    [G, G]
//
// 157,504 trainable parameters, none of them depending on G.
package resnet

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"fedrspo/nn"

	"gorgonia.org/gorgonia"
)

const (
	channels   = 64
	colours    = 3
	stemKernel = 7
	// scale is the side of the image over that of the grid.
	scale = 8

	defaultGrid, maxGrid = 12, 128
)

// Head is the network's output layer, behind the pooling to the grid.
type Head uint8

const (
	// Mean, the zero value, is the paper's: the mean over the channels. The
	// output is not negative.
	Mean Head = iota
	// Conv1x1 is a convolution with kernel 1x1 to one channel, clamped at zero.
	// It starts out as the mean.
	Conv1x1
)

// Config describes a network.
type Config struct {
	// Grid is the side G of the output, at most 128; 0 means 12. The maps of
	// Vlastelica et al. (2020) have 12, 18, 24 and 30. The image has side 8G.
	Grid int
	// Head is the output layer.
	Head Head
}

// Model is the network. It implements [nn.Model].
type Model struct {
	grid   int
	head   Head
	layout nn.Layout
}

var blocks = []string{"layer1.0", "layer1.1"}

// New returns the network that cfg describes. The parameters have the names of
// torchvision's resnet18, and those of a Conv1x1 head are head.weight and
// head.bias; PyTorch's num_batches_tracked is not among the buffers. It returns
// an error for a grid or a head that does not exist.
func New(cfg Config) (*Model, error) {
	m := &Model{grid: cfg.Grid, head: cfg.Head}
	if m.grid == 0 {
		m.grid = defaultGrid
	}
	if m.grid < 1 || m.grid > maxGrid {
		return nil, fmt.Errorf("resnet: grid of side %d, want 1 to %d", m.grid, maxGrid)
	}
	if m.head > Conv1x1 {
		return nil, fmt.Errorf("resnet: unknown head %d", m.head)
	}
	norms := []string{"bn1"}
	conv := func(name string, in, k int) { m.layout.Add(name+".weight", channels, in, k, k) }
	norm := func(name string) {
		m.layout.Add(name+".weight", channels)
		m.layout.Add(name+".bias", channels)
	}
	conv("conv1", colours, stemKernel)
	norm("bn1")
	for _, b := range blocks {
		for _, part := range []string{"1", "2"} {
			conv(b+".conv"+part, channels, 3)
			norm(b + ".bn" + part)
			norms = append(norms, b+".bn"+part)
		}
	}
	if m.head == Conv1x1 {
		m.layout.Add("head.weight", 1, channels, 1, 1)
		m.layout.Add("head.bias", 1)
	}
	for _, n := range norms {
		m.layout.AddBuffer(n+".running_mean", channels)
		m.layout.AddBuffer(n+".running_var", channels)
	}
	return m, nil
}

// Name returns "resnet", or "resnet-conv1x1" with that head.
func (m *Model) Name() string {
	if m.head == Conv1x1 {
		return "resnet-conv1x1"
	}
	return "resnet"
}

// Grid returns the side G of the output.
func (m *Model) Grid() int { return m.grid }

// Side returns the side 8G of the image.
func (m *Model) Side() int { return scale * m.grid }

// In returns the number of features: an image [8G, 8G, 3], row-major, its
// colours last.
func (m *Model) In() int { return m.Side() * m.Side() * colours }

// Out returns the number of outputs, G².
func (m *Model) Out() int { return m.grid * m.grid }

// Layout implements [nn.Model].
func (m *Model) Layout() *nn.Layout { return &m.layout }

// Init draws the convolutions Glorot uniform, with fans of kernel area times
// channels. Normalisations start as the identity with running mean 0 and
// variance 1. A Conv1x1 head starts as the mean of the channels: its inputs are
// not negative, so that random weights would clamp about half of all networks
// to zero everywhere, without a gradient.
func (m *Model) Init(theta []float64, r *rand.Rand) {
	if len(theta) != m.layout.Len() {
		panic(fmt.Sprintf("resnet: init of a vector of length %d, want %d", len(theta), m.layout.Len()))
	}
	clear(theta)
	for _, s := range m.layout.Segments() {
		w := s.Slice(theta)
		switch {
		case s.Name == "head.weight":
			fill(w, 1.0/channels)
		case len(s.Shape) == 4:
			area := s.Shape[2] * s.Shape[3]
			nn.GlorotUniform(w, area*s.Shape[1], area*s.Shape[0], r)
		case strings.HasSuffix(s.Name, ".weight"), strings.HasSuffix(s.Name, ".running_var"):
			fill(w, 1)
		}
	}
}

func fill(w []float64, v float64) {
	for i := range w {
		w[i] = v
	}
}

// Build implements [nn.Model].
func (m *Model) Build(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	im, err := b.Images(x, m.Side(), m.Side(), colours)
	if err != nil {
		return nil, err
	}
	if im, err = b.Stem(im, "conv1", "bn1"); err != nil {
		return nil, err
	}
	for _, name := range blocks {
		if im, err = b.BasicBlock(im, name); err != nil {
			return nil, err
		}
	}
	if m.head == Conv1x1 {
		im, err = b.ConvHead(im, "head", m.grid, m.grid)
	} else {
		im, err = b.MeanHead(im, m.grid, m.grid)
	}
	return im.Node, err
}
