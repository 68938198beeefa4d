//go:build !amd64 || purego

package qp

// This build has no assembly.

func (m *bandMatrix) eliminate(i int)                                     { m.eliminateGo(i) }
func (m *bandMatrix) spread(i int, y *[bandBlock]float64, to []float64)   { m.spreadGo(i, y, to) }
func (m *bandMatrix) collect(i int, x []float64, sum *[bandBlock]float64) { m.collectGo(i, x, sum) }

func flowMultiply(a, b, to []float64) {
	flowMultiplyGo(a, b, to)
}

func flowMultiplyAdd(a, b, to []float64) {
	flowMultiplyAddGo(a, b, to)
}

func flowWeigh(y, z, iz, cond, sum []float64) {
	flowWeighGo(y, z, iz, cond, sum)
}

func flowPredict(out, in, y, cond, iz, t []float64, acc *[2][flowLanes]float64) {
	flowPredictGo(out, in, y, cond, iz, t, acc)
}

func flowCentre(target float64, t, iz, out, in []float64) {
	flowCentreGo(target, t, iz, out, in)
}

func flowAdvance(out, in, y, cond, iz, t, dz []float64, acc *[2][flowLanes]float64) {
	flowAdvanceGo(out, in, y, cond, iz, t, dz, acc)
}

func flowProducts(y, z []float64, acc *[flowLanes]float64) {
	flowProductsGo(y, z, acc)
}
