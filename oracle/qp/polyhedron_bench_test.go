package qp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
)

// polyBenchmarks are the sets of the benchmarks: allocations of d/2 resources
// to d activities, d general constraints at d = 200, and two sets of equalities
// with degenerate vertices.
func polyBenchmarks(b *testing.B, run func(b *testing.B, p *Polyhedron)) {
	r := rand.New(rand.NewPCG(8, 1))
	grid, _ := polyGrid(6)
	for _, c := range []struct {
		name string
		c    Constraints
	}{
		{"allocation/d=10/m=5", polyAllocation(r, 10, 5)},
		{"allocation/d=50/m=25", polyAllocation(r, 50, 25)},
		{"allocation/d=200/m=100", polyAllocation(r, 200, 100)},
		{"allocation/d=200/m=200", polyAllocation(r, 200, 200)},
		{"assignment/d=100/m=20", polyAssignment(10)},
		{"path/d=60/m=36", grid},
	} {
		b.Run("set="+c.name, func(b *testing.B) { run(b, polyMust(b, c.c)) })
	}
}

// polyCosts returns normal costs, more than a branch predictor learns.
func polyCosts(d int) [][]float64 {
	r := rand.New(rand.NewPCG(8, 2))
	costs := make([][]float64, 256)
	for k := range costs {
		costs[k] = polyNormal(r, d)
	}
	return costs
}

// polyLoop times solve over the costs and reports the mean of its iterations.
func polyLoop(b *testing.B, costs [][]float64, solve func(k int, theta []float64) (oracle.Info, error)) {
	b.ReportAllocs()
	steps, k := 0, 0
	for b.Loop() {
		info, err := solve(k, costs[k])
		if err != nil || info.Err() != nil {
			b.Fatal(info, err)
		}
		steps += info.Iterations
		k = (k + 1) % len(costs)
	}
	b.ReportMetric(float64(steps)/float64(b.N), "steps/op")
}

func BenchmarkPolyhedronLinear(b *testing.B) {
	polyBenchmarks(b, func(b *testing.B, p *Polyhedron) {
		l, w := p.NewLinear(), make([]float64, p.Dim())
		polyLoop(b, polyCosts(p.Dim()), func(_ int, theta []float64) (oracle.Info, error) { return l.Solve(w, theta) })
	})
}

func BenchmarkPolyhedronProject(b *testing.B) {
	for _, lambda := range []float64{0.1, 1} {
		b.Run(fmt.Sprintf("lambda=%v", lambda), func(b *testing.B) {
			polyBenchmarks(b, func(b *testing.B, p *Polyhedron) {
				q, w := p.NewProjector(), make([]float64, p.Dim())
				polyLoop(b, polyCosts(p.Dim()), func(_ int, theta []float64) (oracle.Info, error) {
					return q.Project(w, theta, lambda, nil)
				})
			})
		})
	}
}

// BenchmarkPolyhedronWarm projects costs that have changed by 3 % since the
// warm start was left.
func BenchmarkPolyhedronWarm(b *testing.B) {
	polyBenchmarks(b, func(b *testing.B, p *Polyhedron) {
		r := rand.New(rand.NewPCG(8, 3))
		q, w := p.NewProjector(), make([]float64, p.Dim())
		costs := polyCosts(p.Dim())
		starts := make([]oracle.Warm, len(costs))
		for k, theta := range costs {
			if _, err := q.Project(w, theta, 0.1, &starts[k]); err != nil {
				b.Fatal(err)
			}
			for i := range theta {
				theta[i] += 0.03 * r.NormFloat64()
			}
		}
		var warm oracle.Warm
		polyLoop(b, costs, func(k int, theta []float64) (oracle.Info, error) {
			warm.Words = append(warm.Words[:0], starts[k].Words...)
			return q.Project(w, theta, 0.1, &warm)
		})
	})
}

func BenchmarkPolyhedronJVP(b *testing.B) {
	polyBenchmarks(b, func(b *testing.B, p *Polyhedron) {
		q, w := p.NewProjector(), make([]float64, p.Dim())
		costs := polyCosts(p.Dim())
		if _, err := q.Project(w, costs[0], 0.1, nil); err != nil {
			b.Fatal(err)
		}
		polyLoop(b, costs, func(_ int, v []float64) (oracle.Info, error) {
			return oracle.Info{Status: oracle.Optimal}, q.JVP(w, v)
		})
	})
}

func BenchmarkPolyhedronBuild(b *testing.B) {
	r := rand.New(rand.NewPCG(8, 4))
	for _, d := range []int{10, 50, 200} {
		c := polyAllocation(r, d, d/2)
		b.Run(fmt.Sprintf("d=%d/radius=false", d), func(b *testing.B) {
			for b.Loop() {
				polyMust(b, c)
			}
		})
		b.Run(fmt.Sprintf("d=%d/radius=true", d), func(b *testing.B) {
			for b.Loop() {
				polyMust(b, c).Radius()
			}
		})
	}
}
