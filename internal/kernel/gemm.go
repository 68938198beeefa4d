package kernel

import (
	"fmt"
	"math"
)

// Epilogue says what a matrix product starts from and what is done to its
// result. The zero value stores the plain product.
type Epilogue[T Float] struct {
	// Accumulate adds the product to C; otherwise C is overwritten and its old
	// contents, NaN included, do not matter.
	Accumulate bool
	// Bias, of length n, is added to every row. It excludes Accumulate. Nil
	// means none.
	Bias []T
	// ReLU replaces negative results by zero. NaN stays NaN.
	ReLU bool
}

// Gemm computes the matrix product
//
//	C = f(S + op(A) op(B))
//
// for row-major C [m, n], op(A) [m, k] and op(B) [k, n], where op(X) is X, or
// its transpose when transX is set: A is then stored as [k, m], B as [n, k].
// The start S is zero, C itself (Accumulate) or the bias in every row, and f
// is the identity or ReLU. The leading dimensions lda, ldb and ldc are at
// least the stored row lengths; elements of C beyond its n columns are not
// touched. C must not overlap A, B or the bias. The sizes may be zero: with
// k = 0, C = f(S).
//
// Element (i, j) is one chain, s = s + op(A)[i,p] op(B)[p,j] for p = 0, 1, ...,
// k-1, that starts at S[i,j]. Its bits therefore depend only on row i of op(A),
// column j of op(B) and S[i,j]: not on m, n, the position in the matrix, the
// leading dimensions, transA or transB. A batch cut in parts, or short, gives
// the same rows as a whole one.
//
// A layer y = ReLU(x Wᵀ + b) with x [rows, in] and W [out, in], and its
// gradients given dz [rows, out], are
//
//	Gemm(false, true, rows, out, in, x, in, w, in, y, out, Epilogue[T]{Bias: b, ReLU: true})
//	Gemm(true, false, out, in, rows, dz, out, x, in, dw, in, Epilogue[T]{})
//	Gemm(false, false, rows, in, out, dz, out, w, in, dx, in, Epilogue[T]{})
func Gemm[T Float](transA, transB bool, m, n, k int, a []T, lda int, b []T, ldb int, c []T, ldc int, e Epilogue[T]) {
	if m < 0 || n < 0 || k < 0 {
		panic(fmt.Sprintf("kernel.Gemm: negative size m=%d n=%d k=%d", m, n, k))
	}
	checkMatrix("A", transA, m, k, len(a), lda)
	checkMatrix("B", transB, k, n, len(b), ldb)
	checkMatrix("C", false, m, n, len(c), ldc)
	if e.Bias != nil && len(e.Bias) != n {
		panic(fmt.Sprintf("kernel.Gemm: bias of length %d, want n=%d", len(e.Bias), n))
	}
	if e.Bias != nil && e.Accumulate {
		panic("kernel.Gemm: Bias and Accumulate exclude each other")
	}
	if m == 0 || n == 0 {
		return
	}
	g := product[T]{
		m: m, n: n, k: k,
		a: a, rowA: lda, colA: 1,
		b: b, ldb: ldb, transB: transB,
		c: c, ldc: ldc,
		Epilogue: e,
	}
	if transA {
		g.rowA, g.colA = 1, lda
	}
	g.run()
}

// checkMatrix panics unless a slice of the given length holds op(X)
// [rows, cols] with leading dimension ld.
func checkMatrix(name string, trans bool, rows, cols, length, ld int) {
	if trans {
		rows, cols = cols, rows
	}
	if ld < cols {
		panic(fmt.Sprintf("kernel.Gemm: leading dimension %d of %s, want at least its %d columns", ld, name, cols))
	}
	// A division, because the product of wrong sizes may overflow.
	if rows > 0 && cols > 0 && (length < cols || (length-cols)/ld < rows-1) {
		panic(fmt.Sprintf("kernel.Gemm: %s has %d elements, too few for %d rows of %d, leading dimension %d",
			name, length, rows, cols, ld))
	}
}

// Sizes of the blocks a product is cut in, in elements. The chains run through
// memory from one block of k to the next, so no result depends on them.
const (
	// blockK by a panel's width is what stays in the first cache.
	blockK = 256
	// blockN by blockK is what is packed of op(B) at once; a multiple of every
	// panel width.
	blockN = 192
	// blockMK bounds rows x k of one assembly call, which cannot be preempted,
	// to a few microseconds.
	blockMK = rowStep * blockK
	// rowStep is a multiple of the rows each level takes at a time.
	rowStep = 24
	// op(A) is copied only where k is at least copyK, to rows with a gap of
	// copyGap between them: rows a power of two apart would displace each other
	// from the first cache.
	copyK   = 64
	copyGap = 8
)

// product is one call of Gemm. Element (i, p) of op(A) is a[i*rowA+p*colA].
type product[T Float] struct {
	m, n, k    int
	a          []T
	rowA, colA int
	b          []T
	ldb        int
	transB     bool
	c          []T
	ldc        int
	Epilogue[T]
}

// panel is the unit of work of a level: some columns of C, at most its panel
// width for assembly, for m rows and k terms of the chain.
//
//	c[i*ldc+j] = max(floor, start[i*ldStart+j] + sum_{r,p} a[i*rowA+r*(k*colA+skipA)+p*colA] b[(r*k+p)*ldb+j])
//
// over runs r in order, in each over p < k. A matrix product has one run.
type panel[T Float] struct {
	m, n, k     int
	runs, skipA int
	a           []T
	rowA, colA  int
	b           []T
	ldb         int
	start       []T // nil means zeros
	ldStart     int
	c           []T
	ldc         int
	// floor is 0 for ReLU and -Inf for none.
	floor T
}

// noFloor leaves every sum as it is.
func noFloor[T Float]() T { return T(math.Inf(-1)) }

func (g *product[T]) run() {
	w := panelWidth[T]()
	step := w
	if active == levelGo {
		step = blockN
	}
	packB := g.mustPackB()
	copyA := packB && g.mustCopyA()
	var buf *buffer[T]
	if packB {
		buf = getBuffer[T]()
		defer putBuffer(buf)
	}
	p := panel[T]{ldc: g.ldc, runs: 1}
	for jc := 0; jc < g.n; jc += blockN {
		nc := min(blockN, g.n-jc)
		// One turn even for k = 0, which stores f(S).
		for pc := 0; pc == 0 || pc < g.k; pc += blockK {
			p.k = min(blockK, g.k-pc)
			if packB {
				packPanels(buf.b[:], w, g.b, g.ldb, g.transB, pc, p.k, jc, nc)
			}
			p.floor = noFloor[T]()
			if g.ReLU && pc+p.k == g.k {
				p.floor = 0
			}
			mc := max(rowStep, blockMK/max(1, p.k)/rowStep*rowStep)
			for ic := 0; ic < g.m; ic += mc {
				p.m = min(mc, g.m-ic)
				switch {
				case copyA && p.k >= copyK:
					p.a, p.rowA, p.colA = buf.a[:], p.k+copyGap, 1
					g.copyA(p.a, p.rowA, ic, p.m, pc, p.k)
				case p.k > 0:
					p.a, p.rowA, p.colA = g.a[ic*g.rowA+pc*g.colA:], g.rowA, g.colA
				}
				for jr := 0; jr < nc; jr += step {
					p.n = min(step, nc-jr)
					p.c = g.c[ic*g.ldc+jc+jr:]
					switch {
					case packB:
						p.b, p.ldb = buf.b[jr*p.k:], w
					case p.k > 0:
						p.b, p.ldb = g.b[pc*g.ldb+jc+jr:], g.ldb
					}
					switch {
					case pc > 0 || g.Accumulate:
						p.start, p.ldStart = p.c, g.ldc
					case g.Bias != nil:
						p.start, p.ldStart = g.Bias[jc+jr:], 0
					default:
						p.start = nil
					}
					p.run()
				}
			}
		}
	}
}

// mustPackB says whether op(B) is copied into panels: always when its rows are
// not contiguous or the generic code reads them, and when it is large and read
// often enough to pay.
func (g *product[T]) mustPackB() bool {
	if g.k == 0 {
		return false
	}
	return g.transB || active == levelGo || g.m >= 32 && g.n*g.k > 8192
}

// mustCopyA says whether op(A) is copied to contiguous rows: when it is
// transposed, where each element of a row costs a page, and it is large and
// read often enough to pay.
func (g *product[T]) mustCopyA() bool {
	return g.colA != 1 && active != levelGo && g.m*g.k > 16384 && g.n > 64
}

// copyA copies rows [ic, ic+m) and columns [pc, pc+k) of a transposed A to dst,
// as [m, k] with leading dimension ld.
func (g *product[T]) copyA(dst []T, ld, ic, m, pc, k int) {
	transpose(dst, ld, g.a[pc*g.colA+ic:], g.colA, k, m)
}
