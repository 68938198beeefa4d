package kernels_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cudatest"
	"fedrspo/internal/cuda/kernels"
)

type float interface{ float32 | float64 }

func elem[T float]() kernels.Elem {
	if _, ok := any(T(0)).(float32); ok {
		return kernels.Float32
	}
	return kernels.Float64
}

// rig is a queue on device 0 with test data.
type rig[T float] struct {
	*kernels.Queue
	t testing.TB
	r *rand.Rand
}

func newRig[T float](t testing.TB, o kernels.Options) *rig[T] {
	t.Helper()
	cudatest.Setup(t)
	d, err := cuda.Open(0)
	check(t, err)
	check(t, d.Enter())
	t.Cleanup(d.Leave)
	s, err := d.NewStream()
	check(t, err)
	q, err := kernels.NewQueue(s, elem[T](), o)
	check(t, err)
	t.Cleanup(func() { check(t, q.Close(), s.Close()) })
	return &rig[T]{q, t, rand.New(rand.NewPCG(3, 5))}
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// both runs a test on both element types.
func both(t *testing.T, f32 func(*rig[float32]), f64 func(*rig[float64])) {
	t.Run("float32", func(t *testing.T) { f32(newRig[float32](t, kernels.Options{})) })
	t.Run("float64", func(t *testing.T) { f64(newRig[float64](t, kernels.Options{})) })
}

// random returns n numbers of size about one.
func (g *rig[T]) random(n int) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = T(g.r.NormFloat64())
	}
	return x
}

// up copies x to fresh device memory, which is as large as it is and no larger.
func up[S any, T float](g *rig[T], x []S) kernels.Ptr {
	g.t.Helper()
	h, err := cuda.NewHost[S](g.Device(), len(x))
	check(g.t, err)
	copy(h.Data, x)
	m, err := g.Device().Alloc(uint64(size[S]() * len(x)))
	check(g.t, err)
	cuda.Upload(g.Stream, m.Ptr, h.Data)
	check(g.t, g.Sync(), h.Close())
	g.t.Cleanup(func() { g.Device().Free(m) })
	return m.Ptr
}

func size[S any]() int {
	switch any(*new(S)).(type) {
	case float64:
		return 8
	case float32:
		return 4
	case uint8:
		return 1
	}
	panic("size of an unexpected type")
}

// down copies n elements from the device.
func down[S any, T float](g *rig[T], p kernels.Ptr, n int) []S {
	g.t.Helper()
	h, err := cuda.NewHost[S](g.Device(), n)
	check(g.t, err)
	cuda.Download(g.Stream, h.Data, p)
	check(g.t, g.Sync())
	x := slices.Clone(h.Data)
	check(g.t, h.Close())
	return x
}

// fresh returns device memory for n elements, full of bytes that are no result.
func (g *rig[T]) fresh(n int) kernels.Ptr {
	x := make([]T, n)
	for i := range x {
		x[i] = T(math.NaN())
	}
	return up(g, x)
}

// same compares bit for bit.
func (g *rig[T]) same(what string, got, want []T) {
	g.t.Helper()
	for i := range want {
		if math.Float64bits(float64(got[i])) != math.Float64bits(float64(want[i])) && !(got[i] != got[i] && want[i] != want[i]) {
			g.t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// near compares sums of n terms whose absolute values add up to at most about
// scale: rounding errors grow with n at worst, and a different order is no error.
func (g *rig[T]) near(what string, got, want []T, n int, scale float64) {
	g.t.Helper()
	eps := 0x1p-52
	if elem[T]() == kernels.Float32 {
		eps = 0x1p-23
	}
	bound := eps * scale * math.Sqrt(float64(n)+4) * 4
	for i := range want {
		if !(math.Abs(float64(got[i])-float64(want[i])) <= bound) {
			g.t.Errorf("%s: element %d is %v, want %v within %.2g", what, i, got[i], want[i], bound)
			return
		}
	}
}
