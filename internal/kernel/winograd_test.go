package kernel

import (
	"fmt"
	"math"
	"testing"
)

// errorL2 returns |got - want| / |scale|, Euclidean norms.
func errorL2[T Float](got []T, want, scale []float64) float64 {
	var e, s float64
	for i, v := range got {
		e += (float64(v) - want[i]) * (float64(v) - want[i])
		s += scale[i] * scale[i]
	}
	return math.Sqrt(e / s)
}

// winogradShapes have tiles that fit, tiles that cross the border, images
// smaller than a tile, channels that fill vectors and that do not.
func winogradShapes() []ConvShape {
	shapes := []ConvShape{
		{InH: 8, InW: 8, InC: 32, OutC: 40, PadH: 1, PadW: 1},
		// More channels than a block of k.
		{InH: 4, InW: 4, InC: blockK + 3, OutC: 3, PadH: 1, PadW: 1},
		// More tiles than a group, and than a block of k.
		{InH: 70, InW: 66, InC: 1, OutC: 2, PadH: 1, PadW: 1},
	}
	for i, c := range [][2]int{{1, 1}, {5, 18}, {16, 8}, {17, 33}} {
		for j, s := range [][2]int{{1, 1}, {3, 4}, {8, 8}, {5, 9}, {10, 7}} {
			for _, pad := range []int{1, (i + j) % 4} {
				shapes = append(shapes, ConvShape{InH: s[0], InW: s[1], InC: c[0], OutC: c[1], PadH: pad, PadW: (pad + 1) % 3})
			}
		}
	}
	var possible []ConvShape
	for _, s := range shapes {
		s.KernelH, s.KernelW, s.StrideH, s.StrideW = 3, 3, 1, 1
		if s.Check() == nil {
			possible = append(possible, s)
		}
	}
	return possible
}

// winogradUnits bounds the error of Winograd, in units of the norm of the sums
// of absolute products. That measure does not depend on the length of a sum;
// a direct sum of independent roundings stays below about one unit. The
// transformations enlarge roundings by their row sums (10 for Bᵀ, 19 for Aᵀ, on
// each side), of which ten units were measured on these shapes. A wrong
// coefficient or pixel gives thousands.
const winogradUnits = 16

func testWinograd[T Float](t *testing.T) {
	r := newRand()
	s := NewScratch[T](1)
	for _, shape := range winogradShapes() {
		n := 1 + r.IntN(2)
		c := newConv[T](t, shape, Winograd)
		x, dy, w := newNormal[T](r, n*shape.InLen()), newNormal[T](r, n*shape.OutLen()), newNormal[T](r, shape.WeightLen())
		y, dx, dw := newGuarded[T](r, n*shape.OutLen()), newGuarded[T](r, n*shape.InLen()), newNormal[T](r, shape.WeightLen())
		twin := newConvTwin(shape, n, x.x, dy.x, w.x)
		weights := Weights[T]{Data: w.x}
		c.Forward(s, y.x, x.x, n, weights)
		c.BackwardData(s, dx.x, dy.x, n, weights)
		c.BackwardWeights(s, dw.x, x.x, dy.x, n, false)
		name := fmt.Sprintf("%+v n=%d", shape, n)
		for _, v := range []struct {
			name      string
			got       []T
			want, abs []float64
		}{{"y", y.x, twin.y, twin.yAbs}, {"dx", dx.x, twin.dx, twin.dxAbs}, {"dw", dw.x, twin.dw, twin.dwAbs}} {
			if e := errorL2(v.got, v.want, v.abs) / unitOf[T](); !(e <= winogradUnits) {
				t.Errorf("%s of %s: error of %.1f units, want at most %d", v.name, name, e, winogradUnits)
			}
		}
		for _, g := range []guarded[T]{y, dx, dw, x, dy, w} {
			g.check(t, name)
		}
	}
}

func TestWinograd(t *testing.T) { onTypes(t, testWinograd[float32], testWinograd[float64]) }

// The relative errors on the network's shape: those of Winograd are about four
// times those of a direct sum, whose error is that of the chain, about
// sqrt(576) roundings of partial sums. The bounds are twice what was measured.
func TestConvAccuracy(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		r := newRand()
		shape := ConvShape{InH: 12, InW: 12, InC: 64, OutC: 64, KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
		x, dy, w := newNormal[float32](r, shape.InLen()).x, newNormal[float32](r, shape.OutLen()).x, newNormal[float32](r, shape.WeightLen()).x
		twin := newConvTwin(shape, 1, x, dy, w)
		s := NewScratch[float32](1)
		y, dx, dw := make([]float32, len(dy)), make([]float32, len(x)), make([]float32, len(w))
		for _, c := range []struct {
			a     Algorithm
			bound float64
		}{{Direct, 1e-6}, {Winograd, 4e-6}} {
			conv := newConv[float32](t, shape, c.a)
			weights := Weights[float32]{Data: w}
			conv.Forward(s, y, x, 1, weights)
			conv.BackwardData(s, dx, dy, 1, weights)
			conv.BackwardWeights(s, dw, x, dy, 1, false)
			for _, v := range []struct {
				name string
				got  []float32
				want []float64
			}{{"y", y, twin.y}, {"dx", dx, twin.dx}, {"dw", dw, twin.dw}} {
				e := errorL2(v.got, v.want, v.want)
				t.Logf("%v %s: relative error %.1e", c.a, v.name, e)
				if !(e <= c.bound) {
					t.Errorf("%v %s: relative error %.1e, want at most %.0e", c.a, v.name, e, c.bound)
				}
			}
		}
	})
}
