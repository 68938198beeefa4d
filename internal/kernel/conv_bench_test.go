package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"fedrspo/internal/cputime"
)

// The convolutions of the truncated ResNet-18.
var (
	shapeConv1   = ConvShape{InH: 96, InW: 96, InC: 3, OutC: 64, KernelH: 7, KernelW: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3}
	shapeConv3x3 = ConvShape{InH: 24, InW: 24, InC: 64, OutC: 64, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
)

func shapeName(s ConvShape) string {
	return fmt.Sprintf("shape=%dx%dx%d-%dx%d", s.KernelH, s.KernelW, s.InC, s.InH, s.InW)
}

// alignedNormal returns n normal numbers in a slice of its own, which the
// allocator aligns, unlike a guarded one.
func alignedNormal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	fillNormal(r, x)
	return x
}

// BenchmarkConv is one pass over eight images, one thread. GFLOPS/cpu is per
// second of processor time and counts the operations of the definition, for
// Winograd too.
func BenchmarkConv(b *testing.B) {
	const n = 8
	for _, shape := range []ConvShape{shapeConv1, shapeConv3x3} {
		for _, pass := range []string{"forward", "data", "weights"} {
			for _, a := range []Algorithm{Direct, Winograd} {
				if a == Winograd && !winogradHas(shape) {
					continue
				}
				b.Run(fmt.Sprintf("%s/pass=%s/algo=%v", shapeName(shape), pass, a), func(b *testing.B) {
					for l := levelGo; l <= best(); l++ {
						b.Run("level="+l.String(), func(b *testing.B) {
							setLevel(b, l)
							benchConv(b, shape, a, pass, n)
						})
					}
				})
			}
		}
	}
}

func benchConv(b *testing.B, shape ConvShape, a Algorithm, pass string, n int) {
	r := newRand()
	c := newConv[float32](b, shape, a)
	s := NewScratch[float32](1)
	x, y := alignedNormal(r, n*shape.InLen()), alignedNormal(r, n*shape.OutLen())
	w := Weights[float32]{Data: alignedNormal(r, shape.WeightLen()), Version: 1}
	dw := make([]float32, shape.WeightLen())
	peak := fmaPeak()
	start := cputime.Now()
	for b.Loop() {
		switch pass {
		case "forward":
			c.Forward(s, y, x, n, w)
		case "data":
			c.BackwardData(s, x, y, n, w)
		default:
			c.BackwardWeights(s, dw, x, y, n, false)
		}
	}
	reportRate(b, float64(n)*shape.FLOP(), cputime.Now()-start, peak)
}

// fmaPeak returns the GFLOPS of fused multiply-adds on registers at the level
// in use, measured now, or 0 at level go.
func fmaPeak() float64 {
	best := 0.0
	for range 3 {
		best = max(best, fmaRate())
	}
	return best
}
