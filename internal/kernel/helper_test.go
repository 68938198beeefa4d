package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// onLevels runs f at every level the machine has.
func onLevels(t *testing.T, f func(t *testing.T)) {
	for l := levelGo; l <= best(); l++ {
		t.Run(l.String(), func(t *testing.T) {
			setLevel(t, l)
			f(t)
		})
	}
}

// onTypes runs the two instances of a test at every level.
func onTypes(t *testing.T, f32, f64 func(t *testing.T)) {
	t.Run("float32", func(t *testing.T) { onLevels(t, f32) })
	t.Run("float64", func(t *testing.T) { onLevels(t, f64) })
}

func setLevel(t testing.TB, l level) {
	old := active
	active = l
	t.Cleanup(func() { active = old })
}

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// guardBand is the number of elements on either side of a guarded slice: more
// than the widest vector.
const guardBand = 40

// A guarded slice lies between bands that nobody may write, at a random
// alignment.
type guarded[T Float] struct {
	x     []T // the slice under test
	whole []T
	lo    int
}

const guardValue = 12345.5

func newGuarded[T Float](r *rand.Rand, n int) guarded[T] {
	lo := guardBand + r.IntN(8)
	g := guarded[T]{whole: make([]T, lo+n+guardBand), lo: lo}
	for i := range g.whole {
		g.whole[i] = guardValue
	}
	g.x = g.whole[lo : lo+n : lo+n]
	return g
}

func (g guarded[T]) check(t *testing.T, name string) {
	t.Helper()
	for i, v := range g.whole {
		if (i < g.lo || i >= g.lo+len(g.x)) && v != guardValue {
			t.Fatalf("%s: wrote %v at offset %d of a slice of %d", name, v, i-g.lo, len(g.x))
		}
	}
}

func fillNormal[T Float](r *rand.Rand, x []T) {
	for i := range x {
		x[i] = T(r.NormFloat64())
	}
}

func newNormal[T Float](r *rand.Rand, n int) guarded[T] {
	g := newGuarded[T](r, n)
	fillNormal(r, g.x)
	return g
}

// sameBits says whether two numbers have the same bits, or are both NaN: which
// NaN an addition of two returns is not fixed.
func sameBits[T Float](a, b T) bool {
	return a == b && math.Signbit(float64(a)) == math.Signbit(float64(b)) || a != a && b != b
}

func wantSame[T Float](t *testing.T, name string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: length %d, want %d", name, len(got), len(want))
	}
	for i := range got {
		if !sameBits(got[i], want[i]) {
			t.Fatalf("%s: element %d of %d is %v, want %v", name, i, len(got), got[i], want[i])
		}
	}
}

func wantPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s := fmt.Sprint(recover()); len(s) < 10 || s[:7] != "kernel." {
			t.Errorf("%s: panic %q, want one that starts with kernel.", name, s)
		}
	}()
	f()
}
