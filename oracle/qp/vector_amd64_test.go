//go:build amd64 && !purego

package qp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle/dijkstra"
)

// The assembly returns the bits of the Go code, for bands of every remainder,
// and touches no more than the padding.
func TestBandMatrixLevels(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(35, uint64(level)))
		for k := range 400 {
			n, band := 1+r.IntN(60), 3+k%40
			a, b := randomBandMatrix(r, n, band), newBandMatrix(n, band, 1)
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

// Eight matrices in lanes have the bits of eight matrices.
func TestBandMatrixLanes(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(37, uint64(level)))
		for k := range 120 {
			n, band := 1+r.IntN(60), 3+k%40
			together := newBandMatrix(n, band, flowLanes)
			var one [flowLanes]*bandMatrix
			var x [flowLanes][]float64
			all := together.vector()
			for l := range one {
				m := randomBandMatrix(r, n, band)
				one[l], x[l] = m, m.vector()
				for i := range m.n + band {
					for j := range band {
						together.edge[(i*together.stride+j)*flowLanes+l] = m.edge[i*m.stride+j]
					}
				}
				for i, g := range m.ground {
					together.ground[i*flowLanes+l] = g
				}
				for i := range n {
					x[l][i] = r.NormFloat64()
					all[i*flowLanes+l] = x[l][i]
				}
			}
			vectorActive = level
			if k%10 == 0 {
				vectorActive = vectorGo // the slow twin for lanes too
			}
			together.decompose()
			together.solve(all)
			vectorActive = level
			for l, m := range one {
				m.decompose()
				m.solve(x[l])
				for i, want := range x[l] {
					if got := all[i*flowLanes+l]; math.Float64bits(got) != math.Float64bits(want) {
						t.Fatalf("n %d, band %d, lane %d: element %d is %v, want %v", n, band, l, i, got, want)
					}
				}
				for i := range m.n + band {
					for j := range together.stride {
						if got, want := together.edge[(i*together.stride+j)*flowLanes+l], m.edge[i*m.stride+j]; got != want {
							t.Fatalf("n %d, band %d, lane %d: edge %d of row %d is %v, want %v", n, band, l, j, i, got, want)
						}
					}
				}
			}
		}
	})
}

// The kernels over steps and cells return the bits of the Go code too, also for
// steps that do not exist, with y = 0 and z = +Inf, and places that are no cell.
func TestFlowLevels(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(36, uint64(level)))
		for round := range 400 {
			lanes := []int{1, flowLanes}[round%2]
			n := flowLanes * flowLanes * (1 + round%5)
			if lanes == 1 {
				n = flowLanes * (1 + round%9)
			}
			var got, want [24][]float64
			for i := range want {
				for range n {
					want[i] = append(want[i], r.NormFloat64()*math.Exp(3*r.NormFloat64()))
				}
			}
			for k := range n {
				for i := range 7 {
					want[i][k] = math.Abs(want[i][k])
				}
				if r.IntN(4) == 0 {
					want[0][k], want[1][k] = 0, math.Inf(1)
				}
				want[4][k], want[5][k] = float64(r.IntN(2)), float64(r.IntN(2))
				if want[4][k] == 0 {
					want[2][k], want[3][k] = 1, 0
				}
			}
			for i := range want {
				got[i] = append([]float64(nil), want[i]...)
			}
			target, size := octet(want[22]), octet(want[6])
			run := func(level vectorLevel, v [24][]float64) (totals [6]flowTotals) {
				vectorActive = level
				y, z, s, u, inner, star, sum := v[0], v[1], v[2], v[3], v[4], v[5], v[6]
				iz, cond, t, out, in, p, w := v[7], v[8], v[9], v[10], v[11], v[12], v[13]
				is, give, inverse, c, bIn, bOut, dw, du := v[14], v[15], v[16], v[17], v[18], v[19], v[20], v[21]
				flowMultiply(out, in, v[22])
				flowMultiplyAdd(out, in, v[23])
				flowWeigh(y, z, iz, cond, sum)
				cellWeigh(s, u, inner, star, sum, is, give, inverse)
				cellAim(p, out, in, w, give, c, bIn, bOut)
				cellPredict(bOut, bIn, give, c, u, is, dw, du, &totals[0], lanes)
				flowPredict(out, in, y, cond, iz, t, &totals[1], lanes)
				cellCentre(&target, give, dw, is, du, c, v[22], v[23])
				flowCentre(&target, t, iz, v[23], v[22])
				cellAdvance(bOut, bIn, give, c, u, is, dw, du, &totals[2], lanes)
				flowAdvance(out, in, y, cond, iz, t, &totals[3], lanes)
				cellUpdate(&size, dw, du, w, s, u, &totals[4], lanes)
				flowUpdate(&size, t, out, in, y, z, &totals[5], lanes)
				flowStep(&size, out, in)
				return totals
			}
			a, b := run(vectorGo, want), run(level, got)
			if a != b {
				t.Fatalf("totals %v, want %v", b, a)
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

// So do those for stars.
func TestStarLevels(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(38, uint64(level)))
		for round := range 200 {
			lanes, members, span := []int{1, flowLanes}[round%2], []int{5, 9}[round/2%2], 1+r.IntN(20)
			const places = 30
			stars := pathStars{members: members}
			for range 1 + r.IntN(30) {
				stars.heads = append(stars.heads, int32(8*lanes*r.IntN(span)))
				for range members * (members - 1) / 2 {
					stars.to = append(stars.to, int32(8*lanes*r.IntN(places)))
				}
			}
			vector := func(n int) []float64 {
				x := make([]float64, n*lanes)
				for i := range x {
					x[i] = math.Exp(3 * r.NormFloat64())
				}
				return x
			}
			cond, inverse, want := vector(members*span), vector(span), vector(places)
			got := append([]float64(nil), want...)
			vectorActive = vectorGo
			starMesh(lanes, &stars, span*lanes, cond, inverse, want)
			vectorActive = level
			starMesh(lanes, &stars, span*lanes, cond, inverse, got)
			for i, x := range want {
				if got[i] != x {
					t.Fatalf("%d lanes, %d members: edge %d is %v, want %v", lanes, members, i, got[i], x)
				}
			}
		}
	})
}

// So do passes over the labels.
func TestSweepLevels(t *testing.T) {
	eachLevel(t, func(t *testing.T, level vectorLevel) {
		r := rand.New(rand.NewPCG(41, uint64(level)))
		for round := range 300 {
			cfg := dijkstra.Config{Height: 1 + r.IntN(9), Width: 2 + r.IntN(9), Sink: dijkstra.Cell{Col: 1}, Neighbours: dijkstra.Neighbours(round % 2)}
			q := newPathWolfe(mustPath(cfg))
			for _, place := range q.f.place {
				q.g[place] = math.Floor(3 * r.Float64()) // with ties and zeros
				q.label[place] = math.Float64bits(math.Floor(9 * r.Float64()))
				if r.IntN(3) == 0 {
					q.label[place] = pathFar
				}
				if place != q.f.source {
					q.order = append(q.order, place)
				}
			}
			r.Shuffle(len(q.order), func(i, j int) { q.order[i], q.order[j] = q.order[j], q.order[i] })
			for pass := range 6 {
				before := slices.Clone(q.label)
				vectorActive = vectorGo
				changed := q.sweep()
				want := slices.Clone(q.label)
				copy(q.label, before)
				vectorActive = level
				if got := q.sweep(); got != changed || !slices.Equal(q.label, want) {
					t.Fatalf("%+v, pass %d: %v and %v, want %v and %v", cfg, pass, got, q.label, changed, want)
				}
			}
		}
	})
}
