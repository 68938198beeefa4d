package kernel

import (
	"sync"
	"unsafe"
)

// buffer holds one block of op(B) in panels and one of op(A). It starts on a
// page, so the panels are aligned to cache lines.
type buffer[T Float] struct {
	b [blockK * blockN]T
	a [blockMK + blockMK/copyK*copyGap]T
}

var (
	buffers32 = sync.Pool{New: func() any { return new(buffer[float32]) }}
	buffers64 = sync.Pool{New: func() any { return new(buffer[float64]) }}
)

// isFloat64 says which of the two element types T is.
func isFloat64[T Float]() bool { return unsafe.Sizeof(T(0)) == 8 }

func buffers[T Float]() *sync.Pool {
	if isFloat64[T]() {
		return &buffers64
	}
	return &buffers32
}

func getBuffer[T Float]() *buffer[T]  { return buffers[T]().Get().(*buffer[T]) }
func putBuffer[T Float](b *buffer[T]) { buffers[T]().Put(b) }

// packPanels copies rows [pc, pc+k) and columns [jc, jc+n) of op(B) into
// panels of w columns, each stored as [k, w], the last one padded with zeros.
// The panel of column j starts at dst[j*k].
func packPanels[T Float](dst []T, w int, b []T, ldb int, trans bool, pc, k, jc, n int) {
	for j := 0; j < n; j += w {
		cols := min(w, n-j)
		panel := dst[j*k:][:k*w]
		if cols < w {
			clear(panel)
		}
		if trans {
			transpose(panel, w, b[(jc+j)*ldb+pc:], ldb, cols, k)
			continue
		}
		for p := range k {
			copy(panel[p*w:][:cols], b[(pc+p)*ldb+jc+j:])
		}
	}
}

// transposeGeneric sets dst[p*ldd+j] = src[j*lds+p] for j < rows, p < k.
func transposeGeneric[T Float](dst []T, ldd int, src []T, lds, rows, k int) {
	for j := range rows {
		for p, x := range src[j*lds:][:k] {
			dst[p*ldd+j] = x
		}
	}
}
