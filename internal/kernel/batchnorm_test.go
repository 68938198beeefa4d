package kernel

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// normTwin is batch normalisation word for word, in float64, two-pass.
type normTwin struct {
	mean, variance, y, dx, dgamma, dbeta []float64
}

func newNormTwin[T Float](x, dy, gamma, beta []T, epsilon float64) normTwin {
	c := len(gamma)
	m := float64(len(x) / c)
	t := normTwin{
		mean: make([]float64, c), variance: make([]float64, c), dgamma: make([]float64, c), dbeta: make([]float64, c),
		y: make([]float64, len(x)), dx: make([]float64, len(x)),
	}
	for i, v := range x {
		t.mean[i%c] += float64(v) / m
	}
	for i, v := range x {
		e := float64(v) - t.mean[i%c]
		t.variance[i%c] += e * e / m
	}
	hat := func(i int) float64 {
		return (float64(x[i]) - t.mean[i%c]) / math.Sqrt(t.variance[i%c]+epsilon)
	}
	for i := range x {
		t.y[i] = float64(gamma[i%c])*hat(i) + float64(beta[i%c])
		t.dgamma[i%c] += float64(dy[i]) * hat(i)
		t.dbeta[i%c] += float64(dy[i])
	}
	for i := range x {
		t.dx[i] = float64(gamma[i%c]) / math.Sqrt(t.variance[i%c]+epsilon) *
			(float64(dy[i]) - t.dbeta[i%c]/m - hat(i)*t.dgamma[i%c]/m)
	}
	return t
}

func newNorm[T Float](t testing.TB, channels int) *BatchNorm[T] {
	t.Helper()
	b, err := NewBatchNorm[T](channels, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantNear fails unless |got - want| <= tol for each element.
func wantNear[T Float](t *testing.T, name string, got []T, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: length %d, want %d", name, len(got), len(want))
	}
	for i, v := range got {
		if !(math.Abs(float64(v)-want[i]) <= tol) {
			t.Fatalf("%s: element %d of %d is %v, want %v within %v", name, i, len(got), v, want[i], tol)
		}
	}
}

// Sums of a stretch have an error of at most its length times the unit, and a
// mean of 3 with variance 1 takes a factor of ten off the variance. Numbers are
// of order one, so are the results, but for dgamma and dbeta, which are sums
// over the pixels.
func testBatchNorm[T Float](t *testing.T) {
	r := newRand()
	s := NewScratch[T](1)
	for _, c := range []struct{ channels, n, pixels int }{{1, 1, 1}, {3, 2, 5}, {8, 1, 7}, {33, 3, 4}, {64, 2, 150}, {5000, 1, 3}} {
		size := c.n * c.pixels * c.channels
		name := fmt.Sprintf("%+v", c)
		x, dy := newNormal[T](r, size), newNormal[T](r, size)
		for i := range x.x {
			x.x[i] += 3
		}
		gamma, beta := newNormal[T](r, c.channels).x, newNormal[T](r, c.channels).x
		twin := newNormTwin(x.x, dy.x, gamma, beta, 1e-5)
		b := newNorm[T](t, c.channels)
		y, d, dx := newGuarded[T](r, size), newGuarded[T](r, size), newGuarded[T](r, size)
		dgamma, dbeta := newGuarded[T](r, c.channels), newGuarded[T](r, c.channels)
		b.Batch(s, x.x, c.n, c.pixels, gamma, beta)
		b.Apply(s, y.x, x.x, nil, c.n, c.pixels, false)
		b.BackwardSums(s, d.x, dgamma.x, dbeta.x, dy.x, nil, x.x, c.n, c.pixels)
		b.BackwardApply(s, dx.x, d.x, x.x, c.n, c.pixels)
		unit := unitOf[T]()
		pixels := float64(c.n * c.pixels)
		steps := 10 * (min(pixels, float64(b.stretch())) + 4)
		if isFloat64[T]() {
			// The sums over stretches, and the twin's, round as well.
			steps += 10 * pixels
		}
		wantNear(t, "mean of "+name, b.Mean(), twin.mean, steps*unit)
		wantNear(t, "variance of "+name, b.Variance(), twin.variance, 10*steps*unit)
		// A channel of few pixels may have a small variance v, and 1/v of the
		// derivative of the root enlarges the error.
		small := math.Inf(1)
		for _, v := range twin.variance {
			small = min(small, v+1e-5)
		}
		tol := 10 * steps * unit * 10 / small
		wantNear(t, "y of "+name, y.x, twin.y, tol)
		wantNear(t, "dgamma of "+name, dgamma.x, twin.dgamma, pixels*tol)
		wantNear(t, "dbeta of "+name, dbeta.x, twin.dbeta, pixels*tol)
		wantNear(t, "dx of "+name, dx.x, twin.dx, tol/math.Sqrt(small))
		wantSame(t, "d of "+name, d.x, dy.x)
		for _, g := range []guarded[T]{y, d, dx, dgamma, dbeta, x, dy} {
			g.check(t, name)
		}

		// Running statistics, and normalisation by them.
		mean, variance := newNormal[T](r, c.channels).x, make([]T, c.channels)
		wantMean, wantVariance := make([]float64, c.channels), make([]float64, c.channels)
		for i := range mean {
			variance[i] = 1 + T(i%3)
			unbiased := twin.variance[i] * pixels / max(1, pixels-1)
			wantMean[i] = 0.9*float64(mean[i]) + 0.1*twin.mean[i]
			wantVariance[i] = 0.9*float64(variance[i]) + 0.1*unbiased
		}
		b.UpdateRunning(mean, variance, 0.1)
		wantNear(t, "running mean of "+name, mean, wantMean, steps*unit+8*unit)
		wantNear(t, "running variance of "+name, variance, wantVariance, 20*steps*unit+8*unit)
		b.Fixed(mean, variance, gamma, beta)
		b.Apply(s, y.x, x.x, nil, c.n, c.pixels, false)
		b.BackwardSums(s, d.x, dgamma.x, dbeta.x, dy.x, nil, x.x, c.n, c.pixels)
		b.BackwardApply(s, dx.x, d.x, x.x, c.n, c.pixels)
		wantY, wantDX := make([]float64, size), make([]float64, size)
		for i := range x.x {
			k := i % c.channels
			scale := float64(gamma[k]) / math.Sqrt(float64(variance[k])+1e-5)
			wantY[i] = scale*(float64(x.x[i])-float64(mean[k])) + float64(beta[k])
			wantDX[i] = scale * float64(dy.x[i])
		}
		wantNear(t, "fixed y of "+name, y.x, wantY, 200*unit)
		wantNear(t, "fixed dx of "+name, dx.x, wantDX, 200*unit)
	}
}

func TestBatchNorm(t *testing.T) { onTypes(t, testBatchNorm[float32], testBatchNorm[float64]) }

// A constant channel has variance zero, not a rounding error, and one far from
// zero has the variance that a sum around the mean finds, at any number of
// threads, behind a convolution too.
func TestBatchNormVariance(t *testing.T) {
	onLevels(t, func(t *testing.T) {
		const channels, pixels = 64, 2304
		x := make([]float32, pixels*channels)
		for i := range x {
			x[i] = 0.1 + float32(i%channels)
		}
		b, s := newNorm[float32](t, channels), NewScratch[float32](1)
		gamma, beta := make([]float32, channels), make([]float32, channels)
		b.Batch(s, x, 1, pixels, gamma, beta)
		for c, v := range b.Variance() {
			// The mean is known to a unit of float64 for each of the sums.
			mean := 0.1 + float64(c)
			if v < 0 || v > 64*0x1p-104*mean*mean {
				t.Errorf("channel %d has variance %v", c, v)
			}
		}
	})
	onTypes(t, testFarVariance[float32], testFarVariance[float64])
}

func testFarVariance[T Float](t *testing.T) {
	const n, pixels = 5, 96
	means := []float64{0, 3, 20, -40, 300, -3e3, 3e4}
	channels := len(means)
	r := newRand()
	x := make([]T, n*pixels*channels)
	for i := range x {
		x[i] = T(means[i%channels] + 0.5*r.NormFloat64())
	}
	gamma, beta := make([]T, channels), make([]T, channels)
	var first *BatchNorm[T]
	for _, threads := range []int{1, 3} {
		b, s := newNorm[T](t, channels), NewScratch[T](threads)
		b.Batch(s, x, n, pixels, gamma, beta)
		for c := range channels {
			sum, squares := 0.0, 0.0
			for i := c; i < len(x); i += channels {
				sum += float64(x[i])
			}
			mean := sum / (n * pixels)
			for i := c; i < len(x); i += channels {
				squares += (float64(x[i]) - mean) * (float64(x[i]) - mean)
			}
			variance := squares / (n * pixels)
			// Half a per cent of cancellation at most, see cancels.
			if math.Abs(b.Variance()[c]/variance-1) > 5e-3 || math.Abs(b.Mean()[c]-mean) > 1e-4*max(1, math.Abs(mean)/30) {
				t.Errorf("%d threads: channel around %v has mean %v and variance %v, want %v and %v", threads, means[c], b.Mean()[c], b.Variance()[c], mean, variance)
			}
		}
		if first == nil {
			first = b
			continue
		}
		wantSame(t, "mean", b.Mean(), first.Mean())
		wantSame(t, "variance", b.Variance(), first.Variance())
	}
	// A convolution with kernel 1x1 and the identity as weights has x as its output.
	c := newConv[T](t, ConvShape{InH: 1, InW: pixels, InC: channels, OutC: channels, KernelH: 1, KernelW: 1, StrideH: 1, StrideW: 1}, Direct)
	w := make([]T, channels*channels)
	for i := range channels {
		w[i*channels+i] = 1
	}
	b, y := newNorm[T](t, channels), make([]T, len(x))
	c.ForwardFused(NewScratch[T](2), y, x, n, Weights[T]{Data: w}, Fusion[T]{Out: b, Gamma: gamma, Beta: beta})
	wantSame(t, "y", y, x)
	wantSame(t, "mean behind a convolution", b.Mean(), first.Mean())
	wantSame(t, "variance behind a convolution", b.Variance(), first.Variance())
}

func TestBatchNormErrors(t *testing.T) {
	for _, e := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := NewBatchNorm[float32](3, e); !errors.Is(err, ErrShape) {
			t.Errorf("epsilon %v: error %v", e, err)
		}
	}
	if _, err := NewBatchNorm[float32](0, 1); !errors.Is(err, ErrShape) {
		t.Errorf("no channels: error %v", err)
	}
	b, s := newNorm[float32](t, 2), NewScratch[float32](1)
	x, p := make([]float32, 12), make([]float32, 2)
	wantPanic(t, "empty batch", func() { b.Batch(s, x, 0, 3, p, p) })
	wantPanic(t, "short x", func() { b.Batch(s, x, 3, 3, p, p) })
	wantPanic(t, "short gamma", func() { b.Batch(s, x, 2, 3, p[:1], p) })
	wantPanic(t, "no statistics", func() { b.UpdateRunning(p, p, 0.1) })
	wantPanic(t, "short residual", func() { b.Apply(s, x, x, x[:3], 2, 3, false) })
	wantPanic(t, "short out", func() { b.BackwardSums(s, x, p, p, x, x[:3], x, 2, 3) })
	wantPanic(t, "short dx", func() { b.BackwardApply(s, x[:3], x, x, 2, 3) })
}
