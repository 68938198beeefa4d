package knapsack

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle/oracletest"
)

// vertices lists the vertices of { w in [0,1]^d : a.w <= b } or, for an
// equality, a.w = b: all 0/1 points inside, and all points on the constraint
// with one fractional entry.
func vertices(a []float64, b float64, equality bool) [][]float64 {
	var vs [][]float64
	d := len(a)
	for set := range 1 << d {
		w, sum := make([]float64, d), 0.0
		for i := range w {
			if set>>i&1 == 1 {
				w[i] = 1
				sum += a[i]
			}
		}
		if sum == b || sum < b && !equality {
			vs = append(vs, w)
		}
		for i := range w {
			if f := (b - sum) / a[i]; w[i] == 0 && f > 0 && f < 1 {
				v := append([]float64(nil), w...)
				v[i] = f
				vs = append(vs, v)
			}
		}
	}
	return vs
}

func mustSet(a []float64, b float64) *Set {
	s, err := New(a, b)
	if err != nil {
		panic(err)
	}
	return s
}

func mustTopK(d int, k float64) *TopK {
	s, err := NewTopK(d, k)
	if err != nil {
		panic(err)
	}
	return s
}

func ones(d int) []float64 {
	a := make([]float64, d)
	for i := range a {
		a[i] = 1
	}
	return a
}

func sum(a []float64) float64 {
	s := 0.0
	for _, x := range a {
		s += x
	}
	return s
}

func uniform(r *rand.Rand, d int, lo, hi float64) []float64 {
	a := make([]float64, d)
	for i := range a {
		a[i] = lo + (hi-lo)*r.Float64()
	}
	return a
}

func TestConformance(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var cases []oracletest.Case
	for _, d := range []int{1, 2, 5} {
		a := uniform(r, d, 0.5, 1.5)
		for _, f := range []float64{0, 0.3, 0.7, 1, 2} {
			b := f * sum(a)
			cases = append(cases, oracletest.Case{
				Name:     fmt.Sprintf("set=knapsack/d=%d/b=%.3g", d, b),
				Polytope: mustSet(a, b),
				Vertices: vertices(a, b, false),
			})
		}
		for _, k := range []float64{0, 0.4, 1, 1.7, 5} {
			if k > float64(d) {
				continue
			}
			cases = append(cases, oracletest.Case{
				Name:     fmt.Sprintf("set=topk/d=%d/k=%v", d, k),
				Polytope: mustTopK(d, k),
				Vertices: vertices(ones(d), k, true),
			})
		}
	}
	// The sizes of the paper's tasks. The longest point of a big knapsack, all
	// of the lightest items, is too rare for a search to find.
	cases = append(cases,
		oracletest.Case{
			Name:        "set=knapsack/d=50",
			Polytope:    mustSet(uniform(r, 50, 0.5, 1.5), 30),
			LooseRadius: true,
		},
		oracletest.Case{
			Name:     "set=topk/d=24",
			Polytope: mustTopK(24, 8),
			Cost: func(dst []float64, r *rand.Rand) {
				for i := range dst {
					dst[i] = 40 + 20*r.NormFloat64()
				}
			},
			Lambdas: []float64{1, 10, 80, 400},
		},
		oracletest.Case{
			Name:     "set=knapsack/tiny weights",
			Polytope: mustSet([]float64{1e-9, 2e-9, 1.5e-9}, 2.5e-9),
			Vertices: vertices([]float64{1e-9, 2e-9, 1.5e-9}, 2.5e-9, false),
		},
	)
	oracletest.Run(t, cases...)
}

// Radius of the paper, sections 3.1 and 3.2, against all vertices.
func TestRadiusIsTheLongestVertex(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	longest := func(vs [][]float64) float64 {
		n := 0.0
		for _, v := range vs {
			s := 0.0
			for _, x := range v {
				s += x * x
			}
			n = max(n, math.Sqrt(s))
		}
		return n
	}
	for range 200 {
		d := 1 + r.IntN(7)
		a := uniform(r, d, 0.01, 1.5)
		b := r.Float64() * 1.1 * sum(a)
		if got, want := mustSet(a, b).Radius(), longest(vertices(a, b, false)); math.Abs(got-want) > 1e-13*want {
			t.Errorf("knapsack a=%v b=%v: radius %v, want %v", a, b, got, want)
		}
		k := r.Float64() * float64(d)
		if r.IntN(2) == 0 {
			k = math.Floor(k)
		}
		whole, frac := math.Modf(k)
		want := math.Sqrt(whole + frac*frac)
		top := mustTopK(d, k)
		if math.Abs(top.Radius()-want) > 1e-14*want || math.Abs(longest(vertices(ones(d), k, true))-want) > 1e-13*want {
			t.Errorf("top-k d=%d k=%v: radius %v, want %v", d, k, top.Radius(), want)
		}
	}
}
