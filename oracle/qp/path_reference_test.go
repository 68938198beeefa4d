package qp

import (
	"math"
	"slices"

	"fedrspo/oracle"
)

// pathReference projects p onto the set of a linear minimiser by Wolfe's method
// with dense algebra over whole vertices, which shares nothing with the
// solvers: no cycles apart from paths, no caps, no factor to update. It stops
// when the gap cannot be lowered any more and returns it.
func pathReference(l oracle.Linear, p []float64) (w []float64, gap float64) {
	d := len(p)
	vertex := func(g []float64) []float64 {
		s := make([]float64, d)
		if info, err := l.Solve(s, g); err != nil || info.Status != oracle.Optimal {
			panic(err)
		}
		return s
	}
	g := make([]float64, d)
	for i := range g {
		g[i] = -p[i]
	}
	vertices, a := [][]float64{vertex(g)}, []float64{1}
	point := func() []float64 {
		x := make([]float64, d)
		for k, v := range vertices {
			for i := range x {
				x[i] += a[k] * v[i]
			}
		}
		return x
	}
	best, bestGap := point(), math.Inf(1)
	for range 2000 {
		w = point()
		for i := range g {
			g[i] = w[i] - p[i]
		}
		if math.IsNaN(g[0]) {
			break // the vertices became dependent
		}
		s := vertex(g)
		gap = pathDot(g, w) - pathDot(g, s)
		if gap < bestGap {
			best, bestGap = w, gap
		}
		if gap <= 1e-13 {
			break
		}
		known := false
		for _, v := range vertices {
			known = known || slices.Equal(v, s)
		}
		if known {
			break
		}
		vertices, a = append(vertices, s), append(a, 0)
		for {
			next := pathAffine(vertices, p)
			step, stop := 1.0, -1
			for k := range a {
				if next[k] <= 0 && a[k]-next[k] > 0 && a[k]/(a[k]-next[k]) < step {
					step, stop = a[k]/(a[k]-next[k]), k
				}
			}
			for k := range a {
				a[k] += step * (next[k] - a[k])
			}
			if stop < 0 {
				break
			}
			vertices, a = slices.Delete(vertices, stop, stop+1), slices.Delete(a, stop, stop+1)
		}
	}
	return best, bestGap
}

// pathAffine returns the weights of the point of the vertices' affine hull
// nearest to p, by Gaussian elimination on the optimality conditions.
func pathAffine(vertices [][]float64, p []float64) []float64 {
	n := len(vertices)
	m := make([][]float64, n+1)
	for i := range m {
		m[i] = make([]float64, n+2)
	}
	for i, v := range vertices {
		for j, u := range vertices {
			m[i][j] = pathDot(v, u)
		}
		m[i][n], m[n][i], m[i][n+1] = 1, 1, pathDot(v, p)
	}
	m[n][n+1] = 1
	for c := range m {
		pivot := c
		for i := c; i <= n; i++ {
			if math.Abs(m[i][c]) > math.Abs(m[pivot][c]) {
				pivot = i
			}
		}
		m[c], m[pivot] = m[pivot], m[c]
		for i := range m {
			if i == c || m[i][c] == 0 {
				continue
			}
			f := m[i][c] / m[c][c]
			for j := c; j < n+2; j++ {
				m[i][j] -= f * m[c][j]
			}
		}
	}
	a := make([]float64, n)
	for i := range a {
		a[i] = m[i][n+1] / m[i][i]
	}
	return a
}
