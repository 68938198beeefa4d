package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The functions of this file work on a register full of the eight lanes of a
// matrix set: all of them with AVX-512, the first four of those pointed to with
// AVX2. Numbers of a lane are 64 bytes apart.

// lanesArguments loads the rows, their stride in bytes and the band.
func lanesArguments() {
	arg("rows", reg.R10)
	arg("stride", reg.RDX)
	SHLQ(U8(6), reg.RDX)
	arg("band", reg.RCX)
}

// eighths runs body for k = 0, 1, ... as often as RAX says, which becomes 0,
// with k mod 8 and the memory of element k behind the pointers, which move on.
func eighths(label string, pointers []reg.GPPhysical, body func(l int, m []Mem)) {
	all := func(l int) []Mem {
		var m []Mem
		for _, p := range pointers {
			m = append(m, at(p, nil, 64*l))
		}
		return m
	}
	Label(label)
	CMPQ(reg.RAX, U8(8))
	JLT(LabelRef(label + "rest"))
	for l := range 8 {
		body(l, all(l))
	}
	for _, p := range pointers {
		ADDQ(U32(512), p)
	}
	SUBQ(U8(8), reg.RAX)
	JMP(LabelRef(label))
	Label(label + "rest")
	for l := range 7 {
		CMPQ(reg.RAX, U8(l+1))
		JLT(LabelRef(label + "end"))
		body(l, all(l))
	}
	Label(label + "end")
}

// addEighths adds registers 0 to 7 as addLanes does, into register 0.
func (s set) addEighths() {
	for _, d := range []int{4, 2, 1} {
		for l := range d {
			VADDPD(s.reg[l+d], s.reg[l], s.reg[l])
		}
	}
}

func lanesEliminate(s set) {
	name := "lanesEliminate" + s.name
	text(name, "func(rows *float64, stride, band int, inverse, ground *float64)",
		name+" is bandMatrix.eliminateLane for a register of lanes.")
	lanesArguments()
	arg("inverse", reg.R8)
	arg("ground", reg.R9)
	rows := fourRows()

	// Among themselves.
	constant(bitsOne, s.reg[15])
	for m := range 4 {
		label := string(rune('0' + m))
		for l := range 8 {
			VXORPD(s.reg[l].(reg.Vec).AsX(), s.reg[l].(reg.Vec).AsX(), s.reg[l].(reg.Vec).AsX())
		}
		MOVQ(rows[m], reg.RSI)
		MOVQ(reg.RCX, reg.RAX)
		eighths("pivot"+label, []reg.GPPhysical{reg.RSI}, func(l int, from []Mem) { VADDPD(from[0], s.reg[l], s.reg[l]) })
		s.addEighths()
		VADDPD(at(reg.R9, nil, 64*m), s.reg[0], s.reg[0])
		VDIVPD(s.reg[0], s.reg[15], s.reg[0])
		VMOVUPD(s.reg[0], at(reg.R8, nil, 64*m))
		for n := m + 1; n < 4; n++ {
			label := "row" + label + string(rune('0'+n))
			f := s.reg[1]
			VMULPD(at(rows[m], nil, 64*(n-m-1)), s.reg[0], f)
			VMOVUPD(at(reg.R9, nil, 64*n), s.reg[2])
			VFMADD231PD(at(reg.R9, nil, 64*m), f, s.reg[2])
			VMOVUPD(s.reg[2], at(reg.R9, nil, 64*n))
			LEAQ(at(reg.RCX, nil, m-n), reg.RAX)
			SHLQ(U8(6), reg.RAX)
			JZ(LabelRef(label + "end"))
			XORQ(reg.RBX, reg.RBX)
			Label(label)
			VMOVUPD(at(rows[n], reg.RBX, 0), s.reg[2])
			VFMADD231PD(at(rows[m], reg.RBX, 64*(n-m)), f, s.reg[2])
			VMOVUPD(s.reg[2], at(rows[n], reg.RBX, 0))
			ADDQ(U8(64), reg.RBX)
			CMPQ(reg.RBX, reg.RAX)
			JLT(LabelRef(label))
			Label(label + "end")
		}
	}

	// The rows below.
	for m := range 4 {
		VMOVUPD(at(reg.R8, nil, 64*m), s.reg[8+m])
		VMOVUPD(at(reg.R9, nil, 64*m), s.reg[12+m])
	}
	LEAQ(Mem{Base: reg.R10, Index: reg.RDX, Scale: 4}, reg.RSI)
	for m := range 4 {
		ADDQ(U32(64*(3-m)), rows[m])
	}
	ADDQ(U32(256), reg.R9)
	Label("below")
	VMOVUPD(at(reg.R9, nil, 0), s.reg[0])
	for m := range 4 {
		VMULPD(at(rows[m], nil, 0), s.reg[8+m], s.reg[4+m])
		VFMADD231PD(s.reg[12+m], s.reg[4+m], s.reg[0])
		ADDQ(U8(64), rows[m])
	}
	VMOVUPD(s.reg[0], at(reg.R9, nil, 0))
	ADDQ(U8(64), reg.R9)
	DECQ(reg.RCX)
	JZ(LabelRef("done"))
	MOVQ(reg.RCX, reg.RAX)
	SHLQ(U8(6), reg.RAX)
	XORQ(reg.RBX, reg.RBX)
	Label("columns")
	VMOVUPD(at(reg.RSI, reg.RBX, 0), s.reg[0])
	for m := range 4 {
		VFMADD231PD(at(rows[m], reg.RBX, 0), s.reg[4+m], s.reg[0])
	}
	VMOVUPD(s.reg[0], at(reg.RSI, reg.RBX, 0))
	ADDQ(U8(64), reg.RBX)
	CMPQ(reg.RBX, reg.RAX)
	JLT(LabelRef("columns"))
	ADDQ(reg.RDX, reg.RSI)
	JMP(LabelRef("below"))
	Label("done")
	finish()
}

func lanesForward(s set) {
	name := "lanesForward" + s.name
	text(name, "func(rows *float64, stride, band, n int, inverse, x *float64)",
		name+" is bandMatrix.forwardLane for a register of lanes.")
	lanesArguments()
	SHLQ(U8(6), reg.RCX)
	arg("n", reg.RAX)
	arg("inverse", reg.R8)
	arg("x", reg.RDI)
	Label("block")
	rows := fourRows()
	for b := range 4 {
		VMOVUPD(at(reg.RDI, nil, 64*b), s.reg[b])
		for a := range b {
			VFMADD231PD(at(rows[a], nil, 64*(b-a-1)), s.reg[4+a], s.reg[b])
		}
		VMULPD(at(reg.R8, nil, 64*b), s.reg[b], s.reg[4+b])
		VMOVUPD(s.reg[4+b], at(reg.RDI, nil, 64*b))
	}
	ADDQ(U32(256), reg.RDI)
	XORQ(reg.RBX, reg.RBX)
	Label("loop")
	VMOVUPD(at(reg.RDI, reg.RBX, 0), s.reg[0])
	for m := range 4 {
		VFMADD231PD(at(rows[m], reg.RBX, 64*(3-m)), s.reg[4+m], s.reg[0])
	}
	VMOVUPD(s.reg[0], at(reg.RDI, reg.RBX, 0))
	ADDQ(U8(64), reg.RBX)
	CMPQ(reg.RBX, reg.RCX)
	JLT(LabelRef("loop"))
	LEAQ(Mem{Base: reg.R10, Index: reg.RDX, Scale: 4}, reg.R10)
	ADDQ(U32(256), reg.R8)
	SUBQ(U8(4), reg.RAX)
	JNZ(LabelRef("block"))
	finish()
}

func lanesBackward(s set) {
	name := "lanesBackward" + s.name
	text(name, "func(rows *float64, stride, band, n int, inverse, x *float64)",
		name+" is bandMatrix.backwardLane for a register of lanes. rows, inverse and x are those of the last four rows.")
	lanesArguments()
	arg("n", reg.R9)
	arg("inverse", reg.R8)
	arg("x", reg.RDI)
	Label("block")
	rows := fourRows()
	for a := 3; a >= 0; a-- {
		for l := range 8 {
			VXORPD(s.reg[l].(reg.Vec).AsX(), s.reg[l].(reg.Vec).AsX(), s.reg[l].(reg.Vec).AsX())
		}
		LEAQ(at(rows[a], nil, 64*(3-a)), reg.RSI)
		LEAQ(at(reg.RDI, nil, 256), reg.RBX)
		MOVQ(reg.RCX, reg.RAX)
		eighths("row"+string(rune('0'+a)), []reg.GPPhysical{reg.RSI, reg.RBX}, func(l int, from []Mem) {
			VMOVUPD(from[1], s.reg[8])
			VFMADD231PD(from[0], s.reg[8], s.reg[l])
		})
		s.addEighths()
		for b := 3; b > a; b-- {
			VFMADD231PD(at(rows[a], nil, 64*(b-a-1)), s.reg[12+b], s.reg[0])
		}
		VMOVUPD(at(reg.RDI, nil, 64*a), s.reg[12+a])
		VFMADD231PD(at(reg.R8, nil, 64*a), s.reg[0], s.reg[12+a])
		VMOVUPD(s.reg[12+a], at(reg.RDI, nil, 64*a))
	}
	SHLQ(U8(2), reg.RDX)
	SUBQ(reg.RDX, reg.R10)
	SHRQ(U8(2), reg.RDX)
	SUBQ(U32(256), reg.R8)
	SUBQ(U32(256), reg.RDI)
	SUBQ(U8(4), reg.R9)
	JNZ(LabelRef("block"))
	finish()
}
