//go:build amd64 && !purego

package qp

import "golang.org/x/sys/cpu"

// vectorLevel is the instruction set in use; all return the same bits.
type vectorLevel uint8

const (
	vectorGo vectorLevel = iota
	vectorAVX2
	vectorAVX512
)

var vectorActive = vectorBest()

// vectorBest returns the highest level the processor and the operating system
// have.
func vectorBest() vectorLevel {
	switch x := &cpu.X86; {
	case x.HasAVX512F && x.HasAVX512DQ:
		return vectorAVX512
	case x.HasAVX2:
		return vectorAVX2
	}
	return vectorGo
}

// eliminate eliminates rows i to i+3.
func (m *bandMatrix) eliminate(i int) {
	switch vectorActive {
	case vectorAVX512:
		bandEliminateAVX512(&m.edge[i*m.stride], m.stride, m.band, &m.inverse[i], &m.ground[i], &m.factor[0])
	case vectorAVX2:
		bandEliminateAVX2(&m.edge[i*m.stride], m.stride, m.band, &m.inverse[i], &m.ground[i], &m.factor[0])
	default:
		m.eliminateGo(i)
	}
}

// spread adds to the nodes after i+3 what rows i to i+3 conduct from y there.
func (m *bandMatrix) spread(i int, y *[bandBlock]float64, to []float64) {
	switch vectorActive {
	case vectorAVX512:
		bandSpreadAVX512(&m.edge[i*m.stride], m.stride, m.band, &y[0], &to[0])
	case vectorAVX2:
		bandSpreadAVX2(&m.edge[i*m.stride], m.stride, m.band, &y[0], &to[0])
	default:
		m.spreadGo(i, y, to)
	}
}

// collect computes the products of rows i to i+3 with the nodes after i+3.
func (m *bandMatrix) collect(i int, x []float64, sum *[bandBlock]float64) {
	switch vectorActive {
	case vectorAVX512:
		bandCollectAVX512(&m.edge[i*m.stride], m.stride, m.band, &x[0], &sum[0])
	case vectorAVX2:
		bandCollectAVX2(&m.edge[i*m.stride], m.stride, m.band, &x[0], &sum[0])
	default:
		m.collectGo(i, x, sum)
	}
}

func flowMultiply(a, b, to []float64) {
	n := len(to)
	_ = a[n-1]
	_ = b[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowMultiplyAVX512(n, &a[0], &b[0], &to[0])
	case vectorAVX2:
		flowMultiplyAVX2(n, &a[0], &b[0], &to[0])
	default:
		flowMultiplyGo(a, b, to)
	}
}

func flowMultiplyAdd(a, b, to []float64) {
	n := len(to)
	_ = a[n-1]
	_ = b[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowMultiplyAddAVX512(n, &a[0], &b[0], &to[0])
	case vectorAVX2:
		flowMultiplyAddAVX2(n, &a[0], &b[0], &to[0])
	default:
		flowMultiplyAddGo(a, b, to)
	}
}

func flowWeigh(y, z, iz, cond, sum []float64) {
	n := len(sum)
	_ = y[n-1]
	_ = z[n-1]
	_ = iz[n-1]
	_ = cond[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowWeighAVX512(n, &y[0], &z[0], &iz[0], &cond[0], &sum[0])
	case vectorAVX2:
		flowWeighAVX2(n, &y[0], &z[0], &iz[0], &cond[0], &sum[0])
	default:
		flowWeighGo(y, z, iz, cond, sum)
	}
}

func flowPredict(out, in, y, cond, iz, t []float64, acc *[2][flowLanes]float64) {
	n := len(t)
	_ = out[n-1]
	_ = in[n-1]
	_ = y[n-1]
	_ = cond[n-1]
	_ = iz[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowPredictAVX512(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &acc[0][0])
	case vectorAVX2:
		flowPredictAVX2(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &acc[0][0])
	default:
		flowPredictGo(out, in, y, cond, iz, t, acc)
	}
}

func flowCentre(target float64, t, iz, out, in []float64) {
	n := len(t)
	_ = iz[n-1]
	_ = out[n-1]
	_ = in[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowCentreAVX512(n, target, &t[0], &iz[0], &out[0], &in[0])
	case vectorAVX2:
		flowCentreAVX2(n, target, &t[0], &iz[0], &out[0], &in[0])
	default:
		flowCentreGo(target, t, iz, out, in)
	}
}

func flowAdvance(out, in, y, cond, iz, t, dz []float64, acc *[2][flowLanes]float64) {
	n := len(t)
	_ = out[n-1]
	_ = in[n-1]
	_ = y[n-1]
	_ = cond[n-1]
	_ = iz[n-1]
	_ = dz[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowAdvanceAVX512(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &dz[0], &acc[0][0])
	case vectorAVX2:
		flowAdvanceAVX2(n, &out[0], &in[0], &y[0], &cond[0], &iz[0], &t[0], &dz[0], &acc[0][0])
	default:
		flowAdvanceGo(out, in, y, cond, iz, t, dz, acc)
	}
}

func flowProducts(y, z []float64, acc *[flowLanes]float64) {
	n := len(y)
	_ = z[n-1]
	switch vectorActive {
	case vectorAVX512:
		flowProductsAVX512(n, &y[0], &z[0], &acc[0])
	case vectorAVX2:
		flowProductsAVX2(n, &y[0], &z[0], &acc[0])
	default:
		flowProductsGo(y, z, acc)
	}
}
