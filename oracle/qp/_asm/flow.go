package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel writes a function of n numbers, a multiple of 8, at each of the named
// pointers; begin comes before the loop. body gets the addresses of an octet at
// each pointer. With totals the last arguments are totals and lanes, and the
// body's last address is that of the octet of sums; begin and end hold the
// largest numbers in octets 4 and 5 meanwhile.
func (s set) kernel(name, doc, params string, pointers []string, totals int, begin func(), body func(at []Mem)) {
	name += s.name
	if totals > 0 {
		params += ", totals *float64, lanes int"
	}
	text(name, "func(n int, "+params+")", name+" "+doc)
	regs := []reg.GPPhysical{reg.RSI, reg.RDI, reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13}
	// The pointers go to the ends of the vectors, and the index up to 0.
	arg("n", reg.RAX)
	SHLQ(U8(3), reg.RAX)
	for i, p := range pointers {
		arg(p, regs[i])
		ADDQ(reg.RAX, regs[i])
	}
	if begin != nil {
		begin()
	}
	if totals > 0 {
		arg("totals", reg.RDX)
		arg("lanes", reg.RCX)
		DECQ(reg.RCX) // 0 or 7, of which octet of sums is next
		SHLQ(U8(6), reg.RCX)
		for i := range totals - 1 {
			s.load(s.octet(4+i), at(reg.RDX, nil, 64*i))
		}
	}
	MOVQ(reg.RAX, reg.RBX)
	NEGQ(reg.RBX)
	Label("loop")
	var m []Mem
	for i := range pointers {
		m = append(m, at(regs[i], reg.RBX, 0))
	}
	if totals > 0 {
		MOVQ(reg.RBX, reg.RAX)
		ANDQ(reg.RCX, reg.RAX)
		m = append(m, at(reg.RDX, reg.RAX, 128))
	}
	body(m)
	ADDQ(U8(64), reg.RBX)
	JNZ(LabelRef("loop"))
	for i := range max(totals-1, 0) {
		s.store(s.octet(4+i), at(reg.RDX, nil, 64*i))
	}
	finish()
}

func (s set) load(o octet, m Mem) {
	s.each(o, func(r reg.VecPhysical, disp int) { VMOVUPD(m.Offset(disp), r) })
}

// apply sets to to op(memory or register b, a).
func apply(op func(ops ...Op), b, a, to octet) {
	for i := range to {
		op(b[i], a[i], to[i])
	}
}

func (s set) applyMemory(op func(ops ...Op), m Mem, a, to octet) {
	for i := range to {
		op(m.Offset(i*s.bytes), a[i], to[i])
	}
}

// total adds x, which changes, to the octet of sums.
func (s set) total(x octet, sums Mem) {
	s.sumMemory(x, sums)
	s.store(x, sums)
}

// constant broadcasts the bits of a number to a register.
func constant(bits uint64, r reg.VecPhysical) {
	MOVQ(U64(bits), reg.RBX)
	VMOVQ(reg.RBX, r.(reg.Vec).AsX())
	VBROADCASTSD(r.(reg.Vec).AsX(), r)
}

// octetArgument loads the octet that the named argument points to.
func (s set) octetArgument(name string, o octet) {
	arg(name, reg.RBX)
	s.load(o, Mem{Base: reg.RBX})
}

// same returns an octet of one register over and over.
func (s set) same(r reg.VecPhysical) octet {
	o := make(octet, 64/s.bytes)
	for i := range o {
		o[i] = r
	}
	return o
}

const (
	bitsOne     = 0x3ff0000000000000
	bitsHalf    = 0x3fe0000000000000
	bitsLargest = 0x7fefffffffffffff // of a finite number
	bitsNoSign  = 0x7fffffffffffffff
	bitsSign    = 0x8000000000000000
)

func multiply(s set) {
	s.kernel("flowMultiply", "computes to = a b.", "a, b, to *float64", []string{"a", "b", "to"}, 0, nil, func(at []Mem) {
		x := s.octet(0)
		s.load(x, at[0])
		s.applyMemory(VMULPD, at[1], x, x)
		s.store(x, at[2])
	})
}

func multiplyAdd(s set) {
	s.kernel("flowMultiplyAdd", "computes to += a b.", "a, b, to *float64", []string{"a", "b", "to"}, 0, nil, func(at []Mem) {
		x := s.octet(0)
		s.load(x, at[0])
		s.applyMemory(VMULPD, at[1], x, x)
		s.sumMemory(x, at[2])
		s.store(x, at[2])
	})
}

func weigh(s set) {
	one := s.same(s.reg[15])
	s.kernel("flowWeigh", "is flowWeighGo.", "y, z, iz, cond, sum *float64", []string{"y", "z", "iz", "cond", "sum"}, 0,
		func() { constant(bitsOne, s.reg[15]) },
		func(at []Mem) {
			x := s.octet(0)
			s.applyMemory(VDIVPD, at[1], one, x)
			s.store(x, at[2])
			s.applyMemory(VMULPD, at[0], x, x)
			s.store(x, at[3])
			s.sumMemory(x, at[4])
			s.store(x, at[4])
		})
}

func predict(s set) {
	half, abs := s.same(s.reg[15]), s.same(s.reg[14])
	largest := s.octet(4)
	s.kernel("flowPredict", "is flowPredictGo.", "out, in, y, cond, iz, t *float64", []string{"out", "in", "y", "cond", "iz", "t"}, 2,
		func() {
			constant(bitsHalf, s.reg[15])
			constant(bitsNoSign, s.reg[14])
		},
		func(at []Mem) {
			d, x := s.octet(0), s.octet(1)
			s.load(d, at[0])
			s.applyMemory(VSUBPD, at[1], d, d)
			s.applyMemory(VMULPD, at[3], d, x)
			s.applyMemory(VADDPD, at[2], x, x)
			apply(VMULPD, d, x, x)
			s.store(x, at[5])
			s.total(x, at[6])
			s.applyMemory(VMULPD, at[4], d, d)
			apply(VADDPD, half, d, d)
			apply(VANDPD, abs, d, d)
			apply(VADDPD, half, d, d)
			apply(VMAXPD, largest, d, largest)
		})
}

func centre(s set) {
	target := s.octet(4)
	s.kernel("flowCentre", "is flowCentreGo.", "target, t, iz, out, in *float64", []string{"t", "iz", "out", "in"}, 0,
		func() { s.octetArgument("target", target) },
		func(at []Mem) {
			x, y := s.octet(0), s.octet(1)
			s.load(x, at[0])
			apply(VADDPD, target, x, x)
			s.applyMemory(VMULPD, at[1], x, x)
			s.store(x, at[0])
			s.load(y, at[3])
			apply(VSUBPD, x, y, y)
			s.store(y, at[3])
			s.sumMemory(x, at[2])
			s.store(x, at[2])
		})
}

func advance(s set) {
	sign := s.same(s.reg[15])
	byZ, byY := s.octet(4), s.octet(5)
	s.kernel("flowAdvance", "is flowAdvanceGo.", "out, in, y, cond, iz, t *float64", []string{"out", "in", "y", "cond", "iz", "t"}, 3,
		func() { constant(bitsSign, s.reg[15]) },
		func(at []Mem) {
			d, x, y := s.octet(0), s.octet(1), s.octet(2)
			s.load(d, at[0])
			s.applyMemory(VSUBPD, at[1], d, d)
			s.load(x, at[5])
			s.load(y, at[2])
			apply(VSUBPD, y, x, x)
			t := s.octet(3)
			s.applyMemory(VMULPD, at[3], d, t)
			apply(VSUBPD, t, x, x)
			s.store(x, at[5])
			apply(VXORPD, sign, d, d)
			s.applyMemory(VMULPD, at[4], d, d)
			apply(VMAXPD, byZ, d, byZ)
			apply(VXORPD, sign, x, x)
			apply(VDIVPD, y, x, x)
			apply(VMAXPD, byY, x, byY)
		})
}

func update(s set) {
	largest, size := s.same(s.reg[15]), s.octet(4)
	s.kernel("flowUpdate", "is flowUpdateGo.", "size, t, out, in, y, z *float64", []string{"t", "out", "in", "y", "z"}, 1,
		func() {
			constant(bitsLargest, s.reg[15])
			s.octetArgument("size", size)
		},
		func(at []Mem) {
			y, d := s.octet(0), s.octet(1)
			s.load(y, at[0])
			apply(VMULPD, size, y, y)
			s.sumMemory(y, at[3])
			s.store(y, at[3])
			s.load(d, at[1])
			s.applyMemory(VSUBPD, at[2], d, d)
			apply(VMULPD, size, d, d)
			s.sumMemory(d, at[4])
			s.store(d, at[4])
			apply(VMINPD, d, largest, d)
			apply(VMULPD, d, y, y)
			s.total(y, at[5])
		})
}

func step(s set) {
	size := s.octet(4)
	s.kernel("flowStep", "computes to += size x.", "size, x, to *float64", []string{"x", "to"}, 0,
		func() { s.octetArgument("size", size) },
		func(at []Mem) {
			x := s.octet(0)
			s.load(x, at[0])
			apply(VMULPD, size, x, x)
			s.sumMemory(x, at[1])
			s.store(x, at[1])
		})
}
