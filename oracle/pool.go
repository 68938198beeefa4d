package oracle

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Solver is what one goroutine of a Pool owns: a linear minimiser and a
// projection solver over the same polytope (nil where it has none), and, for
// the job's own use, Scratch, three vectors of length Dim, and Memo, whatever a
// job wants to find again in its next row. Results must not depend on Memo.
type Solver struct {
	Linear    Linear
	Projector Projector
	Scratch   [3][]float64
	Memo      any
}

// Minimize solves the linear problem and returns its optimal value. A solve
// that is not Optimal is an error (ErrNotSolved).
func (s *Solver) Minimize(dst, theta []float64) (float64, error) {
	info, err := s.Linear.Solve(dst, theta)
	if err == nil {
		err = info.Err()
	}
	if err != nil {
		return 0, err
	}
	z := 0.0
	for k, w := range dst {
		z += theta[k] * w
	}
	return z, nil
}

// Regularize solves the regularised problem. A solve that is not Optimal is an
// error (ErrNotSolved), and so is a polytope without a Projector
// (ErrNoProjector).
func (s *Solver) Regularize(dst, theta []float64, lambda float64, warm *Warm) error {
	if s.Projector == nil {
		return ErrNoProjector
	}
	info, err := s.Projector.Project(dst, theta, lambda, warm)
	if err != nil {
		return err
	}
	return info.Err()
}

// NewSolver returns a Solver over p.
func NewSolver(p Polytope) *Solver {
	s := &Solver{Linear: p.NewLinear(), Projector: p.NewProjector()}
	buf := make([]float64, len(s.Scratch)*p.Dim())
	for k := range s.Scratch {
		s.Scratch[k] = buf[k*p.Dim() : (k+1)*p.Dim() : (k+1)*p.Dim()]
	}
	return s
}

// Job is a batch of independent rows. Row solves row i with a solver that no
// other goroutine uses meanwhile. It must write only what belongs to row i, so
// that results do not depend on the order in which rows are taken.
type Job interface {
	Row(s *Solver, i int) error
}

// Pool runs batches over one polytope, fanned over a fixed number of
// goroutines with a Solver each. The results never depend on that number. A
// Pool belongs to one goroutine at a time; a Pool of size 1 runs its jobs
// inline and allocates nothing.
type Pool struct {
	polytope Polytope
	solvers  []*Solver
	// rows is the job of SolveAll and ProjectAll, kept so that they allocate
	// nothing.
	rows solveRows
}

// NewPool returns a Pool over p with the given number of workers; 0 means one
// per CPU that Go may use.
func NewPool(p Polytope, workers int) *Pool {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	pool := &Pool{polytope: p, solvers: make([]*Solver, workers)}
	for k := range pool.solvers {
		pool.solvers[k] = NewSolver(p)
	}
	return pool
}

// Polytope returns the set the pool solves over.
func (p *Pool) Polytope() Polytope { return p.polytope }

// Workers returns the number of goroutines the pool uses.
func (p *Pool) Workers() int { return len(p.solvers) }

// Solver returns the pool's first solver, for single solves between runs.
func (p *Pool) Solver() *Solver { return p.solvers[0] }

// poolChunk is how many rows a goroutine takes at a time: enough to make the
// shared counter cheap beside a solve of a few hundred nanoseconds.
const poolChunk = 8

// Run runs rows 0 to n-1 of job. It returns the error of the lowest row that
// failed, with the row's number; rows after it may or may not have run.
func (p *Pool) Run(n int, job Job) error {
	workers := min(len(p.solvers), (n+poolChunk-1)/poolChunk)
	if workers <= 1 {
		for i := range n {
			if err := job.Row(p.solvers[0], i); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
		return nil
	}
	var (
		next atomic.Int64
		wg   sync.WaitGroup
		mu   sync.Mutex
		at   = n
		fail error
	)
	for k := range workers {
		wg.Go(func() {
			for {
				lo := int(next.Add(poolChunk)) - poolChunk
				if lo >= n {
					return
				}
				for i := lo; i < min(lo+poolChunk, n); i++ {
					if err := job.Row(p.solvers[k], i); err != nil {
						mu.Lock()
						if i < at {
							at, fail = i, err
						}
						mu.Unlock()
						// Lower rows are all taken already; they finish.
						next.Store(int64(n))
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if fail != nil {
		return fmt.Errorf("row %d: %w", at, fail)
	}
	return nil
}

// solveRows is the Job behind SolveAll and ProjectAll.
type solveRows struct {
	dst, theta []float64
	lambda     float64
	warm       []Warm
	d          int
	project    bool
}

func (j *solveRows) Row(s *Solver, i int) error {
	dst, theta := j.dst[i*j.d:(i+1)*j.d], j.theta[i*j.d:(i+1)*j.d]
	if !j.project {
		_, err := s.Minimize(dst, theta)
		return err
	}
	var warm *Warm
	if j.warm != nil {
		warm = &j.warm[i]
	}
	return s.Regularize(dst, theta, j.lambda, warm)
}

// SolveAll solves the linear problem for every row of theta [n, Dim] into the
// rows of dst. A row that is not Optimal is an error (ErrNotSolved).
func (p *Pool) SolveAll(dst, theta []float64) error {
	return p.all(solveRows{dst: dst, theta: theta})
}

// ProjectAll solves the regularised problem for every row of theta [n, Dim]
// into the rows of dst. warm is nil or has one entry a row. A row that is not
// Optimal is an error (ErrNotSolved).
func (p *Pool) ProjectAll(dst, theta []float64, lambda float64, warm []Warm) error {
	return p.all(solveRows{dst: dst, theta: theta, lambda: lambda, warm: warm, project: true})
}

func (p *Pool) all(j solveRows) error {
	j.d = p.polytope.Dim()
	n := len(j.theta) / j.d
	if len(j.theta) != n*j.d || len(j.dst) != len(j.theta) {
		return fmt.Errorf("batch of dst %d and theta %d values, want equal multiples of %d: %w", len(j.dst), len(j.theta), j.d, ErrDimension)
	}
	if j.warm != nil && len(j.warm) != n {
		return fmt.Errorf("%d warm starts for %d rows: %w", len(j.warm), n, ErrDimension)
	}
	p.rows = j
	defer func() { p.rows = solveRows{} }()
	return p.Run(n, &p.rows)
}
