package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The vector operations use AVX2 at level avx512 too: they are bound by memory
// or by the divider. They round every product, to return the bits of the Go
// code, and leave what does not fill their blocks to it.

// unroll is the number of vectors in a block.
const unroll = 4

// blockLoop runs body over count elements, a multiple of unroll vectors, and
// moves the pointers along. body is given each vector's number and its offset.
func blockLoop(e elem, count reg.Register, pointers []reg.GPPhysical, body func(v, disp int)) {
	TESTQ(count, count)
	JZ(LabelRef("done"))
	Label("loop")
	for v := range unroll {
		body(v, v*bytesY)
	}
	for _, p := range pointers {
		ADDQ(U32(unroll*bytesY), p)
	}
	SUBQ(U8(unroll*bytesY/e.size), count)
	JNZ(LabelRef("loop"))
	Label("done")
}

func axpy(e elem) {
	name := "axpy" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(alpha %[1]s, x, y *%[1]s, n int)", e.goType),
		fmt.Sprintf("%s computes y += alpha*x for n elements, a multiple of %d.", name, unroll*bytesY/e.size))
	e.broadcast(argMem("alpha"), reg.Y15)
	arg("x", reg.RSI)
	arg("y", reg.RDI)
	arg("n", reg.RCX)
	blockLoop(e, reg.RCX, []reg.GPPhysical{reg.RSI, reg.RDI}, func(v, disp int) {
		e.mul(at(reg.RSI, disp), reg.Y15, regsY[v])
		e.add(at(reg.RDI, disp), regsY[v], regsY[v])
		e.move(regsY[v], at(reg.RDI, disp))
	})
	finish()
}

func nonFinite(e elem) {
	name := "nonFinite" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(x *%s, n int) bool", e.goType),
		fmt.Sprintf("%s says whether n elements, a multiple of %d, hold NaN or an infinity.", name, unroll*bytesY/e.size))
	arg("x", reg.RSI)
	arg("n", reg.RCX)
	// Both have an exponent of ones.
	if e.size == 8 {
		MOVQ(U64(0x7ff0000000000000), reg.RAX)
		MOVQ(reg.RAX, reg.X15)
		VPBROADCASTQ(reg.X15, reg.Y15)
	} else {
		MOVL(U32(0x7f800000), reg.EAX)
		MOVD(reg.EAX, reg.X15)
		VPBROADCASTD(reg.X15, reg.Y15)
	}
	for v := range unroll {
		VPXOR(regsY[v], regsY[v], regsY[v])
	}
	blockLoop(e, reg.RCX, []reg.GPPhysical{reg.RSI}, func(v, disp int) {
		t := regsY[unroll+v]
		VPAND(at(reg.RSI, disp), reg.Y15, t)
		e.intEqual(t, reg.Y15, t)
		VPOR(t, regsY[v], regsY[v])
	})
	VPOR(reg.Y1, reg.Y0, reg.Y0)
	VPOR(reg.Y3, reg.Y2, reg.Y2)
	VPOR(reg.Y2, reg.Y0, reg.Y0)
	VPTEST(reg.Y0, reg.Y0)
	SETNE(reg.AL)
	Store(reg.AL, ReturnIndex(0))
	finish()
}

func reluGrad(e elem) {
	name := "reluGrad" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(dz, dy, y *%s, n int)", e.goType),
		fmt.Sprintf("%s sets dz to dy where y > 0, else to 0, for n elements, a multiple of %d.", name, unroll*bytesY/e.size))
	arg("dz", reg.RDI)
	arg("dy", reg.RSI)
	arg("y", reg.RDX)
	arg("n", reg.RCX)
	VPXOR(reg.Y15, reg.Y15, reg.Y15)
	blockLoop(e, reg.RCX, []reg.GPPhysical{reg.RDI, reg.RSI, reg.RDX}, func(v, disp int) {
		positive(e, at(reg.RDX, disp), regsY[v])
		e.and(at(reg.RSI, disp), regsY[v], regsY[v])
		e.move(regsY[v], at(reg.RDI, disp))
	})
	finish()
}

const lessOrderedQuiet = 0x11

// positive sets dst to ones where y > 0. Y15 is zero.
func positive(e elem, y Mem, dst reg.Register) {
	e.compare(U8(lessOrderedQuiet), y, reg.Y15, dst)
}

// columnLoop runs body for blocks of so many vectors of columns, then for single
// vectors, until the columns in count are used up. pointers move along.
func columnLoop(e elem, bytes, widest int, count reg.Register, pointers []reg.GPPhysical, body func(vectors int)) {
	for _, vectors := range []int{widest, 1} {
		columns := vectors * bytes / e.size
		head, next := fmt.Sprintf("columns%d", columns), fmt.Sprintf("less%d", columns)
		Label(head)
		CMPQ(count, U8(columns))
		JLT(LabelRef(next))
		body(vectors)
		for _, p := range pointers {
			ADDQ(U32(vectors*bytes), p)
		}
		SUBQ(U8(columns), count)
		JMP(LabelRef(head))
		Label(next)
	}
}

func colSums(e elem) {
	name := "colSums" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(db, dz *%s, m, n, columns int)", e.goType),
		fmt.Sprintf("%s adds m >= 1 rows of dz, n elements apart, to db, for the given columns, a multiple of %d.", name, bytesY/e.size))
	arg("db", reg.RDI)
	arg("dz", reg.RSI)
	stride(e, "n", reg.RDX)
	arg("columns", reg.RCX)
	columnLoop(e, bytesY, unroll, reg.RCX, []reg.GPPhysical{reg.RDI, reg.RSI}, func(vectors int) {
		for v := range vectors {
			e.move(at(reg.RDI, v*bytesY), regsY[v])
		}
		MOVQ(reg.RSI, reg.RAX)
		arg("m", reg.RBX)
		rows := fmt.Sprintf("rows%d", vectors)
		Label(rows)
		for v := range vectors {
			e.add(at(reg.RAX, v*bytesY), regsY[v], regsY[v])
		}
		ADDQ(reg.RDX, reg.RAX)
		DECQ(reg.RBX)
		JNZ(LabelRef(rows))
		for v := range vectors {
			e.move(regsY[v], at(reg.RDI, v*bytesY))
		}
	})
	finish()
}

func reluGradColSums(e elem) {
	name := "reluGradColSums" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(dz, db, dy, y *%s, m, n, columns int)", e.goType),
		fmt.Sprintf("%s sets dz to dy where y > 0, else to 0, and adds its m >= 1 rows, n elements apart, to db, for the given columns, a multiple of %d.", name, bytesY/e.size))
	arg("dz", reg.R8)
	arg("db", reg.RDI)
	arg("dy", reg.RSI)
	arg("y", reg.R9)
	stride(e, "n", reg.RDX)
	arg("columns", reg.RCX)
	VPXOR(reg.Y15, reg.Y15, reg.Y15)
	columnLoop(e, bytesY, unroll, reg.RCX, []reg.GPPhysical{reg.R8, reg.RDI, reg.RSI, reg.R9}, func(vectors int) {
		for v := range vectors {
			e.move(at(reg.RDI, v*bytesY), regsY[v])
		}
		MOVQ(reg.R8, reg.R10)
		MOVQ(reg.RSI, reg.R11)
		MOVQ(reg.R9, reg.R12)
		arg("m", reg.RBX)
		rows := fmt.Sprintf("rows%d", vectors)
		Label(rows)
		for v := range vectors {
			t := regsY[unroll+v]
			positive(e, at(reg.R12, v*bytesY), t)
			e.and(at(reg.R11, v*bytesY), t, t)
			e.move(t, at(reg.R10, v*bytesY))
			e.add(t, regsY[v], regsY[v])
		}
		ADDQ(reg.RDX, reg.R10)
		ADDQ(reg.RDX, reg.R11)
		ADDQ(reg.RDX, reg.R12)
		DECQ(reg.RBX)
		JNZ(LabelRef(rows))
		for v := range vectors {
			e.move(regsY[v], at(reg.RDI, v*bytesY))
		}
	})
	finish()
}

func adam(e elem) {
	name := "adam" + e.name + "AVX2"
	lanes := bytesY / e.size
	text(name, fmt.Sprintf("func(p, grad, m, v *%[1]s, n int, scalars *%[1]s)", e.goType),
		fmt.Sprintf("%s updates n elements, a multiple of %d. The scalars are the eight of adamScalars.", name, lanes))
	arg("p", reg.RDI)
	arg("grad", reg.RSI)
	arg("m", reg.RDX)
	arg("v", reg.RBX)
	arg("n", reg.RCX)
	arg("scalars", reg.RAX)
	s := regsY[8:]
	for i := range s {
		e.broadcast(at(reg.RAX, i*e.size), s[i])
	}
	scale, beta1, rest1, beta2, rest2, rate, root, epsilon := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
	h, m, v, t := reg.Y0, reg.Y1, reg.Y2, reg.Y3
	TESTQ(reg.RCX, reg.RCX)
	JZ(LabelRef("done"))
	Label("loop")
	e.mul(at(reg.RSI, 0), scale, h)
	e.mul(at(reg.RDX, 0), beta1, m)
	e.mul(h, rest1, t)
	e.add(t, m, m)
	e.move(m, at(reg.RDX, 0))
	e.mul(h, rest2, t)
	e.mul(h, t, t)
	e.mul(at(reg.RBX, 0), beta2, v)
	e.add(t, v, v)
	e.move(v, at(reg.RBX, 0))
	e.sqrt(v, v)
	e.mul(root, v, v)
	e.add(epsilon, v, v)
	e.mul(rate, m, m)
	e.div(v, m, m)
	e.move(at(reg.RDI, 0), t)
	e.sub(m, t, t)
	e.move(t, at(reg.RDI, 0))
	for _, p := range []reg.GPPhysical{reg.RDI, reg.RSI, reg.RDX, reg.RBX} {
		ADDQ(U8(bytesY), p)
	}
	SUBQ(U8(lanes), reg.RCX)
	JNZ(LabelRef("loop"))
	Label("done")
	finish()
}

// sumSquares writes the frame of both sums: s[l] += x[i]*x[i] for l = i mod 16.
// square sets a register to the squares of elements 4v to 4v+3 in float64.
func sumSquares(e elem, square func(v int, dst reg.Register)) {
	name := "sumSquares" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(s *float64, x *%s, n int)", e.goType),
		name+" adds the squares of n elements, a multiple of 16, to the partial sums s, element i to s[i%16].")
	arg("s", reg.RDI)
	arg("x", reg.RSI)
	arg("n", reg.RCX)
	for v := range unroll {
		VMOVUPD(at(reg.RDI, v*bytesY), regsY[v])
	}
	TESTQ(reg.RCX, reg.RCX)
	JZ(LabelRef("done"))
	Label("loop")
	for v := range unroll {
		t := regsY[unroll+v]
		square(v, t)
		VADDPD(t, regsY[v], regsY[v])
	}
	ADDQ(U32(16*e.size), reg.RSI)
	SUBQ(U8(16), reg.RCX)
	JNZ(LabelRef("loop"))
	Label("done")
	for v := range unroll {
		VMOVUPD(regsY[v], at(reg.RDI, v*bytesY))
	}
	finish()
}

func sumSquaresF64() {
	sumSquares(f64, func(v int, t reg.Register) {
		VMOVUPD(at(reg.RSI, v*32), t)
		VMULPD(t, t, t)
	})
}

func sumSquaresF32() {
	sumSquares(f32, func(v int, t reg.Register) {
		VCVTPS2PD(at(reg.RSI, v*16), t)
		VMULPD(t, t, t)
	})
}
