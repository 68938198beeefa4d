package kernel

import "fmt"

// packedWeights is a form of the weights that one pass reads.
type packedWeights[T Float] struct {
	packed  []T
	source  *T
	version uint64
	level   level
}

// pack brings p up to date: fill writes p.packed from w.
func (c *Conv[T]) pack(p *packedWeights[T], w Weights[T], fill func(p *packedWeights[T], w []T)) {
	if len(w.Data) != c.shape.WeightLen() {
		panic(fmt.Sprintf("kernel.Conv: weights have %d elements, want %d", len(w.Data), c.shape.WeightLen()))
	}
	if w.Version != 0 && w.Version == p.version && p.source == &w.Data[0] && p.level == active {
		return
	}
	fill(p, w.Data)
	p.source, p.version, p.level = &w.Data[0], w.Version, active
}

// roundUp returns the least multiple of step that is at least n.
func roundUp(n, step int) int { return (n + step - 1) / step * step }

// packForward packs the weights for Forward.
func (c *Conv[T]) packForward(p *packedWeights[T], w []T) {
	s := c.shape
	taps := s.KernelH * s.KernelW
	for i := range s.InC {
		for o := range s.OutC {
			for tap, v := range w[(o*s.InC+i)*taps:][:taps] {
				c.hwio[(tap*s.InC+i)*s.OutC+o] = v
			}
		}
	}
	c.packTaps(p, &c.forward)
}

// packBackward packs the weights for BackwardData: each kernel turned by half a
// turn, input and output channels exchanged.
func (c *Conv[T]) packBackward(p *packedWeights[T], w []T) {
	s := c.shape
	taps := s.KernelH * s.KernelW
	for o := range s.OutC {
		for i := range s.InC {
			for tap, v := range w[(o*s.InC+i)*taps:][:taps] {
				c.hwio[((taps-1-tap)*s.OutC+o)*s.InC+i] = v
			}
		}
	}
	c.packTaps(p, &c.backward)
}

// packTaps packs c.hwio, of the shape of g.
func (c *Conv[T]) packTaps(p *packedWeights[T], g *correlation) {
	if c.algorithm == Winograd {
		winogradPack(p, c.hwio, g)
		return
	}
	w := panelWidth[T]()
	k := g.kernelH * g.kernelW * g.inC
	packPanels(grow(&p.packed, k*roundUp(g.outC, w)), w, c.hwio, g.outC, false, 0, k, 0, g.outC)
}

// unpack writes a gradient [KernelH, KernelW, InC, OutC] to dw, or adds it.
func (c *Conv[T]) unpack(dw, hwio []T, accumulate bool) {
	s := c.shape
	taps := s.KernelH * s.KernelW
	for i := range s.InC {
		for o := range s.OutC {
			d := dw[(o*s.InC+i)*taps:][:taps]
			for tap := range d {
				v := hwio[(tap*s.InC+i)*s.OutC+o]
				if accumulate {
					v += d[tap]
				}
				d[tap] = v
			}
		}
	}
}
