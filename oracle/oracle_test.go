package oracle

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestCheckVector(t *testing.T) {
	for n := range 11 {
		v := make([]float64, n)
		for i := range v {
			v[i] = math.MaxFloat64 * math.Pow(-1, float64(i))
		}
		if err := CheckVector("v", v, n); err != nil {
			t.Errorf("finite vector of length %d: %v", n, err)
		}
		if err := CheckVector("v", v, n+1); !errors.Is(err, ErrDimension) || !strings.Contains(err.Error(), "v has length") {
			t.Errorf("wrong length: %v", err)
		}
		for i := range v {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				was := v[i]
				v[i] = bad
				err := CheckVector("v", v, n)
				if want := "v[" + string(rune('0'+i)) + "]"; !errors.Is(err, ErrNonFinite) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v at %d of %d: %v", bad, i, n, err)
				}
				v[i] = was
			}
		}
	}
}

func TestCheckProject(t *testing.T) {
	ok := []float64{1, 2}
	for _, c := range []struct {
		dst, theta []float64
		lambda     float64
		want       error
	}{
		{ok, ok, 1, nil},
		{ok, ok, math.SmallestNonzeroFloat64, nil},
		{ok, ok, math.MaxFloat64, nil},
		{ok[:1], ok, 1, ErrDimension},
		{ok, ok[:1], 1, ErrDimension},
		{ok, []float64{1, math.NaN()}, 1, ErrNonFinite},
		{ok, ok, 0, ErrLambda},
		{ok, ok, -1, ErrLambda},
		{ok, ok, math.NaN(), ErrLambda},
		{ok, ok, math.Inf(1), ErrLambda},
	} {
		if err := CheckProject(c.dst, c.theta, c.lambda, 2); !errors.Is(err, c.want) {
			t.Errorf("CheckProject(%v, %v, %v): %v, want %v", c.dst, c.theta, c.lambda, err, c.want)
		}
	}
}

func TestStatus(t *testing.T) {
	seen := map[string]bool{}
	for s := Unsolved; s <= Unbounded+1; s++ {
		if name := s.String(); name == "" || seen[name] {
			t.Errorf("Status %d is called %q", uint8(s), name)
		}
		seen[s.String()] = true
		err := Info{Status: s, Gap: 0.25}.Err()
		if s == Optimal && err != nil || s != Optimal && (!errors.Is(err, ErrNotSolved) || !strings.Contains(err.Error(), s.String())) {
			t.Errorf("Err of %v: %v", s, err)
		}
	}
}
