package qp

import "math"

// Products are converted to float64 before they are added: no platform then
// fuses the two, and the same input gives the same bits everywhere.

// polyDot returns a.b, in eight chains to hide the latency of additions.
func polyDot(a, b []float64) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float64
	for len(a) >= 8 && len(b) >= 8 {
		s0 += float64(a[0] * b[0])
		s1 += float64(a[1] * b[1])
		s2 += float64(a[2] * b[2])
		s3 += float64(a[3] * b[3])
		s4 += float64(a[4] * b[4])
		s5 += float64(a[5] * b[5])
		s6 += float64(a[6] * b[6])
		s7 += float64(a[7] * b[7])
		a, b = a[8:], b[8:]
	}
	for i, x := range a {
		s0 += float64(x * b[i])
	}
	return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
}

// polySparseDot returns the product of w with the sparse vector of the given
// indices and values.
func polySparseDot(index []int, value, w []float64) float64 {
	value = value[:len(index)]
	var s0, s1 float64
	k := 0
	for ; k+1 < len(index); k += 2 {
		s0 += float64(value[k] * w[index[k]])
		s1 += float64(value[k+1] * w[index[k+1]])
	}
	if k < len(index) {
		s0 += float64(value[k] * w[index[k]])
	}
	return s0 + s1
}

// polySparseAxpy adds alpha times the sparse vector of the given indices and
// values to w.
func polySparseAxpy(alpha float64, index []int, value, w []float64) {
	value = value[:len(index)]
	for k, j := range index {
		w[j] += float64(alpha * value[k])
	}
}

// polyNorm returns |v|₂.
func polyNorm(v []float64) float64 { return math.Sqrt(polyDot(v, v)) }

// polyMaxAbs returns max |v_i|.
func polyMaxAbs(v []float64) float64 {
	m := 0.0
	for _, x := range v {
		m = max(m, math.Abs(x))
	}
	return m
}

// polyRotate replaces x by c x + s y and y by c y - s x.
func polyRotate(c, s float64, x, y []float64) {
	y = y[:len(x)]
	for i, a := range x {
		b := y[i]
		x[i] = float64(c*a) + float64(s*b)
		y[i] = float64(c*b) - float64(s*a)
	}
}
