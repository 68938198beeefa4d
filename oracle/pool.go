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

	// rows are what RunProjections solves at once, and space their vectors.
	rows  []Projection
	space []float64
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

// ProjectBatch solves the rows, together where the polytope's Projector can, with
// the same answers as one after the other.
func (s *Solver) ProjectBatch(rows []Projection) {
	if b, ok := s.Projector.(BatchProjector); ok {
		b.ProjectBatch(rows)
		return
	}
	for i := range rows {
		r := &rows[i]
		if s.Projector == nil {
			r.Info, r.Err = Info{}, ErrNoProjector
			continue
		}
		if r.Info, r.Err = s.Projector.Project(r.Dst, r.Theta, r.Lambda, r.Warm); r.Err == nil && r.V != nil {
			r.Err = s.Projector.JVP(r.JV, r.V)
		}
	}
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

// ProjectionJob is a batch of independent rows that need a projection each. Its
// methods must write only what belongs to row i.
type ProjectionJob interface {
	// Ask says what row i wants projected. r comes with a Dst and a Theta of
	// length Dim to fill, or to replace by vectors of the row's own.
	Ask(s *Solver, i int, r *Projection) error
	// Take uses the answer, which is Optimal.
	Take(s *Solver, i int, r *Projection) error
}

// Pool runs batches over one polytope, fanned over a fixed number of
// goroutines with a Solver each. The results never depend on that number. A
// Pool belongs to one goroutine at a time; a Pool of size 1 runs its jobs
// inline and allocates nothing.
type Pool struct {
	polytope Polytope
	solvers  []*Solver
	// rows is the job of SolveAll and ProjectAll, and chunks that of Run and
	// RunProjections, kept so that they allocate nothing.
	rows   solveRows
	chunks chunkJob
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

const (
	// poolChunk is how many rows a goroutine takes at a time: enough to make the
	// shared counter cheap beside a solve of a few hundred nanoseconds.
	poolChunk = 8
	// poolBatch is the most rows solved together: eight times as many as go side
	// by side, so that few lanes are idle at the end.
	poolBatch = 64
)

// chunkJob is a batch that a Pool takes apart. One of row and projections is
// set.
type chunkJob struct {
	row         Job
	projections ProjectionJob
}

// run runs rows lo to hi-1. It returns the lowest row that failed, with its
// error.
func (c *chunkJob) run(s *Solver, lo, hi int) (at int, err error) {
	if c.projections != nil {
		return s.runProjections(c.projections, lo, hi)
	}
	for i := lo; i < hi; i++ {
		if err := c.row.Row(s, i); err != nil {
			return i, err
		}
	}
	return hi, nil
}

// Run runs rows 0 to n-1 of job. It returns the error of the lowest row that
// failed, with the row's number; rows after it may or may not have run.
func (p *Pool) Run(n int, job Job) error {
	p.chunks = chunkJob{row: job}
	return p.run(n, poolChunk)
}

// RunProjections is Run for rows that need a projection each, which it solves
// many at a time: see BatchProjector. A row that is not Optimal is an error
// (ErrNotSolved), and so is a polytope without a Projector (ErrNoProjector). What
// rows get does not depend on how they are put together.
func (p *Pool) RunProjections(n int, job ProjectionJob) error {
	p.chunks = chunkJob{projections: job}
	share := (n + len(p.solvers) - 1) / len(p.solvers)
	return p.run(n, min(max((share+poolChunk-1)/poolChunk*poolChunk, poolChunk), poolBatch))
}

// runProjections asks for rows lo to hi-1, solves and hands them out.
func (s *Solver) runProjections(job ProjectionJob, lo, hi int) (at int, err error) {
	d := len(s.Scratch[0])
	if need := 2 * d * (hi - lo); len(s.space) < need {
		s.space, s.rows = make([]float64, need), make([]Projection, hi-lo)
	}
	var asked error
	for i := lo; i < hi; i++ {
		r := &s.rows[i-lo]
		v := s.space[2*d*(i-lo):][:2*d]
		*r = Projection{Dst: v[:d:d], Theta: v[d:]}
		if asked = job.Ask(s, i, r); asked != nil {
			hi = i
		}
	}
	rows := s.rows[:hi-lo]
	s.ProjectBatch(rows)
	for k := range rows {
		r := &rows[k]
		if r.Err == nil {
			r.Err = r.Info.Err()
		}
		if r.Err == nil {
			r.Err = job.Take(s, lo+k, r)
		}
		if r.Err != nil {
			return lo + k, r.Err
		}
	}
	return hi, asked
}

// run runs the rows of chunks, so many at a time.
func (p *Pool) run(n, chunk int) error {
	defer func() { p.chunks = chunkJob{} }()
	workers := min(len(p.solvers), (n+chunk-1)/chunk)
	if workers <= 1 {
		for lo := 0; lo < n; lo += chunk {
			if at, err := p.chunks.run(p.solvers[0], lo, min(lo+chunk, n)); err != nil {
				return fmt.Errorf("row %d: %w", at, err)
			}
		}
		return nil
	}
	var (
		next  atomic.Int64
		wg    sync.WaitGroup
		mu    sync.Mutex
		first = n
		fail  error
	)
	for k := range workers {
		wg.Go(func() {
			for {
				lo := int(next.Add(int64(chunk))) - chunk
				if lo >= n {
					return
				}
				if at, err := p.chunks.run(p.solvers[k], lo, min(lo+chunk, n)); err != nil {
					mu.Lock()
					if at < first {
						first, fail = at, err
					}
					mu.Unlock()
					// Lower rows are all taken already; they finish.
					next.Store(int64(n))
					return
				}
			}
		})
	}
	wg.Wait()
	if fail != nil {
		return fmt.Errorf("row %d: %w", first, fail)
	}
	return nil
}

// solveRows is the Job behind SolveAll and the ProjectionJob behind ProjectAll.
type solveRows struct {
	dst, theta []float64
	lambda     float64
	warm       []Warm
	d          int
}

func (j *solveRows) Row(s *Solver, i int) error {
	_, err := s.Minimize(j.dst[i*j.d:(i+1)*j.d], j.theta[i*j.d:(i+1)*j.d])
	return err
}

func (j *solveRows) Ask(_ *Solver, i int, r *Projection) error {
	r.Dst, r.Theta, r.Lambda = j.dst[i*j.d:(i+1)*j.d], j.theta[i*j.d:(i+1)*j.d], j.lambda
	if j.warm != nil {
		r.Warm = &j.warm[i]
	}
	return nil
}

func (j *solveRows) Take(*Solver, int, *Projection) error { return nil }

// SolveAll solves the linear problem for every row of theta [n, Dim] into the
// rows of dst. A row that is not Optimal is an error (ErrNotSolved).
func (p *Pool) SolveAll(dst, theta []float64) error {
	n, err := p.check(dst, theta)
	if err != nil {
		return err
	}
	p.rows = solveRows{dst: dst, theta: theta, d: p.polytope.Dim()}
	defer func() { p.rows = solveRows{} }()
	return p.Run(n, &p.rows)
}

// ProjectAll solves the regularised problem for every row of theta [n, Dim]
// into the rows of dst. warm is nil or has one entry a row. A row that is not
// Optimal is an error (ErrNotSolved).
func (p *Pool) ProjectAll(dst, theta []float64, lambda float64, warm []Warm) error {
	n, err := p.check(dst, theta)
	if err != nil {
		return err
	}
	if warm != nil && len(warm) != n {
		return fmt.Errorf("%d warm starts for %d rows: %w", len(warm), n, ErrDimension)
	}
	p.rows = solveRows{dst: dst, theta: theta, lambda: lambda, warm: warm, d: p.polytope.Dim()}
	defer func() { p.rows = solveRows{} }()
	return p.RunProjections(n, &p.rows)
}

// check returns the number of rows of a batch.
func (p *Pool) check(dst, theta []float64) (n int, err error) {
	d := p.polytope.Dim()
	if n = len(theta) / d; len(theta) != n*d || len(dst) != len(theta) {
		return 0, fmt.Errorf("batch of dst %d and theta %d values, want equal multiples of %d: %w", len(dst), len(theta), d, ErrDimension)
	}
	return n, nil
}
