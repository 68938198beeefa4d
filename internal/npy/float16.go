package npy

import "math"

// binary16 of IEEE 754: a sign, 5 bits of exponent with bias 15, 10 bits of
// fraction.
const (
	fractionBits = 10
	exponentMask = 1<<5 - 1
	fractionMask = 1<<fractionBits - 1
	// least is the exponent of the last bit of subnormal numbers.
	least = -24
)

// fromFloat16 returns the number with these bits, which is exact.
func fromFloat16(b uint16) float64 {
	exponent, fraction := int(b>>fractionBits)&exponentMask, float64(b&fractionMask)
	var x float64
	switch {
	case exponent == 0:
		x = math.Ldexp(fraction, least)
	case exponent < exponentMask:
		x = math.Ldexp(fraction+1<<fractionBits, exponent-1+least)
	case fraction == 0:
		x = math.Inf(1)
	default:
		return math.NaN()
	}
	if b>>15 == 1 {
		x = -x
	}
	return x
}

// toFloat16 returns the bits of x, and whether they are exactly x. All NaN are
// one.
func toFloat16(x float64) (bits uint16, exact bool) {
	switch {
	case math.IsNaN(x):
		return exponentMask<<fractionBits | 1<<(fractionBits-1), true
	case math.Signbit(x):
		b, exact := toFloat16(-x)
		return b | 1<<15, exact
	case math.IsInf(x, 1):
		return exponentMask << fractionBits, true
	case x == 0:
		return 0, true
	}
	_, e := math.Frexp(x) // x in [2^(e-1), 2^e)
	unit := max(e-1-fractionBits, least)
	m := math.Ldexp(x, -unit) // below 2^11
	if m != math.Trunc(m) || unit-least+1 >= exponentMask {
		return 0, false
	}
	if m < 1<<fractionBits { // subnormal
		return uint16(m), true
	}
	return uint16(unit-least+1)<<fractionBits | uint16(m)&fractionMask, true
}
