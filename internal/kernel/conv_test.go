package kernel

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// convShapes are shapes with odd sizes, every stride, pad and relation of
// kernel to channels that changes a branch.
func convShapes() []ConvShape {
	return []ConvShape{
		{InH: 1, InW: 1, InC: 1, OutC: 1, KernelH: 1, KernelW: 1, StrideH: 1, StrideW: 1},
		{InH: 5, InW: 7, InC: 3, OutC: 5, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
		{InH: 6, InW: 5, InC: 4, OutC: 33, KernelH: 3, KernelW: 3, StrideH: 2, StrideW: 2, PadH: 1, PadW: 1},
		{InH: 11, InW: 13, InC: 3, OutC: 17, KernelH: 7, KernelW: 7, StrideH: 2, StrideW: 2, PadH: 3, PadW: 3},
		{InH: 9, InW: 8, InC: 2, OutC: 3, KernelH: 2, KernelW: 5, StrideH: 3, StrideW: 1, PadH: 0, PadW: 4},
		{InH: 8, InW: 9, InC: 5, OutC: 4, KernelH: 1, KernelW: 1, StrideH: 2, StrideW: 3},
		// Pads beyond the kernel: windows without input.
		{InH: 3, InW: 4, InC: 2, OutC: 3, KernelH: 2, KernelW: 1, StrideH: 1, StrideW: 2, PadH: 3, PadW: 2},
		{InH: 2, InW: 1, InC: 1, OutC: 2, KernelH: 1, KernelW: 1, StrideH: 5, StrideW: 4, PadH: 4, PadW: 3},
		// A run longer than a block, and one that fills it exactly.
		{InH: 4, InW: 3, InC: blockK + 5, OutC: 2, KernelH: 1, KernelW: 2, StrideH: 1, StrideW: 1},
		{InH: 4, InW: 5, InC: blockK / 2, OutC: 3, KernelH: 2, KernelW: 2, StrideH: 1, StrideW: 1, PadW: 1},
		// An image wider than a block.
		{InH: 2, InW: blockK + 3, InC: 2, OutC: 3, KernelH: 1, KernelW: 2, StrideH: 1, StrideW: 1},
		// More rows of output than a block.
		{InH: 2*blockRows + 1, InW: 3, InC: 2, OutC: 2, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1},
	}
}

func randomShape(r *rand.Rand) ConvShape {
	for {
		s := ConvShape{
			InH: 1 + r.IntN(12), InW: 1 + r.IntN(30), InC: 1 + r.IntN(9), OutC: 1 + r.IntN(70),
			KernelH: 1 + r.IntN(4), KernelW: 1 + r.IntN(4),
			StrideH: 1 + r.IntN(3), StrideW: 1 + r.IntN(3),
			PadH: r.IntN(3), PadW: r.IntN(3),
		}
		if s.Check() == nil {
			return s
		}
	}
}

// eachTap calls f for every product of the definition of one image: f(y, x, w)
// with the indices into the image y, the image x (-1 for padding) and the
// weights, in the order of Direct's chains.
func eachTap(s ConvShape, f func(y, x, w int)) {
	for h := range s.OutH() {
		for w := range s.OutW() {
			for o := range s.OutC {
				for r := range s.KernelH {
					for q := range s.KernelW {
						for i := range s.InC {
							x := -1
							xh, xw := h*s.StrideH+r-s.PadH, w*s.StrideW+q-s.PadW
							if xh >= 0 && xh < s.InH && xw >= 0 && xw < s.InW {
								x = (xh*s.InW+xw)*s.InC + i
							}
							f((h*s.OutW()+w)*s.OutC+o, x, ((o*s.InC+i)*s.KernelH+r)*s.KernelW+q)
						}
					}
				}
			}
		}
	}
}

// convTwin is the definition of a pass in float64, and the sum of the absolute
// values of each element's products, which scales the rounding error.
type convTwin struct{ y, dx, dw, yAbs, dxAbs, dwAbs []float64 }

func newConvTwin[T Float](s ConvShape, n int, x, dy, w []T) convTwin {
	t := convTwin{
		y: make([]float64, n*s.OutLen()), dx: make([]float64, n*s.InLen()), dw: make([]float64, s.WeightLen()),
		yAbs: make([]float64, n*s.OutLen()), dxAbs: make([]float64, n*s.InLen()), dwAbs: make([]float64, s.WeightLen()),
	}
	add := func(sum, abs *float64, a, b T) {
		p := float64(a) * float64(b)
		*sum += p
		*abs += max(p, -p)
	}
	for img := range n {
		in, out := img*s.InLen(), img*s.OutLen()
		eachTap(s, func(yi, xi, wi int) {
			if xi < 0 {
				return
			}
			yi, xi = yi+out, xi+in
			add(&t.y[yi], &t.yAbs[yi], x[xi], w[wi])
			add(&t.dx[xi], &t.dxAbs[xi], dy[yi], w[wi])
			add(&t.dw[wi], &t.dwAbs[wi], x[xi], dy[yi])
		})
	}
	return t
}

// unitOf is half the distance from 1 to the next T.
func unitOf[T Float]() float64 {
	if isFloat64[T]() {
		return 0x1p-53
	}
	return 0x1p-24
}

// wantClose fails unless |got - want| <= c unit abs for each element.
func wantClose[T Float](t *testing.T, name string, got []T, want, abs []float64, c float64) {
	t.Helper()
	for i, v := range got {
		e := float64(v) - want[i]
		if !(max(e, -e) <= c*unitOf[T]()*abs[i]) {
			t.Fatalf("%s: element %d of %d is %v, want %v within %v", name, i, len(got), v, want[i], c*unitOf[T]()*abs[i])
		}
	}
}

func newConv[T Float](t testing.TB, s ConvShape, a Algorithm) *Conv[T] {
	t.Helper()
	c, err := NewConv[T](s, a)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The error of a chain of k rounded steps is at most (k+1) units of the sum of
// absolute values to first order (Higham 2002, section 3.1); the factor 2
// covers the rest.
func testConvDirect[T Float](t *testing.T) {
	r := newRand()
	shapes := convShapes()
	for range 15 {
		shapes = append(shapes, randomShape(r))
	}
	s := NewScratch[T](1)
	for _, shape := range shapes {
		n := 1 + r.IntN(3)
		c := newConv[T](t, shape, Direct)
		x, dy, w := newNormal[T](r, n*shape.InLen()), newNormal[T](r, n*shape.OutLen()), newNormal[T](r, shape.WeightLen())
		y, dx, dw := newGuarded[T](r, n*shape.OutLen()), newGuarded[T](r, n*shape.InLen()), newNormal[T](r, shape.WeightLen())
		old := append([]T(nil), dw.x...)
		twin := newConvTwin(shape, n, x.x, dy.x, w.x)
		weights := Weights[T]{Data: w.x}
		c.Forward(s, y.x, x.x, n, weights)
		c.BackwardData(s, dx.x, dy.x, n, weights)
		c.BackwardWeights(s, dw.x, x.x, dy.x, n, false)
		taps := shape.KernelH * shape.KernelW
		name := fmt.Sprintf("%+v n=%d", shape, n)
		wantClose(t, "y of "+name, y.x, twin.y, twin.yAbs, float64(2*(taps*shape.InC+1)))
		wantClose(t, "dx of "+name, dx.x, twin.dx, twin.dxAbs, float64(2*(taps*shape.OutC+1)))
		wantClose(t, "dw of "+name, dw.x, twin.dw, twin.dwAbs, float64(2*(n*shape.OutH()*shape.OutW()+1)))
		sum := append([]T(nil), old...)
		for i, v := range dw.x {
			sum[i] = v + old[i]
		}
		copy(dw.x, old)
		c.BackwardWeights(s, dw.x, x.x, dy.x, n, true)
		wantSame(t, "accumulated dw of "+name, dw.x, sum)
		for _, g := range []guarded[T]{y, dx, dw, x, dy, w} {
			g.check(t, name)
		}
	}
}

func TestConvDirect(t *testing.T) { onTypes(t, testConvDirect[float32], testConvDirect[float64]) }
