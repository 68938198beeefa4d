package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The operations on rows of channels: every operation rounded, like those of
// vector.go. AVX2 takes 16 or 32 channels at a time, AVX-512 64, the rows of the
// networks whole: then memory is read in one stream.

// A rowsLevel is the registers of a level and how many vectors a block of
// channels has at most.
type rowsLevel struct {
	name  string
	regs  []reg.VecPhysical
	bytes int
}

func (l rowsLevel) wide() bool { return l.bytes == bytesZ }

// A rowsFunc is a function of m >= 1 rows, n elements apart, in which each
// channel has its own parameters.
type rowsFunc struct {
	e elem
	rowsLevel
	// params point to one element a channel, rows to the first row. There are
	// at most three of the first and four of the second.
	params, rows []string
	widest       int // vectors of a block
	// begin loads the parameters of a block, row does one row of vector v, end
	// stores what was summed. They get memory by name, at vector v.
	begin, row, end func(v int, mem func(name string, v int) Mem)
}

func (f rowsFunc) emit(name, doc string, extra string, setup func()) {
	e := f.e
	signature := "func("
	for _, p := range append(append([]string(nil), f.rows...), f.params...) {
		signature += p + ", "
	}
	signature = signature[:len(signature)-2] + fmt.Sprintf(" *%s, m, n, columns int%s)", e.goType, extra)
	text(name, signature, fmt.Sprintf("%s %s for m >= 1 rows, n elements apart, and the given columns, a multiple of %d.", name, doc, f.bytes/e.size))
	pointers := []reg.GPPhysical{reg.RDI, reg.RSI, reg.R8, reg.R9}[:len(f.rows)]
	params := []reg.GPPhysical{reg.RAX, reg.RBX, reg.R12}[:len(f.params)]
	where := map[string]reg.GPPhysical{}
	for i, r := range f.rows {
		arg(r, pointers[i])
		where[r] = pointers[i]
	}
	for i, p := range f.params {
		arg(p, params[i])
		where[p] = params[i]
	}
	// All rows advance by the same bytes: one offset serves all.
	offset, step, rows := reg.R10, reg.RDX, reg.R11
	stride(e, "n", step)
	arg("columns", reg.RCX)
	setup()
	isRow := map[string]bool{}
	for _, r := range f.rows {
		isRow[r] = true
	}
	mem := func(name string, v int) Mem {
		m := at(where[name], v*f.bytes)
		if isRow[name] {
			m.Index, m.Scale = offset, 1
		}
		return m
	}
	columnLoop(e, f.bytes, f.widest, reg.RCX, append(append([]reg.GPPhysical(nil), pointers...), params...), func(vectors int) {
		for v := range vectors {
			f.begin(v, mem)
		}
		XORQ(offset, offset)
		arg("m", rows)
		label := fmt.Sprintf("rows%d", vectors)
		Label(label)
		for v := range vectors {
			f.row(v, mem)
		}
		ADDQ(step, offset)
		DECQ(rows)
		JNZ(LabelRef(label))
		if f.end != nil {
			for v := range vectors {
				f.end(v, mem)
			}
		}
	})
	finish()
}

func channels(e elem) {
	for _, l := range []rowsLevel{{"AVX2", regsY, bytesY}, {"AVX512", regsZ, bytesZ}} {
		l.channels(e)
	}
}

// channels writes the functions of a level. Register v of a kind of values is
// regs[v] behind those of the kinds before it.
func (l rowsLevel) channels(e elem) {
	// kinds returns the widest block and registers for kinds of values.
	kinds := func(vectors, n int) [][]reg.VecPhysical {
		if l.wide() {
			vectors = unroll
		}
		out := make([][]reg.VecPhysical, n)
		for i := range out {
			out[i] = l.regs[i*vectors:][:vectors]
		}
		return out
	}
	last := l.regs[len(l.regs)-1]
	for _, residual := range []bool{false, true} {
		name, doc, rows := "scaleShift"+e.name+l.name, "sets y = max(floor, scale*x + shift)", []string{"y", "x"}
		if residual {
			name, doc, rows = "scaleShiftAdd"+e.name+l.name, "sets y = max(floor, scale*x + shift + residual)", append(rows, "residual")
		}
		y := kinds(unroll, 3)
		floor := last
		rowsFunc{
			e: e, rowsLevel: l, rows: rows, params: []string{"scale", "shift"}, widest: len(y[0]),
			begin: func(v int, mem func(string, int) Mem) {
				e.move(mem("scale", v), y[0][v])
				e.move(mem("shift", v), y[1][v])
			},
			row: func(v int, mem func(string, int) Mem) {
				t := y[2][v]
				e.mul(mem("x", v), y[0][v], t)
				e.add(y[1][v], t, t)
				if residual {
					e.add(mem("residual", v), t, t)
				}
				// The second source, here the sum, wins when it is NaN.
				e.max(t, floor, t)
				e.move(t, mem("y", v))
			},
		}.emit(name, doc, ", floor "+e.goType, func() { e.broadcast(argMem("floor"), floor) })
	}

	y := kinds(2, 5)
	rowsFunc{
		e: e, rowsLevel: l, rows: []string{"y", "a", "b"}, params: []string{"p", "q", "r"}, widest: len(y[0]),
		begin: func(v int, mem func(string, int) Mem) {
			e.move(mem("p", v), y[0][v])
			e.move(mem("q", v), y[1][v])
			e.move(mem("r", v), y[2][v])
		},
		row: func(v int, mem func(string, int) Mem) {
			s, t := y[3][v], y[4][v]
			e.mul(mem("a", v), y[0][v], s)
			e.mul(mem("b", v), y[1][v], t)
			e.add(t, s, s)
			e.add(y[2][v], s, s)
			e.move(s, mem("y", v))
		},
	}.emit("affine2"+e.name+l.name, "sets y = p*a + q*b + r", "", func() {})

	z := kinds(unroll, 3)
	rowsFunc{
		e: e, rowsLevel: l, rows: []string{"x"}, params: []string{"sum", "squares"}, widest: len(z[0]),
		begin: func(v int, mem func(string, int) Mem) {
			e.move(mem("sum", v), z[0][v])
			e.move(mem("squares", v), z[1][v])
		},
		row: func(v int, mem func(string, int) Mem) {
			t := z[2][v]
			e.move(mem("x", v), t)
			e.add(t, z[0][v], z[0][v])
			e.mul(t, t, t)
			e.add(t, z[1][v], z[1][v])
		},
		end: func(v int, mem func(string, int) Mem) {
			e.move(z[0][v], mem("sum", v))
			e.move(z[1][v], mem("squares", v))
		},
	}.emit("columnSums"+e.name+l.name, "adds x to sum and x*x to squares", "", func() {})

	for _, relu := range []bool{false, true} {
		name, doc, rows := "gradientSums"+e.name+l.name, "sets d = dy", []string{"d", "dy", "x"}
		if relu {
			name, doc, rows = "gradientSumsReLU"+e.name+l.name, "sets d to dy where out > 0, else to 0,", append(rows, "out")
		}
		sum, product, mean, d, x := y[0], y[1], y[2], y[3], y[4]
		rowsFunc{
			e: e, rowsLevel: l, rows: rows, params: []string{"mean", "sum", "product"}, widest: len(sum),
			begin: func(v int, mem func(string, int) Mem) {
				e.move(mem("sum", v), sum[v])
				e.move(mem("product", v), product[v])
				e.move(mem("mean", v), mean[v])
			},
			row: func(v int, mem func(string, int) Mem) {
				switch {
				case !relu:
					e.move(mem("dy", v), d[v])
				case l.wide():
					e.compare(U8(lessOrderedQuiet), mem("out", v), last, reg.K1)
					e.moveZero(mem("dy", v), reg.K1, d[v])
				default:
					positive(e, mem("out", v), d[v])
					e.and(mem("dy", v), d[v], d[v])
				}
				e.move(mem("x", v), x[v])
				e.move(d[v], mem("d", v))
				e.sub(mean[v], x[v], x[v])
				e.add(d[v], sum[v], sum[v])
				e.mul(d[v], x[v], x[v])
				e.add(x[v], product[v], product[v])
			},
			end: func(v int, mem func(string, int) Mem) {
				e.move(sum[v], mem("sum", v))
				e.move(product[v], mem("product", v))
			},
		}.emit(name, doc+" and adds d to sum and d*(x-mean) to product", "", func() {
			switch {
			case relu && l.wide():
				VPXORD(last, last, last)
			case relu:
				VPXOR(last, last, last)
			}
		})
	}
}
