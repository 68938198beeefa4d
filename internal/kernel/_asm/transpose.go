package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transposeFrame writes the loop of a transposition of lanes rows, lanes
// columns at a time. block turns the rows in the first registers into the
// columns it returns.
func transposeFrame(e elem, block func() []reg.VecPhysical) {
	lanes := bytesY / e.size
	name := "transpose" + e.name + "AVX2"
	text(name, fmt.Sprintf("func(dst *%[1]s, ldd int, src *%[1]s, lds, k int)", e.goType),
		fmt.Sprintf("%s sets dst[p*ldd+j] = src[j*lds+p] for j < %d and p < k, a multiple of %d.", name, lanes, lanes))
	arg("dst", reg.RDI)
	stride(e, "ldd", reg.RDX)
	LEAQ(indexed(reg.RDX, reg.RDX, 2), reg.R8)
	arg("src", reg.RSI)
	stride(e, "lds", reg.RBX)
	LEAQ(indexed(reg.RBX, reg.RBX, 2), reg.R9)
	arg("k", reg.RCX)
	TESTQ(reg.RCX, reg.RCX)
	JZ(LabelRef("done"))
	Label("loop")
	MOVQ(reg.RSI, reg.RAX)
	for r := range lanes {
		e.move(strided(reg.RAX, reg.RBX, reg.R9, r%4), regsY[r])
		if r%4 == 3 && r+1 < lanes {
			LEAQ(indexed(reg.RAX, reg.RBX, 4), reg.RAX)
		}
	}
	for r, y := range block() {
		e.move(y, strided(reg.RDI, reg.RDX, reg.R8, r%4))
		if r%4 == 3 {
			LEAQ(indexed(reg.RDI, reg.RDX, 4), reg.RDI)
		}
	}
	ADDQ(U8(bytesY), reg.RSI)
	SUBQ(U8(lanes), reg.RCX)
	JNZ(LabelRef("loop"))
	Label("done")
	finish()
}

// strided is row r < 4 from base; three holds three strides.
func strided(base, stride, three reg.Register, r int) Mem {
	switch r {
	case 0:
		return at(base, 0)
	case 3:
		return indexed(base, three, 1)
	default:
		return indexed(base, stride, uint8(r))
	}
}

func transposeF64() {
	y := regsY
	transposeFrame(f64, func() []reg.VecPhysical {
		// Pairs of neighbouring rows, then the 128-bit halves.
		VUNPCKLPD(y[1], y[0], y[4])
		VUNPCKHPD(y[1], y[0], y[5])
		VUNPCKLPD(y[3], y[2], y[6])
		VUNPCKHPD(y[3], y[2], y[7])
		VPERM2F128(U8(0x20), y[6], y[4], y[0])
		VPERM2F128(U8(0x20), y[7], y[5], y[1])
		VPERM2F128(U8(0x31), y[6], y[4], y[2])
		VPERM2F128(U8(0x31), y[7], y[5], y[3])
		return y[:4]
	})
}

func transposeF32() {
	y := regsY
	transposeFrame(f32, func() []reg.VecPhysical {
		for i := 0; i < 8; i += 2 {
			VUNPCKLPS(y[i+1], y[i], y[8+i])
			VUNPCKHPS(y[i+1], y[i], y[9+i])
		}
		// y8..y11 are rows 0-3, y12..y15 rows 4-7.
		for i := 0; i < 8; i += 4 {
			VSHUFPS(U8(0x44), y[10+i], y[8+i], y[i])
			VSHUFPS(U8(0xee), y[10+i], y[8+i], y[i+1])
			VSHUFPS(U8(0x44), y[11+i], y[9+i], y[i+2])
			VSHUFPS(U8(0xee), y[11+i], y[9+i], y[i+3])
		}
		for i := range 4 {
			VPERM2F128(U8(0x20), y[4+i], y[i], y[8+i])
			VPERM2F128(U8(0x31), y[4+i], y[i], y[12+i])
		}
		return y[8:16]
	})
}
