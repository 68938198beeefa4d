package bench

import (
	"errors"
	"math"
	"testing"
	"time"

	"fedrspo/oracle"
)

// Every oracle can be measured, cold and warm, by one worker and two, and its
// answers are certified.
func TestMeasure(t *testing.T) {
	for _, name := range Oracles() {
		for _, warm := range []float64{0, 0.03} {
			for _, workers := range []int{1, 2} {
				p := problemOf(name)
				p.Warm = warm
				results, err := Measure(t.Context(), p, workers, time.Millisecond)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				want := 2
				if name == Dijkstra {
					want = 1
				}
				if len(results) != want || results[0].Operation != "linear" || results[0].Ratio != 1 {
					t.Fatalf("%s: %+v", name, results)
				}
				for _, r := range results {
					positive := min(r.Nanoseconds, r.Best, r.Mean, r.PerSecond, r.Ratio)
					if !(positive > 0) || r.Solves < r.Distinct || r.Distinct < 1 || r.Distinct > p.Instances || r.Best > r.Nanoseconds {
						t.Errorf("%s %s: %+v", name, r.Operation, r)
					}
					// The accuracy of a path's projection; the others are exact.
					if r.Gap > contractGap || r.Violation > contractViolation || r.NotOptimal > 0 {
						t.Errorf("%s %s: gap %v, violation %v, %d not optimal", name, r.Operation, r.Gap, r.Violation, r.NotOptimal)
					}
				}
			}
		}
	}
	if _, err := Measure(t.Context(), problemOf(Path), 0, time.Second); !errors.Is(err, ErrProblem) {
		t.Error(err)
	}
	if _, err := Measure(t.Context(), problemOf(Path), 1, 0); !errors.Is(err, ErrProblem) {
		t.Error(err)
	}
}

// Timed solves give the answers that single ones give, and every chunk starts
// from the same warm starts.
func TestTrackSolves(t *testing.T) {
	p := problemOf(Path)
	p.Warm = 0.1
	w := mustWorkload(t, p)
	track := newTrack(w, 1, true)
	single := make([]oracle.Projector, len(w.sets))
	for k, set := range w.sets {
		single[k] = set.NewProjector()
	}
	dst := make([]float64, w.d)
	for range 2 {
		if err := track.step(); err != nil {
			t.Fatal(err)
		}
		for i := range w.total {
			k := w.client(i)
			info, err := single[k].Project(dst, w.row(w.theta, i), w.lambda[k], &oracle.Warm{Words: append([]uint64(nil), w.starts[i]...)})
			if err != nil || info != track.infos[i] {
				t.Fatalf("row %d: %+v, single %+v, %v", i, track.infos[i], info, err)
			}
		}
	}
	if track.solves != 2*w.total {
		t.Errorf("%d solves, want %d", track.solves, 2*w.total)
	}
}

// The certificate of a projection is 0 but for rounding, and that of another
// point of the set bounds its distance (package comment).
func TestCertificate(t *testing.T) {
	for _, name := range []string{Path, Knapsack, TopK, Polyhedron} {
		w := mustWorkload(t, problemOf(name))
		c := newCertificate(w.d)
		best, other := make([]float64, w.d), make([]float64, w.d)
		for i := range w.total {
			k := w.client(i)
			lambda, theta, exact := w.lambda[k], w.row(w.theta, i), w.sets[k].NewLinear()
			if _, err := w.sets[k].NewProjector().Project(best, theta, lambda, nil); err != nil {
				t.Fatal(err)
			}
			gap, err := c.gap(exact, best, theta, lambda)
			if err != nil || gap > 1e-9 || gap < -1e-12 {
				t.Errorf("%s: gap %v of a projection, %v", name, gap, err)
			}
			if _, err := exact.Solve(other, theta); err != nil {
				t.Fatal(err)
			}
			square := 0.0
			for v := range best {
				square += (best[v] - other[v]) * (best[v] - other[v])
			}
			gap, err = c.gap(exact, other, theta, lambda)
			if err != nil || gap < square/2-1e-9 {
				t.Errorf("%s: gap %v of a point at distance² %v, %v", name, gap, square, err)
			}
		}
	}
}

// A simulated training ends near its final predictions and is measured whole.
func TestTrajectory(t *testing.T) {
	results, err := MeasureTrajectory(t.Context(), 4, 4, 1, time.Microsecond)
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if r.Distinct != r.Instances || math.IsNaN(r.Ratio) {
			t.Errorf("%d of %d instances measured, ratio %v", r.Distinct, r.Instances, r.Ratio)
		}
	}
}
