package bench

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"fedrspo/oracle/synthetic"
)

// ErrProblem is wrapped by the errors about a Problem, or the name of a part of
// one, that describes nothing.
var ErrProblem = errors.New("invalid problem")

// Quality says how well costs are predicted.
type Quality = synthetic.Quality

// Qualities of predictions, see package synthetic.
const (
	True   = synthetic.True
	Good   = synthetic.Good
	Medium = synthetic.Medium
	Noisy  = synthetic.Noisy
	Under  = synthetic.Under
	Init   = synthetic.Init
)

// Qualities returns all of them.
func Qualities() []Quality { return synthetic.Qualities() }

// ParseQuality returns the Quality of that name, or an ErrProblem.
func ParseQuality(name string) (Quality, error) {
	var names []string
	for _, q := range Qualities() {
		if q.String() == name {
			return q, nil
		}
		names = append(names, q.String())
	}
	return 0, fmt.Errorf("predictions %q, want %s: %w", name, strings.Join(names, ", "), ErrProblem)
}

// Lambda is a regularisation weight: a number, or the calibrated weight of the
// paper, section 3.1, the mean |c| of a client over the radius of its set,
// divided by a number as annealing does.
type Lambda struct {
	calibrated bool
	value      float64 // the weight, or the divisor
}

// Fixed returns the weight x > 0.
func Fixed(x float64) Lambda { return Lambda{value: x} }

// Calibrated returns the calibrated weight over x >= 1.
func Calibrated(x float64) Lambda { return Lambda{calibrated: true, value: x} }

const calibratedName = "calibrated"

// ParseLambda reads a positive number, "calibrated", or "calibrated/N".
func ParseLambda(text string) (Lambda, error) {
	l := Fixed(0)
	rest := text
	if after, ok := strings.CutPrefix(text, calibratedName); ok {
		l = Calibrated(1)
		if after == "" {
			return l, nil
		}
		if rest, ok = strings.CutPrefix(after, "/"); !ok {
			rest = ""
		}
	}
	x, err := strconv.ParseFloat(rest, 64)
	if err != nil {
		return l, fmt.Errorf("lambda %q, want a number, %s or %s/N: %w", text, calibratedName, calibratedName, ErrProblem)
	}
	l.value = x
	return l, l.check()
}

func (l Lambda) check() error {
	if !(l.value > 0) || math.IsInf(l.value, 1) {
		return fmt.Errorf("lambda %v, want positive finite numbers: %w", l, ErrProblem)
	}
	return nil
}

// String returns the text that ParseLambda reads.
func (l Lambda) String() string {
	number := strconv.FormatFloat(l.value, 'g', -1, 64)
	switch {
	case !l.calibrated:
		return number
	case l.value == 1:
		return calibratedName
	}
	return calibratedName + "/" + number
}

// MarshalText returns String.
func (l Lambda) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// of returns the weight for a client whose costs have the given mean norm.
func (l Lambda) of(norm, radius float64) float64 {
	if l.calibrated {
		return max(norm/radius, 1e-6) / l.value
	}
	return l.value
}
