package kernel

// The lines of the five transformations: a column or row of a tile. Every
// operation is rounded; the assembly fuses exact products only, so its bits are
// the same (unless a number overflows).

// winogradInput is Bᵀ of Lavin and Gray (2016), section 4.3.
func winogradInput[T Float](d [6]T) [6]T {
	p, q := d[4]-d[2], d[3]-d[1]
	a, b := d[4]-T(4*d[2]), d[3]-T(4*d[1])
	return [6]T{
		T(4*(d[0]-d[2])) + p,
		a + b,
		a - b,
		p + T(2*q),
		p - T(2*q),
		(d[5] - d[3]) - T(4*q),
	}
}

// winogradOutput is Aᵀ.
func winogradOutput[T Float](m [6]T) [6]T {
	s, d := m[1]+m[2], m[1]-m[2]
	s2, d2 := m[3]+m[4], m[3]-m[4]
	return [6]T{
		m[0] + s + s2,
		d + T(2*d2),
		s + T(4*s2),
		d + T(8*d2) + m[5],
	}
}

// winogradOutputGradient is A.
func winogradOutputGradient[T Float](y [6]T) [6]T {
	e, o := y[0]+y[2], y[1]+y[3]
	e2, o2 := y[0]+T(4*y[2]), y[1]+T(4*y[3])
	return [6]T{y[0], e + o, e - o, e2 + T(2*o2), e2 - T(2*o2), y[3]}
}

// winogradFilter is G.
func winogradFilter[T Float](g [6]T) [6]T {
	s, e := g[0]+g[2], g[0]+T(4*g[2])
	return [6]T{
		T(0.25 * g[0]),
		T(T(-1./6) * (s + g[1])),
		T(T(1./6) * (g[1] - s)),
		T(T(1./24) * (e + T(2*g[1]))),
		T(T(1./24) * (e - T(2*g[1]))),
		g[2],
	}
}

// winogradFilterGradient is Gᵀ.
func winogradFilterGradient[T Float](d [6]T) [6]T {
	a, b := d[1]+d[2], d[3]+d[4]
	c, e := d[2]-d[1], d[3]-d[4]
	return [6]T{
		T(T(1./6)*(T(0.25*b)-a)) + T(0.25*d[0]),
		T(T(1./6) * (c + T(0.5*e))),
		T(T(1./6)*(b-a)) + d[5],
	}
}

// transformGeneric applies a transformation to the columns, then to the rows,
// of the tiles of channels [from, n).
func transformGeneric[T Float](kind transform, dst []T, dstRow, dstCol int, src []T, srcRow, srcCol, from, n int) {
	in, out := kind.sides()
	for c := from; c < n; c++ {
		var tile [6][6]T
		for j := range in {
			var line [6]T
			for i := range in {
				line[i] = src[i*srcRow+j*srcCol+c]
			}
			line = transformLine(kind, line)
			for i := range out {
				tile[i][j] = line[i]
			}
		}
		for i := range out {
			line := transformLine(kind, tile[i])
			for j := range out {
				dst[i*dstRow+j*dstCol+c] = line[j]
			}
		}
	}
}

func transformLine[T Float](kind transform, line [6]T) [6]T {
	switch kind {
	case transformInput:
		return winogradInput(line)
	case transformOutput:
		return winogradOutput(line)
	case transformGradient:
		return winogradOutputGradient(line)
	case transformFilter:
		return winogradFilter(line)
	default:
		return winogradFilterGradient(line)
	}
}
