package knapsack

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle"
)

// greedy is the rule of the paper, sections 3.1 and 3.2, word by word: a
// stable sort by cost per weight, then fill.
func greedy(a []float64, b float64, equality bool, theta []float64) []float64 {
	order := make([]int, len(a))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		x, y := theta[i]/a[i], theta[j]/a[j]
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	w, rest := make([]float64, len(a)), b
	for _, i := range order {
		if theta[i] >= 0 && !equality {
			break
		}
		if a[i] > rest {
			w[i] = rest / a[i]
			break
		}
		w[i] = 1
		rest -= a[i]
	}
	return w
}

func solve(t *testing.T, l oracle.Linear, theta []float64) []float64 {
	t.Helper()
	w := make([]float64, len(theta))
	if info, err := l.Solve(w, theta); err != nil || info.Status != oracle.Optimal {
		t.Fatalf("Solve: %v, %v", info, err)
	}
	return w
}

// With integer weights and capacities all sums are exact, so the selection
// must give the bits of the sort, ties and zero costs included.
func TestLinearIsTheStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for range 20000 {
		d := 1 + r.IntN(60)
		a, theta := make([]float64, d), make([]float64, d)
		maxWeight, values := 1+r.IntN(4), 1+r.IntN(12)
		for i := range a {
			a[i] = float64(1 + r.IntN(maxWeight))
			// Few values give many ties; a factor a[i] now and then makes ties
			// of the quotients only.
			theta[i] = float64(r.IntN(values) - values/2)
			if r.IntN(2) == 0 {
				theta[i] *= a[i]
			}
			if r.IntN(20) == 0 {
				theta[i] = math.Copysign(0, -1)
			}
		}
		b := float64(r.IntN(int(sum(a)) + 2))
		if got, want := solve(t, mustSet(a, b).NewLinear(), theta), greedy(a, b, false, theta); !slices.Equal(got, want) {
			t.Fatalf("a=%v b=%v theta=%v:\n got %v\nwant %v", a, b, theta, got, want)
		}
		k := float64(r.IntN(d + 1))
		if r.IntN(2) == 0 {
			k = min(k+0.25, float64(d))
		}
		if got, want := solve(t, mustTopK(d, k).NewLinear(), theta), greedy(ones(d), k, true, theta); !slices.Equal(got, want) {
			t.Fatalf("k=%v theta=%v:\n got %v\nwant %v", k, theta, got, want)
		}
	}
}

// Costs that differ in their last bit only are no ties.
func TestLinearNearTies(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	for range 5000 {
		d := 2 + r.IntN(30)
		theta := make([]float64, d)
		for i := range theta {
			theta[i] = math.Float64frombits(math.Float64bits(-1.5) + uint64(r.IntN(4)))
		}
		k := float64(r.IntN(d))
		if got, want := solve(t, mustTopK(d, k).NewLinear(), theta), greedy(ones(d), k, true, theta); !slices.Equal(got, want) {
			t.Fatalf("top-k k=%v theta=%v:\n got %v\nwant %v", k, theta, got, want)
		}
		// Equal weights other than a power of two: the quotients round, and
		// may tie where the costs do not.
		a := slices.Repeat([]float64{3}, d)
		if got, want := solve(t, mustSet(a, 3*k).NewLinear(), theta), greedy(a, 3*k, false, theta); !slices.Equal(got, want) {
			t.Fatalf("knapsack b=%v theta=%v:\n got %v\nwant %v", 3*k, theta, got, want)
		}
	}
}

// Real weights and costs of every scale, against the sort (to rounding, as the
// sums run in another order) and, for small d, against all vertices.
func TestLinearIsOptimal(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 3))
	for range 4000 {
		in := randomInstance(r, 1+r.IntN(9))
		for _, c := range in.sets() {
			w := solve(t, c.polytope.NewLinear(), in.theta)
			z, size := 0.0, 0.0
			for i, x := range in.theta {
				z += x * w[i]
				size += math.Abs(x)
			}
			for _, v := range append(vertices(c.a, c.b, c.equality), greedy(c.a, c.b, c.equality, in.theta)) {
				zv := 0.0
				for i, x := range in.theta {
					zv += x * v[i]
				}
				if z > zv+1e-13*size {
					t.Fatalf("%v: cost %v at %v, but %v at %v", c, z, w, zv, v)
				}
			}
			if e := c.capacityError(w); e > c.roundoff() {
				t.Fatalf("%v: %v breaks the capacity by %v, want at most %v", c, w, e, c.roundoff())
			}
		}
	}
}

// The linear rule leaves items of zero or positive cost out of a knapsack, and
// fills a top-k set whatever the signs.
func TestLinearSigns(t *testing.T) {
	theta := []float64{0, 2, 1, math.Copysign(0, -1)}
	if w := solve(t, mustSet([]float64{1, 1, 1, 1}, 3).NewLinear(), theta); !slices.Equal(w, []float64{0, 0, 0, 0}) {
		t.Errorf("knapsack: %v", w)
	}
	if w := solve(t, mustTopK(4, 2.5).NewLinear(), theta); !slices.Equal(w, []float64{1, 0, 0.5, 1}) {
		t.Errorf("top-k: %v", w)
	}
}

func ExampleSet() {
	set, err := New([]float64{2, 3, 4}, 5)
	if err != nil {
		panic(err)
	}
	w := make([]float64, 3)
	// Values 3, 6, 5 to be maximised are costs -3, -6, -5.
	if _, err := set.NewLinear().Solve(w, []float64{-3, -6, -5}); err != nil {
		panic(err)
	}
	fmt.Println(w)
	// Output: [1 1 0]
}
