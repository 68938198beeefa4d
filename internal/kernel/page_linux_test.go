package kernel

import (
	"syscall"
	"testing"
	"unsafe"
)

// pageEnd returns n zeros between two pages without access, where a read is a
// fault. They touch the page before them if before is set, else the page behind.
func pageEnd[T Float](t *testing.T, n int, before bool) []T {
	page := syscall.Getpagesize()
	var zero T
	size := (n*int(unsafe.Sizeof(zero)) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	for _, guard := range [][]byte{mem[:page], mem[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	all := unsafe.Slice((*T)(unsafe.Pointer(&mem[page])), size/int(unsafe.Sizeof(zero)))
	if before {
		return all[:n:n]
	}
	return all[len(all)-n:]
}

// No operation reads outside its slices.
func testReads[T Float](t *testing.T) {
	for _, before := range []bool{false, true} {
		for _, n := range []int{1, 3, 9, 17, 31, 33, 50} {
			vec := func(n int) []T { return pageEnd[T](t, n, before) }
			const m, k = 13, 11
			a, b, c, bias := vec(m*k), vec(k*n), vec(m*n), vec(n)
			for _, e := range []Epilogue[T]{{}, {Accumulate: true}, {Bias: bias}} {
				Gemm(false, false, m, n, k, a, k, b, n, c, n, e)
				Gemm(true, false, m, n, k, a, m, b, n, c, n, e)
				Gemm(false, true, m, n, k, a, k, b, k, c, n, e)
				Gemm(true, true, m, n, k, a, m, b, k, c, n, e)
			}
			d := vec(m * n)
			ColSums(bias, c, m, n, false)
			ReLUGrad(d, c, c)
			ReLUGradColSums(d, bias, c, c, m, n, false)
			Axpy(2, c, d)
			if SumSquares(c) != 0 || HasNonFinite(d) {
				t.Fatal("zeros became something else")
			}
			Adam(c, d, vec(m*n), vec(m*n), AdamStep{Epsilon: 1, Step: 1})
		}
	}
}

func TestReads(t *testing.T) { onTypes(t, testReads[float32], testReads[float64]) }

// No operation on images reads outside its slices.
func testImageReads[T Float](t *testing.T) {
	const n = 2
	s := NewScratch[T](1)
	for _, before := range []bool{false, true} {
		vec := func(n int) []T { return pageEnd[T](t, n, before) }
		for _, channels := range [][2]int{{3, 5}, {17, 33}, {32, 64}} {
			for _, a := range []Algorithm{Direct, Winograd} {
				shape := ConvShape{InH: 6, InW: 5, InC: channels[0], OutC: channels[1],
					KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1}
				if a == Direct {
					shape.StrideH, shape.StrideW = 2, 2
				}
				c := newConv[T](t, shape, a)
				x, y, w := vec(n*shape.InLen()), vec(n*shape.OutLen()), vec(shape.WeightLen())
				c.Forward(s, y, x, n, Weights[T]{Data: w})
				c.BackwardData(s, x, y, n, Weights[T]{Data: w})
				c.BackwardWeights(s, w, x, y, n, true)
				if HasNonFinite(y) || SumSquares(y) != 0 || SumSquares(x) != 0 || SumSquares(w) != 0 {
					t.Fatal("zeros became something else")
				}
			}
			const pixels = 12
			c := channels[1]
			b := newNorm[T](t, c)
			gamma, beta := vec(c), vec(c)
			x, d, out, y := vec(n*pixels*c), vec(n*pixels*c), vec(n*pixels*c), vec(n*pixels*c)
			b.Batch(s, x, n, pixels, gamma, beta)
			b.UpdateRunning(gamma, beta, 0.5)
			b.Apply(s, y, x, nil, n, pixels, false)
			b.Apply(s, y, x, d, n, pixels, true)
			b.BackwardSums(s, d, gamma, beta, y, out, x, n, pixels)
			b.BackwardSums(s, d, gamma, beta, y, nil, x, n, pixels)
			b.BackwardApply(s, y, d, x, n, pixels)
			p, err := NewMaxPool[T](3, 4, c, 3, 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			small, argmax := vec(n*p.OutLen()), make([]uint8, n*p.OutLen())
			p.Forward(s, small, argmax, x, n)
			p.Backward(s, x, small, argmax, n)
		}
	}
}

func TestImageReads(t *testing.T) { onTypes(t, testImageReads[float32], testImageReads[float64]) }
