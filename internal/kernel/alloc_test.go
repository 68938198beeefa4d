package kernel

import "testing"

// Steady state allocates nothing, packing included. (AllocsPerRun rounds down,
// so a packing buffer dropped by a garbage collection does not count.)
func testAllocs[T Float](t *testing.T) {
	r := newRand()
	vec := func(n int) []T { return newNormal[T](r, n).x }
	const n = 64
	x, y, z, w, b := vec(n*n), vec(n*n), vec(n*n), make([]T, n*n), vec(n)
	s := AdamStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Step: 1, GradScale: 1}
	for name, f := range map[string]func(){
		"Gemm": func() { Gemm(false, false, n, n, n, x, n, y, n, z, n, Epilogue[T]{Bias: b, ReLU: true}) },
		"Gemm transposed": func() {
			Gemm(true, true, n, n-1, n, x, n, y, n, z, n, Epilogue[T]{})
		},
		"ColSums":         func() { ColSums(b, x, n, n, false) },
		"ReLUGrad":        func() { ReLUGrad(z, x, y) },
		"ReLUGradColSums": func() { ReLUGradColSums(z, b, x, y, n, n, true) },
		"Axpy":            func() { Axpy(1e-3, x, z) },
		"Scale":           func() { Scale(0.5, z) },
		"SumSquares":      func() { SumSquares(x) },
		"HasNonFinite":    func() { HasNonFinite(x) },
		"Adam":            func() { Adam(y, x, z, w, s) },
	} {
		if a := testing.AllocsPerRun(50, f); a != 0 {
			t.Errorf("%s allocates %v times a call", name, a)
		}
	}
}

func TestAllocs(t *testing.T) { onTypes(t, testAllocs[float32], testAllocs[float64]) }
