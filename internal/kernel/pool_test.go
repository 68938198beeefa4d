package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// poolTwin is the definition, one channel and one window at a time: the places
// of the largest elements, by sorting out all candidates.
func poolTwin[T Float](x []T, inW, channels, c int, rows, cols span) (best T, at int) {
	at = -1
	for h := rows.lo; h < rows.hi; h++ {
		for w := cols.lo; w < cols.hi; w++ {
			i := (h*inW+w)*channels + c
			if at < 0 || x[i] > best || math.IsNaN(float64(x[i])) && !math.IsNaN(float64(best)) {
				best, at = x[i], i
			}
		}
	}
	return best, at
}

func testMaxPool[T Float](t *testing.T) {
	r := newRand()
	s := NewScratch[T](1)
	type pool struct {
		name     string
		inH, inW int
		make     func(channels int) (*MaxPool[T], error)
		window   func(axis, i int) span
	}
	windows := func(inH, inW, kernel, stride, pad int) pool {
		return pool{
			fmt.Sprintf("%dx%d kernel %d stride %d pad %d", inH, inW, kernel, stride, pad), inH, inW,
			func(channels int) (*MaxPool[T], error) { return NewMaxPool[T](inH, inW, channels, kernel, stride, pad) },
			func(axis, i int) span {
				in := []int{inH, inW}[axis]
				return span{max(0, i*stride-pad), min(in, i*stride-pad+kernel)}
			},
		}
	}
	adaptive := func(inH, inW, outH, outW int) pool {
		return pool{
			fmt.Sprintf("%dx%d to %dx%d", inH, inW, outH, outW), inH, inW,
			func(channels int) (*MaxPool[T], error) { return NewAdaptiveMaxPool[T](inH, inW, channels, outH, outW) },
			func(axis, i int) span {
				in, out := []int{inH, inW}[axis], []int{outH, outW}[axis]
				return span{int(math.Floor(float64(i*in) / float64(out))), int(math.Ceil(float64((i+1)*in) / float64(out)))}
			},
		}
	}
	for _, p := range []pool{
		windows(8, 6, 3, 2, 1), windows(7, 9, 3, 2, 1), windows(1, 1, 3, 2, 1), windows(5, 5, 2, 2, 0),
		windows(6, 7, 4, 1, 2), windows(16, 17, 16, 1, 0), windows(3, 4, 1, 3, 0),
		adaptive(24, 24, 12, 12), adaptive(7, 5, 3, 4), adaptive(4, 3, 4, 3), adaptive(2, 3, 5, 4), adaptive(16, 10, 1, 1),
	} {
		for _, channels := range []int{1, 31, 32, 40, 64} {
			pool, err := p.make(channels)
			if err != nil {
				t.Fatal(err)
			}
			const n = 2
			x, dy := newNormal[T](r, n*pool.InLen()), newNormal[T](r, n*pool.OutLen())
			// Equal numbers and NaN among them.
			for i := range x.x {
				x.x[i] = T(r.IntN(5))
			}
			sprinkle(x.x)
			y, dx := newGuarded[T](r, n*pool.OutLen()), newGuarded[T](r, n*pool.InLen())
			argmax := make([]uint8, n*pool.OutLen()+8)
			for i := range argmax {
				argmax[i] = 0xee
			}
			pool.Forward(s, y.x, argmax[4:len(argmax)-4], x.x, n)
			pool.Backward(s, dx.x, dy.x, argmax[4:len(argmax)-4], n)
			wantY, wantDX := make([]T, len(y.x)), make([]T, len(dx.x))
			for i := range wantY {
				img, rest := i/pool.OutLen(), i%pool.OutLen()
				pixel, c := rest/channels, rest%channels
				image := img * pool.InLen()
				best, at := poolTwin(x.x[image:], p.inW, channels, c, p.window(0, pixel/pool.OutW()), p.window(1, pixel%pool.OutW()))
				wantY[i] = best
				wantDX[image+at] += dy.x[i]
			}
			name := fmt.Sprintf("%s, %d channels", p.name, channels)
			wantSame(t, "y of "+name, y.x, wantY)
			wantSame(t, "dx of "+name, dx.x, wantDX)
			for _, g := range []guarded[T]{x, dy, y, dx} {
				g.check(t, name)
			}
			for i := range 4 {
				if argmax[i] != 0xee || argmax[len(argmax)-1-i] != 0xee {
					t.Fatalf("%s: wrote outside argmax", name)
				}
			}
			clear(y.x)
			pool.Forward(s, y.x, nil, x.x, n)
			wantSame(t, "y without argmax of "+name, y.x, wantY)
			testForwardNorm(t, r, s, pool, x.x, n, name)
		}
	}
}

// testForwardNorm compares ForwardNorm with the operations that it stands for.
func testForwardNorm[T Float](t *testing.T, r *rand.Rand, s *Scratch[T], pool *MaxPool[T], x []T, n int, name string) {
	vec := func() []T { return newNormal[T](r, pool.channels).x }
	norm, variance := newNorm[T](t, pool.channels), vec()
	for i, v := range variance {
		variance[i] = v * v
	}
	norm.Fixed(vec(), variance, vec(), vec())
	for _, relu := range []bool{false, true} {
		applied, want := make([]T, len(x)), make([]T, n*pool.OutLen())
		wantArg, arg := make([]uint8, len(want)), make([]uint8, len(want))
		norm.Apply(s, applied, x, nil, n, pool.inH*pool.inW, false)
		pool.Forward(s, want, wantArg, applied, n)
		if relu {
			ReLU(want, want)
		}
		y, largest := newGuarded[T](r, len(want)), newGuarded[T](r, len(want))
		pool.ForwardNorm(s, y.x, arg, largest.x, x, n, norm, relu)
		wantSame(t, "y of a normalised "+name, y.x, want)
		if !slices.Equal(arg, wantArg) {
			t.Fatalf("argmax of a normalised %s differs", name)
		}
		for i, v := range largest.x {
			c := i % pool.channels
			if v = T(norm.scale[c]*v) + norm.shift[c]; relu && v < 0 {
				v = 0
			}
			if v != want[i] && (v == v || want[i] == want[i]) {
				t.Fatalf("largest of %s makes %v of element %d, want %v", name, v, i, want[i])
			}
		}
		y.check(t, name)
		largest.check(t, name)
		clear(y.x)
		pool.ForwardNorm(s, y.x, nil, nil, x, n, norm, relu)
		wantSame(t, "y alone of a normalised "+name, y.x, want)
	}
}

func TestMaxPool(t *testing.T) { onTypes(t, testMaxPool[float32], testMaxPool[float64]) }

func TestMaxPoolErrors(t *testing.T) {
	for _, c := range [][6]int{
		{0, 4, 1, 1, 1, 0}, {4, 4, 0, 1, 1, 0}, {4, 4, 1, 0, 1, 0}, {40, 40, 1, 17, 1, 0},
		{0, 4, 1, 2, 1, 1}, {1 << 60, 4, 1, 2, 1, 1}, {1 << 15, 1 << 15, 2, 2, 1, 1},
		{4, 4, 1, 2, 0, 0}, {4, 4, 1, 3, 1, 2}, {4, 4, 1, 3, 1, -1}, {2, 4, 1, 3, 1, 0},
	} {
		if _, err := NewMaxPool[float32](c[0], c[1], c[2], c[3], c[4], c[5]); !errors.Is(err, ErrShape) {
			t.Errorf("NewMaxPool%v: error %v", c, err)
		}
	}
	for _, c := range [][5]int{{0, 4, 1, 1, 1}, {4, 4, 0, 1, 1}, {4, 4, 1, 0, 1}, {17, 4, 1, 1, 1}, {4, 4, 1, 1 << 61, 1}, {4, 4, 2, 1 << 15, 1 << 15}} {
		if _, err := NewAdaptiveMaxPool[float32](c[0], c[1], c[2], c[3], c[4]); !errors.Is(err, ErrShape) {
			t.Errorf("NewAdaptiveMaxPool%v: error %v", c, err)
		}
	}
	p, err := NewMaxPool[float32](4, 4, 1, 2, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := NewScratch[float32](1)
	x, a := make([]float32, 16), make([]uint8, 4)
	wantPanic(t, "short y", func() { p.Forward(s, x[:3], a, x, 1) })
	wantPanic(t, "short argmax", func() { p.Forward(s, x, a[:3], x, 1) })
	wantPanic(t, "short dx", func() { p.Backward(s, x[:15], x, a, 1) })
	wantPanic(t, "negative n", func() { p.Backward(s, x, x, a, -1) })
	wantPanic(t, "n whose product overflows", func() { p.Forward(s, x, nil, x, 1<<62) })
}
