package nn_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"fedrspo/nn"

	"gorgonia.org/gorgonia"
)

// imageNet is a small residual network: an optional 1x1 convolution, so that
// the stem's input has a gradient, a stem, blocks, and a head. It is made of the
// block operations, or of single layers.
type imageNet struct {
	h, w, c, channels, blocks, gridH, gridW int
	pre, convHead, layers                   bool
	layout                                  *nn.Layout
}

const testStemKernel = 5

func newImageNet(m imageNet) *imageNet {
	l := new(nn.Layout)
	var norms []string
	norm := func(name string) {
		l.Add(name+".weight", m.channels)
		l.Add(name+".bias", m.channels)
		norms = append(norms, name)
	}
	if m.pre {
		l.Add("pre.weight", m.c, m.c, 1, 1)
		l.Add("pre.bias", m.c)
	}
	l.Add("conv1.weight", m.channels, m.c, testStemKernel, testStemKernel)
	norm("bn1")
	for i := range m.blocks {
		for _, part := range []string{"1", "2"} {
			l.Add(fmt.Sprintf("block%d.conv%s.weight", i, part), m.channels, m.channels, 3, 3)
			norm(fmt.Sprintf("block%d.bn%s", i, part))
		}
	}
	if m.convHead {
		l.Add("head.weight", 1, m.channels, 1, 1)
		l.Add("head.bias", 1)
	}
	for _, n := range norms {
		l.AddBuffer(n+".running_mean", m.channels)
		l.AddBuffer(n+".running_var", m.channels)
	}
	m.layout = l
	return &m
}

func (m *imageNet) Name() string       { return "image net" }
func (m *imageNet) In() int            { return m.h * m.w * m.c }
func (m *imageNet) Out() int           { return m.gridH * m.gridW }
func (m *imageNet) Layout() *nn.Layout { return m.layout }

// Init draws numbers that are exact in float32, the variances positive.
func (m *imageNet) Init(theta []float64, r *rand.Rand) {
	for _, s := range m.layout.Segments() {
		for i := range s.Slice(theta) {
			v := r.NormFloat64()
			switch {
			case len(s.Shape) == 4:
				v *= 0.4
			case s.Name[len(s.Name)-4:] == "_var":
				v = 0.5 + v*v
			}
			s.Slice(theta)[i] = float64(float32(v))
		}
	}
}

// steps passes an error on, so that layers can be written one after the other.
type steps struct{ err error }

func (s *steps) do(im nn.Images, err error) nn.Images {
	if s.err == nil {
		s.err = err
	}
	return im
}

func (m *imageNet) Build(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	im, err := b.Images(x, m.h, m.w, m.c)
	if err != nil {
		return nil, err
	}
	s := new(steps)
	if m.pre {
		im = s.do(b.Conv2D(im, "pre", 1, 0))
	}
	if !m.layers {
		if im, err = b.Stem(im, "conv1", "bn1"); err != nil {
			return nil, err
		}
		for i := range m.blocks {
			if im, err = b.BasicBlock(im, fmt.Sprintf("block%d", i)); err != nil {
				return nil, err
			}
		}
		if m.convHead {
			im = s.do(b.ConvHead(im, "head", m.gridH, m.gridW))
		} else {
			im = s.do(b.MeanHead(im, m.gridH, m.gridW))
		}
		return im.Node, s.err
	}
	im = s.do(b.Conv2D(im, "conv1", 2, testStemKernel/2))
	im = s.do(b.BatchNorm(im, "bn1"))
	im = s.do(b.ReLU(im))
	im = s.do(b.MaxPool(im, 3, 2, 1))
	for i := range m.blocks {
		name := fmt.Sprintf("block%d.", i)
		h := s.do(b.Conv2D(im, name+"conv1", 1, 1))
		h = s.do(b.BatchNorm(h, name+"bn1"))
		h = s.do(b.ReLU(h))
		h = s.do(b.Conv2D(h, name+"conv2", 1, 1))
		h = s.do(b.BatchNorm(h, name+"bn2"))
		h = s.do(b.Add(h, im))
		im = s.do(b.ReLU(h))
	}
	im = s.do(b.AdaptiveMaxPool(im, m.gridH, m.gridW))
	if m.convHead {
		im = s.do(b.Conv2D(im, "head", 1, 0))
		im = s.do(b.ReLU(im))
	} else {
		im = s.do(b.ChannelMean(im))
	}
	return im.Node, s.err
}

// pictures are images in float64, channels last, for the twin.
type pictures struct {
	h, w, c int
	rows    [][]float64
}

func (p pictures) at(i, h, w, c int) *float64 { return &p.rows[i][(h*p.w+w)*p.c+c] }

func newPictures(n, h, w, c int) pictures {
	p := pictures{h, w, c, make([][]float64, n)}
	for i := range p.rows {
		p.rows[i] = make([]float64, h*w*c)
	}
	return p
}

// each calls f for every element.
func (p pictures) each(f func(i, h, w, c int)) {
	for i := range p.rows {
		for h := range p.h {
			for w := range p.w {
				for c := range p.c {
					f(i, h, w, c)
				}
			}
		}
	}
}

func (p pictures) apply(f func(v float64) float64) pictures {
	p.each(func(i, h, w, c int) { v := p.at(i, h, w, c); *v = f(*v) })
	return p
}

func relu(v float64) float64 { return max(v, 0) }

func (p pictures) conv(weight, bias []float64, out, k, stride, pad int) pictures {
	y := newPictures(len(p.rows), (p.h+2*pad-k)/stride+1, (p.w+2*pad-k)/stride+1, out)
	y.each(func(i, h, w, o int) {
		sum := 0.0
		if bias != nil {
			sum = bias[o]
		}
		for c := range p.c {
			for r := range k {
				for s := range k {
					ih, iw := h*stride+r-pad, w*stride+s-pad
					if ih >= 0 && ih < p.h && iw >= 0 && iw < p.w {
						sum += weight[((o*p.c+c)*k+r)*k+s] * *p.at(i, ih, iw, c)
					}
				}
			}
		}
		*y.at(i, h, w, o) = sum
	})
	return y
}

// pool takes the maximum over windows from lo(i, in, out) to hi(i, in, out).
func (p pictures) pool(outH, outW int, lo, hi func(i, in, out int) int) pictures {
	y := newPictures(len(p.rows), outH, outW, p.c)
	y.each(func(i, h, w, c int) {
		v := math.Inf(-1)
		for ih := max(0, lo(h, p.h, outH)); ih < min(p.h, hi(h, p.h, outH)); ih++ {
			for iw := max(0, lo(w, p.w, outW)); iw < min(p.w, hi(w, p.w, outW)); iw++ {
				v = max(v, *p.at(i, ih, iw, c))
			}
		}
		*y.at(i, h, w, c) = v
	})
	return y
}

// twin is the network written out in float64 with two-pass statistics. In
// training it moves the running statistics in theta.
func (m *imageNet) twin(theta []float64, x [][]float64, train bool) [][]float64 {
	get := func(name string) []float64 {
		s, ok := m.layout.Find(name)
		if !ok {
			panic(name)
		}
		return s.Slice(theta)
	}
	norm := func(p pictures, name string) pictures {
		gamma, beta := get(name+".weight"), get(name+".bias")
		mean, variance := get(name+".running_mean"), get(name+".running_var")
		if train {
			n := float64(len(p.rows) * p.h * p.w)
			mu, v := make([]float64, p.c), make([]float64, p.c)
			p.each(func(i, h, w, c int) { mu[c] += *p.at(i, h, w, c) / n })
			p.each(func(i, h, w, c int) { d := *p.at(i, h, w, c) - mu[c]; v[c] += d * d / n })
			for c := range p.c {
				mean[c] = 0.9*mean[c] + 0.1*mu[c]
				variance[c] = 0.9*variance[c] + 0.1*v[c]*n/(n-1)
			}
			mean, variance = mu, v
		}
		p.each(func(i, h, w, c int) {
			v := p.at(i, h, w, c)
			*v = gamma[c]*(*v-mean[c])/math.Sqrt(variance[c]+1e-5) + beta[c]
		})
		return p
	}
	p := pictures{m.h, m.w, m.c, x}
	if m.pre {
		p = p.conv(get("pre.weight"), get("pre.bias"), m.c, 1, 1, 0)
	}
	p = norm(p.conv(get("conv1.weight"), nil, m.channels, testStemKernel, 2, testStemKernel/2), "bn1").apply(relu)
	p = p.pool((p.h-1)/2+1, (p.w-1)/2+1, func(i, _, _ int) int { return 2*i - 1 }, func(i, _, _ int) int { return 2*i + 2 })
	for k := range m.blocks {
		name := fmt.Sprintf("block%d.", k)
		h := norm(p.conv(get(name+"conv1.weight"), nil, m.channels, 3, 1, 1), name+"bn1").apply(relu)
		h = norm(h.conv(get(name+"conv2.weight"), nil, m.channels, 3, 1, 1), name+"bn2")
		h.each(func(i, r, s, c int) { *h.at(i, r, s, c) = relu(*h.at(i, r, s, c) + *p.at(i, r, s, c)) })
		p = h
	}
	p = p.pool(m.gridH, m.gridW, func(i, in, out int) int { return i * in / out }, func(i, in, out int) int { return ((i+1)*in + out - 1) / out })
	if m.convHead {
		return p.conv(get("head.weight"), get("head.bias"), 1, 1, 1, 0).apply(relu).rows
	}
	mean := make([]float64, m.channels)
	for c := range mean {
		mean[c] = 1 / float64(m.channels)
	}
	return p.conv(mean, nil, 1, 1, 1, 0).rows
}

// loss is the twin's value of a target loss over the first rows rows.
func (m *imageNet) loss(l *target, theta []float64, x [][]float64) float64 {
	sum := 0.0
	for i, row := range m.twin(theta, x[:l.rows], true) {
		for j, y := range row {
			r := y - l.t[i*m.Out()+j]
			sum += r * r / 2
		}
	}
	return sum / float64(l.rows)
}
