package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

func TestConvShape(t *testing.T) {
	ok := shapeConv1
	if ok.OutH() != 48 || ok.OutW() != 48 || ok.WeightLen() != 9408 || ok.FLOP() != 2*48*48*64*7*7*3 {
		t.Errorf("%+v: output %dx%d, %d weights, %v FLOP", ok, ok.OutH(), ok.OutW(), ok.WeightLen(), ok.FLOP())
	}
	for name, change := range map[string]func(s *ConvShape){
		"no rows":      func(s *ConvShape) { s.InH = 0 },
		"no channels":  func(s *ConvShape) { s.InC = 0 },
		"no outputs":   func(s *ConvShape) { s.OutC = -1 },
		"no stride":    func(s *ConvShape) { s.StrideW = 0 },
		"no kernel":    func(s *ConvShape) { s.KernelH = 0 },
		"negative pad": func(s *ConvShape) { s.PadH = -1 },
		"huge":         func(s *ConvShape) { s.InW = 1 << 20 },
		"huge image":   func(s *ConvShape) { s.InH, s.InW = 1<<15, 1<<15 },
		"huge padding": func(s *ConvShape) {
			s.InH, s.InW, s.PadH, s.PadW, s.StrideH, s.StrideW = 1, 1, 1<<15, 1<<15, 1<<15, 1<<15
		},
		"huge padding behind": func(s *ConvShape) {
			s.InH, s.InW, s.InC, s.KernelH, s.KernelW, s.OutC = 1<<12, 1<<12, 1, 1<<12, 1<<12, 40
		},
		"kernel too big": func(s *ConvShape) { s.InH, s.PadH = 3, 1 },
	} {
		s := ok
		change(&s)
		if _, err := NewConv[float32](s, Direct); !errors.Is(err, ErrShape) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := NewConv[float32](ok, Winograd); !errors.Is(err, ErrShape) {
		t.Errorf("winograd 7x7: error %v", err)
	}
	if _, err := NewConv[float32](ok, 9); !errors.Is(err, ErrShape) {
		t.Errorf("algorithm 9: error %v", err)
	}
	small, tiny := shapeConv3x3, shapeConv3x3
	small.InC = 3
	tiny.InH, tiny.InW = 2, 2
	for _, c := range []struct {
		s    ConvShape
		want Algorithm
	}{{shapeConv1, Direct}, {shapeConv3x3, Winograd}, {small, Direct}, {tiny, Direct}} {
		if a := newConv[float32](t, c.s, Auto).Algorithm(); a != c.want {
			t.Errorf("auto for %+v is %v, want %v", c.s, a, c.want)
		}
	}
}

// Weights are packed again exactly when their version, their slice or the level
// changes, and always at version zero.
func TestConvVersion(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		onAlgorithms(t, func(t *testing.T, a Algorithm) {
			r := newRand()
			shape := ConvShape{InH: 5, InW: 6, InC: 3, OutC: 5, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
			s := NewScratch[float64](1)
			x, w, w2 := newNormal[float64](r, shape.InLen()).x, newNormal[float64](r, shape.WeightLen()).x, newNormal[float64](r, shape.WeightLen()).x
			c := newConv[float64](t, shape, a)
			forward := func(c *Conv[float64], w []float64, version uint64) (y, dx []float64) {
				y, dx = make([]float64, shape.OutLen()), make([]float64, shape.InLen())
				c.Forward(s, y, x, 1, Weights[float64]{w, version})
				c.BackwardData(s, dx, y, 1, Weights[float64]{w, version})
				return y, dx
			}
			check := func(name string, w []float64, version uint64) {
				t.Helper()
				y, dx := forward(c, w, version)
				wantY, wantDX := forward(newConv[float64](t, shape, a), w, 0)
				wantSame(t, "y of "+name, y, wantY)
				wantSame(t, "dx of "+name, dx, wantDX)
			}
			check("first", w, 1)
			old, _ := forward(c, w, 1)
			w[0]++
			if y, _ := forward(c, w, 1); y[0] != old[0] || y[len(y)-1] != old[len(y)-1] {
				t.Error("packed again without a new version")
			}
			check("new version", w, 2)
			check("other slice", w2, 2)
			w2[3]--
			check("version zero", w2, 0)
			w2[3]--
			check("version zero again", w2, 0)
			for l := levelGo; l <= best(); l++ {
				check("version three", w, 3)
				setLevel(t, l)
				check("level "+l.String(), w, 3)
			}
		})
	})
}

func TestConvPanics(t *testing.T) {
	shape := ConvShape{InH: 4, InW: 4, InC: 2, OutC: 3, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
	c, s := newConv[float32](t, shape, Direct), NewScratch[float32](1)
	x, y, w := make([]float32, shape.InLen()), make([]float32, shape.OutLen()), make([]float32, shape.WeightLen())
	ok := Weights[float32]{Data: w}
	wantPanic(t, "short y", func() { c.Forward(s, y[1:], x, 1, ok) })
	wantPanic(t, "short x", func() { c.Forward(s, y, x, 2, ok) })
	wantPanic(t, "negative n", func() { c.Forward(s, y, x, -1, ok) })
	wantPanic(t, "weights", func() { c.Forward(s, y, x, 1, Weights[float32]{Data: w[1:]}) })
	wantPanic(t, "short dx", func() { c.BackwardData(s, x[1:], y, 1, ok) })
	wantPanic(t, "short dy", func() { c.BackwardData(s, x, y[1:], 1, ok) })
	wantPanic(t, "dw", func() { c.BackwardWeights(s, w[1:], x, y, 1, false) })
	wantPanic(t, "short dy for dw", func() { c.BackwardWeights(s, w, x, y[1:], 1, false) })
	wantPanic(t, "no threads", func() { NewScratch[float32](0) })
}

// An empty batch has the gradient zero, and touches nothing else.
func TestConvEmpty(t *testing.T) {
	onAlgorithms(t, func(t *testing.T, a Algorithm) {
		shape := ConvShape{InH: 4, InW: 4, InC: 2, OutC: 3, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
		c, s := newConv[float32](t, shape, a), NewScratch[float32](2)
		w := newNormal[float32](newRand(), shape.WeightLen()).x
		old := slices.Clone(w)
		c.Forward(s, nil, nil, 0, Weights[float32]{Data: w})
		c.BackwardData(s, nil, nil, 0, Weights[float32]{Data: w})
		c.BackwardWeights(s, w, nil, nil, 0, true)
		wantSame(t, "accumulated dw", w, old)
		c.BackwardWeights(s, w, nil, nil, 0, false)
		wantSame(t, "dw", w, make([]float32, len(w)))
	})
}
