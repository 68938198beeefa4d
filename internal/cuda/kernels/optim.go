package kernels

import (
	"fmt"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/driver"
)

// Arrays is a flat vector's arrays, cut into the chunks that the optimiser's
// kernels work on, in device memory.
type Arrays struct {
	n, chunks, length int
	// table holds four ints for each chunk, starts the first chunk of each array
	// and the number of all.
	table, starts cuda.Memory
	// sums, squares and factors are doubles: a sum for each chunk, one for each
	// array, and a factor for each array with one behind them that is zero when
	// a sum is not finite.
	sums, squares, factors cuda.Memory
}

// segmentChunk is the most elements of a chunk, SEGMENT_CHUNK in common.cuh.
const segmentChunk = 4096

// NewArrays returns the arrays of the given lengths, one behind the other.
func (q *Queue) NewArrays(lengths []int) (*Arrays, error) {
	a := &Arrays{n: len(lengths)}
	var table, starts []int32
	for j, n := range lengths {
		starts = append(starts, int32(len(table)/4))
		for lo := 0; lo < n; lo += segmentChunk {
			table = append(table, int32(a.length+lo), int32(min(segmentChunk, n-lo)), int32(j), 0)
		}
		a.length += n
	}
	a.chunks = len(table) / 4
	starts = append(starts, int32(a.chunks))
	d := q.Device()
	for _, m := range []struct {
		at    *cuda.Memory
		bytes int
	}{{&a.table, 4 * len(table)}, {&a.starts, 4 * len(starts)}, {&a.sums, 8 * a.chunks}, {&a.squares, 8 * a.n}, {&a.factors, 8 * (a.n + 1)}} {
		var err error
		if *m.at, err = d.Alloc(uint64(m.bytes)); err != nil {
			a.Free(d)
			return nil, err
		}
	}
	h, err := cuda.NewHost[int32](d, len(table)+len(starts))
	if err != nil {
		a.Free(d)
		return nil, err
	}
	defer h.Close()
	copy(h.Data, table)
	copy(h.Data[len(table):], starts)
	cuda.Upload(q.Stream, a.table.Ptr, h.Data[:len(table)])
	cuda.Upload(q.Stream, a.starts.Ptr, h.Data[len(table):])
	if err := q.Sync(); err != nil {
		a.Free(d)
		return nil, err
	}
	return a, nil
}

// Free gives the memory back.
func (a *Arrays) Free(d *cuda.Device) {
	for _, m := range []*cuda.Memory{&a.table, &a.starts, &a.sums, &a.squares, &a.factors} {
		d.Free(*m)
		*m = cuda.Memory{}
	}
}

// Squares is the address of the arrays' sums of squares, doubles, after Clip.
func (a *Arrays) Squares() Ptr { return a.squares.Ptr }

// Clip computes for each array of the gradient g the sum of squares, and the
// factor min(1, clip/norm) with the norm of the array or, if global is set, of
// the whole; 1 if clip is 0.
func (q *Queue) Clip(a *Arrays, g Ptr, clip float64, global bool) {
	if a.chunks == 0 {
		return
	}
	one := driver.Dim{X: 1, Y: 1, Z: 1}
	block := driver.Dim{X: threads, Y: 1, Z: 1}
	q.Launch(q.chunkSquares, driver.Dim{X: uint32(a.chunks), Y: 1, Z: 1}, block, cuda.P(a.sums.Ptr), cuda.P(g), cuda.P(a.table.Ptr))
	q.Launch(q.clipFactors, one, block, cuda.P(a.squares.Ptr), cuda.P(a.factors.Ptr), cuda.P(a.sums.Ptr), cuda.P(a.starts.Ptr), cuda.I(a.n), cuda.D(clip), cuda.B(global))
}

// AdamStep is the factors of one update, as internal/kernel has them.
type AdamStep struct {
	Beta1, Rest1, Beta2, Rest2, Rate, Root, Epsilon float64
}

// Adam updates the parameters p and the moments m and v of the gradient g, each
// array with the factor of the Clip before it. If a sum of squares was not
// finite nothing changes.
func (q *Queue) Adam(a *Arrays, p, g, m, v Ptr, s AdamStep) {
	if a.chunks == 0 {
		return
	}
	q.Launch(q.adam, driver.Dim{X: uint32(a.chunks), Y: 1, Z: 1}, driver.Dim{X: threads, Y: 1, Z: 1},
		cuda.P(p), cuda.P(g), cuda.P(m), cuda.P(v), cuda.P(a.table.Ptr), cuda.P(a.factors.Ptr), cuda.I(a.n),
		cuda.D(s.Beta1), cuda.D(s.Rest1), cuda.D(s.Beta2), cuda.D(s.Rest2), cuda.D(s.Rate), cuda.D(s.Root), cuda.D(s.Epsilon))
}

// Proximal adds mu (p - ref) to the gradient g, for n elements and doubles ref.
func (q *Queue) Proximal(g, p, ref Ptr, mu float64, n int) {
	if n < 0 {
		panic(fmt.Sprintf("kernels.Proximal: %d elements", n))
	}
	q.each(q.proximal, n, cuda.P(g), cuda.P(p), cuda.P(ref), cuda.D(mu), cuda.L(n))
}
