package kernel

// The functions of this file work on rows of channels, one after the other, and
// take one parameter for each channel. They round every operation, so that all
// levels return the same bits.

// scaleShift sets y = scale x + shift (+ residual unless it is nil), negative
// results replaced by zero if relu is set.
func scaleShift[T Float](y, x, residual, scale, shift []T, relu bool) {
	c := scaleShiftVector(y, x, residual, scale, shift, relu)
	scaleShiftGeneric(y, x, residual, scale, shift, relu, c)
}

// scaleShiftGeneric handles channels [from, len(scale)).
func scaleShiftGeneric[T Float](y, x, residual, scale, shift []T, relu bool, from int) {
	n := len(scale)
	if from == n {
		return
	}
	for lo := 0; lo < len(x); lo += n {
		for c := from; c < n; c++ {
			v := T(scale[c]*x[lo+c]) + shift[c]
			if residual != nil {
				v += residual[lo+c]
			}
			if relu && v < 0 {
				v = 0
			}
			y[lo+c] = v
		}
	}
}

// affine2 sets y = p a + q b + r for rows a and b.
func affine2[T Float](y, a, b, p, q, r []T) {
	c := affine2Vector(y, a, b, p, q, r)
	affine2Generic(y, a, b, p, q, r, c)
}

// affine2Generic handles channels [from, len(p)).
func affine2Generic[T Float](y, a, b, p, q, r []T, from int) {
	n := len(p)
	if from == n {
		return
	}
	for lo := 0; lo < len(y); lo += n {
		for c := from; c < n; c++ {
			y[lo+c] = T(p[c]*a[lo+c]) + T(q[c]*b[lo+c]) + r[c]
		}
	}
}

// columnSums adds the sum of each channel and of its squares to sum and
// squares, row by row.
func columnSums[T Float](sum, squares, x []T) {
	c := columnSumsVector(sum, squares, x)
	columnSumsGeneric(sum, squares, x, c)
}

// columnSumsGeneric handles channels [from, len(sum)).
func columnSumsGeneric[T Float](sum, squares, x []T, from int) {
	n := len(sum)
	if from == n {
		return
	}
	for lo := 0; lo < len(x); lo += n {
		for c := from; c < n; c++ {
			v := x[lo+c]
			sum[c] += v
			squares[c] += T(v * v)
		}
	}
}

// gradientSums sets d = dy, or 0 where out is not nil and not positive, and
// adds, for each channel, d to sum and d (x - mean) to product, row by row.
func gradientSums[T Float](sum, product, d, dy, x, out, mean []T) {
	c := gradientSumsVector(sum, product, d, dy, x, out, mean)
	gradientSumsGeneric(sum, product, d, dy, x, out, mean, c)
}

// gradientSumsGeneric handles channels [from, len(sum)).
func gradientSumsGeneric[T Float](sum, product, d, dy, x, out, mean []T, from int) {
	n := len(sum)
	if from == n {
		return
	}
	for lo := 0; lo < len(x); lo += n {
		for c := from; c < n; c++ {
			v := dy[lo+c]
			if out != nil && !(out[lo+c] > 0) {
				v = 0
			}
			d[lo+c] = v
			sum[c] += v
			product[c] += T(v * (x[lo+c] - mean[c]))
		}
	}
}

// ReLU sets y[i] = x[i], or 0 where x[i] is negative. NaN stays NaN. y may be
// x. [ReLUGrad] is its gradient.
func ReLU[T Float](y, x []T) {
	checkLengths("ReLU", len(y), len(x))
	reluGeneric(y, x)
}

func reluGeneric[T Float](y, x []T) {
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		y[i] = v
	}
}

// AddReLU sets y[i] = x[i] + residual[i], through a ReLU. y may be x or
// residual. With d from ReLUGrad, the gradient of both terms is d.
func AddReLU[T Float](y, x, residual []T) {
	checkLengths("AddReLU", len(y), len(x))
	checkLengths("AddReLU", len(y), len(residual))
	for i, v := range x {
		v += residual[i]
		if v < 0 {
			v = 0
		}
		y[i] = v
	}
}
