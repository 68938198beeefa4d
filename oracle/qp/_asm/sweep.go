package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sweep writes a pass over the labels, one after the other, with so many
// neighbours. Numbers are at least 0, so that their order is that of their bits.
func sweep(name string, eight bool) {
	text(name, "func(order *int32, count int, label *uint64, cost *float64, stride int) (changed uint64)",
		name+" is a pass of pathWolfe's labels in the given order.")
	arg("order", reg.RSI)
	arg("count", reg.RCX)
	arg("label", reg.RDI)
	arg("cost", reg.R8)
	arg("stride", reg.RDX)
	SHLQ(U8(3), reg.RDX)
	MOVQ(reg.RDI, reg.R9)
	SUBQ(reg.RDX, reg.R9)
	LEAQ(Mem{Base: reg.RDI, Index: reg.RDX, Scale: 1}, reg.R10)
	LEAQ(Mem{Base: reg.RSI, Index: reg.RCX, Scale: 4}, reg.RSI)
	NEGQ(reg.RCX)
	VXORPD(reg.X5, reg.X5, reg.X5)
	near := func(base reg.Register, disp int) Mem {
		return Mem{Base: base, Index: reg.RBX, Scale: 8, Disp: disp}
	}
	Label("loop")
	MOVLQSX(Mem{Base: reg.RSI, Index: reg.RCX, Scale: 4}, reg.RBX)
	a, b, c := reg.X0, reg.X1, reg.X2
	// Cells are mostly in the order of their labels, and those before are on
	// their way to memory still: what is left and right comes last.
	VMOVSD(near(reg.R9, 0), a)
	VMOVSD(near(reg.R10, 0), b)
	if eight {
		VMOVSD(near(reg.R9, -8), c)
		VMINSD(near(reg.R9, 8), a, a)
		VMINSD(near(reg.R10, -8), b, b)
		VMINSD(near(reg.R10, 8), c, c)
		VMINSD(near(reg.RDI, -8), a, a)
		VMINSD(near(reg.RDI, 8), b, b)
		VMINSD(c, a, a)
	} else {
		VMINSD(near(reg.RDI, -8), a, a)
		VMINSD(near(reg.RDI, 8), b, b)
	}
	VMINSD(b, a, a)
	VADDSD(near(reg.R8, 0), a, a)
	VMOVSD(near(reg.RDI, 0), reg.X3)
	VXORPD(reg.X3, a, reg.X3)
	VORPD(reg.X3, reg.X5, reg.X5)
	VMOVSD(a, near(reg.RDI, 0))
	INCQ(reg.RCX)
	JNZ(LabelRef("loop"))
	VMOVQ(reg.X5, reg.RAX)
	Store(reg.RAX, ReturnIndex(0))
	finish()
}
