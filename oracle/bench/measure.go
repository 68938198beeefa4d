package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"fedrspo/oracle"
)

const (
	// turn is how long one solver runs before the other: long against a warm-up
	// of the caches, short against changes of the machine's load.
	turn = 2 * time.Millisecond
	// chunkRows is how many solves are timed together at least, so that reading
	// the clock costs nothing.
	chunkRows = 64
	// chunkNumbers is the same for short vectors, in entries.
	chunkNumbers = 8192
	// certified is how many answers of a measurement are certified.
	certified = 256
)

// Result is what one measurement found.
type Result struct {
	Problem
	// Training says that the instances are those of MeasureTrajectory.
	Training bool `json:"training,omitempty"`
	// Operation is "linear" or "project".
	Operation string `json:"operation"`
	Workers   int    `json:"workers"`
	// Clock is "processor" for times of one worker where the system tells them,
	// else "wall".
	Clock string `json:"clock"`
	// Nanoseconds is the time of a solve, with all workers together, in the
	// median run of every chunk by processor time, in the fastest by wall time;
	// Best is that of the fastest in any case, Mean that over all runs, whatever
	// else the machine did.
	Nanoseconds float64 `json:"ns_per_solve"`
	Best        float64 `json:"best_ns_per_solve"`
	Mean        float64 `json:"mean_ns_per_solve"`
	// PerSecond is 1e9/Nanoseconds.
	PerSecond float64 `json:"solves_per_second"`
	// Ratio is Nanoseconds over that of the linear minimiser with as many
	// workers in the same run; 1 for the linear minimiser.
	Ratio float64 `json:"ratio_to_linear"`
	// Iterations is the mean of the solver's own count.
	Iterations float64 `json:"iterations"`
	// Solves counts the timed ones, Distinct the instances among them.
	Solves   int `json:"solves"`
	Distinct int `json:"distinct"`
	// Gap is the largest certificate among a sample of answers, Violation how
	// far they leave the set.
	Gap       float64 `json:"gap"`
	Violation float64 `json:"violation"`
	// NotOptimal counts answers of the sample without the Status Optimal.
	NotOptimal int `json:"not_optimal"`
	// Interior is the share of projections onto a path polytope that the
	// interior point method did.
	Interior float64 `json:"interior_share,omitempty"`
}

// Measure times the linear minimiser of p and, except for Dijkstra, its
// projection, for the given duration each. It returns a Result for both, the
// linear one first. When ctx ends it returns its error at once.
func Measure(ctx context.Context, p Problem, workers int, duration time.Duration) ([]Result, error) {
	w, err := newWorkload(ctx, p)
	if err != nil {
		return nil, err
	}
	return w.measure(ctx, workers, duration)
}

func (w *workload) measure(ctx context.Context, workers int, duration time.Duration) ([]Result, error) {
	if workers < 1 || workers > 1024 {
		return nil, fmt.Errorf("%d workers, want 1 to 1024: %w", workers, ErrProblem)
	}
	if duration <= 0 {
		return nil, fmt.Errorf("duration %v, want more than 0: %w", duration, ErrProblem)
	}
	tracks := []*track{newTrack(w, workers, false)}
	if w.problem.Oracle != Dijkstra {
		tracks = append(tracks, newTrack(w, workers, true))
	}
	runtime.GC()
	runtime.LockOSThread() // of the clock
	defer runtime.UnlockOSThread()
	if err := interleave(ctx, tracks, duration, w.ordered); err != nil {
		return nil, err
	}
	var out []Result
	for _, t := range tracks {
		r := t.result()
		if err := w.certify(ctx, &r, t.project); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	for k := range out {
		out[k].Ratio = out[k].Nanoseconds / out[0].Nanoseconds
	}
	return out, nil
}

// interleave runs the tracks in turns until each has run for the duration and,
// if whole, through all instances.
func interleave(ctx context.Context, tracks []*track, duration time.Duration, whole bool) error {
	over := func(t *track) bool { return t.spent >= duration && (!whole || t.solves >= t.total) }
	for {
		least := tracks[0]
		for _, t := range tracks {
			if t.spent < least.spent {
				least = t
			}
		}
		if over(least) {
			if !slices.ContainsFunc(tracks, func(t *track) bool { return !over(t) }) {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		for until := least.spent + turn; least.spent < until; {
			if err := least.step(); err != nil {
				return err
			}
		}
	}
}

// track is one operation on a workload under measurement. It goes through the
// instances chunk by chunk, again and again.
type track struct {
	*workload
	project bool
	workers int
	clock   clock
	pools   []*oracle.Pool // by client
	dst     []float64      // [batch, d]
	infos   []oracle.Info  // by row
	warm    []oracle.Warm  // by row of a chunk
	// rows is the size of a chunk, a multiple of the batch.
	rows int
	base int // the batch under way
	from int // the chunk under way

	times [][]time.Duration // by chunk, in the order of its runs
	next  int
	spent time.Duration
	// solves counts rows.
	solves int
}

func newTrack(w *workload, workers int, project bool) *track {
	batch := w.problem.Batch
	rows := (max(chunkRows, chunkNumbers/w.d) + batch - 1) / batch * batch
	rows = min(rows, w.total)
	t := &track{
		workload: w, project: project, workers: workers, clock: newClock(workers), rows: rows,
		dst: make([]float64, batch*w.d), infos: make([]oracle.Info, w.total),
		times: make([][]time.Duration, (w.total+rows-1)/rows),
	}
	sets := w.linear
	if project {
		sets = w.sets
		if w.starts != nil {
			t.warm = make([]oracle.Warm, rows)
		}
	}
	for _, set := range sets {
		t.pools = append(t.pools, oracle.NewPool(set, workers))
	}
	return t
}

// Row solves the linear problem of row i of the batch under way.
func (t *track) Row(s *oracle.Solver, i int) (err error) {
	row := t.base + i
	t.infos[row], err = s.Linear.Solve(t.dst[i*t.d:(i+1)*t.d], t.row(t.costs, row))
	return err
}

// Ask says what is projected of row i of the batch under way.
func (t *track) Ask(_ *oracle.Solver, i int, r *oracle.Projection) error {
	row := t.base + i
	r.Dst, r.Theta, r.Lambda = t.dst[i*t.d:(i+1)*t.d], t.row(t.theta, row), t.lambda[t.client(row)]
	if t.warm != nil {
		r.Warm = &t.warm[row-t.from]
	}
	return nil
}

// Take keeps what the solver said.
func (t *track) Take(_ *oracle.Solver, i int, r *oracle.Projection) error {
	t.infos[t.base+i] = r.Info
	return nil
}

// batch runs the batch under way.
func (t *track) batch() error {
	pool := t.pools[t.client(t.base)]
	if t.project {
		return pool.RunProjections(t.problem.Batch, t)
	}
	return pool.Run(t.problem.Batch, t)
}

// step runs the next chunk.
func (t *track) step() error {
	t.from = t.next * t.rows
	to := min(t.from+t.rows, t.total)
	// Every run starts from the same warm starts.
	for i := range t.warm {
		if t.from+i < to {
			t.warm[i].Words = append(t.warm[i].Words[:0], t.starts[t.from+i]...)
		}
	}
	start := t.clock.now()
	for t.base = t.from; t.base < to; t.base += t.problem.Batch {
		if err := t.batch(); err != nil {
			return err
		}
	}
	elapsed := max(t.clock.now()-start, 1)
	t.spent += elapsed
	t.solves += to - t.from
	t.times[t.next] = append(t.times[t.next], elapsed)
	t.next = (t.next + 1) % len(t.times)
	return nil
}

func (t *track) result() Result {
	r := Result{Problem: t.problem, Training: t.ordered, Operation: "linear", Workers: t.workers, Clock: t.clock.name(), Solves: t.solves}
	if t.project {
		r.Operation = "project"
	}
	var median, best time.Duration
	for k, times := range t.times {
		if len(times) == 0 {
			break
		}
		slices.Sort(times)
		median += times[len(times)/2]
		best += times[0]
		for row := k * t.rows; row < min((k+1)*t.rows, t.total); row++ {
			r.Distinct++
			r.Iterations += float64(t.infos[row].Iterations)
		}
	}
	r.Iterations /= float64(r.Distinct)
	r.Best = float64(best.Nanoseconds()) / float64(r.Distinct)
	r.Nanoseconds = r.Best
	if t.clock.byThread {
		r.Nanoseconds = float64(median.Nanoseconds()) / float64(r.Distinct)
	}
	r.Mean = float64(t.spent.Nanoseconds()) / float64(t.solves)
	r.PerSecond = 1e9 / r.Nanoseconds
	return r
}

// certify solves a sample of the instances again and checks the answers.
func (w *workload) certify(ctx context.Context, r *Result, project bool) error {
	solvers := make([]*oracle.Solver, len(w.sets))
	exact := make([]oracle.Linear, len(w.sets))
	for k := range solvers {
		set := w.linear[k]
		if project {
			set = w.sets[k]
		}
		solvers[k], exact[k] = oracle.NewSolver(set), w.sets[k].NewLinear()
	}
	n := min(certified, w.total)
	dst, scratch := make([]float64, w.d), newCertificate(w.d)
	interior := 0
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		row := i * w.total / n
		k := w.client(row)
		var (
			info  oracle.Info
			gap   float64
			err   error
			warm  oracle.Warm
			theta = w.row(w.costs, row)
		)
		if project {
			theta = w.row(w.theta, row)
			if w.starts != nil {
				warm.Words = append(warm.Words, w.starts[row]...)
			}
			info, err = solvers[k].Projector.Project(dst, theta, w.lambda[k], &warm)
			if err == nil {
				gap, err = scratch.gap(exact[k], dst, theta, w.lambda[k])
			}
			if w.problem.Oracle == Path && len(warm.Words) == 0 {
				interior++
			}
		} else {
			info, err = solvers[k].Linear.Solve(dst, theta)
			if err == nil {
				gap, err = scratch.gap(exact[k], dst, theta, 0)
			}
		}
		if err != nil {
			return fmt.Errorf("instance %d: %w", row, err)
		}
		if info.Status != oracle.Optimal {
			r.NotOptimal++
		}
		r.Gap = math.Max(r.Gap, gap)
		r.Violation = math.Max(r.Violation, w.sets[k].Violation(dst))
	}
	r.Interior = float64(interior) / float64(n)
	return nil
}

// certificate computes gaps of answers.
type certificate struct{ g, vertex []float64 }

func newCertificate(d int) *certificate {
	return &certificate{make([]float64, d), make([]float64, d)}
}

// gap returns the duality gap of w as the projection of -theta/lambda, in units
// of that point, or of w as a minimiser of theta.w if lambda is 0.
func (c *certificate) gap(exact oracle.Linear, w, theta []float64, lambda float64) (float64, error) {
	for v := range c.g {
		c.g[v] = theta[v]
		if lambda > 0 {
			c.g[v] = w[v] + theta[v]/lambda
		}
	}
	if _, err := exact.Solve(c.vertex, c.g); err != nil {
		return 0, err
	}
	// The differences first: both products are large.
	gap := 0.0
	for v, g := range c.g {
		gap += g * (w[v] - c.vertex[v])
	}
	return gap, nil
}
