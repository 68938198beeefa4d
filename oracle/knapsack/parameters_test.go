package knapsack

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestNewRejectsBadParameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		a    []float64
		b    float64
		want string
	}{
		{nil, 1, "no weights"},
		{[]float64{1, 0}, 1, "a[1]"},
		{[]float64{1, 2, -1}, 1, "a[2]"},
		{[]float64{nan}, 1, "a[0]"},
		{[]float64{1, inf}, 1, "a[1]"},
		{[]float64{1e-200, 1e200}, 1, "a[0]"},
		{[]float64{1, 1}, -1, "capacity"},
		{[]float64{1, 1}, nan, "capacity"},
		{[]float64{1, 1}, inf, "capacity"},
	} {
		if _, err := New(c.a, c.b); !errors.Is(err, ErrParameter) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%v, %v): %v, want an ErrParameter with %q", c.a, c.b, err, c.want)
		}
	}
	for _, c := range []struct {
		d int
		k float64
	}{{0, 0}, {-1, 0}, {3, -0.1}, {3, 3.1}, {3, nan}, {3, inf}} {
		if _, err := NewTopK(c.d, c.k); !errors.Is(err, ErrParameter) {
			t.Errorf("NewTopK(%v, %v): %v, want an ErrParameter", c.d, c.k, err)
		}
	}
}

func TestParametersAreCopied(t *testing.T) {
	a := []float64{1, 2}
	s := mustSet(a, 2.5)
	a[0] = 7
	for i, w := range s.Weights() {
		if want := []float64{1, 2}[i]; w != want {
			t.Errorf("weight %d is %v, want %v", i, w, want)
		}
	}
	if s.Capacity() != 2.5 || mustTopK(3, 1.5).K() != 1.5 {
		t.Error("capacity or k changed")
	}
}

// Scaling weights and capacity together by a power of two changes no bit, up
// to the ends of the range of float64.
func TestScaleOfWeights(t *testing.T) {
	theta := []float64{-3, -1, -2, 0.5}
	for _, scale := range []float64{0x1p-1000, 0x1p-30, 1, 0x1p1000} {
		s := mustSet([]float64{1 * scale, 1.3 * scale, 0.7 * scale, 1.1 * scale}, 1.9*scale)
		var w, v [4]float64
		if _, err := s.NewLinear().Solve(w[:], theta); err != nil {
			t.Fatal(err)
		}
		if _, err := s.NewProjector().Project(v[:], theta, 0.7, nil); err != nil {
			t.Fatal(err)
		}
		one := mustSet([]float64{1, 1.3, 0.7, 1.1}, 1.9)
		var w1, v1 [4]float64
		if _, err := one.NewLinear().Solve(w1[:], theta); err != nil {
			t.Fatal(err)
		}
		if _, err := one.NewProjector().Project(v1[:], theta, 0.7, nil); err != nil {
			t.Fatal(err)
		}
		if w != w1 || v != v1 {
			t.Errorf("scale %v: %v and %v, want %v and %v", scale, w, v, w1, v1)
		}
		if got := s.Violation([]float64{1, 1, 0, 0}); math.Abs(got-0.4*scale) > 1e-15*scale && got > 1e-15 {
			t.Errorf("scale %v: violation %v, want %v", scale, got, 0.4*scale)
		}
	}
}
