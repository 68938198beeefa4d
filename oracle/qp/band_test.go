package qp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// randomBandMatrix draws conductances over many orders of magnitude, with zeros
// among them.
func randomBandMatrix(r *rand.Rand, n, band int) *bandMatrix {
	m := newBandMatrix(n, band, 1)
	for i := range m.n {
		m.ground[i] = math.Exp(4 * r.NormFloat64())
		for j := i + 1; j <= min(i+band, m.n-1); j++ {
			if r.IntN(4) > 0 {
				m.edge[m.at(i, j)] = math.Exp(4 * r.NormFloat64())
			}
		}
	}
	return m
}

// A solution satisfies the equations of the matrix, computed entry by entry.
func TestBandMatrix(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 0))
	worst := 0.0
	for k := range 300 {
		n, band := 1+r.IntN(60), 3+k%40
		m := randomBandMatrix(r, n, band)
		a := newBandMatrix(n, band, 1)
		copy(a.edge, m.edge)
		copy(a.ground, m.ground)
		x, rhs := m.vector(), make([]float64, m.n)
		for i := range rhs {
			rhs[i] = r.NormFloat64()
			x[i] = rhs[i]
		}
		m.decompose()
		m.solve(x)
		for i := range m.n {
			sum, scale := a.ground[i]*x[i], math.Abs(rhs[i])+math.Abs(a.ground[i]*x[i])
			for j := range m.n {
				if i == j || max(i-j, j-i) > band {
					continue
				}
				c := a.edge[a.at(min(i, j), max(i, j))]
				sum += c * (x[i] - x[j])
				scale += c * (math.Abs(x[i]) + math.Abs(x[j]))
			}
			worst = max(worst, math.Abs(sum-rhs[i])/scale)
		}
	}
	// A backward error of a few roundings for each of the at most 60 terms.
	if t.Logf("backward error %.2g", worst); !(worst <= 1e-14) {
		t.Errorf("backward error %v", worst)
	}
}

// BenchmarkBandMatrix factors and solves what a 12 x 12 grid has.
func BenchmarkBandMatrix(b *testing.B) {
	r := rand.New(rand.NewPCG(35, 1))
	source := randomBandMatrix(r, 144, 26)
	m := newBandMatrix(144, 26, 1)
	x := m.vector()
	for _, op := range []string{"decompose", "solve"} {
		b.Run(fmt.Sprintf("op=%s", op), func(b *testing.B) {
			for b.Loop() {
				if op == "decompose" {
					copy(m.edge, source.edge)
					copy(m.ground, source.ground)
					m.decompose()
				} else {
					m.solve(x)
				}
			}
		})
	}
}
