package knapsack

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// rowTexts are the samples of a split, features and costs, as text.
func rowTexts(s Samples) []string {
	var out []string
	for i := range s.Len() {
		out = append(out, fmt.Sprint(s.X.Row(i), s.C.Row(i)))
	}
	return out
}

// TestHoldOut: floor((1-f) n) training rows stay and the others become the
// validation split, in stored order; nothing else changes.
func TestHoldOut(t *testing.T) {
	d := generate(t, Config{Seed: 1, Clients: 3, Items: 4, Features: 2, Train: 31, Val: 9, Test: 6})
	for _, c := range []struct {
		fraction float64
		stay     [3]int // of 11, 10 and 10
	}{{0.2, [3]int{8, 8, 8}}, {0.3, [3]int{7, 7, 7}}, {0.5, [3]int{5, 5, 5}}, {0.9, [3]int{1, 1, 1}}, {1e-12, [3]int{10, 9, 9}}} {
		h, err := d.HoldOut(c.fraction, 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Validate(); err != nil {
			t.Error(err)
		}
		for k, client := range h.Clients {
			from := d.Clients[k]
			fit, held, all := rowTexts(client.Train), rowTexts(client.Val), rowTexts(from.Train)
			if len(fit) != c.stay[k] || len(fit)+len(held) != len(all) {
				t.Errorf("%v of %d rows: %d stay, %d are held out", c.fraction, len(all), len(fit), len(held))
			}
			var at []int
			for _, part := range [][]string{fit, held} {
				from := len(at)
				for _, row := range part {
					at = append(at, slices.Index(all, row))
				}
				if !slices.IsSorted(at[from:]) {
					t.Errorf("rows are out of order: %v", at)
				}
			}
			slices.Sort(at)
			for i, k := range at {
				if i != k {
					t.Fatalf("the two parts hold the rows %v", at)
				}
			}
			if !slices.Equal(rowTexts(client.Test), rowTexts(from.Test)) || !slices.Equal(client.Weights, from.Weights) || client.Capacity != from.Capacity {
				t.Error("the test split or the feasible set changed")
			}
		}
		if h.Generator != nil || d.Generator == nil || d.Clients[0].Train.Len() != 11 || d.Clients[0].Val.Len() != 3 {
			t.Error("the original changed, or the copy claims to be generated as it is")
		}
	}
}

// TestHoldOutDraw: the seed and the client choose the rows, about evenly.
func TestHoldOutDraw(t *testing.T) {
	d := generate(t, Config{Seed: 1, Clients: 2, Items: 2, Features: 1, Train: 20, Val: None, Test: None})
	draw := func(seed int64) *Dataset {
		h, err := d.HoldOut(0.2, seed)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if a, b := draw(3), draw(3); !slices.Equal(a.Clients[0].Val.X.Data, b.Clients[0].Val.X.Data) {
		t.Error("the same seed draws other rows")
	}
	counts, same := map[string]int{}, 0
	all := [2][]string{rowTexts(d.Clients[0].Train), rowTexts(d.Clients[1].Train)}
	const n = 2000
	for seed := range int64(n) {
		h := draw(seed)
		var at [2][]int
		for k := range at {
			for _, row := range rowTexts(h.Clients[k].Val) {
				at[k] = append(at[k], slices.Index(all[k], row))
			}
		}
		for _, row := range rowTexts(h.Clients[0].Val) {
			counts[row]++
		}
		if slices.Equal(at[0], at[1]) {
			same++
		}
	}
	// Each of 10 rows is among the 2 held out with probability 1/5; five
	// deviations of the binomial distribution.
	for row, c := range counts {
		if math.Abs(float64(c)-n*0.2) > 5*math.Sqrt(n*0.2*0.8) {
			t.Errorf("row %s is held out %d times of %d", row, c, n)
		}
	}
	// Two clients agree with probability 1/45.
	if p := 1. / 45; len(counts) != 10 || math.Abs(float64(same)-n*p) > 5*math.Sqrt(n*p) {
		t.Errorf("%d rows are ever held out; two clients hold out the same ones %d times of %d", len(counts), same, n)
	}
}

// TestHoldOutStandardises: the task's features have mean 0 and deviation 1 over
// the rows that stay.
func TestHoldOutStandardises(t *testing.T) {
	h, err := generate(t, Config{Seed: 2, Clients: 2, Train: 40}).HoldOut(0.2, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range buildTask(t, h).Clients {
		n := c.Train.Len()
		x := make([]float64, c.Train.X.Dim())
		sum, squares := 0.0, 0.0
		for i := range n {
			c.Train.X.Copy(x, i)
			sum += x[0]
			squares += x[0] * x[0]
		}
		if n != 16 || !near(sum, 0, 1e-12) || !near(squares/float64(n-1), 1, 1e-6) {
			t.Errorf("client %d: %d rows, sum %v, variance %v", c.ID, n, sum, squares/float64(n-1))
		}
	}
}

func TestHoldOutErrors(t *testing.T) {
	d := tiny()
	for _, f := range []float64{0, 1, -0.1, 2, math.NaN(), math.Inf(1)} {
		if _, err := d.HoldOut(f, 1); !errors.Is(err, ErrConfig) {
			t.Errorf("fraction %v: %v", f, err)
		}
	}
	d = generate(t, Config{Clients: 2, Items: 2, Features: 1, Train: 3, Val: 2, Test: None})
	if _, err := d.HoldOut(0.2, 1); !errors.Is(err, ErrData) {
		t.Errorf("a client with one row: %v", err)
	}
	// A client that does not train has nothing to hold out.
	d.Clients[1].Train = newSamples(2, 1)
	h, err := d.HoldOut(0.2, 1)
	if err != nil || h.Clients[1].Train.Len() != 0 || h.Clients[1].Val.Len() != 0 || h.Clients[0].Val.Len() != 1 {
		t.Errorf("a client without training rows: %+v, %v", h, err)
	}
}
