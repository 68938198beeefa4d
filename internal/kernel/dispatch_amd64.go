//go:build amd64 && !purego

package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// best returns the highest level the processor and the operating system have.
func best() level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return levelGo
	case x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL:
		return levelAVX512
	default:
		return levelAVX2
	}
}

// f64 and f32 cast a pointer to the type T is known to be.
func f64[T Float](p *T) *float64 { return (*float64)(unsafe.Pointer(p)) }
func f32[T Float](p *T) *float32 { return (*float32)(unsafe.Pointer(p)) }

// panelWidth is the number of columns of a panel: two vectors.
func panelWidth[T Float]() int {
	w := widthGeneric
	switch active {
	case levelAVX2:
		w = 8
	case levelAVX512:
		w = 16
	}
	if active != levelGo && !isFloat64[T]() {
		w *= 2
	}
	return w
}

// run computes the panel.
func (p *panel[T]) run() {
	a, b, start, c := unsafe.SliceData(p.a), unsafe.SliceData(p.b), unsafe.SliceData(p.start), &p.c[0]
	ldStart := p.ldStart
	switch {
	case active == levelGo:
		panelGeneric(p)
	case active == levelAVX512 && isFloat64[T]():
		gemmF64AVX512(p.m, p.n, p.k, p.runs, f64(a), p.rowA, p.colA, p.skipA, f64(b), p.ldb, f64(start), ldStart, f64(c), p.ldc, float64(p.floor))
	case active == levelAVX512:
		gemmF32AVX512(p.m, p.n, p.k, p.runs, f32(a), p.rowA, p.colA, p.skipA, f32(b), p.ldb, f32(start), ldStart, f32(c), p.ldc, float32(p.floor))
	case isFloat64[T]():
		gemmF64AVX2(p.m, p.n, p.k, p.runs, f64(a), p.rowA, p.colA, p.skipA, f64(b), p.ldb, f64(start), ldStart, f64(c), p.ldc, float64(p.floor))
	default:
		gemmF32AVX2(p.m, p.n, p.k, p.runs, f32(a), p.rowA, p.colA, p.skipA, f32(b), p.ldb, f32(start), ldStart, f32(c), p.ldc, float32(p.floor))
	}
}

// transpose sets dst[p*ldd+j] = src[j*lds+p] for j < rows, p < k.
func transpose[T Float](dst []T, ldd int, src []T, lds, rows, k int) {
	if active == levelGo {
		transposeGeneric(dst, ldd, src, lds, rows, k)
		return
	}
	// Blocks of side x side, then the columns and the rows that remain.
	side := 32 / int(unsafe.Sizeof(dst[0]))
	whole := k &^ (side - 1)
	j := 0
	for ; whole > 0 && j+side <= rows; j += side {
		if isFloat64[T]() {
			transposeF64AVX2(f64(&dst[j]), ldd, f64(&src[j*lds]), lds, whole)
		} else {
			transposeF32AVX2(f32(&dst[j]), ldd, f32(&src[j*lds]), lds, whole)
		}
	}
	if whole < k {
		transposeGeneric(dst[whole*ldd:], ldd, src[whole:], lds, j, k-whole)
	}
	if j < rows {
		transposeGeneric(dst[j:], ldd, src[j*lds:], lds, rows-j, k)
	}
}

// block is a multiple of the block of every vector operation.
const block = 32

// The functions named Vector handle a first part of their slices, or the first
// columns, with assembly and return its length; the caller does the rest in Go.

func axpyVector[T Float](alpha T, x, y []T) int {
	if active == levelGo {
		return 0
	}
	n := len(x) &^ (block - 1)
	for i := 0; i < n; i += chunk {
		if isFloat64[T]() {
			axpyF64AVX2(float64(alpha), f64(&x[i]), f64(&y[i]), min(chunk, n-i))
		} else {
			axpyF32AVX2(float32(alpha), f32(&x[i]), f32(&y[i]), min(chunk, n-i))
		}
	}
	return n
}

func sumSquaresVector[T Float](s *[sumLanes]float64, x []T) int {
	if active == levelGo {
		return 0
	}
	n := len(x) &^ (sumLanes - 1)
	for i := 0; i < n; i += chunk {
		if isFloat64[T]() {
			sumSquaresF64AVX2(&s[0], f64(&x[i]), min(chunk, n-i))
		} else {
			sumSquaresF32AVX2(&s[0], f32(&x[i]), min(chunk, n-i))
		}
	}
	return n
}

func nonFiniteVector[T Float](x []T) (int, bool) {
	if active == levelGo {
		return 0, false
	}
	n := len(x) &^ (block - 1)
	for i := 0; i < n; i += chunk {
		bad := false
		if isFloat64[T]() {
			bad = nonFiniteF64AVX2(f64(&x[i]), min(chunk, n-i))
		} else {
			bad = nonFiniteF32AVX2(f32(&x[i]), min(chunk, n-i))
		}
		if bad {
			return n, true
		}
	}
	return n, false
}

// wholeColumns returns how many columns the vector operations on rows handle.
func wholeColumns[T Float](m, n int) int {
	if active == levelGo || m == 0 {
		return 0
	}
	return n &^ (32/int(unsafe.Sizeof(T(0))) - 1)
}

// rowChunk bounds the rows of one assembly call.
func rowChunk(n int) int { return max(1, chunk/n) }

func colSumsVector[T Float](db, dz []T, m, n int) int {
	columns := wholeColumns[T](m, n)
	if columns == 0 {
		return 0
	}
	for i, step := 0, rowChunk(n); i < m; i += step {
		if isFloat64[T]() {
			colSumsF64AVX2(f64(&db[0]), f64(&dz[i*n]), min(step, m-i), n, columns)
		} else {
			colSumsF32AVX2(f32(&db[0]), f32(&dz[i*n]), min(step, m-i), n, columns)
		}
	}
	return columns
}

func reluGradVector[T Float](dz, dy, y []T) int {
	if active == levelGo {
		return 0
	}
	n := len(dz) &^ (block - 1)
	for i := 0; i < n; i += chunk {
		if isFloat64[T]() {
			reluGradF64AVX2(f64(&dz[i]), f64(&dy[i]), f64(&y[i]), min(chunk, n-i))
		} else {
			reluGradF32AVX2(f32(&dz[i]), f32(&dy[i]), f32(&y[i]), min(chunk, n-i))
		}
	}
	return n
}

func reluGradColSumsVector[T Float](dz, db, dy, y []T, m, n int) int {
	columns := wholeColumns[T](m, n)
	if columns == 0 {
		return 0
	}
	for i, step := 0, rowChunk(n); i < m; i += step {
		at, rows := i*n, min(step, m-i)
		if isFloat64[T]() {
			reluGradColSumsF64AVX2(f64(&dz[at]), f64(&db[0]), f64(&dy[at]), f64(&y[at]), rows, n, columns)
		} else {
			reluGradColSumsF32AVX2(f32(&dz[at]), f32(&db[0]), f32(&dy[at]), f32(&y[at]), rows, n, columns)
		}
	}
	return columns
}

func adamVector[T Float](p, g, m, v []T, c *adamScalars[T]) int {
	if active == levelGo {
		return 0
	}
	n := len(p) &^ (32/int(unsafe.Sizeof(T(0))) - 1)
	for i := 0; i < n; i += chunk {
		if isFloat64[T]() {
			adamF64AVX2(f64(&p[i]), f64(&g[i]), f64(&m[i]), f64(&v[i]), min(chunk, n-i), f64(&c.scale))
		} else {
			adamF32AVX2(f32(&p[i]), f32(&g[i]), f32(&m[i]), f32(&v[i]), min(chunk, n-i), f32(&c.scale))
		}
	}
	return n
}
