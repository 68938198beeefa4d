package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of the panel kernels. row0, row4 and row8 walk op(A) in the inner
// loop, four rows apart. Outside it row0 and row4 serve to walk start and C.
var (
	row0, row4, row8 = reg.RAX, reg.RBX, reg.R13
	rowA             = reg.RCX
	rowA3            = reg.RDX
	colA             = reg.RSI
	bPtr             = reg.RDI
	ldb              = reg.R8
	count            = reg.R9
	aPtr             = reg.R10
	cPtr             = reg.R11
	startPtr         = reg.R12

	// On the stack: what is read once in a tile or a run.
	rowsLeft, runsLeft, skipA Mem
	// noFloor is zero when floor is minus infinity.
	noFloor Mem
)

// rowMem is element (r, p) of op(A) in the inner loop.
func rowMem(r int) Mem {
	base := row0
	switch r / 4 {
	case 1:
		base = row4
	case 2:
		base = row8
	}
	switch r % 4 {
	case 0:
		return at(base, 0)
	case 1:
		return indexed(base, rowA, 1)
	case 2:
		return indexed(base, rowA, 2)
	default:
		return indexed(base, rowA3, 1)
	}
}

func gemmText(e elem, level string, columns int) {
	name := "gemm" + e.name + level
	text(name, fmt.Sprintf("func(m, n, k, runs int, a *%[1]s, rowA, colA, skipA int, b *%[1]s, ldb int, start *%[1]s, ldStart int, c *%[1]s, ldc int, floor %[1]s)", e.goType),
		name+" multiplies a panel. With A[i,r,p] = a[i*rowA+r*(k*colA+skipA)+p*colA] it sets",
		"",
		"	c[i*ldc+j] = max(floor, start[i*ldStart+j] + sum over r < runs and p < k of A[i,r,p]*b[(r*k+p)*ldb+j])",
		"",
		fmt.Sprintf("for i < m and j < n, where runs >= 1 and 1 <= n <= %d. A nil start stands for zeros.", columns))
	locals := AllocLocal(32)
	rowsLeft, runsLeft, skipA, noFloor = locals, locals.Offset(8), locals.Offset(16), locals.Offset(24)
	if e.size == 8 {
		MOVQ(argMem("floor"), row0)
		MOVQ(U64(math.Float64bits(math.Inf(-1))), row4)
	} else {
		MOVL(argMem("floor"), row0.As32())
		MOVL(U32(math.Float32bits(float32(math.Inf(-1)))), row4.As32())
	}
	SUBQ(row4, row0)
	MOVQ(row0, noFloor)
	arg("m", row0)
	MOVQ(row0, rowsLeft)
	stride(e, "skipA", row0)
	MOVQ(row0, skipA)
	arg("a", aPtr)
	stride(e, "rowA", rowA)
	LEAQ(indexed(rowA, rowA, 2), rowA3)
	stride(e, "colA", colA)
	stride(e, "ldb", ldb)
	arg("start", startPtr)
	arg("c", cPtr)
}

// A tile is rows x vectors accumulators, computed as one unit.
type tile struct {
	e             elem
	label         string
	rows, vectors int
	bytes         int // of a vector
	regs          []reg.VecPhysical
	// load and store move vector v of a row between memory and a register.
	load, store func(v int, mem Mem, r reg.Register)
	// zero clears a register.
	zero func(r reg.Register)
	// floor returns a register that holds floor in every lane. The operands of
	// the inner loop are dead by then.
	floor func() reg.Register
	// embed reads op(A) as a broadcast operand of the product.
	embed bool
}

func (t tile) acc(r, v int) reg.VecPhysical { return t.regs[r*t.vectors+v] }

// emit writes the tile's code and leaves the pointers at the next rows.
func (t tile) emit() {
	TESTQ(startPtr, startPtr)
	JZ(LabelRef(t.label + "_zero"))
	MOVQ(startPtr, row0)
	stride(t.e, "ldStart", row4)
	for r := range t.rows {
		for v := range t.vectors {
			t.load(v, at(row0, v*t.bytes), t.acc(r, v))
		}
		ADDQ(row4, row0)
	}
	MOVQ(row0, startPtr)
	JMP(LabelRef(t.label + "_started"))
	Label(t.label + "_zero")
	for r := range t.rows {
		for v := range t.vectors {
			t.zero(t.acc(r, v))
		}
	}
	Label(t.label + "_started")

	walks := []reg.GPPhysical{row0, row4, row8}[:(t.rows+3)/4]
	MOVQ(aPtr, row0)
	for i := 1; i < len(walks); i++ {
		LEAQ(indexed(walks[i-1], rowA, 4), walks[i])
	}
	arg("b", bPtr)
	arg("runs", count)
	MOVQ(count, runsLeft)
	arg("k", count)
	TESTQ(count, count)
	JZ(LabelRef(t.label + "_store"))
	b := t.regs[t.rows*t.vectors:][:t.vectors]
	spare := t.regs[(t.rows+1)*t.vectors:]
	Label(t.label + "_loop")
	for v := range t.vectors {
		t.load(v, at(bPtr, v*t.bytes), b[v])
	}
	for r := range t.rows {
		if t.embed {
			t.e.fmaBroadcast(rowMem(r), b[0], t.acc(r, 0))
			continue
		}
		x := spare[r%len(spare)]
		t.e.broadcast(rowMem(r), x)
		for v := range t.vectors {
			t.e.fma(b[v], x, t.acc(r, v))
		}
	}
	for _, w := range walks {
		ADDQ(colA, w)
	}
	ADDQ(ldb, bPtr)
	DECQ(count)
	JNZ(LabelRef(t.label + "_loop"))
	DECQ(runsLeft)
	JZ(LabelRef(t.label + "_store"))
	for _, w := range walks {
		ADDQ(skipA, w)
	}
	arg("k", count)
	JMP(LabelRef(t.label + "_loop"))

	Label(t.label + "_store")
	MOVQ(cPtr, row0)
	stride(t.e, "ldc", row4)
	// Without a floor, which is most calls, the maxima are left out: they take
	// the ports of the products.
	CMPQ(noFloor, U8(0))
	JEQ(LabelRef(t.label + "_plain"))
	floor := t.floor()
	for r := range t.rows {
		for v := range t.vectors {
			// The second source, here the sum, wins when it is NaN.
			t.e.max(t.acc(r, v), floor, t.acc(r, v))
		}
	}
	Label(t.label + "_plain")
	for r := range t.rows {
		for v := range t.vectors {
			t.store(v, at(row0, v*t.bytes), t.acc(r, v))
		}
		ADDQ(row4, row0)
	}
	MOVQ(row0, cPtr)
}

// rowLoop writes the loop over all rows of the panel: full tiles, then one tile
// for the rest.
func (t tile) rowLoop() {
	base := t.label
	t.fullTiles(base + "_rest")
	Label(base + "_rest")
	for r := t.rows - 1; r >= 1; r-- {
		next := fmt.Sprintf("%s_not%d", base, r)
		CMPQ(rowsLeft, U8(r))
		JNE(LabelRef(next))
		t.rows, t.label = r, fmt.Sprintf("%s_%d", base, r)
		t.emit()
		JMP(LabelRef("done"))
		Label(next)
	}
	JMP(LabelRef("done"))
}

// fullTiles writes the loop over full tiles, which goes to rest with the
// remaining rows.
func (t tile) fullTiles(rest string) {
	base, full := t.label, t.rows
	Label(base)
	CMPQ(rowsLeft, U8(full))
	JLT(LabelRef(rest))
	t.label = fmt.Sprintf("%s_%d", base, full)
	t.emit()
	for left := full; left > 0; {
		step := min(left, 4)
		for step&(step-1) != 0 {
			step--
		}
		LEAQ(indexed(aPtr, rowA, uint8(step)), aPtr)
		left -= step
	}
	SUBQ(U8(full), rowsLeft)
	JMP(LabelRef(base))
}

// tileRows is the number of rows of the AVX-512 tiles: with two vectors 24 sums,
// which leaves registers for the operands, and divides the rows of 24 and 48
// pixels of the networks.
const tileRows = 12

func gemmAVX512(e elem) {
	lanes := bytesZ / e.size
	gemmText(e, "AVX512", 2*lanes)
	arg("n", count)
	// K1 has the low n bits set, K2 those of the second vector. SHLQ wants its
	// count in CL, so rowA waits in AX.
	MOVQ(rowA, row0)
	MOVQ(count, rowA)
	MOVQ(I32(-1), row4)
	SHLQ(reg.CL, row4)
	NOTQ(row4)
	MOVQ(row0, rowA)
	KMOVW(row4.As32(), reg.K1)
	SHRQ(U8(lanes), row4)
	KMOVW(row4.As32(), reg.K2)
	floor := reg.Z31
	e.broadcast(argMem("floor"), floor)
	CMPQ(count, U8(lanes))
	JLE(LabelRef("narrow"))
	CMPQ(count, U8(2*lanes))
	JLT(LabelRef("wide"))

	// A masked load takes a port of the products besides that of loads, hence
	// code of its own for full tiles of full panels.
	t := tile{
		e: e, label: "full", rows: tileRows, vectors: 2, bytes: bytesZ, regs: regsZ[:31],
		load:  func(_ int, m Mem, r reg.Register) { e.move(m, r) },
		store: func(_ int, m Mem, r reg.Register) { e.move(r, m) },
		zero:  func(r reg.Register) { VPXORD(r, r, r) },
		floor: func() reg.Register { return floor },
	}
	t.fullTiles("wide")

	t.label = "wide"
	t.load = func(v int, m Mem, r reg.Register) {
		if v == 0 {
			e.move(m, r)
		} else {
			e.moveZero(m, reg.K2, r)
		}
	}
	t.store = func(v int, m Mem, r reg.Register) {
		if v == 0 {
			e.move(r, m)
		} else {
			e.move(r, reg.K2, m)
		}
	}
	t.rowLoop()

	t.label, t.vectors, t.embed = "narrow", 1, true
	t.load = func(_ int, m Mem, r reg.Register) { e.moveZero(m, reg.K1, r) }
	t.store = func(_ int, m Mem, r reg.Register) { e.move(r, reg.K1, m) }
	t.rowLoop()
	Label("done")
	finish()
}

func gemmAVX2(e elem) {
	lanes := bytesY / e.size
	gemmText(e, "AVX2", 2*lanes)
	arg("n", count)
	mask := reg.Y15
	LEAQ(maskTable(), row0)

	t := tile{
		e: e, rows: 6, bytes: bytesY,
		zero: func(r reg.Register) { VXORPS(r, r, r) },
		floor: func() reg.Register {
			e.broadcast(argMem("floor"), reg.Y14)
			return reg.Y14
		},
	}
	masked := false
	full := func(v int) bool { return v < t.vectors-1 || !masked }
	t.load = func(v int, m Mem, r reg.Register) {
		if full(v) {
			e.move(m, r)
		} else {
			e.moveMask(m, mask, r)
		}
	}
	t.store = func(v int, m Mem, r reg.Register) {
		if full(v) {
			e.move(r, m)
		} else {
			e.moveMask(r, mask, m)
		}
	}

	CMPQ(count, U8(lanes))
	JLE(LabelRef("narrow_mask"))
	CMPQ(count, U8(2*lanes))
	JLT(LabelRef("wide_mask"))
	t.label, t.vectors, t.regs = "full", 2, regsY
	t.rowLoop()

	// The mask of r lanes is the vector lanes-r elements into the table. r is n
	// less the lanes of the full vectors.
	loadMask := func(full int) {
		SHLQ(U8(e.shift), count)
		SUBQ(count, row0)
		VMOVDQU(at(row0, (full+1)*bytesY), mask)
	}
	masked = true
	Label("wide_mask")
	loadMask(1)
	t.label, t.vectors, t.regs = "wide", 2, regsY[:15]
	t.rowLoop()

	Label("narrow_mask")
	loadMask(0)
	t.label, t.vectors, t.regs = "narrow", 1, regsY[:15]
	t.rowLoop()
	Label("done")
	finish()
}

// maskTable is the address of 32 bytes of ones and 32 of zeros.
func maskTable() Mem {
	if maskTableMem == nil {
		m := GLOBL("maskTable", RODATA|NOPTR)
		for i := range 2 * bytesY / 8 {
			v := U64(0)
			if i < bytesY/8 {
				v = ^v
			}
			DATA(8*i, v)
		}
		maskTableMem = &m
	}
	return *maskTableMem
}

var maskTableMem *Mem
