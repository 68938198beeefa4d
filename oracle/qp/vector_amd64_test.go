//go:build amd64 && !purego

package qp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The assembly returns the bits of the Go code, for bands of every remainder,
// and touches no more than the padding.
func TestBandMatrixLevels(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(35, uint64(level)))
		for k := range 400 {
			n, band := 1+r.IntN(60), 3+k%40
			a, b := randomBandMatrix(r, n, band), newBandMatrix(n, band)
			copy(b.edge, a.edge)
			copy(b.ground, a.ground)
			x, y := a.vector(), b.vector()
			for i := range n {
				x[i] = r.NormFloat64()
			}
			copy(y, x)
			vectorActive = vectorGo
			a.decompose()
			a.solve(x)
			vectorActive = level
			b.decompose()
			b.solve(y)
			for _, pair := range [][2][]float64{{a.edge, b.edge}, {a.ground, b.ground}, {a.inverse, b.inverse}, {x, y}} {
				for i, want := range pair[0] {
					if got := pair[1][i]; math.Float64bits(got) != math.Float64bits(want) {
						t.Fatalf("n %d, band %d: element %d is %v, want %v", n, band, i, got, want)
					}
				}
			}
		}
	})
}

// eachLevel runs a test for every level of assembly.
func eachLevel(t *testing.T, run func(t *testing.T, level vectorLevel)) {
	defer func(level vectorLevel) { vectorActive = level }(vectorActive)
	for _, level := range []vectorLevel{vectorAVX2, vectorAVX512} {
		t.Run(fmt.Sprintf("level=%d", level), func(t *testing.T) {
			if level > vectorBest() {
				t.Skip("the processor does not have it")
			}
			run(t, level)
		})
	}
}

// The flow kernels return the bits of the Go code too, also for steps that do
// not exist, with y = 0 and z = +Inf.
func TestFlowLevels(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(36, uint64(level)))
		for round := range 200 {
			n := flowLanes * (1 + round%9)
			var got, want [9][]float64
			for i := range want {
				for range n {
					want[i] = append(want[i], r.NormFloat64()*math.Exp(3*r.NormFloat64()))
				}
			}
			y, z := want[2], want[3]
			for k := range n {
				y[k], z[k] = math.Abs(y[k]), math.Abs(z[k])
				if r.IntN(4) == 0 {
					y[k], z[k] = 0, math.Inf(1)
				}
			}
			var acc [2][5][flowLanes]float64
			for i := range want {
				got[i] = append([]float64(nil), want[i]...)
			}
			run := func(level vectorLevel, v [9][]float64, acc *[5][flowLanes]float64) {
				vectorActive = level
				out, in, y, z, iz, cond, sum, t, dz := v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]
				flowMultiply(out, in, dz)
				flowMultiplyAdd(out, in, t)
				flowWeigh(y, z, iz, cond, sum)
				flowPredict(out, in, y, cond, iz, t, (*[2][flowLanes]float64)(acc[:2]))
				flowCentre(0.1, t, iz, out, in)
				flowAdvance(out, in, y, cond, iz, t, dz, (*[2][flowLanes]float64)(acc[2:4]))
				flowProducts(y, z, &acc[4])
			}
			run(vectorGo, want, &acc[0])
			run(level, got, &acc[1])
			if acc[0] != acc[1] {
				t.Fatalf("lanes %v, want %v", acc[1], acc[0])
			}
			for i := range want {
				for k, x := range want[i] {
					if y := got[i][k]; x != y && !(math.IsNaN(x) && math.IsNaN(y)) {
						t.Fatalf("vector %d, element %d is %v, want %v", i, k, y, x)
					}
				}
			}
		}
	})
}
