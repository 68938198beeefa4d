package knapsack

import (
	"math"
	"math/rand/v2"
	"testing"
)

var corners = []float64{
	math.Inf(-1), -math.MaxFloat64, -2, -1, -0x1p-1060, -math.SmallestNonzeroFloat64, math.Copysign(0, -1),
	0, math.SmallestNonzeroFloat64, 0x1p-1060, 0.5, 1 - 0x1p-53, 1, 1 + 0x1p-52, 2, 3, math.MaxFloat64, math.Inf(1),
}

func TestBitSelections(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	values := append([]float64(nil), corners...)
	for range 1000 {
		values = append(values, math.Exp(10*r.NormFloat64())*math.Copysign(1, r.NormFloat64()), 1.5*r.Float64())
	}
	for _, v := range values {
		if w, m := clip(v); w != min(max(v, 0), 1) || math.Signbit(w) || m != maskOf(v >= 0 && v < 1 && !math.Signbit(v)) {
			t.Errorf("clip(%v) = %v, %x", v, w, m)
		}
		if w, m := clipTo2(v); w != min(max(v, 0), 2) || m != maskOf(!math.Signbit(v)) {
			t.Errorf("clipTo2(%v) = %v, %x", v, w, m)
		}
		if m := interior(v); m != maskOf(v > 0 && v < 1) {
			t.Errorf("interior(%v) = %x", v, m)
		}
	}
}

// between bisects the float64s: it stays inside, and 64 steps end anywhere.
func TestBetween(t *testing.T) {
	for i, lo := range corners {
		if math.IsInf(lo, 0) {
			continue
		}
		for _, hi := range corners[i+1:] {
			if math.IsInf(hi, 0) || lo == hi {
				continue
			}
			steps, l := 0, lo
			for {
				mid := between(l, hi)
				if !(mid >= l && mid <= hi) {
					t.Fatalf("between(%v, %v) = %v", l, hi, mid)
				}
				if rank(mid) == rank(l) {
					break
				}
				l = mid
				steps++
			}
			if steps > 64 {
				t.Errorf("%d steps from %v to %v", steps, lo, hi)
			}
		}
	}
}
