package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of the two functions of a pooling window. They work on blocks of 32
// channels, on each of which they walk the window.
var (
	poolOut, poolArg, poolIn = reg.RDI, reg.RSI, reg.RBX
	poolRow, poolPixel       = reg.R8, reg.R9
	poolWalk, poolCol        = reg.RAX, reg.RDX
	poolRows, poolCols       = reg.R10, reg.R11
	poolCount                = reg.RCX
	codeRow, codeStep, code  = reg.Y13, reg.Y15, reg.Y12
	poolOne                  = reg.Y14
	poolBlock                = 32
	poolSignature            = "(y *float32, arg *uint8, x *float32, rows, cols, row, pixel, n, codes int)"
	poolDoc                  = "for n channels, a multiple of 32, of a window of rows x cols pixels at x. Rows are row and pixels are pixel elements apart; pixel (h, w) has code h*codes + w."
)

// windowLoop writes the loops; begin and end are done for each block of
// channels, pixel for each of its pixels, at poolCol.
func windowLoop(begin, pixel, end func()) {
	arg("y", poolOut)
	arg("arg", poolArg)
	arg("x", poolIn)
	stride(f32, "row", poolRow)
	stride(f32, "pixel", poolPixel)
	arg("n", poolCount)
	VPBROADCASTD(argMem("codes"), codeStep)
	VPCMPEQD(poolOne, poolOne, poolOne)
	VPABSD(poolOne, poolOne)
	Label("channels")
	begin()
	VPXOR(codeRow, codeRow, codeRow)
	MOVQ(poolIn, poolWalk)
	arg("rows", poolRows)
	Label("rows")
	MOVQ(poolWalk, poolCol)
	VMOVDQA(codeRow, code)
	arg("cols", poolCols)
	Label("cols")
	pixel()
	ADDQ(poolPixel, poolCol)
	VPADDD(poolOne, code, code)
	DECQ(poolCols)
	JNZ(LabelRef("cols"))
	ADDQ(poolRow, poolWalk)
	VPADDD(codeStep, codeRow, codeRow)
	DECQ(poolRows)
	JNZ(LabelRef("rows"))
	end()
	ADDQ(U8(unroll*bytesY), poolIn)
	ADDQ(U8(unroll*bytesY), poolOut)
	SUBQ(U8(poolBlock), poolCount)
	JNZ(LabelRef("channels"))
	finish()
}

// pools writes the functions of a pooling window.
func pools() {
	order := GLOBL("byteOrder", RODATA|NOPTR)
	for i, d := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(d))
	}
	y := regsY
	text("maxWindowF32AVX2", "func"+poolSignature,
		"maxWindowF32AVX2 sets y to the largest elements, and arg, unless it is nil, to their codes,", poolDoc,
		"Of equal elements it takes the first, and NaN is larger than every number.")
	windowLoop(func() {
		for v := range unroll {
			VMOVUPS(at(poolIn, v*bytesY), y[v])
			VPXOR(y[4+v], y[4+v], y[4+v])
		}
	}, func() {
		const notLessEqual, ordered = 0x16, 0x07
		x, larger, number := y[8], y[9], y[10]
		for v := range unroll {
			VMOVUPS(at(poolCol, v*bytesY), x)
			// x is larger or one of both is NaN, which is not the old one.
			VCMPPS(U8(notLessEqual), y[v], x, larger)
			VCMPPS(U8(ordered), y[v], y[v], number)
			VANDPS(number, larger, larger)
			VBLENDVPS(larger, x, y[v], y[v])
			VBLENDVPS(larger, code, y[4+v], y[4+v])
		}
	}, func() {
		for v := range unroll {
			VMOVUPS(y[v], at(poolOut, v*bytesY))
		}
		TESTQ(poolArg, poolArg)
		JZ(LabelRef("stored"))
		// Dwords to bytes; the packing mixes the halves of the vectors.
		VPACKSSDW(y[5], y[4], y[4])
		VPACKSSDW(y[7], y[6], y[6])
		VPACKUSWB(y[6], y[4], y[4])
		VMOVDQU(order, y[5])
		VPERMD(y[4], y[5], y[4])
		VMOVDQU(y[4], at(poolArg, 0))
		ADDQ(U8(poolBlock), poolArg)
		Label("stored")
	})

	text("scatterWindowF32AVX2", "func"+poolSignature,
		"scatterWindowF32AVX2 adds y to the pixels whose code is arg,", poolDoc)
	windowLoop(func() {
		for v := range unroll {
			VMOVUPS(at(poolOut, v*bytesY), y[v])
			VPMOVZXBD(at(poolArg, v*8), y[4+v])
		}
	}, func() {
		for v := range unroll {
			VPCMPEQD(y[4+v], code, y[8+v])
			VANDPS(y[v], y[8+v], y[8+v])
			VADDPS(at(poolCol, v*bytesY), y[8+v], y[8+v])
			VMOVUPS(y[8+v], at(poolCol, v*bytesY))
		}
	}, func() { ADDQ(U8(poolBlock), poolArg) })
}
