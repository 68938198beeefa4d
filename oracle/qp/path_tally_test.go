package qp

import (
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
)

// TestPathTally: one by one and in batches, projections are counted, and those
// with many pairs of neighbours that pay as hard; pairs are those of a slow
// count, and an acyclic set has none.
func TestPathTally(t *testing.T) {
	for _, acyclic := range []bool{false, true} {
		g, err := dijkstra.NewGrid(dijkstra.Config{Height: 6, Width: 6, Sink: dijkstra.Cell{Row: 5, Col: 5}, Acyclic: acyclic})
		if err != nil {
			t.Fatal(err)
		}
		path, err := NewPath(g)
		if err != nil {
			t.Fatal(err)
		}
		pool := oracle.NewPool(path, 1)
		const n, d = 5, 36
		theta, dst := make([]float64, n*d), make([]float64, n*d)
		var want oracle.Tally
		for i := range n {
			// i cells in a row along the second line pay, far from the endpoints;
			// in the last problem all cells do.
			for v := range d {
				theta[i*d+v] = 3
				if row, col := v/6, v%6; row == 2 && col >= 1 && col <= i || i == n-1 {
					theta[i*d+v] = -1
				}
			}
			want.Projections++
			if acyclic {
				continue
			}
			if i == n-1 {
				want.Pairs, want.Hard = want.Pairs+pathWolfePairs+1, want.Hard+1
			} else {
				want.Pairs += int64(max(0, i-1)) // neighbours among i cells in a row
			}
		}
		for _, batch := range []bool{false, true} {
			if err := pool.ProjectAll(dst, theta, 1, nil); err != nil {
				t.Fatal(err)
			}
			if !batch {
				for i := range n {
					if err := pool.Solver().Regularize(dst[:d], theta[i*d:(i+1)*d], 1, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		three := oracle.Tally{}
		for range 3 {
			three.Add(want)
		}
		if got := pool.Tally(); got != three {
			t.Errorf("acyclic %v: %+v, want %+v", acyclic, got, three)
		}
	}
}
