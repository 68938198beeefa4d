package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kernel writes a function of n numbers, a multiple of 8, at each of the named
// pointers; begin and end come before and after the loop. body gets the
// addresses of an octet at each pointer.
func (s set) kernel(name, doc, params string, pointers []string, begin, end func(p []reg.GPPhysical), body func(at []Mem)) {
	name = "flow" + name + s.name
	text(name, "func(n int, "+params+")", name+" "+doc)
	regs := []reg.GPPhysical{reg.RSI, reg.RDI, reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13}
	arg("n", reg.RAX)
	SHLQ(U8(3), reg.RAX)
	for i, p := range pointers {
		arg(p, regs[i])
	}
	if begin != nil {
		begin(regs)
	}
	XORQ(reg.RBX, reg.RBX)
	Label("loop")
	var m []Mem
	for i := range pointers {
		m = append(m, at(regs[i], reg.RBX, 0))
	}
	body(m)
	ADDQ(U8(64), reg.RBX)
	CMPQ(reg.RBX, reg.RAX)
	JLT(LabelRef("loop"))
	if end != nil {
		end(regs)
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

// constant broadcasts the bits of a number to a register.
func constant(bits uint64, r reg.VecPhysical) {
	MOVQ(U64(bits), reg.RBX)
	VMOVQ(reg.RBX, r.(reg.Vec).AsX())
	VBROADCASTSD(r.(reg.Vec).AsX(), r)
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
	s.kernel("Multiply", "computes to = a b.", "a, b, to *float64", []string{"a", "b", "to"}, nil, nil, func(at []Mem) {
		x := s.octet(0)
		s.load(x, at[0])
		s.applyMemory(VMULPD, at[1], x, x)
		s.store(x, at[2])
	})
}

func multiplyAdd(s set) {
	s.kernel("MultiplyAdd", "computes to += a b.", "a, b, to *float64", []string{"a", "b", "to"}, nil, nil, func(at []Mem) {
		x := s.octet(0)
		s.load(x, at[0])
		s.applyMemory(VMULPD, at[1], x, x)
		s.sumMemory(x, at[2])
		s.store(x, at[2])
	})
}

func weigh(s set) {
	one := s.same(s.reg[15])
	s.kernel("Weigh", "is flowWeighGo.", "y, z, iz, cond, sum *float64", []string{"y", "z", "iz", "cond", "sum"},
		func([]reg.GPPhysical) { constant(bitsOne, s.reg[15]) }, nil,
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

// lanes holds the two octets of partial results that acc points to between the
// loop and memory, in octets 4 and 5.
func (s set) lanes(k int, store bool) func(p []reg.GPPhysical) {
	return func(p []reg.GPPhysical) {
		for i := range 2 {
			m := at(p[k], nil, 64*i)
			if store {
				s.store(s.octet(4+i), m)
			} else {
				s.load(s.octet(4+i), m)
			}
		}
	}
}

func predict(s set) {
	half, abs := s.same(s.reg[15]), s.same(s.reg[14])
	total, largest := s.octet(4), s.octet(5)
	s.kernel("Predict", "is flowPredictGo.", "out, in, y, cond, iz, t, acc *float64", []string{"out", "in", "y", "cond", "iz", "t", "acc"},
		func(p []reg.GPPhysical) {
			constant(bitsHalf, s.reg[15])
			constant(bitsNoSign, s.reg[14])
			s.lanes(6, false)(p)
		}, s.lanes(6, true),
		func(at []Mem) {
			d, x := s.octet(0), s.octet(1)
			s.load(d, at[0])
			s.applyMemory(VSUBPD, at[1], d, d)
			s.applyMemory(VMULPD, at[3], d, x)
			s.applyMemory(VADDPD, at[2], x, x)
			apply(VMULPD, d, x, x)
			s.store(x, at[5])
			s.sum(total, x)
			s.applyMemory(VMULPD, at[4], d, d)
			apply(VADDPD, half, d, d)
			apply(VANDPD, abs, d, d)
			apply(VADDPD, half, d, d)
			apply(VMAXPD, largest, d, largest)
		})
}

func centre(s set) {
	target := s.same(s.reg[15])
	s.kernel("Centre", "is flowCentreGo.", "target float64, t, iz, out, in *float64", []string{"t", "iz", "out", "in"},
		func([]reg.GPPhysical) {
			p, err := Param("target").Resolve()
			if err != nil {
				panic(err)
			}
			VBROADCASTSD(p.Addr, s.reg[15])
		}, nil,
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
	s.kernel("Advance", "is flowAdvanceGo.", "out, in, y, cond, iz, t, dz, acc *float64", []string{"out", "in", "y", "cond", "iz", "t", "dz", "acc"},
		func(p []reg.GPPhysical) {
			constant(bitsSign, s.reg[15])
			s.lanes(7, false)(p)
		}, s.lanes(7, true),
		func(at []Mem) {
			d, x, y := s.octet(0), s.octet(1), s.octet(2)
			s.load(d, at[0])
			s.applyMemory(VSUBPD, at[1], d, d)
			s.store(d, at[6])
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

func products(s set) {
	largest, total := s.same(s.reg[15]), s.octet(4)
	s.kernel("Products", "is flowProductsGo.", "y, z, acc *float64", []string{"y", "z", "acc"},
		func(p []reg.GPPhysical) {
			constant(bitsLargest, s.reg[15])
			s.load(total, at(p[2], nil, 0))
		}, func(p []reg.GPPhysical) { s.store(total, at(p[2], nil, 0)) },
		func(at []Mem) {
			x := s.octet(0)
			s.applyMemory(VMINPD, at[1], largest, x)
			s.applyMemory(VMULPD, at[0], x, x)
			s.sum(total, x)
		})
}
