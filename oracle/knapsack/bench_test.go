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
	set   oracle.Polytope
	costs []float64
	// lambda is the calibrated ratio of mean cost norm to radius.
	lambda float64
}

// bench measures linear minimisation, projections over an annealing (lambda from
// its calibrated value to a tenth of it) and the derivative.
func (w workload) bench(b *testing.B) {
	d := w.set.Dim()
	dst := make([]float64, d)
	run := func(name string, solve func(theta []float64) (oracle.Info, error)) {
		b.Run(fmt.Sprintf("d=%d/%s", d, name), func(b *testing.B) {
			b.ReportAllocs()
			passes, k := 0, 0
			for b.Loop() {
				info, err := solve(w.costs[k*d : (k+1)*d])
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
	l := w.set.NewLinear()
	run("linear", func(theta []float64) (oracle.Info, error) { return l.Solve(dst, theta) })
	for _, f := range []float64{1, 0.3, 0.1} {
		p := w.set.NewProjector()
		run(fmt.Sprintf("project/anneal=%v", f), func(theta []float64) (oracle.Info, error) { return p.Project(dst, theta, f*w.lambda, nil) })
	}
	p := w.set.NewProjector()
	if _, err := p.Project(dst, w.costs[:d], w.lambda, nil); err != nil {
		b.Fatal(err)
	}
	run("jvp", func(v []float64) (oracle.Info, error) { return oracle.Info{}, p.JVP(dst, v) })
}

// BenchmarkKnapsack is a knapsack of the paper's synthetic task.
func BenchmarkKnapsack(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 50))
	a := make([]float64, 50)
	for i := range a {
		a[i] = 0.5 + r.Float64()
	}
	set, err := New(a, 30)
	if err != nil {
		b.Fatal(err)
	}
	w := workload{set: set, lambda: 1.5}
	for range instances {
		w.costs = append(w.costs, synthetic(r, len(a), 1)...)
	}
	w.bench(b)
}

// BenchmarkTopK chooses a third of the hours of a day by price.
func BenchmarkTopK(b *testing.B) {
	set, err := NewTopK(24, 8)
	if err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 24))
	w := workload{set: set, lambda: 80}
	for range instances * set.Dim() {
		w.costs = append(w.costs, 40+20*r.NormFloat64())
	}
	w.bench(b)
}
