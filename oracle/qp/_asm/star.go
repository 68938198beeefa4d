package main

import (
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// arithmetic is the instructions for one number or for a register of numbers.
type arithmetic struct {
	load, store func(from, to Op)
	multiply    func(ops ...Op)
	multiplyAdd func(ops ...Op)
}

var (
	packed = arithmetic{
		func(from, to Op) { VMOVUPD(from, to) }, func(from, to Op) { VMOVUPD(from, to) },
		VMULPD, VFMADD231PD,
	}
	scalar = arithmetic{
		func(from, to Op) { VMOVSD(from, to) }, func(from, to Op) { VMOVSD(from, to) },
		func(ops ...Op) { VMULSD(ops[0], ops[1], ops[2]) }, func(ops ...Op) { VFMADD231SD(ops[0], ops[1], ops[2]) },
	}
)

var scalarRegisters = []reg.VecPhysical{
	reg.X0, reg.X1, reg.X2, reg.X3, reg.X4, reg.X5, reg.X6, reg.X7,
	reg.X8, reg.X9, reg.X10, reg.X11, reg.X12, reg.X13, reg.X14, reg.X15,
}

// star writes starGo for stars of so many members, all of whose conductances are
// in registers.
func star(level string, members int, regs []reg.VecPhysical, do arithmetic) {
	name := "star" + strconv.Itoa(members) + level
	text(name, "func(count int, heads, to *int32, apart int, cond, inverse, all *float64)",
		name+" is starGo for stars of "+strconv.Itoa(members)+" members. Heads, places in all and apart are in bytes.")
	arg("count", reg.RAX)
	arg("heads", reg.RSI)
	arg("to", reg.RDI)
	arg("apart", reg.RDX)
	arg("cond", reg.R8)
	arg("inverse", reg.R9)
	arg("all", reg.R10)
	Label("head")
	MOVLQSX(Mem{Base: reg.RSI}, reg.RBX)
	LEAQ(Mem{Base: reg.R8, Index: reg.RBX, Scale: 1}, reg.R11)
	inverse, f, x := regs[9], regs[10], []reg.VecPhysical{regs[11], regs[12], regs[13], regs[14]}
	do.load(at(reg.R9, reg.RBX, 0), inverse)
	for m := range members {
		do.load(Mem{Base: reg.R11}, regs[m])
		if m+1 < members {
			ADDQ(reg.RDX, reg.R11)
		}
	}
	k := 0
	index := []reg.GPPhysical{reg.RBX, reg.RCX, reg.R12, reg.R13}
	for a := range members - 1 {
		do.multiply(inverse, regs[a], f)
		for b := a + 1; b < members; b++ {
			i, x := index[k%4], x[k%4]
			MOVLQSX(at(reg.RDI, nil, 4*k), i)
			do.load(at(reg.R10, i, 0), x)
			do.multiplyAdd(regs[b], f, x)
			do.store(x, at(reg.R10, i, 0))
			k++
		}
	}
	ADDQ(U8(4), reg.RSI)
	ADDQ(U32(4*k), reg.RDI)
	DECQ(reg.RAX)
	JNZ(LabelRef("head"))
	finish()
}
