package qp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/synthetic"
)

// batchOf returns rows over a path: predictions of all qualities, some with warm
// starts, some with derivatives, one with a NaN.
func batchOf(r *rand.Rand, path *Path, n int) []oracle.Projection {
	cfg := path.Grid().Config()
	rows := make([]oracle.Projection, n)
	for i := range rows {
		c := synthetic.Terrain(r, cfg.Height, cfg.Width)
		quality := synthetic.Quality(r.IntN(int(synthetic.Init) + 1))
		if r.IntN(2) == 0 {
			quality = synthetic.Init
		}
		rows[i] = oracle.Projection{
			Dst: make([]float64, path.Dim()), Theta: synthetic.LossPoint(c, synthetic.Predict(r, cfg.Height, cfg.Width, c, quality)),
			Lambda: 0.2 + 3*r.Float64(),
		}
		if r.IntN(2) == 0 {
			rows[i].Warm = new(oracle.Warm)
		}
		if r.IntN(2) == 0 {
			rows[i].V, rows[i].JV = c, make([]float64, path.Dim())
		}
	}
	return rows
}

// A batch has the bits of a loop, whatever its size and what was solved before,
// with and without lanes.
func TestPathBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 0))
	paths := []*Path{
		pathBetween(12, 12, dijkstra.Cell{Row: 0, Col: 3}),
		pathBetween(5, 9, dijkstra.Cell{Row: 4, Col: 0}),
		mustPath(dijkstra.Config{Height: 6, Width: 5, Sink: dijkstra.Cell{Row: 5, Col: 4}, Neighbours: dijkstra.Four}),
		mustPath(dijkstra.Config{Height: 7, Width: 6, Sink: dijkstra.Cell{Row: 6, Col: 5}, Acyclic: true}),
	}
	byInterior := 0
	for k, path := range paths {
		loop, batch := newPathProjector(path), newPathProjector(path)
		for _, n := range []int{1, 2, 3, 7, 8, 9, 30, 64} {
			rows := batchOf(r, path, n)
			if k == 0 && n == 30 {
				rows[17].Theta[3] /= 0 * rows[17].Theta[3]
				rows[18].Lambda = -1
				rows[19].V, rows[19].JV = rows[19].Theta, rows[19].Dst[1:]
			}
			for pass := range 2 { // the second one starts warm
				want := make([]oracle.Projection, n)
				for i, row := range rows {
					w := &want[i]
					w.Dst, w.JV = make([]float64, path.Dim()), make([]float64, path.Dim())
					if row.Warm != nil {
						w.Warm = &oracle.Warm{Words: slices.Clone(row.Warm.Words)}
					}
					w.Info, w.Err = loop.Project(w.Dst, row.Theta, row.Lambda, w.Warm)
					if loop.method == pathByInterior {
						byInterior++
					}
					if w.Err == nil && row.V != nil && len(row.JV) == path.Dim() {
						w.Err = loop.JVP(w.JV, row.V)
					}
				}
				batch.ProjectBatch(rows)
				for i, row := range rows {
					name, w := fmt.Sprintf("path %d, batch of %d, pass %d, row %d", k, n, pass, i), want[i]
					if k == 0 && n == 30 && i >= 17 && i <= 19 {
						if row.Err == nil {
							t.Errorf("%s: no error", name)
						}
						continue
					}
					if row.Err != nil || w.Err != nil || row.Info != w.Info {
						t.Fatalf("%s: %v, %v, want %v, %v", name, row.Info, row.Err, w.Info, w.Err)
					}
					if !slices.Equal(row.Dst, w.Dst) || row.V != nil && !slices.Equal(row.JV, w.JV) {
						t.Fatalf("%s: another answer than a loop's", name)
					}
					if row.Warm != nil && !slices.Equal(row.Warm.Words, w.Warm.Words) {
						t.Fatalf("%s: another warm start than a loop's", name)
					}
				}
			}
		}
	}
	if byInterior < 100 {
		t.Errorf("%d rows by the interior point method test too little", byInterior)
	}
}

func TestPathBatchAllocatesNothing(t *testing.T) {
	path := pathBetween(12, 12, dijkstra.Cell{Row: 0, Col: 3})
	q, rows := newPathProjector(path), batchOf(rand.New(rand.NewPCG(39, 1)), path, 20)
	q.ProjectBatch(rows)
	if n := testing.AllocsPerRun(3, func() { q.ProjectBatch(rows) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkPathBatch reports the time of a projection in batches of 64 where
// all are solved by the interior point method.
func BenchmarkPathBatch(b *testing.B) {
	r := rand.New(rand.NewPCG(40, 0))
	path := pathBetween(12, 12, dijkstra.Cell{Row: 0, Col: 3})
	q := newPathProjector(path)
	const n = 64
	var rows []oracle.Projection
	for range n {
		c := synthetic.Terrain(r, 12, 12)
		rows = append(rows, oracle.Projection{Dst: make([]float64, 144), Theta: synthetic.LossPoint(c, synthetic.Predict(r, 12, 12, c, synthetic.Under)), Lambda: pathNorm(c) / 12})
	}
	for _, how := range []string{"loop", "batch"} {
		b.Run("how="+how, func(b *testing.B) {
			iterations := 0
			stop := startPathClock()
			for b.Loop() {
				if how == "batch" {
					q.ProjectBatch(rows)
				} else {
					for i := range rows {
						r := &rows[i]
						r.Info, r.Err = q.Project(r.Dst, r.Theta, r.Lambda, nil)
					}
				}
				for _, r := range rows {
					iterations += r.Info.Iterations
				}
			}
			used := stop() / float64(b.N) / n
			b.ReportMetric(used, "cpu-ns/row")
			b.ReportMetric(float64(iterations)/float64(b.N)/n, "iterations/row")
			b.ReportMetric(used*float64(b.N)*n/float64(iterations), "cpu-ns/iteration")
		})
	}
}
