package kernel

// A correlation is what Forward and BackwardData both are: outputs are sums of
// products of weights and windows of a larger image, which is the input with
// its pixels spread apart and zeros around and between them.
type correlation struct {
	outH, outW, outC int
	inH, inW, inC    int
	kernelH, kernelW int
	strideH, strideW int // of the windows
	spreadH, spreadW int // of the input's pixels
	// topPad and leftPad are the place of the first input pixel; a negative one
	// is cut off.
	topPad, leftPad int
}

// height and width are the size of the padded image: what the windows cover.
func (g *correlation) height() int { return (g.outH-1)*g.strideH + g.kernelH }
func (g *correlation) width() int  { return (g.outW-1)*g.strideW + g.kernelW }

func (g *correlation) inLen() int  { return g.inH * g.inW * g.inC }
func (g *correlation) outLen() int { return g.outH * g.outW * g.outC }

// A source is an image that a pass reads: x, or with norm scale x + shift, plus
// residual unless it is nil, through a ReLU if relu is set.
type source[T Float] struct {
	x        []T
	norm     *BatchNorm[T]
	residual []T
	relu     bool
}

// copy copies whole pixels of the source, from the given element on.
func (s *source[T]) copy(dst []T, from int) {
	x := s.x[from:][:len(dst)]
	if s.norm == nil {
		copy(dst, x)
		return
	}
	var residual []T
	if s.residual != nil {
		residual = s.residual[from:][:len(dst)]
	}
	scaleShift(dst, x, residual, s.norm.scale, s.norm.shift, s.relu)
}

// pad writes the padded image, and rows of zeros below it up to the given
// height, columns of zeros to its right up to the given width.
func pad[T Float](dst []T, src source[T], g *correlation, height, width int) {
	size := width * g.inC
	// The first input column inside, and the end of those.
	w0, w1 := 0, g.inW
	if g.leftPad < 0 {
		w0 = min(g.inW, (-g.leftPad+g.spreadW-1)/g.spreadW)
	}
	w1 = max(w0, min(w1, (g.width()-1-g.leftPad)/g.spreadW+1))
	if g.width()-1-g.leftPad < 0 {
		w1 = w0
	}
	for h := range height {
		d := dst[h*size:][:size]
		at := h - g.topPad
		y := at / g.spreadH
		if at < 0 || at%g.spreadH != 0 || y >= g.inH || h >= g.height() || w0 == w1 {
			clear(d)
			continue
		}
		row := y * g.inW * g.inC
		first := (g.leftPad + w0*g.spreadW) * g.inC
		if g.spreadW == 1 {
			end := first + (w1-w0)*g.inC
			clear(d[:first])
			src.copy(d[first:end], row+w0*g.inC)
			clear(d[end:])
			continue
		}
		clear(d)
		for w := w0; w < w1; w++ {
			src.copy(d[(g.leftPad+w*g.spreadW)*g.inC:][:g.inC], row+w*g.inC)
		}
	}
}

const (
	// blockRows is the number of output rows that a packed panel of weights,
	// once in the first cache, serves.
	blockRows = 8
	// blockMACs bounds rows x k of one assembly call, like blockMK.
	blockMACs = 4 * blockMK
)

// rowsPerCall returns how many rows of at most blockK terms one assembly call
// takes.
func rowsPerCall(k int) int { return blockMACs / k / rowStep * rowStep }

// direct computes one image. Element (h, w, o) is one chain over r, s, i in
// that order, starting from zero, the zeros of the padding included.
func direct[T Float](t *threadScratch[T], g *correlation, weights, dst []T, src source[T]) {
	height, width := g.height(), g.width()
	image := grow(&t.image, height*width*g.inC)
	pad(image, src, g, height, width)
	w := panelWidth[T]()
	// A run is the part of a window in one row; rows of it are contiguous. As
	// many runs, or as much of one, make a panel as fit the first cache.
	run := g.kernelW * g.inC
	part := min(run, blockK)
	runs := max(1, blockK/run)
	p := panel[T]{
		rowA: g.strideW * g.inC, colA: 1, skipA: width*g.inC - run,
		ldb: w, ldc: g.outC, ldStart: g.outC, floor: noFloor[T](),
	}
	for h0 := 0; h0 < g.outH; h0 += blockRows {
		h1 := min(h0+blockRows, g.outH)
		for o := 0; o < g.outC; o += w {
			p.n = min(w, g.outC-o)
			for r := 0; r < g.kernelH; r += runs {
				p.runs = min(runs, g.kernelH-r)
				for q := 0; q < run; q += part {
					p.k = min(part, run-q)
					p.b = weights[(o*g.kernelH+r*w)*run+q*w:]
					step := rowsPerCall(p.runs * p.k)
					for h := h0; h < h1; h++ {
						for x := 0; x < g.outW; x += step {
							p.m = min(step, g.outW-x)
							p.a = image[((h*g.strideH+r)*width+x*g.strideW)*g.inC+q:]
							p.c = dst[(h*g.outW+x)*g.outC+o:]
							if p.start = p.c; r == 0 && q == 0 {
								p.start = nil
							}
							p.run()
						}
					}
				}
			}
		}
	}
}

// directGradient adds one image's gradient to dw [KernelH, KernelW, InC, OutC].
// Element (r, s, i, o) is one chain over h, w in that order, starting from dw.
func directGradient[T Float](t *threadScratch[T], g *correlation, dw, x, dy []T) {
	height, width := g.height(), g.width()
	image := grow(&t.image, height*width*g.inC)
	pad(image, source[T]{x: x}, g, height, width)
	w := panelWidth[T]()
	run := g.kernelW * g.inC
	part := min(g.outW, blockK)
	rows := 1
	if part == g.outW {
		rows = min(g.outH, max(1, blockK/g.outW))
	}
	p := panel[T]{rowA: 1, colA: g.strideW * g.inC, ldb: g.outC, ldc: g.outC, ldStart: g.outC, floor: noFloor[T]()}
	p.skipA = g.strideH*width*g.inC - g.outW*p.colA
	for h := 0; h < g.outH; h += rows {
		p.runs = min(rows, g.outH-h)
		for q := 0; q < g.outW; q += part {
			p.k = min(part, g.outW-q)
			step := rowsPerCall(p.runs * p.k)
			for o := 0; o < g.outC; o += w {
				p.n = min(w, g.outC-o)
				p.b = dy[(h*g.outW+q)*g.outC+o:]
				if active == levelGo {
					b := grow(&t.small, p.runs*p.k*w)
					packPanels(b, w, dy, g.outC, false, h*g.outW+q, p.runs*p.k, o, p.n)
					p.b = b
				}
				for r := range g.kernelH {
					for m := 0; m < run; m += step {
						p.m = min(step, run-m)
						p.a = image[((h*g.strideH+r)*width+q*g.strideW)*g.inC+m:]
						p.c = dw[(r*run+m)*g.outC+o:]
						p.start = p.c
						p.run()
					}
				}
			}
		}
	}
}
