package kernel

import "unsafe"

// widthGeneric is the panel width of the generic code. Two rows of three are
// the largest tile whose sums and operands stay in the sixteen registers of
// amd64.
const widthGeneric = 3

// panelGeneric is the truth for panels: every element is one chain in order of
// p with every product and every sum rounded. (The conversions in chains forbid
// the compiler to fuse them.) It takes any number of columns; b must be packed
// in panels of widthGeneric, each with all runs.
func panelGeneric[T Float](p *panel[T]) {
	var buf [2][blockK]T
	for i := 0; i < p.m; i += 2 {
		// The last row of an odd number is computed twice.
		i1 := min(i+1, p.m-1)
		var a0, a1 []T
		for j := 0; j < p.n; j += widthGeneric {
			n := min(widthGeneric, p.n-j)
			var s0, s1 [widthGeneric]T
			if p.start != nil {
				s0 = loadRow(p.start[i*p.ldStart+j:][:n])
				s1 = loadRow(p.start[i1*p.ldStart+j:][:n])
			}
			for r := 0; p.k > 0 && r < p.runs; r++ {
				if j == 0 || p.runs > 1 {
					a0, a1 = rowOf(p, i, r, &buf[0]), rowOf(p, i1, r, &buf[1])
				}
				chains(&s0, &s1, a0, a1, p.b[(j*p.runs+r*widthGeneric)*p.k:])
			}
			storeRow(p.c[i*p.ldc+j:][:n], &s0, p.floor)
			storeRow(p.c[i1*p.ldc+j:][:n], &s1, p.floor)
		}
	}
}

// rowOf returns run r of row i of op(A), copied to buf where it is not
// contiguous.
func rowOf[T Float](p *panel[T], i, r int, buf *[blockK]T) []T {
	a := p.a[i*p.rowA+r*(p.k*p.colA+p.skipA):]
	if p.colA == 1 {
		return a[:p.k]
	}
	for q := range p.k {
		buf[q] = a[q*p.colA]
	}
	return buf[:p.k]
}

// loadRow returns the start of a tile's row, padded with zeros.
func loadRow[T Float](start []T) (s [widthGeneric]T) {
	if len(start) == widthGeneric {
		return [widthGeneric]T(start)
	}
	copy(s[:], start)
	return s
}

func storeRow[T Float](c []T, s *[widthGeneric]T, floor T) {
	for j := range c {
		x := s[j]
		if x < floor {
			x = floor
		}
		c[j] = x
	}
}

// chains continues the chains of two rows and widthGeneric columns. b is one
// packed panel.
func chains[T Float](s0, s1 *[widthGeneric]T, a0, a1, b []T) {
	// One bound check for the panel instead of one for each of its rows.
	rows := unsafe.Slice((*[widthGeneric]T)(b[:widthGeneric*len(a0)]), len(a0))
	a1 = a1[:len(a0)]
	s00, s01, s02 := s0[0], s0[1], s0[2]
	s10, s11, s12 := s1[0], s1[1], s1[2]
	for p, x := range a0 {
		y, b := a1[p], &rows[p]
		s00 += T(x * b[0])
		s10 += T(y * b[0])
		s01 += T(x * b[1])
		s11 += T(y * b[1])
		s02 += T(x * b[2])
		s12 += T(y * b[2])
	}
	*s0 = [widthGeneric]T{s00, s01, s02}
	*s1 = [widthGeneric]T{s10, s11, s12}
}
