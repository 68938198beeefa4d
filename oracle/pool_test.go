package oracle

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// cell is the box [0, 1]², whose solvers fail on demand: at a first cost of
// 13 they give an error, at 14 they stop short.
type cell struct{ linearOnly bool }

var errUnlucky = errors.New("unlucky")

func (cell) Dim() int                    { return 2 }
func (cell) Radius() float64             { return math.Sqrt2 }
func (cell) Violation([]float64) float64 { return 0 }
func (cell) NewLinear() Linear           { return cellSolver{} }
func (c cell) NewProjector() Projector {
	if c.linearOnly {
		return nil
	}
	return cellSolver{}
}

type cellSolver struct{}

func (cellSolver) Solve(dst, theta []float64) (Info, error) {
	switch theta[0] {
	case 13:
		return Info{}, errUnlucky
	case 14:
		return Info{Status: IterationLimit, Gap: 0.5}, nil
	}
	for i, x := range theta {
		dst[i] = 0
		if x < 0 {
			dst[i] = 1
		}
	}
	return Info{Status: Optimal}, nil
}

func (s cellSolver) Project(dst, theta []float64, lambda float64, warm *Warm) (Info, error) {
	if warm != nil {
		warm.Words = append(warm.Words[:0], math.Float64bits(theta[0]))
	}
	for i, x := range theta {
		dst[i] = min(max(-x/lambda, 0), 1)
	}
	return s.Solve(make([]float64, 2), theta)
}

func (cellSolver) JVP(_, _ []float64) error { return nil }

// rowCounter is a Job that counts its calls by row, fails where told to, and
// sees to it that no solver is in two hands.
type rowCounter struct {
	calls  []atomic.Int32
	fail   func(i int) bool
	shared atomic.Bool
}

func (c *rowCounter) Row(s *Solver, i int) error {
	was := s.Scratch[0][0]
	s.Scratch[0][0] = float64(i)
	c.calls[i].Add(1)
	if s.Scratch[0][0] != float64(i) {
		c.shared.Store(true)
	}
	s.Scratch[0][0] = was
	if c.fail != nil && c.fail(i) {
		return errUnlucky
	}
	return nil
}

func TestRunTakesEveryRowOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 16} {
		for _, n := range []int{0, 1, 7, 8, 9, 100, 1000} {
			c := &rowCounter{calls: make([]atomic.Int32, n)}
			if err := NewPool(cell{}, workers).Run(n, c); err != nil {
				t.Fatal(err)
			}
			for i := range c.calls {
				if k := c.calls[i].Load(); k != 1 {
					t.Fatalf("%d workers, %d rows: row %d ran %d times", workers, n, i, k)
				}
			}
			if c.shared.Load() {
				t.Fatalf("%d workers: two rows at once had the same solver", workers)
			}
		}
	}
}

func TestRunReportsTheLowestFailure(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		for range 50 {
			c := &rowCounter{calls: make([]atomic.Int32, 500), fail: func(i int) bool { return i >= 123 && i%5 == 3 }}
			err := NewPool(cell{}, workers).Run(500, c)
			if !errors.Is(err, errUnlucky) || !strings.HasPrefix(err.Error(), "row 123:") {
				t.Fatalf("%d workers: %v, want row 123", workers, err)
			}
			for i := range 124 {
				if c.calls[i].Load() != 1 {
					t.Fatalf("%d workers: row %d, before the failure, did not run", workers, i)
				}
			}
		}
	}
}

// asker is a ProjectionJob that projects (i, -i) in row i and counts its calls.
// It fails in Ask at row ask, in the solver at row solve and in Take at row take.
type asker struct {
	asked, taken     []atomic.Int32
	ask, solve, take int
}

func (c *asker) Ask(_ *Solver, i int, r *Projection) error {
	c.asked[i].Add(1)
	if i == c.ask {
		return errUnlucky
	}
	r.Theta[0], r.Theta[1], r.Lambda = float64(i), -float64(i), 1000
	if i == 13 || i == 14 { // cell's special costs
		r.Theta[0] += 0.5
	}
	if i == c.solve {
		r.Theta[0] = 13
	}
	return nil
}

func (c *asker) Take(_ *Solver, i int, r *Projection) error {
	c.taken[i].Add(1)
	if want := float64(i) / 1000; i == c.take || r.Dst[1] != min(want, 1) {
		return errUnlucky
	}
	return nil
}

func TestRunProjections(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 16} {
		for _, n := range []int{0, 1, 8, 63, 64, 65, 500} {
			for _, fail := range []asker{
				{ask: -1, solve: -1, take: -1}, {ask: 40, solve: 90, take: 91}, {ask: 41, solve: 40, take: 300}, {ask: 499, solve: 50, take: 45},
			} {
				c := &asker{make([]atomic.Int32, n), make([]atomic.Int32, n), fail.ask, fail.solve, fail.take}
				first := n
				for _, i := range []int{c.ask, c.solve, c.take} {
					if i >= 0 {
						first = min(first, i)
					}
				}
				err := NewPool(projectingCell{}, workers).RunProjections(n, c)
				if (first == n) != (err == nil) || err != nil && (!errors.Is(err, errUnlucky) || !strings.HasPrefix(err.Error(), fmt.Sprintf("row %d:", first))) {
					t.Fatalf("%d workers, %d rows: %v, want row %d to fail", workers, n, err, first)
				}
				for i := range first {
					if c.asked[i].Load() != 1 || c.taken[i].Load() != 1 {
						t.Fatalf("%d workers, %d rows: row %d asked %d and taken %d times", workers, n, i, c.asked[i].Load(), c.taken[i].Load())
					}
				}
			}
		}
	}
}

// projectingCell is cell without the failures of its linear minimiser.
type projectingCell struct{ cell }

func (projectingCell) NewProjector() Projector { return projectingSolver{} }

type projectingSolver struct{ cellSolver }

func (projectingSolver) Project(dst, theta []float64, lambda float64, _ *Warm) (Info, error) {
	if theta[0] == 13 {
		return Info{}, errUnlucky
	}
	for i, x := range theta {
		dst[i] = min(max(-x/lambda, 0), 1)
	}
	return Info{Status: Optimal}, nil
}

func TestPoolWorkers(t *testing.T) {
	if n := NewPool(cell{}, 0).Workers(); n < 1 {
		t.Errorf("%d workers by default", n)
	}
	p := NewPool(cell{}, 3)
	if p.Workers() != 3 || p.Polytope() != (cell{}) || p.Solver() == nil {
		t.Errorf("a pool of 3 has %d workers over %v", p.Workers(), p.Polytope())
	}
	for _, v := range p.Solver().Scratch {
		if len(v) != 2 || cap(v) != 2 {
			t.Errorf("a scratch vector has length %d and capacity %d, want Dim", len(v), cap(v))
		}
	}
}

func TestSolveAllAndProjectAll(t *testing.T) {
	p := NewPool(cell{}, 2)
	theta := []float64{-1, 1, 1, -2, 0, 0}
	dst := make([]float64, 6)
	if err := p.SolveAll(dst, theta); err != nil || !slices.Equal(dst, []float64{1, 0, 0, 1, 0, 0}) {
		t.Errorf("SolveAll: %v, %v", dst, err)
	}
	warm := make([]Warm, 3)
	if err := p.ProjectAll(dst, theta, 4, warm); err != nil || !slices.Equal(dst, []float64{0.25, 0, 0, 0.5, 0, 0}) {
		t.Errorf("ProjectAll: %v, %v", dst, err)
	}
	for i := range warm {
		if !slices.Equal(warm[i].Words, []uint64{math.Float64bits(theta[2*i])}) {
			t.Errorf("row %d has the warm start of another: %v", i, warm[i])
		}
	}
	if err := p.SolveAll(nil, nil); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

func TestBatchErrors(t *testing.T) {
	p := NewPool(cell{}, 1)
	six := make([]float64, 6)
	for name, c := range map[string]struct {
		got, want error
	}{
		"a broken row":              {p.SolveAll(make([]float64, 5), make([]float64, 5)), ErrDimension},
		"dst shorter than theta":    {p.SolveAll(make([]float64, 4), six), ErrDimension},
		"too few warm starts":       {p.ProjectAll(make([]float64, 6), six, 1, make([]Warm, 2)), ErrDimension},
		"an error in a row":         {p.SolveAll(make([]float64, 4), []float64{1, 1, 13, 1}), errUnlucky},
		"a row that stops short":    {p.SolveAll(make([]float64, 4), []float64{1, 1, 14, 1}), ErrNotSolved},
		"a projection that does so": {p.ProjectAll(make([]float64, 4), []float64{1, 1, 14, 1}, 1, nil), ErrNotSolved},
		"no projector":              {NewPool(cell{linearOnly: true}, 2).ProjectAll(make([]float64, 6), six, 1, nil), ErrNoProjector},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func TestMinimizeReturnsTheOptimalValue(t *testing.T) {
	s := NewSolver(cell{})
	dst := make([]float64, 2)
	if z, err := s.Minimize(dst, []float64{-3, 2}); z != -3 || err != nil {
		t.Errorf("Minimize: %v, %v, want -3", z, err)
	}
	if _, err := s.Minimize(dst, []float64{13, 0}); !errors.Is(err, errUnlucky) {
		t.Errorf("Minimize: %v, want its solver's error", err)
	}
}

func TestPoolOfOneAllocatesNothing(t *testing.T) {
	p, q := NewPool(cell{}, 1), NewPool(projectingCell{}, 1)
	c := &rowCounter{calls: make([]atomic.Int32, 100)}
	theta, dst := make([]float64, 200), make([]float64, 200)
	if n := testing.AllocsPerRun(20, func() {
		if p.Run(100, c) != nil || p.SolveAll(dst, theta) != nil || q.ProjectAll(dst, theta, 1, nil) != nil {
			t.Error("failed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
