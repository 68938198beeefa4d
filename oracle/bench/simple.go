package bench

import (
	"math"
	"math/rand/v2"

	"fedrspo/internal/stream"
	"fedrspo/oracle/knapsack"
	"fedrspo/oracle/qp"
)

// simpleClients is the number of different sets of the oracles without a grid.
const simpleClients = 16

// setStream returns the numbers that shape the set of a client.
func setStream(p Problem, client int) *rand.Rand {
	return stream.New(stream.Key{Seed: p.Seed, Purpose: "bench set " + p.Oracle, Client: client})
}

// knapsackFamily returns knapsacks of the paper's synthetic task: weights in
// [0.5, 1.5] and a capacity of 0.6 d.
func knapsackFamily(p Problem, clients int) (*family, error) {
	f := &family{costs: knapsackCosts(p.Dim), predict: plainPrediction}
	for k := range min(clients, simpleClients) {
		r := setStream(p, k)
		a := make([]float64, p.Dim)
		for i := range a {
			a[i] = 0.5 + r.Float64()
		}
		set, err := knapsack.New(a, 0.6*float64(p.Dim))
		if err != nil {
			return nil, err
		}
		f.add(set)
	}
	return f, nil
}

// knapsackCosts are values -(1+(1+z/2)^4), z normal, scaled to a mean of -1.
func knapsackCosts(d int) func(r *rand.Rand) []float64 {
	return func(r *rand.Rand) []float64 {
		c, sum := make([]float64, d), 0.0
		for i := range c {
			c[i] = -(1 + math.Pow(1+r.NormFloat64()/2, 4))
			sum -= c[i]
		}
		for i := range c {
			c[i] *= float64(d) / sum
		}
		return c
	}
}

// topkFamily returns choices of a third of the hours of a day by price.
func topkFamily(p Problem, clients int) (*family, error) {
	f := &family{predict: plainPrediction, costs: func(r *rand.Rand) []float64 {
		c := make([]float64, p.Dim)
		for i := range c {
			c[i] = 40 + 20*r.NormFloat64()
		}
		return c
	}}
	for k := range min(clients, simpleClients) {
		// Demands around d/3.
		demand := max(1, p.Dim/3+k%3-1)
		set, err := knapsack.NewTopK(p.Dim, float64(demand))
		if err != nil {
			return nil, err
		}
		f.add(set)
	}
	return f, nil
}

// polyhedronFamily returns allocations of max(1, d/2) resources to d activities,
// of which each uses about a fifth: {0 <= w <= 1, A w <= b}. Costs are those of
// the knapsack.
func polyhedronFamily(p Problem, clients int) (*family, error) {
	f := &family{costs: knapsackCosts(p.Dim), predict: plainPrediction}
	for k := range min(clients, simpleClients/4) {
		set, err := qp.NewPolyhedron(allocation(p, k))
		if err != nil {
			return nil, err
		}
		f.add(set)
	}
	return f, nil
}

// allocation returns the constraints of a client's polyhedron. A resource lasts
// for 0.3 of what all activities together use.
func allocation(p Problem, client int) qp.Constraints {
	r := setStream(p, client)
	c := qp.Constraints{Dim: p.Dim, Lower: make([]float64, p.Dim), Upper: make([]float64, p.Dim)}
	for i := range c.Upper {
		c.Upper[i] = 1
	}
	for range max(1, p.Dim/2) {
		row := qp.Constraint{}
		sum := 0.0
		for i := range p.Dim {
			if r.Float64() < 0.2 {
				a := 0.5 + r.Float64()
				row.Index, row.Value = append(row.Index, i), append(row.Value, a)
				sum += a
			}
		}
		row.RHS = 0.3 * sum
		c.AtMost = append(c.AtMost, row)
	}
	// Every point of the box is at most this long; the exact radius takes 2d+1
	// linear programs.
	c.Radius = math.Sqrt(0.3 * float64(p.Dim))
	return c
}

// plainPrediction returns a prediction of costs without a geometry.
func plainPrediction(r *rand.Rand, c []float64, q Quality) []float64 {
	mean := 0.0
	for _, x := range c {
		mean += x / float64(len(c))
	}
	out := make([]float64, len(c))
	for i, x := range c {
		switch q {
		case True:
		case Good:
			x = x*(1+0.05*r.NormFloat64()) + 0.02*mean*r.NormFloat64()
		case Medium:
			x = (x+mean)/2*math.Exp(0.2*r.NormFloat64()) + 0.05*mean*r.NormFloat64()
		case Noisy:
			x = x*(1+0.5*r.NormFloat64()) + 0.1*mean*r.NormFloat64()
		case Under:
			x = x*(0.35+0.15*r.NormFloat64()) + 0.05*mean*r.NormFloat64()
		case Init:
			x = 0.1 * mean * math.Abs(1+0.6*r.NormFloat64())
		}
		out[i] = x
	}
	return out
}
