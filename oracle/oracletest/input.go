package oracletest

import (
	"errors"
	"math"
	"slices"
	"testing"

	"fedrspo/oracle"
)

// badCost is an invalid cost vector and the error it must give.
type badCost struct {
	name  string
	theta []float64
	err   error
}

// badCosts returns spoilt copies of theta.
func badCosts(theta []float64) []badCost {
	bad := []badCost{
		{"no costs", nil, oracle.ErrDimension},
		{"a short theta", theta[1:], oracle.ErrDimension},
		{"a long theta", append(slices.Clone(theta), 0), oracle.ErrDimension},
	}
	for _, at := range []int{0, len(theta) - 1} {
		for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			spoilt := slices.Clone(theta)
			spoilt[at] = x
			bad = append(bad, badCost{"a NaN or an infinity", spoilt, oracle.ErrNonFinite})
		}
	}
	return bad
}

// isError checks that err wraps want.
func (s *suite) isError(what string, err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// allocations checks that f allocates nothing, once it has run.
func (s *suite) allocations(what string, f func() error) {
	s.Helper()
	if s.Allocates {
		return
	}
	if n := testing.AllocsPerRun(20, func() {
		if err := f(); err != nil {
			s.Fatalf("%s: %v", what, err)
		}
	}); n != 0 {
		s.Errorf("%s allocates %v times", what, n)
	}
}
