package kernel

// Winograd's F(4x4, 3x3) (Lavin and Gray 2016): with tiles d of 6x6 input
// pixels, four apart, kernels g and tiles y of 4x4 output pixels,
//
//	y  = Aᵀ [sum over i of (G g Gᵀ) . (Bᵀ d B)] A
//	dg = Gᵀ [sum over tiles of (Bᵀ d B) . (A dy Aᵀ)] G
//
// where . multiplies element by element. For each of the 36 elements the sums
// over channels, or tiles, are one matrix product.
const (
	tileOut  = 4
	tileIn   = 6
	elements = tileIn * tileIn
	// elementGap lies between the matrices of neighbouring elements. Without it
	// the 36 elements of a tile would often lie multiples of 4 KiB apart and
	// displace each other from the first cache.
	elementGap = 16
	// groupTiles bounds the tiles whose weight gradients are added in one
	// product, so that the transformed images and the gradient of all elements
	// stay in the second cache: an image of 24x24.
	groupTiles = 36
)

// winogradHas says whether the algorithm has a shape.
func winogradHas(s ConvShape) bool {
	return s.KernelH == 3 && s.KernelW == 3 && s.StrideH == 1 && s.StrideW == 1
}

// winogradPays says whether Winograd is faster than Direct: the products must
// outweigh the transformations, and the tiles must fit the output.
func winogradPays(s ConvShape) bool {
	if !winogradHas(s) || s.InC < 16 || s.OutC < 16 {
		return false
	}
	covered := roundUp(s.OutH(), tileOut) * roundUp(s.OutW(), tileOut)
	return 2*s.OutH()*s.OutW() >= covered
}

// A transform names one of the transformations.
type transform uint8

const (
	transformInput transform = iota
	transformOutput
	transformGradient
	transformFilter
	transformFilterGradient
)

// sides returns the sides of the input and the output tile.
func (k transform) sides() (in, out int) {
	switch k {
	case transformInput:
		return tileIn, tileIn
	case transformOutput:
		return tileIn, tileOut
	case transformGradient:
		return tileOut, tileIn
	case transformFilter:
		return 3, tileIn
	default:
		return tileIn, 3
	}
}

// transformScratch is the scratch a transformation needs: a tile of the widest
// vectors.
const transformScratch = elements * 16

// apply transforms the tile at src, of n channels, to dst. Vector (i, j) is at
// i*row + j*col.
func apply[T Float](kind transform, dst []T, dstRow, dstCol int, src []T, srcRow, srcCol, n int, scratch []T) {
	done := transformVector(kind, dst, dstRow, dstCol, src, srcRow, srcCol, n, scratch)
	transformGeneric(kind, dst, dstRow, dstCol, src, srcRow, srcCol, done, n)
}

// winogradPack transforms the kernels and packs each element's matrix
// [inC, outC].
func winogradPack[T Float](p *packedWeights[T], hwio []T, g *correlation) {
	w := panelWidth[T]()
	size := g.inC * g.outC
	packed := g.inC * roundUp(g.outC, w)
	stride := size + elementGap
	buf := grow(&p.packed, elements*packed+elements*stride+transformScratch)
	u, scratch := buf[elements*packed:][:elements*stride], buf[elements*(packed+stride):]
	apply(transformFilter, u, tileIn*stride, stride, hwio, 3*size, size, size, scratch)
	for e := range elements {
		packPanels(buf[e*packed:][:packed], w, u[e*stride:], g.outC, false, 0, g.inC, 0, g.outC)
	}
}

// tiles returns the number of rows and columns of tiles.
func (g *correlation) tiles() (rows, cols int) {
	return (g.outH + tileOut - 1) / tileOut, (g.outW + tileOut - 1) / tileOut
}

// transformImage writes tile t of the transformed image to v[e*stride+t*inC].
func transformImage[T Float](t *threadScratch[T], g *correlation, v []T, stride int, src source[T], scratch []T) {
	rows, cols := g.tiles()
	height, width := rows*tileOut+2, cols*tileOut+2
	image := grow(&t.image, height*width*g.inC)
	pad(image, src, g, height, width)
	for r := range rows {
		for c := range cols {
			from := image[(r*width+c)*tileOut*g.inC:]
			apply(transformInput, v[(r*cols+c)*g.inC:], tileIn*stride, stride, from, width*g.inC, g.inC, g.inC, scratch)
		}
	}
}

// winograd computes one image.
func winograd[T Float](t *threadScratch[T], g *correlation, weights, dst []T, src source[T]) {
	rows, cols := g.tiles()
	tiles := rows * cols
	inStride, outStride := tiles*g.inC+elementGap, tiles*g.outC+elementGap
	v := grow(&t.transformed, elements*inStride)
	m := grow(&t.product, elements*outStride)
	border := tileOut * tileOut * g.outC
	buf := grow(&t.small, border+transformScratch)
	scratch := buf[border:]
	transformImage(t, g, v, inStride, src, scratch)

	w := panelWidth[T]()
	packed := g.inC * roundUp(g.outC, w)
	p := panel[T]{runs: 1, rowA: g.inC, colA: 1, ldb: w, ldc: g.outC, ldStart: g.outC, floor: noFloor[T]()}
	for e := range elements {
		for o := 0; o < g.outC; o += w {
			p.n = min(w, g.outC-o)
			for q := 0; q < g.inC; q += blockK {
				p.k = min(blockK, g.inC-q)
				p.b = weights[e*packed+o*g.inC+q*w:]
				step := rowsPerCall(p.k)
				for i := 0; i < tiles; i += step {
					p.m = min(step, tiles-i)
					p.a = v[e*inStride+i*g.inC+q:]
					p.c = m[e*outStride+i*g.outC+o:]
					if p.start = p.c; q == 0 {
						p.start = nil
					}
					p.run()
				}
			}
		}
	}

	row := g.outW * g.outC
	for r := range rows {
		for c := range cols {
			from := m[(r*cols+c)*g.outC:]
			h, w := min(tileOut, g.outH-r*tileOut), min(tileOut, g.outW-c*tileOut)
			to := dst[r*tileOut*row+c*tileOut*g.outC:]
			if h == tileOut && w == tileOut {
				apply(transformOutput, to, row, g.outC, from, tileIn*outStride, outStride, g.outC, scratch)
				continue
			}
			side := tileOut * g.outC
			apply(transformOutput, buf[:border], side, g.outC, from, tileIn*outStride, outStride, g.outC, scratch)
			for i := range h {
				copy(to[i*row:][:w*g.outC], buf[i*side:])
			}
		}
	}
}

// gradientGroup returns the number of images whose weight gradients are added
// in one product.
func (g *correlation) gradientGroup() int {
	rows, cols := g.tiles()
	return max(1, groupTiles/(rows*cols))
}

// filterStride is the distance of two elements of the transformed gradient.
func (g *correlation) filterStride() int { return g.inC*g.outC + elementGap }

// winogradGradient adds the gradient of n images to t.filter, where it stays
// transformed, or sets it for the first ones. Each element's sum is one chain
// over images and tiles.
func winogradGradient[T Float](t *threadScratch[T], g *correlation, x, dy []T, n int, first bool) {
	rows, cols := g.tiles()
	tiles := rows * cols
	inStride, outStride := n*tiles*g.inC+elementGap, n*tiles*g.outC+elementGap
	v := grow(&t.transformed, elements*inStride)
	m := grow(&t.product, elements*outStride)
	stride := g.filterStride()
	du := grow(&t.filter, elements*stride)
	border := tileOut * tileOut * g.outC
	w := panelWidth[T]()
	packed := 0
	if active == levelGo {
		packed = min(blockK, n*tiles) * w
	}
	buf := grow(&t.small, border+transformScratch+packed)
	edge, scratch, b := buf[:border], buf[border:][:transformScratch], buf[border+transformScratch:]

	for i := range n {
		transformImage(t, g, v[i*tiles*g.inC:], inStride, source[T]{x: x[i*g.inLen():][:g.inLen()]}, scratch)
		transformOutputGradient(g, m[i*tiles*g.outC:], outStride, dy[i*g.outLen():][:g.outLen()], edge, scratch)
	}
	p := panel[T]{runs: 1, rowA: 1, colA: g.inC, ldb: g.outC, ldc: g.outC, ldStart: g.outC, floor: noFloor[T]()}
	for e := range elements {
		for q := 0; q < n*tiles; q += blockK {
			p.k = min(blockK, n*tiles-q)
			step := rowsPerCall(p.k)
			for o := 0; o < g.outC; o += w {
				p.n = min(w, g.outC-o)
				p.b = m[e*outStride+q*g.outC+o:]
				if active == levelGo {
					packPanels(b, w, m[e*outStride:], g.outC, false, q, p.k, o, p.n)
					p.b = b
				}
				for i := 0; i < g.inC; i += step {
					p.m = min(step, g.inC-i)
					p.a = v[e*inStride+q*g.inC+i:]
					p.c = du[e*stride+i*g.outC+o:]
					if p.start = p.c; first && q == 0 {
						p.start = nil
					}
					p.run()
				}
			}
		}
	}
}

// winogradFilterSum turns the gradient in t.filter into dw [3, 3, InC, OutC].
func winogradFilterSum[T Float](t *threadScratch[T], g *correlation, dw []T) {
	size, stride := g.inC*g.outC, g.filterStride()
	apply(transformFilterGradient, dw, 3*size, size, t.filter, tileIn*stride, stride, size, grow(&t.small, transformScratch))
}

// transformOutputGradient writes tile t of the transformed gradient to
// m[e*stride+t*outC]. edge holds a tile that crosses the border.
func transformOutputGradient[T Float](g *correlation, m []T, stride int, dy, edge, scratch []T) {
	rows, cols := g.tiles()
	row := g.outW * g.outC
	for r := range rows {
		for c := range cols {
			from, fromRow := dy[r*tileOut*row+c*tileOut*g.outC:], row
			h, w := min(tileOut, g.outH-r*tileOut), min(tileOut, g.outW-c*tileOut)
			if h < tileOut || w < tileOut {
				side := tileOut * g.outC
				clear(edge)
				for i := range h {
					copy(edge[i*side:], from[i*row:][:w*g.outC])
				}
				from, fromRow = edge, side
			}
			apply(transformGradient, m[(r*cols+c)*g.outC:], tileIn*stride, stride, from, fromRow, g.outC, g.outC, scratch)
		}
	}
}
