package bench

import (
	"context"
	"math"
	"math/rand/v2"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
	"fedrspo/oracle/synthetic"
)

// family is what the instances of a problem have in common: sets, of which each
// client has one, and distributions.
type family struct {
	// sets are projected onto; linear are the same sets with the minimiser of
	// costs that is timed.
	sets, linear []oracle.Polytope
	costs        func(r *rand.Rand) []float64
	predict      func(r *rand.Rand, c []float64, q Quality) []float64
}

func (f *family) add(set oracle.Polytope) {
	f.sets, f.linear = append(f.sets, set), append(f.linear, set)
}

// newFamily returns the family of a checked problem with at most the given
// number of clients.
func newFamily(p Problem, clients int) (*family, error) {
	switch p.Oracle {
	case Knapsack:
		return knapsackFamily(p, clients)
	case TopK:
		return topkFamily(p, clients)
	case Polyhedron:
		return polyhedronFamily(p, clients)
	}
	return gridFamily(p, clients)
}

// workload is the instances of a problem, in batches of one client each.
type workload struct {
	problem Problem
	*family
	d, total int
	// costs and theta are [total, d], theta what is projected.
	costs, theta []float64
	lambda       []float64 // by client
	// ordered says that early instances differ from late ones, so that all of
	// them have to be measured.
	ordered bool
	// starts are the warm starts by row, nil if cold.
	starts [][]uint64
}

// client returns the client, and so the set, of a row.
func (w *workload) client(row int) int { return row / w.problem.Batch % len(w.sets) }

func (w *workload) row(x []float64, i int) []float64 { return x[i*w.d : (i+1)*w.d] }

// newWorkload draws the instances of p. Instance i depends on the seed and i
// alone.
func newWorkload(ctx context.Context, p Problem) (*workload, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	f, err := newFamily(p, p.Instances/p.Batch)
	if err != nil {
		return nil, err
	}
	d := f.sets[0].Dim()
	w := &workload{
		problem: p, family: f, d: d, total: p.Instances / p.Batch * p.Batch,
		lambda: make([]float64, len(f.sets)),
	}
	predicted := make([]float64, 0, w.total*d)
	counts := make([]float64, len(f.sets))
	for i := range w.total {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := stream.New(stream.Key{Seed: p.Seed, Purpose: "bench " + p.Oracle, Client: i})
		c := f.costs(r)
		w.costs = append(w.costs, c...)
		predicted = append(predicted, f.predict(r, c, p.Predictions)...)
		counts[w.client(i)]++
		w.lambda[w.client(i)] += norm(c)
	}
	if p.Oracle == Dijkstra {
		return w, nil
	}
	for k := range w.lambda {
		w.lambda[k] = p.Lambda.of(w.lambda[k]/counts[k], f.sets[k].Radius())
	}
	if p.Warm > 0 {
		if err := w.warmUp(ctx, predicted); err != nil {
			return nil, err
		}
	}
	w.theta = synthetic.LossPoint(w.costs, predicted)
	return w, nil
}

// warmUp solves every instance, keeps what the solver remembers and then
// changes the predictions.
func (w *workload) warmUp(ctx context.Context, predicted []float64) error {
	projectors := make([]oracle.Projector, len(w.sets))
	for k, set := range w.sets {
		projectors[k] = set.NewProjector()
	}
	w.starts = make([][]uint64, w.total)
	dst := make([]float64, w.d)
	for i := range w.total {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := w.client(i)
		var warm oracle.Warm
		before := w.row(predicted, i)
		if _, err := projectors[k].Project(dst, synthetic.LossPoint(w.row(w.costs, i), before), w.lambda[k], &warm); err != nil {
			return err
		}
		w.starts[i] = warm.Words
		r := stream.New(stream.Key{Seed: w.problem.Seed, Purpose: "bench change", Client: i})
		synthetic.Move(r, before, w.problem.Warm)
	}
	return nil
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
