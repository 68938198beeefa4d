package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func cellWeigh(s set) {
	one := s.same(s.reg[15])
	s.kernel("cellWeigh", "is cellWeighGo.", "s, u, inner, star, sum, is, give, inverse *float64",
		[]string{"s", "u", "inner", "star", "sum", "is", "give", "inverse"}, 0,
		func() { constant(bitsOne, s.reg[15]) },
		func(at []Mem) {
			x, y, star := s.octet(0), s.octet(1), s.octet(2)
			s.load(x, at[2])
			s.applyMemory(VDIVPD, at[0], x, x)
			s.store(x, at[5])
			s.load(x, at[0])
			s.applyMemory(VADDPD, at[1], x, y)
			apply(VDIVPD, y, x, x)
			s.applyMemory(VMULPD, at[2], x, x)
			s.store(x, at[6])
			s.sumMemory(x, at[4])
			s.load(star, at[3])
			apply(VSUBPD, star, one, y)
			apply(VADDPD, y, x, x)
			apply(VDIVPD, x, star, x)
			s.store(x, at[7])
		})
}

func cellAim(s set) {
	sign := s.same(s.reg[15])
	s.kernel("cellAim", "is cellAimGo.", "p, out, in, w, give, c, bIn, bOut *float64",
		[]string{"p", "out", "in", "w", "give", "c", "bIn", "bOut"}, 0,
		func() { constant(bitsSign, s.reg[15]) },
		func(at []Mem) {
			x, w := s.octet(0), s.octet(1)
			s.load(x, at[0])
			s.sumMemory(x, at[1])
			s.applyMemory(VSUBPD, at[2], x, x)
			s.load(w, at[3])
			apply(VSUBPD, w, x, x)
			s.applyMemory(VMULPD, at[4], x, x)
			s.store(x, at[5])
			apply(VADDPD, w, x, x)
			s.store(x, at[6])
			apply(VXORPD, sign, x, x)
			s.store(x, at[7])
		})
}

// change computes dw into octet 0 and dw/s into octet 1.
func (s set) change(bOut, bIn, give, c, is Mem) {
	d, r := s.octet(0), s.octet(1)
	s.load(d, bOut)
	s.applyMemory(VSUBPD, bIn, d, d)
	s.applyMemory(VMULPD, give, d, d)
	s.sumMemory(d, c)
	s.applyMemory(VMULPD, is, d, r)
}

func cellPredict(s set) {
	one, largest := s.same(s.reg[15]), s.octet(4)
	s.kernel("cellPredict", "is cellPredictGo.", "bOut, bIn, give, c, u, is, dw, du *float64",
		[]string{"bOut", "bIn", "give", "c", "u", "is", "dw", "du"}, 2,
		func() { constant(bitsOne, s.reg[15]) },
		func(at []Mem) {
			d, r, x := s.octet(0), s.octet(1), s.octet(2)
			s.change(at[0], at[1], at[2], at[3], at[5])
			s.store(d, at[6])
			apply(VMAXPD, largest, r, largest)
			apply(VSUBPD, one, r, x)
			s.applyMemory(VMULPD, at[4], x, x)
			s.store(x, at[7])
			apply(VMULPD, d, x, x)
			s.total(x, at[8])
			apply(VSUBPD, r, one, r)
			apply(VMAXPD, largest, r, largest)
		})
}

func cellCentre(s set) {
	sign, target := s.same(s.reg[15]), s.octet(4)
	s.kernel("cellCentre", "is cellCentreGo.", "target, give, dw, is, du, c, cIn, cOut *float64",
		[]string{"give", "dw", "is", "du", "c", "cIn", "cOut"}, 0,
		func() {
			constant(bitsSign, s.reg[15])
			s.octetArgument("target", target)
		},
		func(at []Mem) {
			x, y := s.octet(0), s.octet(1)
			s.load(x, at[3])
			s.applyMemory(VMULPD, at[1], x, x)
			apply(VADDPD, target, x, x)
			s.applyMemory(VMULPD, at[2], x, x)
			s.store(x, at[3])
			s.applyMemory(VMULPD, at[0], x, x)
			s.store(x, at[6])
			apply(VXORPD, sign, x, x)
			s.store(x, at[5])
			s.load(y, at[4])
			apply(VADDPD, x, y, y)
			s.store(y, at[4])
		})
}

func cellAdvance(s set) {
	sign := s.same(s.reg[15])
	byS, byU := s.octet(4), s.octet(5)
	s.kernel("cellAdvance", "is cellAdvanceGo.", "bOut, bIn, give, c, u, is, dw, du *float64",
		[]string{"bOut", "bIn", "give", "c", "u", "is", "dw", "du"}, 3,
		func() { constant(bitsSign, s.reg[15]) },
		func(at []Mem) {
			d, r, x, u := s.octet(0), s.octet(1), s.octet(2), s.octet(3)
			s.change(at[0], at[1], at[2], at[3], at[5])
			s.store(d, at[6])
			apply(VMAXPD, byS, r, byS)
			s.load(u, at[4])
			s.load(x, at[7])
			apply(VSUBPD, u, x, x)
			apply(VMULPD, u, r, r)
			apply(VADDPD, r, x, x)
			s.store(x, at[7])
			apply(VXORPD, sign, x, x)
			apply(VDIVPD, u, x, x)
			apply(VMAXPD, byU, x, byU)
		})
}

func cellUpdate(s set) {
	size := s.octet(4)
	s.kernel("cellUpdate", "is cellUpdateGo.", "size, dw, du, w, s, u *float64", []string{"dw", "du", "w", "s", "u"}, 1,
		func() { s.octetArgument("size", size) },
		func(at []Mem) {
			d, x, y := s.octet(0), s.octet(1), s.octet(2)
			s.load(d, at[0])
			apply(VMULPD, size, d, d)
			s.load(x, at[2])
			apply(VADDPD, d, x, x)
			s.store(x, at[2])
			s.load(x, at[3])
			apply(VSUBPD, d, x, x)
			s.store(x, at[3])
			s.load(y, at[1])
			apply(VMULPD, size, y, y)
			s.sumMemory(y, at[4])
			s.store(y, at[4])
			apply(VMULPD, x, y, y)
			s.total(y, at[5])
		})
}
