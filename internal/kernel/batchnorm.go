package kernel

import (
	"fmt"
	"math"
)

// A BatchNorm is batch normalisation over the channels of images (Ioffe and
// Szegedy 2015):
//
//	y = gamma (x - mean) / sqrt(variance + Epsilon) + beta
//
// with one gamma, beta, mean and variance per channel. It holds what lies
// between the forward and the backward pass, not the parameters. It belongs to
// one goroutine at a time.
//
// A forward pass is [BatchNorm.Batch] in training, or [BatchNorm.Fixed], then
// [BatchNorm.Apply]; a backward pass is [BatchNorm.BackwardSums], then
// [BatchNorm.BackwardApply]. The two halves are separate so that a block may
// do other work between them.
//
// Sums over the pixels are taken in T over short stretches of one image, these
// are added in float64 to a sum for each image, and the images are added in
// order. The variance is the mean square less the squared mean; where little
// would be left of the difference, it is summed again around the mean, in
// float64.
type BatchNorm[T Float] struct {
	channels int
	epsilon  float64

	mean, variance []float64
	// y = scale x + shift.
	scale, shift, meanT []T
	// count is the number of pixels behind the statistics; 0 means they are
	// fixed.
	count int
	gamma []T
	// far are the channels whose variance is summed around the mean.
	far []int

	// dx = gradD d + gradX x + grad1.
	gradD, gradX, grad1 []T

	job normJob[T]
}

// NewBatchNorm returns a batch normalisation. Epsilon is added to the variance.
func NewBatchNorm[T Float](channels int, epsilon float64) (*BatchNorm[T], error) {
	if channels < 1 {
		return nil, fmt.Errorf("batch normalisation with %d channels: %w", channels, ErrShape)
	}
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		return nil, fmt.Errorf("batch normalisation with epsilon %v, want a positive number: %w", epsilon, ErrShape)
	}
	b := &BatchNorm[T]{channels: channels, epsilon: epsilon, far: make([]int, 0, channels)}
	for _, v := range []*[]float64{&b.mean, &b.variance} {
		*v = make([]float64, channels)
	}
	for _, v := range []*[]T{&b.scale, &b.shift, &b.meanT, &b.gamma, &b.gradD, &b.gradX, &b.grad1} {
		*v = make([]T, channels)
	}
	return b, nil
}

// Channels returns the number of channels.
func (b *BatchNorm[T]) Channels() int { return b.channels }

// Mean returns the means in use, one per channel. The slice is the BatchNorm's
// own.
func (b *BatchNorm[T]) Mean() []float64 { return b.mean }

// Variance returns the variances in use, one per channel, divided by the number
// of pixels. The slice is the BatchNorm's own.
func (b *BatchNorm[T]) Variance() []float64 { return b.variance }

// normJob is one pass over a batch.
type normJob[T Float] struct {
	kind              normKind
	s                 *Scratch[T]
	pixels            int
	relu              bool
	y, x, residual, d []T
	dy, out           []T
}

type normKind uint8

const (
	normSums normKind = iota
	normCentred
	normApply
	normBackwardSums
	normBackwardApply
)

// Batch computes the statistics of n images x of the given number of pixels.
// The batch must have a pixel.
func (b *BatchNorm[T]) Batch(s *Scratch[T], x []T, n, pixels int, gamma, beta []T) {
	checkImages("BatchNorm.Batch", "x", n, pixels*b.channels, len(x))
	b.beginBatch(s, n, pixels, gamma, beta)
	b.job = normJob[T]{kind: normSums, s: s, x: x, pixels: pixels}
	s.run(n, b)
	b.job = normJob[T]{}
	b.endBatch(s, x, n, pixels, gamma, beta)
}

// beginBatch checks the arguments of Batch and makes room for the sums of each
// image, which imageSums computes and endBatch adds.
func (b *BatchNorm[T]) beginBatch(s *Scratch[T], n, pixels int, gamma, beta []T) {
	b.checkParameters("Batch", gamma, beta)
	b.checkBatch("Batch", n, pixels)
	grow(&s.sums, 2*n*b.channels)
}

// endBatch turns the sums of each image of x into statistics.
func (b *BatchNorm[T]) endBatch(s *Scratch[T], x []T, n, pixels int, gamma, beta []T) {
	b.count = n * pixels
	b.far = b.far[:0]
	sum, squares := b.total(s.sums, n)
	for c := range b.channels {
		mean := sum[c] / float64(b.count)
		b.mean[c] = mean
		// Rounding may leave a constant channel just below zero.
		b.variance[c] = squares[c]/float64(b.count) - float64(mean*mean)
		if b.variance[c] < float64(cancels[T]()*float64(mean*mean)) {
			b.far = append(b.far, c)
		}
		if b.variance[c] < 0 {
			b.variance[c] = 0
		}
	}
	if len(b.far) > 0 {
		b.centre(s, x, n, pixels)
	}
	b.fold(gamma, beta)
}

// cancels is the variance, as a part of the squared mean, below which the
// difference of sums in T is not exact enough: the rounding of a stretch of 64
// pixels, at most 64 units, is then half a per cent of it, and for float64 less.
func cancels[T Float]() float64 {
	if T(1)+0x1p-30 == 1 {
		return 0x1p-10 // float32
	}
	return 0x1p-30
}

// centre corrects mean and variance of the channels in far by the sums of
// x - mean and its square.
func (b *BatchNorm[T]) centre(s *Scratch[T], x []T, n, pixels int) {
	b.job = normJob[T]{kind: normCentred, s: s, x: x, pixels: pixels}
	s.run(n, b)
	b.job = normJob[T]{}
	sum, squares := b.total(s.sums, n)
	for _, c := range b.far {
		rest := sum[c] / float64(b.count)
		b.mean[c] += rest
		b.variance[c] = max(0, squares[c]/float64(b.count)-float64(rest*rest))
	}
}

// imageCentred computes the sums of an image for the channels in far.
func (b *BatchNorm[T]) imageCentred(sums []float64, item int, x []T) {
	size := 2 * b.channels
	total := sums[item*size:][:size]
	clear(total)
	for lo := 0; lo < len(x); lo += b.channels {
		pixel := x[lo:][:b.channels]
		for _, c := range b.far {
			d := float64(pixel[c]) - b.mean[c]
			total[c] += d
			total[b.channels+c] += float64(d * d)
		}
	}
}

// Fixed takes given statistics, one mean and one variance per channel.
func (b *BatchNorm[T]) Fixed(mean, variance, gamma, beta []T) {
	b.checkParameters("Fixed", gamma, beta)
	b.checkParameters("Fixed", mean, variance)
	b.count = 0
	for c := range b.channels {
		b.mean[c], b.variance[c] = float64(mean[c]), float64(variance[c])
	}
	b.fold(gamma, beta)
}

// fold computes scale and shift.
func (b *BatchNorm[T]) fold(gamma, beta []T) {
	for c := range b.channels {
		scale := float64(gamma[c]) / math.Sqrt(b.variance[c]+b.epsilon)
		b.scale[c] = T(scale)
		b.shift[c] = T(float64(beta[c]) - float64(b.mean[c]*scale))
		b.meanT[c] = T(b.mean[c])
	}
	copy(b.gamma, gamma)
}

// UpdateRunning moves running statistics towards those of the last Batch:
// r = (1-momentum) r + momentum b, where the variance is the unbiased one,
// divided by the number of pixels less one (or by one).
func (b *BatchNorm[T]) UpdateRunning(mean, variance []T, momentum float64) {
	b.checkParameters("UpdateRunning", mean, variance)
	if b.count == 0 {
		panic("kernel.BatchNorm.UpdateRunning: no Batch before it")
	}
	unbiased := float64(b.count) / float64(max(1, b.count-1))
	for c := range b.channels {
		mean[c] = T(float64((1-momentum)*float64(mean[c])) + float64(momentum*b.mean[c]))
		variance[c] = T(float64((1-momentum)*float64(variance[c])) + float64(momentum*float64(unbiased*b.variance[c])))
	}
}

// Apply normalises n images: y = scale x + shift, plus residual unless it is
// nil, through a ReLU if relu is set. Each operation is rounded. y may be x or
// residual.
func (b *BatchNorm[T]) Apply(s *Scratch[T], y, x, residual []T, n, pixels int, relu bool) {
	for _, v := range []struct {
		name string
		x    []T
	}{{"y", y}, {"x", x}, {"residual", residual}} {
		if v.name != "residual" || residual != nil {
			checkImages("BatchNorm.Apply", v.name, n, pixels*b.channels, len(v.x))
		}
	}
	b.job = normJob[T]{kind: normApply, s: s, y: y, x: x, residual: residual, relu: relu, pixels: pixels}
	s.run(n, b)
	b.job = normJob[T]{}
}

// BackwardSums computes the gradients of gamma and beta, and d, the gradient
// behind the affine map: d = dy where out > 0, else 0, with out the output of
// the ReLU, or d = dy when out is nil. x is the input of Apply. d may be dy. It
// is also the gradient of the residual.
func (b *BatchNorm[T]) BackwardSums(s *Scratch[T], d, dgamma, dbeta, dy, out, x []T, n, pixels int) {
	b.checkParameters("BackwardSums", dgamma, dbeta)
	b.checkBatch("BackwardSums", n, pixels)
	image := pixels * b.channels
	checkImages("BatchNorm.BackwardSums", "d", n, image, len(d))
	checkImages("BatchNorm.BackwardSums", "dy", n, image, len(dy))
	checkImages("BatchNorm.BackwardSums", "x", n, image, len(x))
	if out != nil {
		checkImages("BatchNorm.BackwardSums", "out", n, image, len(out))
	}
	grow(&s.sums, 2*n*b.channels)
	b.job = normJob[T]{kind: normBackwardSums, s: s, d: d, dy: dy, out: out, x: x, pixels: pixels}
	s.run(n, b)
	b.job = normJob[T]{}
	b.endBackward(s, dgamma, dbeta, n)
}

// BackwardSumsPool is BackwardSums behind a max pool, on images of the size of
// the pool's output: dy is the gradient of that output, out the output after a
// ReLU, which may stand before or behind the pool, or nil for no ReLU, and x are
// the elements of Apply's input at the maxima ([MaxPool.ForwardNorm] returns
// them). d is the gradient of the pool's output behind the ReLU. All other
// elements of the pool's input have the gradient zero, so that the sums over
// the windows are those over the pixels.
func (b *BatchNorm[T]) BackwardSumsPool(s *Scratch[T], d, dgamma, dbeta, dy, out, x []T, n int, pool *MaxPool[T]) {
	if pool.channels != b.channels {
		panic(fmt.Sprintf("kernel.BatchNorm.BackwardSumsPool: pool of %d channels behind %d", pool.channels, b.channels))
	}
	b.BackwardSums(s, d, dgamma, dbeta, dy, out, x, n, pool.OutH()*pool.OutW())
}

// endBackward turns the sums of each image into the gradients of gamma and
// beta, and into the coefficients of BackwardApply.
func (b *BatchNorm[T]) endBackward(s *Scratch[T], dgamma, dbeta []T, n int) {
	sumD, sumDX := b.total(s.sums, n)
	for c := range b.channels {
		inv := 1 / math.Sqrt(b.variance[c]+b.epsilon)
		// sumDX holds the rounded mean.
		dg := (sumDX[c] + float64((float64(b.meanT[c])-b.mean[c])*sumD[c])) * inv
		dgamma[c], dbeta[c] = T(dg), T(sumD[c])
		a := float64(b.gamma[c]) * inv
		b.gradD[c], b.gradX[c], b.grad1[c] = T(a), 0, 0
		if b.count > 0 {
			m := float64(b.count)
			slope := -a * inv * dg / m
			b.gradX[c] = T(slope)
			b.grad1[c] = T(-a*sumD[c]/m - float64(slope*b.mean[c]))
		}
	}
}

// BackwardApply computes dx from the d and x of the BackwardSums before it,
//
//	dx = scale (d - mean(d) - x̂ mean(d x̂)),  x̂ = (x - mean) / sqrt(variance + Epsilon)
//
// as dx = a d + b x + c, every operation rounded; with fixed statistics
// dx = scale d. dx may be d or x.
func (b *BatchNorm[T]) BackwardApply(s *Scratch[T], dx, d, x []T, n, pixels int) {
	image := pixels * b.channels
	checkImages("BatchNorm.BackwardApply", "dx", n, image, len(dx))
	checkImages("BatchNorm.BackwardApply", "d", n, image, len(d))
	checkImages("BatchNorm.BackwardApply", "x", n, image, len(x))
	b.job = normJob[T]{kind: normBackwardApply, s: s, y: dx, d: d, x: x, pixels: pixels}
	s.run(n, b)
	b.job = normJob[T]{}
}

func (b *BatchNorm[T]) checkParameters(op string, p, q []T) {
	if len(p) != b.channels || len(q) != b.channels {
		panic(fmt.Sprintf("kernel.BatchNorm.%s: parameters of %d and %d elements for %d channels", op, len(p), len(q), b.channels))
	}
}

func (b *BatchNorm[T]) checkBatch(op string, n, pixels int) {
	if n < 1 || pixels < 1 {
		panic(fmt.Sprintf("kernel.BatchNorm.%s: %d images of %d pixels, want at least one of each", op, n, pixels))
	}
}

// total adds the two sums of each image, [n][2][channels], to the first image's.
func (b *BatchNorm[T]) total(sums []float64, n int) (first, second []float64) {
	size := 2 * b.channels
	total := sums[:size]
	for i := 1; i < n; i++ {
		for c, v := range sums[i*size:][:size] {
			total[c] += v
		}
	}
	return total[:b.channels], total[b.channels:]
}

// stretch returns the number of pixels whose sums are taken in T.
func (b *BatchNorm[T]) stretch() int { return max(1, chunk/b.channels) }

// do implements task.
func (b *BatchNorm[T]) do(thread, item int) {
	j := &b.job
	c := b.channels
	image := j.pixels * c
	at := func(x []T) []T { return x[item*image:][:image] }
	switch j.kind {
	case normApply:
		var residual []T
		if j.residual != nil {
			residual = at(j.residual)
		}
		scaleShift(at(j.y), at(j.x), residual, b.scale, b.shift, j.relu)
	case normBackwardApply:
		b.gradient(at(j.y), at(j.d), at(j.x))
	case normCentred:
		b.imageCentred(j.s.sums, item, at(j.x))
	case normSums:
		b.imageSums(&j.s.threads[thread], j.s.sums, item, at(j.x))
	case normBackwardSums:
		var out []T
		if j.out != nil {
			out = at(j.out)
		}
		b.imageGradientSums(&j.s.threads[thread], j.s.sums, item, at(j.d), at(j.dy), at(j.x), out)
	}
}

// imageSums computes the sum of each channel of an image, and of its squares.
func (b *BatchNorm[T]) imageSums(t *threadScratch[T], sums []float64, item int, x []T) {
	b.eachStretch(t, sums, item, len(x), func(short []T, lo, hi int) {
		columnSums(short[:b.channels], short[b.channels:], x[lo:hi])
	})
}

// imageGradientSums computes d of an image, the sum of each channel of it, and
// of d (x - mean).
func (b *BatchNorm[T]) imageGradientSums(t *threadScratch[T], sums []float64, item int, d, dy, x, out []T) {
	b.eachStretch(t, sums, item, len(x), func(short []T, lo, hi int) {
		var o []T
		if out != nil {
			o = out[lo:hi]
		}
		gradientSums(short[:b.channels], short[b.channels:], d[lo:hi], dy[lo:hi], x[lo:hi], o, b.meanT)
	})
}

// eachStretch calls add for the stretches of an image, with two zeroed sums for
// each channel, and adds these in float64 to the image's.
func (b *BatchNorm[T]) eachStretch(t *threadScratch[T], sums []float64, item, image int, add func(short []T, lo, hi int)) {
	size := 2 * b.channels
	total := sums[item*size:][:size]
	clear(total)
	short := grow(&t.small, size)
	step := b.stretch() * b.channels
	for lo := 0; lo < image; lo += step {
		clear(short)
		add(short, lo, min(lo+step, image))
		for i, v := range short {
			total[i] += float64(v)
		}
	}
}

// gradient computes dx from d and x.
func (b *BatchNorm[T]) gradient(dx, d, x []T) { affine2(dx, d, x, b.gradD, b.gradX, b.grad1) }
