package knapsack

import (
	"math"
	"math/bits"
)

// The inner loops clip and select by integer operations on the bits of
// floats, which the compiler turns into code without branches: which entries
// are at a bound is random, and a mispredicted branch costs more than an
// entry's arithmetic. Bit patterns of non-negative floats are ordered like the
// floats; those of negative floats are negative as int64.
const (
	patternOne = 0x3ff0000000000000
	patternTwo = 0x4000000000000000
)

// clip returns v clipped to [0, 1], and all ones if v is in [0, 1), else 0.
func clip(v float64) (w float64, inside uint64) {
	x := math.Float64bits(v)
	_, borrow := bits.Sub64(x, patternOne, 0)
	return math.Float64frombits(uint64(min(max(int64(x), 0), patternOne))), -borrow
}

// clipTo2 returns v clipped to [0, 2], and all ones if v is not negative, else
// 0.
func clipTo2(v float64) (w float64, positive uint64) {
	x := int64(math.Float64bits(v))
	return math.Float64frombits(uint64(min(max(x, 0), patternTwo))), uint64(^(x >> 63))
}

// interior returns all ones if 0 < v < 1, else 0.
func interior(v float64) uint64 {
	_, borrow := bits.Sub64(math.Float64bits(v)-1, patternOne-1, 0)
	return -borrow
}

// selected returns x where mask is all ones and 0 where it is 0.
func selected(x float64, mask uint64) float64 {
	return math.Float64frombits(math.Float64bits(x) & mask)
}

// maskOf returns all ones for true and 0 for false.
func maskOf(b bool) uint64 { return -uint64(count(b)) }

// count returns 1 for true and 0 for false.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// between returns the float64 halfway from lo to hi in the order of all
// floats, so that bisection ends after at most 64 steps at any scale. It
// returns lo where no float lies between.
func between(lo, hi float64) float64 {
	l, h := rank(lo), rank(hi)
	return unrank(l + int64(uint64(h-l)/2))
}

// rank maps floats to integers monotonically. unrank is its inverse.
func rank(x float64) int64 {
	b := int64(math.Float64bits(x))
	return b ^ int64(uint64(b>>63)>>1)
}

func unrank(r int64) float64 {
	return math.Float64frombits(uint64(r ^ int64(uint64(r>>63)>>1)))
}
