package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A winograd is one of the five transformations of F(4x4, 3x3): a matrix with
// few rows applied from both sides to a tile of vectors, one lane a channel.
//
// Products are fused with sums only where they are exact: by powers of two.
type winograd struct {
	name    string
	in, out int // of one side
	// constants are kept in the last registers, the first one in the very last.
	constants []float64
	// line transforms registers r[0] to r[in-1] and returns where the results
	// are. It may use all of r; k returns the register of a constant.
	line func(r []reg.VecPhysical, k func(float64) reg.VecPhysical) []reg.VecPhysical
}

const (
	sixth        = 1. / 6
	twentyFourth = 1. / 24
)

var winograds = []winograd{
	{"Input", 6, 6, []float64{4, 2}, func(r []reg.VecPhysical, k func(float64) reg.VecPhysical) []reg.VecPhysical {
		p, q := r[6], r[7]
		VSUBPS(r[2], r[4], p)
		VSUBPS(r[1], r[3], q)
		VSUBPS(r[2], r[0], r[0])
		VFMADD213PS(p, k(4), r[0])
		VFNMADD231PS(k(4), r[2], r[4])
		VSUBPS(r[3], r[5], r[5])
		VFNMADD231PS(k(4), q, r[5])
		VFNMADD231PS(k(4), r[1], r[3])
		VADDPS(r[3], r[4], r[1])
		VSUBPS(r[3], r[4], r[2])
		VMOVAPS(p, r[3])
		VFMADD231PS(k(2), q, r[3])
		VFNMADD231PS(k(2), q, p)
		return []reg.VecPhysical{r[0], r[1], r[2], r[3], p, r[5]}
	}},
	{"Output", 6, 4, []float64{2, 4, 8}, func(r []reg.VecPhysical, k func(float64) reg.VecPhysical) []reg.VecPhysical {
		s, d := r[6], r[7]
		VADDPS(r[2], r[1], s)
		VSUBPS(r[2], r[1], d)
		VADDPS(r[4], r[3], r[1])
		VSUBPS(r[4], r[3], r[2])
		VADDPS(s, r[0], r[0])
		VADDPS(r[1], r[0], r[0])
		VMOVAPS(d, r[3])
		VFMADD231PS(k(8), r[2], r[3])
		VADDPS(r[5], r[3], r[3])
		VFMADD231PS(k(2), r[2], d)
		VFMADD231PS(k(4), r[1], s)
		return []reg.VecPhysical{r[0], d, s, r[3]}
	}},
	{"Gradient", 4, 6, []float64{4, 2}, func(r []reg.VecPhysical, k func(float64) reg.VecPhysical) []reg.VecPhysical {
		e, o := r[8], r[9]
		VADDPS(r[2], r[0], r[4])
		VADDPS(r[3], r[1], r[5])
		VADDPS(r[5], r[4], r[6])
		VSUBPS(r[5], r[4], r[7])
		VMOVAPS(r[0], e)
		VFMADD231PS(k(4), r[2], e)
		VMOVAPS(r[1], o)
		VFMADD231PS(k(4), r[3], o)
		VMOVAPS(e, r[4])
		VFMADD231PS(k(2), o, r[4])
		VFNMADD231PS(k(2), o, e)
		return []reg.VecPhysical{r[0], r[6], r[7], r[4], e, r[3]}
	}},
	{"Filter", 3, 6, []float64{0.25, 4, 2, sixth, -sixth, twentyFourth}, func(r []reg.VecPhysical, k func(float64) reg.VecPhysical) []reg.VecPhysical {
		VADDPS(r[2], r[0], r[3])
		VADDPS(r[1], r[3], r[4])
		VMULPS(k(-sixth), r[4], r[4])
		VSUBPS(r[3], r[1], r[5])
		VMULPS(k(sixth), r[5], r[5])
		VMOVAPS(r[0], r[6])
		VFMADD231PS(k(4), r[2], r[6])
		VMOVAPS(r[6], r[7])
		VFMADD231PS(k(2), r[1], r[6])
		VFNMADD231PS(k(2), r[1], r[7])
		VMULPS(k(twentyFourth), r[6], r[6])
		VMULPS(k(twentyFourth), r[7], r[7])
		VMULPS(k(0.25), r[0], r[0])
		return []reg.VecPhysical{r[0], r[4], r[5], r[6], r[7], r[2]}
	}},
	{"FilterGradient", 6, 3, []float64{0.25, 0.5, sixth}, func(r []reg.VecPhysical, k func(float64) reg.VecPhysical) []reg.VecPhysical {
		a, b := r[6], r[7]
		VADDPS(r[2], r[1], a)
		VADDPS(r[4], r[3], b)
		VSUBPS(r[1], r[2], r[2])
		VSUBPS(r[4], r[3], r[3])
		VSUBPS(a, b, r[1])
		VMULPS(k(sixth), r[1], r[1])
		VADDPS(r[5], r[1], r[1])
		VFMSUB231PS(k(0.25), b, a)
		VMULPS(k(sixth), a, a)
		VFMADD231PS(k(0.25), r[0], a)
		VFMADD231PS(k(0.5), r[3], r[2])
		VMULPS(k(sixth), r[2], r[2])
		return []reg.VecPhysical{a, r[2], r[1]}
	}},
}

// winogradConstants is a table of the constants of all transformations.
func winogradConstants() map[float64]Mem {
	table := GLOBL("winogradConstants", RODATA|NOPTR)
	at := map[float64]Mem{}
	for _, w := range winograds {
		for _, c := range w.constants {
			if _, ok := at[c]; ok {
				continue
			}
			at[c] = table.Offset(4 * len(at))
			DATA(4*(len(at)-1), U32(math.Float32bits(float32(c))))
		}
	}
	return at
}

func (w winograd) emit(level string, regs []reg.VecPhysical, bytes int, constants map[float64]Mem) {
	lanes := bytes / 4
	name := "winograd" + w.name + level
	text(name, "func(src *float32, srcRow, srcCol int, dst *float32, dstRow, dstCol int, tile *float32, n int)",
		fmt.Sprintf("%s transforms n channels, a multiple of %d. Vector (i, j) of the %dx%d input is at", name, lanes, w.in, w.in),
		fmt.Sprintf("src[i*srcRow+j*srcCol], of the %dx%d output at dst[i*dstRow+j*dstCol]. tile is scratch for", w.out, w.out),
		fmt.Sprintf("%d elements.", w.in*w.out*lanes))
	src, srcRow, srcCol := reg.RSI, reg.RAX, reg.RBX
	dst, dstRow, dstCol := reg.RDI, reg.RCX, reg.RDX
	tile, count := reg.R8, reg.R9
	walk, walk3 := reg.R10, reg.R11
	srcRow3, dstCol3 := reg.R12, reg.R13
	arg("src", src)
	stride(f32, "srcRow", srcRow)
	stride(f32, "srcCol", srcCol)
	arg("dst", dst)
	stride(f32, "dstRow", dstRow)
	stride(f32, "dstCol", dstCol)
	arg("tile", tile)
	arg("n", count)
	LEAQ(indexed(srcRow, srcRow, 2), srcRow3)
	LEAQ(indexed(dstCol, dstCol, 2), dstCol3)
	held := map[float64]reg.VecPhysical{}
	for i, c := range w.constants {
		held[c] = regs[len(regs)-1-i]
		f32.broadcast(constants[c], held[c])
	}
	k := func(c float64) reg.VecPhysical {
		r, ok := held[c]
		if !ok {
			panic(fmt.Sprintf("%s: constant %v not listed", w.name, c))
		}
		return r
	}
	// The element i from base, for i < 6, where base3 is three strides on.
	element := func(base, base3, step reg.Register, i int) Mem {
		if i >= 3 {
			base = base3
		}
		if i%3 == 0 {
			return at(base, 0)
		}
		return indexed(base, step, uint8(i%3))
	}

	Label("loop")
	// Columns of the input to columns of the tile, then rows of it to rows of
	// the output.
	MOVQ(src, walk)
	LEAQ(indexed(src, srcRow3, 1), walk3)
	for j := range w.in {
		for i := range w.in {
			f32.move(element(walk, walk3, srcRow, i), regs[i])
		}
		for i, r := range w.line(regs, k) {
			f32.move(r, at(tile, (i*w.in+j)*bytes))
		}
		if j+1 < w.in {
			ADDQ(srcCol, walk)
			ADDQ(srcCol, walk3)
		}
	}
	MOVQ(dst, walk)
	LEAQ(indexed(dst, dstCol3, 1), walk3)
	for i := range w.out {
		for j := range w.in {
			f32.move(at(tile, (i*w.in+j)*bytes), regs[j])
		}
		for j, r := range w.line(regs, k) {
			f32.move(r, element(walk, walk3, dstCol, j))
		}
		if i+1 < w.out {
			ADDQ(dstRow, walk)
			ADDQ(dstRow, walk3)
		}
	}
	ADDQ(U8(bytes), src)
	ADDQ(U8(bytes), dst)
	SUBQ(U8(lanes), count)
	JNZ(LabelRef("loop"))
	finish()
}

func winogradTransforms() {
	constants := winogradConstants()
	for _, w := range winograds {
		w.emit("AVX512", regsZ, bytesZ, constants)
		w.emit("AVX2", regsY, bytesY, constants)
	}
}
