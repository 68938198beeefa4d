package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of the functions of pooling windows. They take windows one after
// the other; of each they work on blocks of channels, and for each block walk
// the window.
var (
	poolOut, poolArg, poolLargest, poolIn = reg.RDI, reg.RSI, reg.R12, reg.RBX
	poolRow, poolPixel                    = reg.R8, reg.R9
	poolWalk, poolCol                     = reg.RAX, reg.RDX
	poolRows, poolCols                    = reg.R10, reg.R11
	poolCount                             = reg.RCX
	poolChannel                           = reg.R13 // first channel of the block, in bytes
)

const (
	poolRest = "rows, cols, row, pixel, n, codes, windows, step, channels int"
	poolDoc  = "for n channels, a multiple of 32, of windows of rows x cols pixels. Rows are row, pixels pixel, windows step elements apart, those of y channels; pixel (h, w) of a window has code h*codes + w."
)

// A poolLevel is what the functions of a level have: a block is so many vectors.
type poolLevel struct {
	name    string
	regs    []reg.VecPhysical
	bytes   int
	vectors int
}

func (l poolLevel) wide() bool { return l.bytes == bytesZ }

// codes are the registers that count the pixels: the last four.
func (l poolLevel) codes() (row, step, code, one reg.VecPhysical) {
	n := len(l.regs)
	return l.regs[n-1], l.regs[n-2], l.regs[n-3], l.regs[n-4]
}

func (l poolLevel) zero(r reg.VecPhysical) {
	if l.wide() {
		VPXORD(r, r, r)
	} else {
		VPXOR(r, r, r)
	}
}

// loop writes the loops; begin and end are done for each block of channels,
// pixel for each of its pixels, at poolCol. largest says whether there is such a
// parameter.
func (l poolLevel) loop(largest bool, begin, pixel, end func()) {
	windowsLeft := AllocLocal(8)
	codeRow, codeStep, code, one := l.codes()
	arg("y", poolOut)
	arg("arg", poolArg)
	arg("x", poolIn)
	if largest {
		arg("largest", poolLargest)
	}
	stride(f32, "row", poolRow)
	stride(f32, "pixel", poolPixel)
	MOVL(U32(1), poolRows.As32())
	VMOVD(poolRows.As32(), reg.X0)
	VPBROADCASTD(reg.X0, one)
	VPBROADCASTD(argMem("codes"), codeStep)
	arg("windows", poolCount)
	MOVQ(poolCount, windowsLeft)
	move := func(dst, src reg.Register) {
		if l.wide() {
			VMOVDQA32(src, dst)
		} else {
			VMOVDQA(src, dst)
		}
	}
	Label("windows")
	XORQ(poolChannel, poolChannel)
	arg("n", poolCount)
	Label("channels")
	begin()
	l.zero(codeRow)
	LEAQ(indexed(poolIn, poolChannel, 1), poolWalk)
	arg("rows", poolRows)
	Label("rows")
	MOVQ(poolWalk, poolCol)
	move(code, codeRow)
	arg("cols", poolCols)
	Label("cols")
	pixel()
	ADDQ(poolPixel, poolCol)
	VPADDD(one, code, code)
	DECQ(poolCols)
	JNZ(LabelRef("cols"))
	ADDQ(poolRow, poolWalk)
	VPADDD(codeStep, codeRow, codeRow)
	DECQ(poolRows)
	JNZ(LabelRef("rows"))
	end()
	ADDQ(U32(l.vectors*l.bytes), poolChannel)
	SUBQ(U8(l.vectors*l.bytes/4), poolCount)
	JNZ(LabelRef("channels"))
	stride(f32, "step", poolCol)
	ADDQ(poolCol, poolIn)
	arg("channels", poolCol)
	TESTQ(poolArg, poolArg)
	JZ(LabelRef("next"))
	ADDQ(poolCol, poolArg)
	Label("next")
	SHLQ(U8(2), poolCol)
	ADDQ(poolCol, poolOut)
	if largest {
		TESTQ(poolLargest, poolLargest)
		JZ(LabelRef("moved"))
		ADDQ(poolCol, poolLargest)
		Label("moved")
	}
	DECQ(windowsLeft)
	JNZ(LabelRef("windows"))
	finish()
}

// channel is vector v of the block at a pointer to channel 0.
func (l poolLevel) channel(base reg.Register, v int) Mem {
	m := indexed(base, poolChannel, 1)
	m.Disp = v * l.bytes
	return m
}

// storeCodes stores the codes of a block as bytes. poolWalk is free.
func (l poolLevel) storeCodes(order Mem, codes []reg.VecPhysical) {
	MOVQ(poolChannel, poolWalk)
	SHRQ(U8(2), poolWalk)
	ADDQ(poolArg, poolWalk)
	if l.wide() {
		for v, c := range codes {
			VPMOVDB(c, at(poolWalk, v*16))
		}
		return
	}
	// The packing mixes the halves of the vectors.
	a := codes[0]
	for v := 0; v < len(codes); v += 2 {
		VPACKSSDW(codes[min(v+1, len(codes)-1)], codes[v], codes[v])
	}
	last := codes[0]
	if len(codes) == 4 {
		last = codes[2]
	}
	VPACKUSWB(last, a, a)
	t := l.regs[len(l.regs)-5]
	VMOVDQU(order, t)
	VPERMD(a, t, a)
	if len(codes) == 4 {
		VMOVDQU(a, at(poolWalk, 0))
	} else {
		VMOVQ(a.(reg.Vec).AsX(), at(poolWalk, 0))
	}
}

const (
	notLessEqual = 0x16
	ordered      = 0x07
)

// larger writes dst = src in the lanes where the number x replaces the old
// maximum y: it is larger, or one of both is NaN, which is not the old one.
// Pairs are destinations and sources. number and mask are scratch.
func (l poolLevel) larger(x, y, mask, number reg.VecPhysical, pairs ...[2]reg.VecPhysical) {
	if l.wide() {
		VCMPPS(U8(ordered), y, y, reg.K1)
		VCMPPS(U8(notLessEqual), y, x, reg.K1, reg.K2)
		for _, p := range pairs {
			VMOVAPS(p[1], reg.K2, p[0])
		}
		return
	}
	VCMPPS(U8(notLessEqual), y, x, mask)
	VCMPPS(U8(ordered), y, y, number)
	VANDPS(number, mask, mask)
	for _, p := range pairs {
		VBLENDVPS(mask, p[1], p[0], p[0])
	}
}

// maxWindow writes the maximum of windows.
func (l poolLevel) maxWindow(order Mem) {
	name := "maxWindowF32" + l.name
	text(name, "func(y *float32, arg *uint8, x *float32, "+poolRest+")",
		name+" sets y to the largest elements, and arg, unless it is nil, to their codes,", poolDoc,
		"Of equal elements it takes the first, and NaN is larger than every number.")
	y, codes := l.regs[:l.vectors], l.regs[l.vectors:2*l.vectors]
	x, mask, number := l.regs[2*l.vectors], l.regs[2*l.vectors+1], l.regs[2*l.vectors+2]
	_, _, code, _ := l.codes()
	l.loop(false, func() {
		for v := range l.vectors {
			VMOVUPS(l.channel(poolIn, v), y[v])
			l.zero(codes[v])
		}
	}, func() {
		for v := range l.vectors {
			VMOVUPS(at(poolCol, v*l.bytes), x)
			l.larger(x, y[v], mask, number, [2]reg.VecPhysical{codes[v], code}, [2]reg.VecPhysical{y[v], x})
		}
	}, func() {
		for v := range l.vectors {
			VMOVUPS(y[v], l.channel(poolOut, v))
		}
		TESTQ(poolArg, poolArg)
		JZ(LabelRef("stored"))
		l.storeCodes(order, codes)
		Label("stored")
	})
}

// normWindow writes the maximum of windows of normalised images.
func (l poolLevel) normWindow(order Mem) {
	// AVX2 lacks the registers for more.
	l.vectors = 1
	if l.wide() {
		l.vectors = 2
	}
	name := "normWindowF32" + l.name
	text(name, "func(y *float32, arg *uint8, largest, x, scale, shift *float32, "+poolRest+", floor float32)",
		name+" sets y to the largest values of scale*x + shift, but at least floor, largest, unless it is nil, to the elements x of the maxima, and arg, unless it is nil, to their codes,", poolDoc,
		"Of equal values it takes the first, and NaN is larger than every number.")
	regs := l.regs
	take := func() []reg.VecPhysical {
		r := regs[:l.vectors]
		regs = regs[l.vectors:]
		return r
	}
	y, codes, xs, scale, shift := take(), take(), take(), take(), take()
	x, value, mask, number := regs[0], regs[1], regs[2], regs[3]
	_, _, code, _ := l.codes()
	affine := func(v int, from Mem) {
		VMOVUPS(from, x)
		VMULPS(scale[v], x, value)
		VADDPS(shift[v], value, value)
	}
	l.loop(true, func() {
		for v := range l.vectors {
			arg("scale", poolWalk)
			VMOVUPS(l.channel(poolWalk, v), scale[v])
			arg("shift", poolWalk)
			VMOVUPS(l.channel(poolWalk, v), shift[v])
			affine(v, l.channel(poolIn, v))
			VMOVAPS(x, xs[v])
			VMOVAPS(value, y[v])
			l.zero(codes[v])
		}
	}, func() {
		for v := range l.vectors {
			affine(v, at(poolCol, v*l.bytes))
			l.larger(value, y[v], mask, number, [2]reg.VecPhysical{codes[v], code}, [2]reg.VecPhysical{xs[v], x}, [2]reg.VecPhysical{y[v], value})
		}
	}, func() {
		f32.broadcast(argMem("floor"), x)
		for v := range l.vectors {
			// The second source, here the maximum, wins when it is NaN.
			VMAXPS(y[v], x, y[v])
			VMOVUPS(y[v], l.channel(poolOut, v))
		}
		TESTQ(poolLargest, poolLargest)
		JZ(LabelRef("kept"))
		for v := range l.vectors {
			VMOVUPS(xs[v], l.channel(poolLargest, v))
		}
		Label("kept")
		TESTQ(poolArg, poolArg)
		JZ(LabelRef("stored"))
		l.storeCodes(order, codes)
		Label("stored")
	})
}

// scatterWindow writes the gradient of windows.
func (l poolLevel) scatterWindow() {
	name := "scatterWindowF32" + l.name
	text(name, "func(y *float32, arg *uint8, x *float32, "+poolRest+")",
		name+" adds y to the pixels whose code is arg,", poolDoc)
	y, codes, t := l.regs[:l.vectors], l.regs[l.vectors:2*l.vectors], l.regs[2*l.vectors]
	_, _, code, _ := l.codes()
	l.loop(false, func() {
		MOVQ(poolChannel, poolWalk)
		SHRQ(U8(2), poolWalk)
		ADDQ(poolArg, poolWalk)
		for v := range l.vectors {
			VMOVUPS(l.channel(poolOut, v), y[v])
			VPMOVZXBD(at(poolWalk, v*l.bytes/4), codes[v])
		}
	}, func() {
		for v := range l.vectors {
			to := at(poolCol, v*l.bytes)
			if l.wide() {
				VPCMPEQD(codes[v], code, reg.K1)
				VADDPS_Z(to, y[v], reg.K1, t)
				VMOVUPS(t, reg.K1, to)
				continue
			}
			VPCMPEQD(codes[v], code, t)
			VANDPS(y[v], t, t)
			VADDPS(to, t, t)
			VMOVUPS(t, to)
		}
	}, func() {})
}

// pools writes the functions of pooling windows.
func pools() {
	order := GLOBL("byteOrder", RODATA|NOPTR)
	for i, d := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(d))
	}
	for _, l := range []poolLevel{{"AVX512", regsZ, bytesZ, 2}, {"AVX2", regsY, bytesY, 4}} {
		l.maxWindow(order)
		l.normWindow(order)
		l.scatterWindow()
	}
}
