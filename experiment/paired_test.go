package experiment

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestCompareTable: the interval's half width is the tabulated quantile of
// Student's distribution times the standard error, and a difference of just
// that size has p = 0.05.
func TestCompareTable(t *testing.T) {
	// t_{0.975} by degrees of freedom, as printed in any table.
	for df, quantile := range map[int]float64{1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 29: 2.045, 49: 2.010} {
		n := df + 1
		a, b := make([]float64, n), make([]float64, n)
		rng := rand.New(rand.NewPCG(uint64(df), 1))
		sum := 0.0
		for i := range a {
			b[i] = rng.NormFloat64()
			a[i] = b[i] + rng.NormFloat64()
			sum += a[i] - b[i]
		}
		squares := 0.0
		for i := range a {
			squares += math.Pow(a[i]-b[i]-sum/float64(n), 2)
		}
		se := math.Sqrt(squares / float64(df) / float64(n))
		p := Compare(a, b)
		// Tables have three decimals.
		if half := (p.High - p.Low) / 2; math.Abs(half-quantile*se) > 0.0006*se || p.N != n || math.Abs(p.Mean-sum/float64(n)) > 1e-12 {
			t.Errorf("%d pairs: %+v, want a half width of %v", n, p, quantile*se)
		}
		for i := range a {
			a[i] += quantile*se - sum/float64(n)
		}
		if p = Compare(a, b); math.Abs(p.P-0.05) > 1e-4 {
			t.Errorf("%d pairs whose t is the quantile: p = %v, want 0.05", n, p.P)
		}
	}
}

// TestCompareStudent is the example of Student (1908), table of section IX: the
// additional hours of sleep by two drugs, n = 10, mean 1.58, t = 4.0621, p =
// 0.00283 (two-sided).
func TestCompareStudent(t *testing.T) {
	a := []float64{1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4}
	b := []float64{0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2}
	p := Compare(a, b)
	if math.Abs(p.Mean-1.58) > 1e-12 || math.Abs(p.P-0.00283) > 5e-6 || math.Abs(p.Low-0.7001) > 1e-4 || math.Abs(p.High-2.4599) > 1e-4 {
		t.Errorf("%+v, want 1.58 (0.70 to 2.46), p 0.00283", p)
	}
	q := Compare(b, a)
	if q.Mean != -p.Mean || q.Low != -p.High || q.High != -p.Low || q.P != p.P || !p.significant() || !q.significant() {
		t.Errorf("swapped: %+v", q)
	}
}

// TestCompareEdges: what cannot be tested is not found significant.
func TestCompareEdges(t *testing.T) {
	for name, c := range map[string]struct {
		a, b        []float64
		p           float64
		significant bool
	}{
		"one pair":          {[]float64{3}, []float64{1}, 1, false},
		"equal":             {[]float64{1, 2, 3}, []float64{1, 2, 3}, 1, false},
		"equal differences": {[]float64{2, 3, 4}, []float64{1, 2, 3}, 0, true},
	} {
		if p := Compare(c.a, c.b); p.P != c.p || p.significant() != c.significant {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := Compare([]float64{1, math.NaN(), 2}, []float64{1, 2, 3}); !math.IsNaN(p.P) || p.significant() {
		t.Errorf("NaN: %+v", p)
	}
	defer func() {
		if recover() == nil {
			t.Error("different lengths: no panic")
		}
	}()
	Compare([]float64{1}, nil)
}
