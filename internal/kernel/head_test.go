package kernel

import (
	"fmt"
	"testing"
)

func testChannelMean[T Float](t *testing.T) {
	r := newRand()
	for channels := 1; channels < 70; channels++ {
		const pixels = 5
		x, y := newNormal[T](r, pixels*channels), newGuarded[T](r, pixels)
		ChannelMean(y.x, x.x, channels)
		want, abs := make([]float64, pixels), make([]float64, pixels)
		for i, v := range x.x {
			want[i/channels] += float64(v) / float64(channels)
			abs[i/channels] += max(float64(v), -float64(v)) / float64(channels)
		}
		// Each sum has at most channels roundings, and the division one.
		wantClose(t, fmt.Sprintf("mean of %d channels", channels), y.x, want, abs, float64(channels+2))
		y.check(t, "y")
		dx := newGuarded[T](r, pixels*channels)
		ChannelMeanGrad(dx.x, y.x, channels)
		for i, v := range dx.x {
			if v != y.x[i/channels]/T(channels) {
				t.Fatalf("gradient %d of %d channels is %v", i, channels, v)
			}
		}
		dx.check(t, "dx")
	}
	x := make([]T, 6)
	wantPanic(t, "ChannelMean", func() { ChannelMean(x[:2], x[:5], 3) })
	wantPanic(t, "ChannelMean without channels", func() { ChannelMean(x, x, 0) })
	wantPanic(t, "ChannelMeanGrad", func() { ChannelMeanGrad(x, x[:3], 3) })
	wantPanic(t, "ChannelMeanGrad without channels", func() { ChannelMeanGrad(x, x, 0) })
}

func TestChannelMean(t *testing.T) { onTypes(t, testChannelMean[float32], testChannelMean[float64]) }

func testLayout[T Float](t *testing.T) {
	r := newRand()
	const n, channels, pixels = 3, 5, 7
	size := n * channels * pixels
	nchw, bytes := newNormal[T](r, size).x, make([]uint8, size)
	for i := range bytes {
		bytes[i] = uint8(r.IntN(256))
	}
	scale, shift := newNormal[T](r, channels).x, newNormal[T](r, channels).x
	// Element (i, p, c) of the one order, and of the other.
	each := func(f func(nhwc, nchw, c int)) {
		for i := range n {
			for c := range channels {
				for p := range pixels {
					f((i*pixels+p)*channels+c, (i*channels+c)*pixels+p, c)
				}
			}
		}
	}
	got, want, back := newGuarded[T](r, size), make([]T, size), newGuarded[T](r, size)
	each(func(a, b, _ int) { want[a] = nchw[b] })
	FromNCHW(got.x, nchw, n, channels, pixels, nil, nil)
	wantSame(t, "FromNCHW", got.x, want)
	ToNCHW(back.x, got.x, n, channels, pixels)
	wantSame(t, "ToNCHW", back.x, nchw)
	each(func(a, b, c int) { want[a] = T(scale[c]*T(bytes[b])) + shift[c] })
	FromNCHW(got.x, bytes, n, channels, pixels, scale, shift)
	wantSame(t, "FromNCHW of bytes", got.x, want)
	each(func(a, _, c int) { want[a] = T(scale[c]*T(bytes[a])) + shift[c] })
	FromNHWC(got.x, bytes, n, channels, pixels, scale, shift)
	wantSame(t, "FromNHWC of bytes", got.x, want)
	FromNHWC(got.x, nchw, n, channels, pixels, nil, nil)
	wantSame(t, "FromNHWC", got.x, nchw)
	got.check(t, "dst")
	back.check(t, "dst")
	wantPanic(t, "FromNCHW", func() { FromNCHW(got.x[1:], nchw, n, channels, pixels, nil, nil) })
	wantPanic(t, "FromNHWC", func() { FromNHWC(got.x, nchw, n, channels, pixels, scale, nil) })
	wantPanic(t, "ToNCHW", func() { ToNCHW(got.x, nchw[1:], n, channels, pixels) })
}

func TestLayout(t *testing.T) { onTypes(t, testLayout[float32], testLayout[float64]) }
