package nn

import (
	"fedrspo/internal/kernel"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gorgonia.org/gorgonia"
)

// products computes the matrix products of Gorgonia's own operations with this
// module's kernels, on one thread, and everything else as Gonum does. A layer of
// this package needs none of it; a loss or a model of a user's may.
type products struct{ gonum.Implementation }

// Gorgonia reads its implementation without a lock whenever a graph runs, so it
// is set before anything can run. A program that calls gorgonia.Use itself has
// its own way. Without assembly the kernels have no advantage over Gonum's.
func init() {
	if kernel.Level() != "go" {
		gorgonia.Use(products{})
	}
}

// Sgemm computes c = alpha op(a) op(b) + beta c.
func (p products) Sgemm(ta, tb blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if !plain(ta, tb, m, n, k, alpha, beta) {
		p.Implementation.Sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	kernel.Gemm(ta != blas.NoTrans, tb != blas.NoTrans, m, n, k, a, lda, b, ldb, c, ldc, kernel.Epilogue[float32]{Accumulate: beta == 1})
}

// Dgemm computes c = alpha op(a) op(b) + beta c.
func (p products) Dgemm(ta, tb blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	if !plain(ta, tb, m, n, k, alpha, beta) {
		p.Implementation.Dgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	kernel.Gemm(ta != blas.NoTrans, tb != blas.NoTrans, m, n, k, a, lda, b, ldb, c, ldc, kernel.Epilogue[float64]{Accumulate: beta == 1})
}

// plain says whether a product is one that the kernels have. Gonum says what is
// wrong with the others.
func plain[T kernel.Float](ta, tb blas.Transpose, m, n, k int, alpha, beta T) bool {
	trans := func(t blas.Transpose) bool { return t == blas.NoTrans || t == blas.Trans || t == blas.ConjTrans }
	return trans(ta) && trans(tb) && m > 0 && n > 0 && k > 0 && alpha == 1 && (beta == 0 || beta == 1)
}
