package kernel

import "fmt"

// A MaxPool takes the largest element of each channel in windows of an image
// [InH, InW, channels], and makes an image [OutH, OutW, channels]. A window is
// cut at the border of the image. Of equal elements the first in row-major
// order is taken; a NaN is larger than every number. It belongs to one goroutine
// at a time.
type MaxPool[T Float] struct {
	inH, inW, channels int
	rows, cols         []span
	runs               []windowRun
	stride             int // of the argmax codes
	job                poolJob[T]
}

// poolJob is one pass over a batch.
type poolJob[T Float] struct {
	s        *Scratch[T]
	backward bool
	in, out  []T // x and y, or dx and dy
	argmax   []uint8
	norm     *BatchNorm[T]
	relu     bool
	largest  []T
	f        Fusion[T]
	x        []T // the pool's input, for f.Prev
}

// A span is the part of an axis that a window covers.
type span struct{ lo, hi int }

// A windowRun is neighbouring windows of a row: the columns [first, first+count)
// of the output, which cover width columns of the input each, the first of them
// from column lo on and the others step columns apart.
type windowRun struct{ first, count, lo, width, step int }

// NewMaxPool returns a pooling over square windows: window i covers rows
// (columns) [i stride - pad, i stride - pad + kernel). The output has
// floor((InH + 2 pad - kernel) / stride) + 1 rows. pad is at most kernel/2, and
// kernel at most 16. It returns an error wrapping ErrShape for any other shape.
func NewMaxPool[T Float](inH, inW, channels, kernel, stride, pad int) (*MaxPool[T], error) {
	if !poolSizes(inH, inW, channels) || kernel < 1 || kernel > maxWindow || stride < 1 || pad < 0 || pad > kernel/2 ||
		inH+2*pad < kernel || inW+2*pad < kernel {
		return nil, fmt.Errorf("max pooling of %dx%dx%d with kernel %d, stride %d, pad %d: %w", inH, inW, channels, kernel, stride, pad, ErrShape)
	}
	spans := func(in int) []span {
		s := make([]span, (in+2*pad-kernel)/stride+1)
		for i := range s {
			lo := i*stride - pad
			s[i] = span{max(0, lo), min(in, lo+kernel)}
		}
		return s
	}
	return newMaxPool[T](inH, inW, channels, spans(inH), spans(inW)), nil
}

// NewAdaptiveMaxPool returns a pooling to a given size of the output: window i
// covers rows (columns) [floor(i in / out), ceil((i+1) in / out)). It returns an
// error wrapping ErrShape unless a window has one to 16 rows and columns.
func NewAdaptiveMaxPool[T Float](inH, inW, channels, outH, outW int) (*MaxPool[T], error) {
	if !poolSizes(inH, inW, channels) || !poolSizes(outH, outW, channels) {
		return nil, fmt.Errorf("adaptive max pooling of %dx%dx%d to %dx%d: %w", inH, inW, channels, outH, outW, ErrShape)
	}
	spans := func(in, out int) []span {
		s := make([]span, out)
		for i := range s {
			s[i] = span{i * in / out, ((i+1)*in + out - 1) / out}
		}
		return s
	}
	p := newMaxPool[T](inH, inW, channels, spans(inH, outH), spans(inW, outW))
	for _, s := range [][]span{p.rows, p.cols} {
		for _, w := range s {
			if w.hi-w.lo > maxWindow {
				return nil, fmt.Errorf("adaptive max pooling of %dx%d to %dx%d, with windows over %d: %w", inH, inW, outH, outW, maxWindow, ErrShape)
			}
		}
	}
	return p, nil
}

// poolSizes says whether an image is of a possible size.
func poolSizes(h, w, channels int) bool {
	for _, v := range [...]int{h, w, channels} {
		if v < 1 || v > maxSize {
			return false
		}
	}
	return h*w*channels <= maxImage
}

// maxWindow is the largest side of a window: its elements are numbered in a
// byte.
const maxWindow = 16

func newMaxPool[T Float](inH, inW, channels int, rows, cols []span) *MaxPool[T] {
	p := &MaxPool[T]{inH: inH, inW: inW, channels: channels, rows: rows, cols: cols}
	for _, w := range cols {
		p.stride = max(p.stride, w.hi-w.lo)
	}
	for i, w := range cols {
		if n := len(p.runs); n > 0 {
			r := &p.runs[n-1]
			step := w.lo - cols[i-1].lo
			if w.hi-w.lo == r.width && (r.count == 1 || r.step == step) {
				r.count, r.step = r.count+1, step
				continue
			}
		}
		p.runs = append(p.runs, windowRun{i, 1, w.lo, w.hi - w.lo, 0})
	}
	return p
}

// OutH returns the height of the output.
func (p *MaxPool[T]) OutH() int { return len(p.rows) }

// OutW returns the width of the output.
func (p *MaxPool[T]) OutW() int { return len(p.cols) }

// InLen returns the number of elements of an input image.
func (p *MaxPool[T]) InLen() int { return p.inH * p.inW * p.channels }

// OutLen returns the number of elements of an output image.
func (p *MaxPool[T]) OutLen() int { return len(p.rows) * len(p.cols) * p.channels }

// Forward computes n images y, and for each element the place of the largest in
// its window, for Backward. argmax may be nil.
func (p *MaxPool[T]) Forward(s *Scratch[T], y []T, argmax []uint8, x []T, n int) {
	checkImages("MaxPool.Forward", "y", n, p.OutLen(), len(y))
	checkImages("MaxPool.Forward", "x", n, p.InLen(), len(x))
	if argmax != nil {
		checkImages("MaxPool.Forward", "argmax", n, p.OutLen(), len(argmax))
	}
	p.job = poolJob[T]{s: s, in: x, out: y, argmax: argmax}
	s.run(n, p)
	p.job = poolJob[T]{}
}

// Backward computes dx of n images from dy and the argmax of Forward. Gradients
// that meet in an element are added in order of the windows.
func (p *MaxPool[T]) Backward(s *Scratch[T], dx, dy []T, argmax []uint8, n int) {
	checkImages("MaxPool.Backward", "dx", n, p.InLen(), len(dx))
	checkImages("MaxPool.Backward", "dy", n, p.OutLen(), len(dy))
	checkImages("MaxPool.Backward", "argmax", n, p.OutLen(), len(argmax))
	p.job = poolJob[T]{s: s, backward: true, in: dx, out: dy, argmax: argmax}
	s.run(n, p)
	p.job = poolJob[T]{}
}

// BackwardFused is Backward with the work of f.Prev, where x is the input of
// Forward; f has no other work.
func (p *MaxPool[T]) BackwardFused(s *Scratch[T], dx, dy []T, argmax []uint8, x []T, n int, f Fusion[T]) {
	const op = "MaxPool.BackwardFused"
	checkImages(op, "dx", n, p.InLen(), len(dx))
	checkImages(op, "dy", n, p.OutLen(), len(dy))
	checkImages(op, "argmax", n, p.OutLen(), len(argmax))
	checkImages(op, "x", n, p.InLen(), len(x))
	if f.Prev == nil || f.In != nil || f.Out != nil || f.Pool != nil || f.Shortcut != nil {
		panic("kernel." + op + ": want Prev and no other work")
	}
	f.checkPrev(op, p.InLen(), p.channels, n)
	grow(&s.sums, 2*n*p.channels)
	p.job = poolJob[T]{s: s, backward: true, in: dx, out: dy, argmax: argmax, f: f, x: x}
	s.run(n, p)
	p.job = poolJob[T]{}
	f.Prev.endBackward(s, f.Dgamma, f.Dbeta, n)
}

// ForwardNorm is Forward on norm.Apply(x) in place of x, with a ReLU if relu is
// set; where the ReLU makes a maximum zero, its place is unspecified. The
// normalised image is not kept. largest, unless nil, is of the size of y and
// receives the elements of x that became the maxima.
func (p *MaxPool[T]) ForwardNorm(s *Scratch[T], y []T, argmax []uint8, largest, x []T, n int, norm *BatchNorm[T], relu bool) {
	checkImages("MaxPool.ForwardNorm", "y", n, p.OutLen(), len(y))
	checkImages("MaxPool.ForwardNorm", "x", n, p.InLen(), len(x))
	if argmax != nil {
		checkImages("MaxPool.ForwardNorm", "argmax", n, p.OutLen(), len(argmax))
	}
	if largest != nil {
		checkImages("MaxPool.ForwardNorm", "largest", n, p.OutLen(), len(largest))
	}
	if norm.channels != p.channels {
		panic(fmt.Sprintf("kernel.MaxPool.ForwardNorm: batch norm of %d channels before %d", norm.channels, p.channels))
	}
	p.job = poolJob[T]{s: s, in: x, out: y, argmax: argmax, norm: norm, relu: relu, largest: largest}
	s.run(n, p)
	p.job = poolJob[T]{}
}

// do implements task.
func (p *MaxPool[T]) do(thread, item int) {
	j := &p.job
	in, out := j.in[item*p.InLen():][:p.InLen()], j.out[item*p.OutLen():][:p.OutLen()]
	var argmax []uint8
	if j.argmax != nil {
		argmax = j.argmax[item*p.OutLen():][:p.OutLen()]
	}
	if j.backward {
		p.backwardImage(in, out, argmax, nil, nil)
		if prev := j.f.Prev; prev != nil {
			at := item * p.InLen()
			prev.imageGradientSums(&j.s.threads[thread], j.s.sums, item, in, in, j.f.PrevX[at:][:p.InLen()], j.x[at:][:p.InLen()])
		}
		return
	}
	w := windows[T]{argmax: argmax, y: out, in: in}
	if j.norm != nil {
		w.scale, w.shift, w.floor = j.norm.scale, j.norm.shift, noFloor[T]()
		if j.relu {
			w.floor = 0
		}
		if j.largest != nil {
			w.largest = j.largest[item*p.OutLen():][:p.OutLen()]
		}
	}
	p.forwardImage(&w)
}

// windows is what a pass over the windows of an image works on.
type windows[T Float] struct {
	y      []T
	argmax []uint8 // nil if not wanted
	in     []T
	// Of ForwardNorm.
	scale, shift []T
	floor        T
	largest      []T // nil if not wanted
}

func (p *MaxPool[T]) forwardImage(w *windows[T]) {
	at := 0
	for _, r := range p.rows {
		for i := range p.runs {
			run := &p.runs[i]
			from := p.windowsVector(w, at, r, run)
			for k := range run.count {
				if from == p.channels {
					break
				}
				p.window(w, at+k*p.channels, r, run.lo+k*run.step, run.width, from)
			}
			at += run.count * p.channels
		}
	}
}

// window computes the maximum of channels [from, channels) over the window of
// the given rows and columns, and writes it to y from at on.
func (p *MaxPool[T]) window(w *windows[T], at int, r span, lo, width, from int) {
	for c := from; c < p.channels; c++ {
		var best, largest T
		code := 0
		for h := r.lo; h < r.hi; h++ {
			for q := lo; q < lo+width; q++ {
				x := w.in[(h*p.inW+q)*p.channels+c]
				v := x
				if w.scale != nil {
					v = T(w.scale[c]*x) + w.shift[c]
				}
				// NaN is larger than numbers, not than NaN.
				if h == r.lo && q == lo || v > best || v != v && best == best {
					best, largest, code = v, x, (h-r.lo)*p.stride+q-lo
				}
			}
		}
		if w.scale != nil && best < w.floor {
			best = w.floor
		}
		w.y[at+c] = best
		if w.largest != nil {
			w.largest[at+c] = largest
		}
		if w.argmax != nil {
			w.argmax[at+c] = uint8(code)
		}
	}
}

// backwardImage sets dx to the sums of the gradients dy over the windows whose
// maximum an element was. With norm it replaces rows that are complete by
// norm.BackwardApply of them and of x, while they are in the first cache.
func (p *MaxPool[T]) backwardImage(dx, dy []T, argmax []uint8, norm *BatchNorm[T], x []T) {
	at, row := 0, p.inW*p.channels
	cleared, done := 0, 0 // rows
	for i, r := range p.rows {
		// Windows move downwards: no later one covers a row above its own.
		next := p.inH
		if i+1 < len(p.rows) {
			next = p.rows[i+1].lo
		}
		if end := max(r.hi, next); end > cleared {
			clear(dx[cleared*row : end*row])
			cleared = end
		}
		for i := range p.runs {
			run := &p.runs[i]
			from := p.scatterVector(dx, dy[at:], argmax[at:], r, run)
			for k := range run.count {
				base := (r.lo*p.inW + run.lo + k*run.step) * p.channels
				for c := from; c < p.channels; c++ {
					code := int(argmax[at+c])
					dx[base+(code/p.stride*p.inW+code%p.stride)*p.channels+c] += dy[at+c]
				}
				at += p.channels
			}
		}
		if norm != nil && next > done {
			part := dx[done*row : next*row]
			norm.gradient(part, part, x[done*row:next*row])
			done = next
		}
	}
}
