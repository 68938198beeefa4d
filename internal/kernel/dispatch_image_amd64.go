//go:build amd64 && !purego

package kernel

import (
	"math"
)

// The operations on images have vector code for float32 alone. As elsewhere,
// the functions named Vector return how many channels they handled.

// wholeChannels returns how many of n channels are in full vectors of the
// operations on rows.
func wholeChannels[T Float](n, rows int) int {
	if isFloat64[T]() {
		return 0
	}
	return wholeColumns[T](rows, n)
}

// wideChannels says whether AVX-512 handles the columns.
func wideChannels(columns int) bool { return active == levelAVX512 && columns%16 == 0 }

func scaleShiftVector[T Float](y, x, residual, scale, shift []T, relu bool) int {
	n := len(scale)
	rows := len(x) / n
	columns := wholeChannels[T](n, rows)
	if columns == 0 {
		return 0
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	plain, sum := scaleShiftF32AVX2, scaleShiftAddF32AVX2
	if wideChannels(columns) {
		plain, sum = scaleShiftF32AVX512, scaleShiftAddF32AVX512
	}
	for i, step := 0, rowChunk(n); i < rows; i += step {
		at, m := i*n, min(step, rows-i)
		if residual == nil {
			plain(f32(&y[at]), f32(&x[at]), f32(&scale[0]), f32(&shift[0]), m, n, columns, floor)
		} else {
			sum(f32(&y[at]), f32(&x[at]), f32(&residual[at]), f32(&scale[0]), f32(&shift[0]), m, n, columns, floor)
		}
	}
	return columns
}

func affine2Vector[T Float](y, a, b, p, q, r []T) int {
	n := len(p)
	rows := len(y) / n
	columns := wholeChannels[T](n, rows)
	if columns == 0 {
		return 0
	}
	f := affine2F32AVX2
	if wideChannels(columns) {
		f = affine2F32AVX512
	}
	for i, step := 0, rowChunk(n); i < rows; i += step {
		at := i * n
		f(f32(&y[at]), f32(&a[at]), f32(&b[at]), f32(&p[0]), f32(&q[0]), f32(&r[0]), min(step, rows-i), n, columns)
	}
	return columns
}

func columnSumsVector[T Float](sum, squares, x []T) int {
	n := len(sum)
	rows := len(x) / n
	columns := wholeChannels[T](n, rows)
	if columns == 0 {
		return 0
	}
	f := columnSumsF32AVX2
	if wideChannels(columns) {
		f = columnSumsF32AVX512
	}
	for i, step := 0, rowChunk(n); i < rows; i += step {
		f(f32(&x[i*n]), f32(&sum[0]), f32(&squares[0]), min(step, rows-i), n, columns)
	}
	return columns
}

func gradientSumsVector[T Float](sum, product, d, dy, x, out, mean []T) int {
	n := len(sum)
	rows := len(x) / n
	columns := wholeChannels[T](n, rows)
	if columns == 0 {
		return 0
	}
	plain, masked := gradientSumsF32AVX2, gradientSumsReLUF32AVX2
	if wideChannels(columns) {
		plain, masked = gradientSumsF32AVX512, gradientSumsReLUF32AVX512
	}
	for i, step := 0, rowChunk(n); i < rows; i += step {
		at, m := i*n, min(step, rows-i)
		if out == nil {
			plain(f32(&d[at]), f32(&dy[at]), f32(&x[at]), f32(&mean[0]), f32(&sum[0]), f32(&product[0]), m, n, columns)
		} else {
			masked(f32(&d[at]), f32(&dy[at]), f32(&x[at]), f32(&out[at]), f32(&mean[0]), f32(&sum[0]), f32(&product[0]), m, n, columns)
		}
	}
	return columns
}

// poolBlock is the number of channels the pooling code takes at a time.
const poolBlock = 32

// poolWhole returns how many channels are in full blocks.
func (p *MaxPool[T]) poolWhole() int {
	if active == levelGo || isFloat64[T]() {
		return 0
	}
	return p.channels &^ (poolBlock - 1)
}

type (
	windowFunc     = func(y *float32, arg *uint8, x *float32, rows, cols, row, pixel, n, codes, windows, step, channels int)
	normWindowFunc = func(y *float32, arg *uint8, largest, x, scale, shift *float32, rows, cols, row, pixel, n, codes, windows, step, channels int, floor float32)
)

// poolFuncs returns the functions of pooling windows.
func poolFuncs() (forward windowFunc, norm normWindowFunc, scatter windowFunc) {
	if active == levelAVX512 {
		return maxWindowF32AVX512, normWindowF32AVX512, scatterWindowF32AVX512
	}
	return maxWindowF32AVX2, normWindowF32AVX2, scatterWindowF32AVX2
}

// eachCall calls f for parts of a run of windows, in which no more elements are
// read than one assembly call may.
func (p *MaxPool[T]) eachCall(r span, run *windowRun, f func(first, count, x int)) {
	most := max(1, chunk/((r.hi-r.lo)*run.width*p.channels))
	for k := 0; k < run.count; k += most {
		f(k*p.channels, min(most, run.count-k), (r.lo*p.inW+run.lo+k*run.step)*p.channels)
	}
}

func (p *MaxPool[T]) windowsVector(w *windows[T], at int, r span, run *windowRun) int {
	n := p.poolWhole()
	if n == 0 {
		return 0
	}
	forward, norm, _ := poolFuncs()
	p.eachCall(r, run, func(first, count, x int) {
		y, arg, largest := f32(&w.y[at+first]), (*uint8)(nil), (*float32)(nil)
		if w.argmax != nil {
			arg = &w.argmax[at+first]
		}
		if w.largest != nil {
			largest = f32(&w.largest[at+first])
		}
		row, step := p.inW*p.channels, run.step*p.channels
		if w.scale == nil {
			forward(y, arg, f32(&w.in[x]), r.hi-r.lo, run.width, row, p.channels, n, p.stride, count, step, p.channels)
			return
		}
		norm(y, arg, largest, f32(&w.in[x]), f32(&w.scale[0]), f32(&w.shift[0]),
			r.hi-r.lo, run.width, row, p.channels, n, p.stride, count, step, p.channels, float32(w.floor))
	})
	return n
}

func (p *MaxPool[T]) scatterVector(dx, dy []T, argmax []uint8, r span, run *windowRun) int {
	n := p.poolWhole()
	if n == 0 {
		return 0
	}
	_, _, scatter := poolFuncs()
	p.eachCall(r, run, func(first, count, x int) {
		scatter(f32(&dy[first]), &argmax[first], f32(&dx[x]),
			r.hi-r.lo, run.width, p.inW*p.channels, p.channels, n, p.stride, count, run.step*p.channels, p.channels)
	})
	return n
}

// transformVector transforms a first part of the n channels.
func transformVector[T Float](kind transform, dst []T, dstRow, dstCol int, src []T, srcRow, srcCol, n int, scratch []T) int {
	if active == levelGo || isFloat64[T]() {
		return 0
	}
	f, lanes := transformsAVX2[kind], 8
	if active == levelAVX512 {
		f, lanes = transformsAVX512[kind], 16
	}
	n &^= lanes - 1
	const step = chunk / elements &^ 15
	for c := 0; c < n; c += step {
		f(f32(&src[c]), srcRow, srcCol, f32(&dst[c]), dstRow, dstCol, f32(&scratch[0]), min(step, n-c))
	}
	return n
}

type transformFunc = func(src *float32, srcRow, srcCol int, dst *float32, dstRow, dstCol int, tile *float32, n int)

var (
	transformsAVX2 = [...]transformFunc{
		transformInput:          winogradInputAVX2,
		transformOutput:         winogradOutputAVX2,
		transformGradient:       winogradGradientAVX2,
		transformFilter:         winogradFilterAVX2,
		transformFilterGradient: winogradFilterGradientAVX2,
	}
	transformsAVX512 = [...]transformFunc{
		transformInput:          winogradInputAVX512,
		transformOutput:         winogradOutputAVX512,
		transformGradient:       winogradGradientAVX512,
		transformFilter:         winogradFilterAVX512,
		transformFilterGradient: winogradFilterGradientAVX512,
	}
)
