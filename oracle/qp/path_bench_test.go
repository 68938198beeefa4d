package qp

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/synthetic"
)

// pathInstances is how many distinct problems a benchmark cycles through: more
// than a branch predictor can learn.
const pathInstances = 2048

// BenchmarkPath reports the time of a projection on the paper's 12 x 12 grids.
// lambda=R is |c|/R, where training starts. warm says by how much predictions
// have moved since the warm start. The metric dijkstras is the processor time in
// units of shortest paths on maps like these, measured in the same run.
func BenchmarkPath(b *testing.B) {
	const size, d = 12, 144
	ends := pathEnds(size, size)
	var unit float64
	b.Run("dijkstra", func(b *testing.B) {
		r := rand.New(rand.NewPCG(2, 0))
		var solvers []*dijkstra.Solver
		for _, end := range ends {
			cfg := pathBetween(size, size, end).Grid().Config()
			cfg.Ties = dijkstra.AnyTies
			solvers = append(solvers, mustPath(cfg).Grid().NewSolver())
		}
		costs, dst := make([]float64, 0, pathInstances*d), make([]float64, d)
		for range pathInstances {
			costs = append(costs, synthetic.Terrain(r, size, size)...)
		}
		k := 0
		stop := startPathClock()
		for b.Loop() {
			if _, err := solvers[k%len(ends)].Solve(dst, costs[k*d:(k+1)*d]); err != nil {
				b.Fatal(err)
			}
			k = (k + 1) % pathInstances
		}
		unit = stop() / float64(b.N)
		b.ReportMetric(unit, "cpu-ns/op")
	})
	for _, quality := range []synthetic.Quality{synthetic.True, synthetic.Good, synthetic.Medium, synthetic.Under, synthetic.Init} {
		for _, lambda := range []float64{2, 1, 0.5, 0.2, 0} {
			for _, moved := range []float64{-1, 0.01, 0.03, 0.1} {
				name := fmt.Sprintf("lambda=%v/predictions=%v/warm=%v", lambda, quality, moved)
				if lambda == 0 {
					name = fmt.Sprintf("lambda=R/predictions=%v/warm=%v", quality, moved)
				}
				if moved < 0 {
					name = name[:len(name)-len("-1")] + "cold"
				}
				b.Run(name, func(b *testing.B) { benchmarkPath(b, ends, quality, lambda, moved, unit) })
			}
		}
	}
}

// startPathClock starts to measure the processor time of this goroutine, in
// nanoseconds.
func startPathClock() (stop func() float64) {
	runtime.LockOSThread()
	start := pathClock()
	return func() float64 {
		defer runtime.UnlockOSThread()
		return float64(pathClock() - start)
	}
}

func benchmarkPath(b *testing.B, ends []dijkstra.Cell, quality synthetic.Quality, lambda, moved, unit float64) {
	const size, d = 12, 144
	r := rand.New(rand.NewPCG(2, uint64(quality)))
	var projectors []*PathProjector
	for _, end := range ends {
		projectors = append(projectors, newPathProjector(pathBetween(size, size, end)))
	}
	theta, lambdas := make([]float64, 0, pathInstances*d), make([]float64, pathInstances)
	starts := make([]oracle.Warm, pathInstances)
	dst := make([]float64, d)
	words := 0
	for k := range pathInstances {
		c := synthetic.Terrain(r, size, size)
		lambdas[k] = lambda
		if lambda == 0 {
			lambdas[k] = pathNorm(c) / size
		}
		predicted := synthetic.Predict(r, size, size, c, quality)
		if moved >= 0 {
			if _, err := projectors[k%len(ends)].Project(dst, synthetic.LossPoint(c, predicted), lambdas[k], &starts[k]); err != nil {
				b.Fatal(err)
			}
			predicted = pathMoved(r, predicted, moved)
		}
		words += len(starts[k].Words)
		theta = append(theta, synthetic.LossPoint(c, predicted)...)
	}
	var warm oracle.Warm
	iterations, short, inner := 0, 0, 0
	b.ReportAllocs()
	k := 0
	stop := startPathClock()
	for b.Loop() {
		use := &warm
		if moved < 0 {
			use = nil
		} else {
			// A copy, so that every solve starts from the same.
			warm.Words = append(warm.Words[:0], starts[k].Words...)
		}
		q := projectors[k%len(ends)]
		info, err := q.Project(dst, theta[k*d:(k+1)*d], lambdas[k], use)
		if err != nil {
			b.Fatal(err)
		}
		iterations += info.Iterations
		if info.Status != oracle.Optimal {
			short++
		}
		if q.method == pathByInterior {
			inner++
		}
		k = (k + 1) % pathInstances
	}
	n := float64(b.N)
	used := stop() / n
	b.ReportMetric(used, "cpu-ns/op")
	if unit > 0 {
		b.ReportMetric(used/unit, "dijkstras")
	}
	b.ReportMetric(float64(iterations)/n, "iterations/op")
	b.ReportMetric(100*float64(inner)/n, "%interior")
	b.ReportMetric(float64(short), "short")
	if moved >= 0 {
		b.ReportMetric(float64(8*words)/pathInstances, "warm-B")
	}
}
