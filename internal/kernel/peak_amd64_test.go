//go:build amd64 && !purego

package kernel

import "fedrspo/internal/cputime"

// fmaRate measures the GFLOPS of fused multiply-adds on registers once.
func fmaRate() float64 {
	const n, calls, accumulators = 1000, 10000, 12
	loop, lanes := fmaLoopF32AVX2, 8
	switch active {
	case levelGo:
		return 0
	case levelAVX512:
		loop, lanes = fmaLoopF32AVX512, 16
	}
	start := cputime.Now()
	for range calls {
		loop(n)
	}
	return float64(n*calls*accumulators*lanes*2) / float64(cputime.Now()-start)
}
