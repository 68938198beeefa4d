package oracletest

import (
	"fmt"
	"slices"
	"sync"

	"fedrspo/oracle"
)

// batchRows is the size of the batches: several chunks of a Pool, and no
// multiple of one.
const batchRows = 77

// batch returns random costs, row by row.
func (s *suite) batch() []float64 {
	var theta []float64
	for range batchRows {
		theta = append(theta, s.cost()...)
	}
	return theta
}

// row returns row i of a batch.
func (s *suite) row(batch []float64, i int) []float64 { return batch[i*s.d : (i+1)*s.d] }

// solveAll checks that a Pool of any size gives the bits of a loop.
func (s *suite) solveAll() {
	theta := s.batch()
	want := make([]float64, len(theta))
	l := s.Polytope.NewLinear()
	for i := range batchRows {
		copy(s.row(want, i), s.solve(l, s.row(theta, i)))
	}
	for _, workers := range []int{1, 2, 8} {
		got := make([]float64, len(theta))
		if err := oracle.NewPool(s.Polytope, workers).SolveAll(got, theta); err != nil {
			s.Fatalf("SolveAll with %d workers: %v", workers, err)
		}
		s.same(fmt.Sprintf("SolveAll with %d workers", workers), got, want)
	}
}

// projectAll checks that a Pool of any size gives the bits of a loop, cold and
// warm, and leaves the same warm starts.
func (s *suite) projectAll() {
	theta := s.batch()
	lambda := s.lambda()
	p := s.Polytope.NewProjector()
	cold := make([]float64, len(theta))
	// Two warm passes: the first fills the warm starts, the second uses them.
	warmed := [2][]float64{make([]float64, len(theta)), make([]float64, len(theta))}
	starts := make([]oracle.Warm, batchRows)
	for i := range batchRows {
		x := s.row(theta, i)
		copy(s.row(cold, i), s.project(p, x, lambda, nil))
		for k := range warmed {
			copy(s.row(warmed[k], i), s.project(p, x, lambda, &starts[i]))
		}
	}
	for _, workers := range []int{1, 2, 8} {
		pool := oracle.NewPool(s.Polytope, workers)
		got, warm := make([]float64, len(theta)), make([]oracle.Warm, batchRows)
		if err := pool.ProjectAll(got, theta, lambda, nil); err != nil {
			s.Fatalf("ProjectAll with %d workers: %v", workers, err)
		}
		s.same(fmt.Sprintf("ProjectAll with %d workers", workers), got, cold)
		for k := range warmed {
			if err := pool.ProjectAll(got, theta, lambda, warm); err != nil {
				s.Fatalf("warm ProjectAll with %d workers: %v", workers, err)
			}
			s.same(fmt.Sprintf("warm ProjectAll %d with %d workers", k, workers), got, warmed[k])
		}
		for i := range warm {
			if !slices.Equal(warm[i].Words, starts[i].Words) {
				s.Errorf("ProjectAll with %d workers leaves another warm start at row %d", workers, i)
				break
			}
		}
	}
}

// projectBatch checks that rows solved together have the bits of a loop, their
// derivatives too.
func (s *suite) projectBatch() {
	solver, loop := oracle.NewSolver(s.Polytope), s.Polytope.NewProjector()
	for _, n := range []int{1, 8, 20} {
		rows := make([]oracle.Projection, n)
		for i := range rows {
			rows[i] = oracle.Projection{Dst: make([]float64, s.d), Theta: s.cost(), Lambda: s.lambda()}
			if i%3 > 0 {
				rows[i].V, rows[i].JV = s.normal(), make([]float64, s.d)
			}
		}
		solver.ProjectBatch(rows)
		for i, row := range rows {
			if row.Err != nil || row.Info.Status != oracle.Optimal {
				s.Fatalf("row %d of %d: %v, %v", i, n, row.Info.Status, row.Err)
			}
			s.same(fmt.Sprintf("row %d of %d", i, n), row.Dst, s.project(loop, row.Theta, row.Lambda, nil))
			if row.V != nil {
				s.same(fmt.Sprintf("derivative of row %d of %d", i, n), row.JV, s.differentiate(loop, row.V))
			}
		}
	}
}

// concurrently runs f(0) to f(7) at once.
func concurrently(f func(k int)) {
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() { f(k) })
	}
	wg.Wait()
}

// linearConcurrent checks that goroutines can share the polytope; the race
// detector sees more.
func (s *suite) linearConcurrent() {
	theta := s.cost()
	want := s.solve(s.minimiser, theta)
	got := make([][]float64, 8)
	errs := make([]error, 8)
	concurrently(func(k int) {
		got[k] = make([]float64, s.d)
		l := s.Polytope.NewLinear()
		for range 20 {
			if _, errs[k] = l.Solve(got[k], theta); errs[k] != nil {
				return
			}
			s.Polytope.Violation(got[k])
		}
	})
	s.agreed(got, errs, want)
}

// projectConcurrent is linearConcurrent for projections.
func (s *suite) projectConcurrent() {
	theta, lambda := s.cost(), s.lambda()
	want := s.project(s.Polytope.NewProjector(), theta, lambda, nil)
	got := make([][]float64, 8)
	errs := make([]error, 8)
	concurrently(func(k int) {
		got[k] = make([]float64, s.d)
		p := s.Polytope.NewProjector()
		for range 20 {
			if _, errs[k] = p.Project(got[k], theta, lambda, nil); errs[k] != nil {
				return
			}
		}
	})
	s.agreed(got, errs, want)
}

// agreed checks what the goroutines found.
func (s *suite) agreed(got [][]float64, errs []error, want []float64) {
	s.Helper()
	for k := range got {
		if errs[k] != nil {
			s.Fatalf("a concurrent solver: %v", errs[k])
		}
		s.same("a concurrent solver", got[k], want)
	}
}
