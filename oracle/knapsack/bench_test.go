package knapsack

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
)

// instances is how many distinct costs a benchmark cycles through: more than a
// branch predictor can learn.
const instances = 4096

// synthetic returns costs like those of the paper's knapsack, -(1+r)^4 scaled
// to mean -1, with predictions off by noise.
func synthetic(r *rand.Rand, d int, noise float64) []float64 {
	theta := make([]float64, d)
	sum := 0.0
	for i := range theta {
		theta[i] = -(1 + math.Pow(1+r.NormFloat64()/2, 4))
		sum -= theta[i]
	}
	for i := range theta {
		theta[i] = theta[i]*float64(d)/sum + noise*r.NormFloat64()
	}
	return theta
}

type workload struct {
	name  string
	set   oracle.Polytope
	costs []float64
	// lambda is the calibrated ratio of mean cost norm to radius.
	lambda float64
}

func workloads() []workload {
	r := rand.New(rand.NewPCG(1, 50))
	a := make([]float64, 50)
	for i := range a {
		a[i] = 0.5 + r.Float64()
	}
	set, err := New(a, 30)
	if err != nil {
		panic(err)
	}
	top, err := NewTopK(24, 8)
	if err != nil {
		panic(err)
	}
	ws := []workload{
		{name: "set=knapsack/d=50", set: set, lambda: 1.5},
		{name: "set=topk/d=24", set: top, lambda: 80},
	}
	for range instances {
		ws[0].costs = append(ws[0].costs, synthetic(r, 50, 1)...)
		for range 24 {
			ws[1].costs = append(ws[1].costs, 40+20*r.NormFloat64())
		}
	}
	return ws
}

// bench runs what solve prepares for each workload, whose costs it passes on.
func bench(b *testing.B, suffix string, solve func(w workload, dst []float64) func(theta []float64) (oracle.Info, error)) {
	for _, w := range workloads() {
		b.Run(w.name+suffix, func(b *testing.B) {
			d := w.set.Dim()
			dst := make([]float64, d)
			run := solve(w, dst)
			b.ReportAllocs()
			passes, k := 0, 0
			for b.Loop() {
				info, err := run(w.costs[k*d : (k+1)*d])
				if err != nil {
					b.Fatal(err)
				}
				passes += info.Iterations
				if k++; k == instances {
					k = 0
				}
			}
			b.ReportMetric(float64(passes)/float64(b.N), "passes/op")
		})
	}
}

func BenchmarkLinear(b *testing.B) {
	bench(b, "", func(w workload, dst []float64) func([]float64) (oracle.Info, error) {
		l := w.set.NewLinear()
		return func(theta []float64) (oracle.Info, error) { return l.Solve(dst, theta) }
	})
}

// BenchmarkProject covers an annealing, lambda from its calibrated value to a
// tenth of it.
func BenchmarkProject(b *testing.B) {
	for _, f := range []float64{1, 0.3, 0.1} {
		bench(b, fmt.Sprintf("/anneal=%v", f), func(w workload, dst []float64) func([]float64) (oracle.Info, error) {
			p := w.set.NewProjector()
			return func(theta []float64) (oracle.Info, error) { return p.Project(dst, theta, f*w.lambda, nil) }
		})
	}
}

func BenchmarkJVP(b *testing.B) {
	bench(b, "", func(w workload, dst []float64) func([]float64) (oracle.Info, error) {
		p := w.set.NewProjector()
		if _, err := p.Project(dst, w.costs[:w.set.Dim()], w.lambda, nil); err != nil {
			b.Fatal(err)
		}
		return func(v []float64) (oracle.Info, error) { return oracle.Info{}, p.JVP(dst, v) }
	})
}
