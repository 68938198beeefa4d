package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The operations on rows of channels: AVX2, every operation rounded, like those
// of vector.go.

// A rowsFunc is a function of m >= 1 rows, n elements apart, in which each
// channel has its own parameters.
type rowsFunc struct {
	e elem
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
	text(name, signature, fmt.Sprintf("%s %s for m >= 1 rows, n elements apart, and the given columns, a multiple of %d.", name, doc, bytesY/e.size))
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
		m := at(where[name], v*bytesY)
		if isRow[name] {
			m.Index, m.Scale = offset, 1
		}
		return m
	}
	columnLoop(e, f.widest, reg.RCX, append(append([]reg.GPPhysical(nil), pointers...), params...), func(vectors int) {
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
	y := regsY
	floor := reg.Y15
	for _, residual := range []bool{false, true} {
		name, doc, rows := "scaleShift"+e.name+"AVX2", "sets y = max(floor, scale*x + shift)", []string{"y", "x"}
		if residual {
			name, doc, rows = "scaleShiftAdd"+e.name+"AVX2", "sets y = max(floor, scale*x + shift + residual)", append(rows, "residual")
		}
		rowsFunc{
			e: e, rows: rows, params: []string{"scale", "shift"}, widest: unroll,
			begin: func(v int, mem func(string, int) Mem) {
				e.move(mem("scale", v), y[v])
				e.move(mem("shift", v), y[4+v])
			},
			row: func(v int, mem func(string, int) Mem) {
				e.mul(mem("x", v), y[v], y[8+v])
				e.add(y[4+v], y[8+v], y[8+v])
				if residual {
					e.add(mem("residual", v), y[8+v], y[8+v])
				}
				// The second source, here the sum, wins when it is NaN.
				e.max(y[8+v], floor, y[8+v])
				e.move(y[8+v], mem("y", v))
			},
		}.emit(name, doc, ", floor "+e.goType, func() { e.broadcast(argMem("floor"), floor) })
	}

	rowsFunc{
		e: e, rows: []string{"y", "a", "b"}, params: []string{"p", "q", "r"}, widest: 2,
		begin: func(v int, mem func(string, int) Mem) {
			e.move(mem("p", v), y[v])
			e.move(mem("q", v), y[2+v])
			e.move(mem("r", v), y[4+v])
		},
		row: func(v int, mem func(string, int) Mem) {
			e.mul(mem("a", v), y[v], y[6+v])
			e.mul(mem("b", v), y[2+v], y[8+v])
			e.add(y[8+v], y[6+v], y[6+v])
			e.add(y[4+v], y[6+v], y[6+v])
			e.move(y[6+v], mem("y", v))
		},
	}.emit("affine2"+e.name+"AVX2", "sets y = p*a + q*b + r", "", func() {})

	rowsFunc{
		e: e, rows: []string{"x"}, params: []string{"sum", "squares"}, widest: unroll,
		begin: func(v int, mem func(string, int) Mem) {
			e.move(mem("sum", v), y[v])
			e.move(mem("squares", v), y[4+v])
		},
		row: func(v int, mem func(string, int) Mem) {
			e.move(mem("x", v), y[8+v])
			e.add(y[8+v], y[v], y[v])
			e.mul(y[8+v], y[8+v], y[8+v])
			e.add(y[8+v], y[4+v], y[4+v])
		},
		end: func(v int, mem func(string, int) Mem) {
			e.move(y[v], mem("sum", v))
			e.move(y[4+v], mem("squares", v))
		},
	}.emit("columnSums"+e.name+"AVX2", "adds x to sum and x*x to squares", "", func() {})

	for _, relu := range []bool{false, true} {
		name, doc, rows := "gradientSums"+e.name+"AVX2", "sets d = dy", []string{"d", "dy", "x"}
		if relu {
			name, doc, rows = "gradientSumsReLU"+e.name+"AVX2", "sets d to dy where out > 0, else to 0,", append(rows, "out")
		}
		rowsFunc{
			e: e, rows: rows, params: []string{"mean", "sum", "product"}, widest: 2,
			begin: func(v int, mem func(string, int) Mem) {
				e.move(mem("sum", v), y[v])
				e.move(mem("product", v), y[2+v])
				e.move(mem("mean", v), y[4+v])
			},
			row: func(v int, mem func(string, int) Mem) {
				if relu {
					positive(e, mem("out", v), y[6+v])
					e.and(mem("dy", v), y[6+v], y[6+v])
				} else {
					e.move(mem("dy", v), y[6+v])
				}
				e.move(mem("x", v), y[8+v])
				e.move(y[6+v], mem("d", v))
				e.sub(y[4+v], y[8+v], y[8+v])
				e.add(y[6+v], y[v], y[v])
				e.mul(y[6+v], y[8+v], y[8+v])
				e.add(y[8+v], y[2+v], y[2+v])
			},
			end: func(v int, mem func(string, int) Mem) {
				e.move(y[v], mem("sum", v))
				e.move(y[2+v], mem("product", v))
			},
		}.emit(name, doc+" and adds d to sum and d*(x-mean) to product", "", func() {
			if relu {
				VPXOR(reg.Y15, reg.Y15, reg.Y15)
			}
		})
	}
}
