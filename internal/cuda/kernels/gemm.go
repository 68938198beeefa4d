package kernels

import (
	"fmt"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/driver"
)

// Matrix is a row-major matrix in device memory: element (i, j) of the stored
// matrix lies at Ptr[i Stride + j].
type Matrix struct {
	Ptr    Ptr
	Stride int
	// Transposed makes the operand the transpose of what is stored.
	Transposed bool
}

// Epilogue is what follows a matrix product.
type Epilogue struct {
	// Bias [n] is added to each row, unless it is 0.
	Bias Ptr
	// ReLU clamps at zero.
	ReLU bool
	// Accumulate adds the product to what is there.
	Accumulate bool
}

// small is the number of products up to which the own kernel, which does the
// epilogue too, beats a call of cuBLAS that is followed by one.
const small = 1 << 22

// The own kernel's tile of the result, and the most elements of the sums that
// one block adds and that all blocks together may have in parts.
const (
	tile     = 64
	maxDepth = 1024
	maxParts = 64
)

// Gemm computes C [m, n] = A [m, k] B [k, n] and what e says. C is stored with
// stride ldc. m, n and k are at least 1. What computes it depends on the shape
// alone.
func (q *Queue) Gemm(m, n, k int, a, b Matrix, c Ptr, ldc int, e Epilogue) {
	if m < 1 || n < 1 || k < 1 || ldc < n {
		panic(fmt.Sprintf("kernels.Gemm: %dx%d times %dx%d with stride %d", m, k, k, n, ldc))
	}
	if q.blas != nil && m*n*k > small {
		q.blas.Gemm(q.elem.Size(), a.Transposed, b.Transposed, m, n, k, a.Ptr, a.Stride, b.Ptr, b.Stride, c, ldc, e.Accumulate)
		if e.Bias != 0 || e.ReLU {
			if ldc != n {
				panic("kernels.Gemm: an epilogue on a matrix with gaps")
			}
			q.each(q.biasReLU, m*n, cuda.P(c), cuda.P(e.Bias), cuda.L(m*n), cuda.I(n), cuda.B(e.ReLU))
		}
		return
	}
	ar, ac := a.strides()
	br, bc := b.strides()
	grid := driver.Dim{X: uint32((m + tile - 1) / tile), Y: uint32((n + tile - 1) / tile), Z: 1}
	// A long sum over few tiles is cut into parts, to occupy the device.
	depth := k
	if k > maxDepth && grid.X*grid.Y < maxParts {
		depth = max(maxDepth, (k+maxParts-1)/maxParts)
	}
	grid.Z = uint32((k + depth - 1) / depth)
	if grid.Y > 1<<16-1 {
		panic(fmt.Sprintf("kernels.Gemm: %d columns", n))
	}
	var partial Ptr
	if grid.Z > 1 {
		partial = q.grow(&q.products, int(grid.Z)*m*n*q.elem.Size())
	}
	q.Launch(q.gemm, grid, driver.Dim{X: 16, Y: 16, Z: 1}, cuda.P(c), cuda.P(partial), cuda.P(a.Ptr), cuda.P(b.Ptr), cuda.P(e.Bias),
		cuda.I(m), cuda.I(n), cuda.I(k), cuda.I(ar), cuda.I(ac), cuda.I(br), cuda.I(bc), cuda.I(ldc), cuda.I(depth), cuda.B(e.ReLU), cuda.B(e.Accumulate))
	if grid.Z > 1 {
		q.each(q.gemmReduce, m*n, cuda.P(c), cuda.P(partial), cuda.P(e.Bias), cuda.I(m), cuda.I(n), cuda.I(ldc), cuda.I(int(grid.Z)), cuda.B(e.ReLU), cuda.B(e.Accumulate))
	}
}

// strides returns the distances of rows and of columns of the operand.
func (m Matrix) strides() (row, column int) {
	if m.Transposed {
		return 1, m.Stride
	}
	return m.Stride, 1
}
