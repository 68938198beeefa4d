package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"fedrspo/oracle"
	poly "fedrspo/oracle/knapsack"
	"fedrspo/task/knapsack"
)

// TestBounds is theorem 3 of the paper: the loss gap of any two clients is at
// most T + B.
func TestBounds(t *testing.T) {
	small := []string{"-clients", "5", "-train-samples", "60", "-validation-samples", "20", "-test-samples", "20", "-rounds", "3"}
	for _, e := range append(BoundsSettings, [3]float64{1, 1, 1}) {
		b, err := knapsackBounds(context.Background(), eta(e), 3, small...)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Pairs) != 20 || b.Setting != eta(e).String() || b.Seed != 3 {
			t.Errorf("%v: %d pairs, %q, seed %d", e, len(b.Pairs), b.Setting, b.Seed)
		}
		if v := b.Violations(); len(v) > 0 {
			t.Errorf("%v: %d violations, such as %+v", e, len(v), v[0])
		}
		observed := 0.0
		for _, p := range b.Pairs {
			observed = max(observed, p.Observed)
			for _, x := range []float64{p.ObjectiveShift, p.Hausdorff, p.Diameter, p.Observed, p.Bound} {
				if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
					t.Errorf("%v: %+v", e, p)
				}
			}
			// Each axis moves what it should, and nothing else.
			if e[0] == 0 && p.ObjectiveShift > 1e-9 || e[1] == 0 && p.Hausdorff > 1e-9 {
				t.Errorf("%v: objective shift %v, Hausdorff distance %v", e, p.ObjectiveShift, p.Hausdorff)
			}
			if e[0] > 0 && p.ObjectiveShift == 0 {
				t.Errorf("%v: no objective shift", e)
			}
		}
		// Vanishes at homogeneity; features do not enter.
		if like := e[0] == 0 && e[1] == 0; like != (observed < 1e-9) {
			t.Errorf("%v: largest gap %v", e, observed)
		}
	}
}

// TestBoundsOutput: a violation is found, and the rows are what is said.
func TestBoundsOutput(t *testing.T) {
	b := &Bounds{Setting: "(0,1,0)", Seed: 4, Pairs: []Pair{{I: 1, J: 2, Observed: 1, Bound: 2}, {I: 2, J: 1, Observed: 3, Bound: 2}}}
	if d := b.Differs(); len(b.Violations()) != 1 || len(d) != 1 || !strings.Contains(d[0], "clients 2 and 1") {
		t.Errorf("violations %+v, %q", b.Violations(), b.Differs())
	}
	var md bytes.Buffer
	md.WriteString(BoundsHeader)
	if err := b.Markdown(&md); err != nil || !strings.Contains(md.String(), "| 2 | 2 | 1 of 2 |") {
		t.Errorf("%v: %s", err, md.String())
	}
	checkTables(t, md.String())
	folder := tempFolder(t)
	if err := b.Write(folder); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(folder.Path("bounds", "0-1-0.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) != 3 || rows[2][5] != "3" {
		t.Errorf("rows %q, %v", rows, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := KnapsackBounds(ctx, [3]float64{}, 1); err == nil {
		t.Error("interrupted: no error")
	}
}

// TestHausdorffBound: no point of one set is farther from the other set than
// the bound, over a grid of points that holds the corners of the cube; equal
// sets are at distance 0.
func TestHausdorffBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	tight := 0.0
	for range 200 {
		d := 1 + rng.IntN(3)
		clients, sets := make([]knapsack.Client, 2), make([]oracle.Polytope, 2)
		for k := range clients {
			c := knapsack.Client{Capacity: 0.05 + float64(d)*rng.Float64()}
			for range d {
				c.Weights = append(c.Weights, 0.2+rng.Float64())
			}
			set, err := poly.New(c.Weights, c.Capacity)
			if err != nil {
				t.Fatal(err)
			}
			clients[k], sets[k] = c, set
		}
		bound, err := hausdorffBound(clients[0], clients[1], sets[0], sets[1])
		if err != nil {
			t.Fatal(err)
		}
		farthest := 0.0
		for k, from := range clients {
			// The projection of w on the other set is P_1(-w).
			solver := oracle.NewSolver(sets[1-k])
			forGrid(d, 8, func(w []float64) {
				used := 0.0
				for i, x := range w {
					used += x * from.Weights[i]
				}
				if used > from.Capacity {
					for i := range w {
						w[i] *= from.Capacity / used
					}
				}
				theta, p := make([]float64, d), make([]float64, d)
				for i := range w {
					theta[i] = -w[i]
				}
				if err := solver.Regularize(p, theta, 1, nil); err != nil {
					t.Fatal(err)
				}
				farthest = max(farthest, distance(w, p))
			})
		}
		if farthest > bound+1e-9 {
			t.Errorf("%+v: a point is %v away, the bound is %v", clients, farthest, bound)
		}
		if bound > 0 {
			tight = max(tight, farthest/bound)
		}
		if same, err := hausdorffBound(clients[0], clients[0], sets[0], sets[0]); err != nil || same > 1e-9 {
			t.Errorf("a set and itself: %v, %v", same, err)
		}
	}
	// In one dimension the bound is the distance.
	if tight < 0.999 {
		t.Errorf("the bound is never attained: at most %v of it", tight)
	}
}

// forGrid visits the points of a grid of n+1 steps in the unit cube; f may
// change its argument.
func forGrid(d, n int, f func([]float64)) {
	total := 1
	for range d {
		total *= n + 1
	}
	for at := range total {
		w := make([]float64, d)
		for i, rest := 0, at; i < d; i, rest = i+1, rest/(n+1) {
			w[i] = float64(rest%(n+1)) / float64(n)
		}
		f(w)
	}
}
