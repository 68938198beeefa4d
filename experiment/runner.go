package experiment

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fedrspo/run"
)

// Job is one training run of a table: settings as flags of the train command,
// with one loss, and a seed.
type Job struct {
	// Args are the settings; they name no seed.
	Args []string
	Seed int64
}

// Command is the train command that repeats the job.
func (j Job) Command() string { return j.recipe() + " -seed " + strconv.FormatInt(j.Seed, 10) }

// recipe is Command without the seed.
func (j Job) recipe() string { return "train " + strings.Join(j.Args, " ") }

// setting resolves the job.
func (j Job) setting() (Setting, error) {
	return ParseSettings(append(slices.Clone(j.Args), "-seed", strconv.FormatInt(j.Seed, 10)))
}

// Plan says what a call of Runner.Run is about to do.
type Plan struct {
	// Runs are to be done, Kept are there from before.
	Runs, Kept int
	// Workers is the number of runs at a time.
	Workers int
	// Time is a rough estimate of how long it takes.
	Time time.Duration
}

// Runner runs jobs on all cores, a core each, and keeps every result, so that
// an interrupted table goes on where it stopped. A Runner is for one goroutine.
type Runner struct {
	// Cache is the folder of kept results; nil keeps them in memory only.
	// Results are kept by program and job: another build runs everything again.
	// Several programs may share a folder.
	Cache *run.Folder
	// Program names the build whose kept results are used; empty is this very
	// one, which is the only safe answer after a change that computes anything.
	Program string
	// Workers is the number of jobs at a time; 0 means one per CPU.
	Workers int
	// GlobalLambdaMean measures the federated model's alignment at the mean λ
	// of the clients instead of each client's (table 17).
	GlobalLambdaMean bool
	// Start, unless nil, is told what Run is about to do, before it does it.
	Start func(Plan)
	// Observe, unless nil, is told how many of how many jobs are done, from one
	// goroutine at a time. left is an estimate.
	Observe func(done, total int, left time.Duration)

	// train does a job; nil is Runner.execute.
	train   func(context.Context, Job) (run.SeedResult, error)
	mu      sync.Mutex
	results map[string]kept // by key
}

// Result returns the result of a job that Run has finished; it panics for
// others.
func (r *Runner) Result(j Job) run.SeedResult {
	k, ok := r.results[r.key(j)]
	if !ok {
		panic("experiment: no result of " + j.Command())
	}
	return k.Result
}

// Cost returns the number of different finished jobs among jobs, and the
// seconds of a core they took when they ran.
func (r *Runner) Cost(jobs []Job) (runs int, seconds float64) {
	seen := map[string]bool{}
	for _, j := range jobs {
		key := r.key(j)
		if k, ok := r.results[key]; ok && !seen[key] {
			seen[key] = true
			runs++
			seconds += k.Seconds
		}
	}
	return runs, seconds
}

// Run finishes all jobs. When ctx ends, or a job fails, it stops soon, and what
// is done is kept. A job whose settings are wrong is reported before any starts.
func (r *Runner) Run(ctx context.Context, jobs []Job) error {
	if err := r.open(); err != nil {
		return err
	}
	todo, err := r.missing(jobs)
	if err != nil {
		return err
	}
	slices.SortStableFunc(todo, func(a, b Job) int { return cost(b) - cost(a) }) // long ones first
	total, left := len(todo), 0
	for _, j := range todo {
		left += cost(j)
	}
	workers := r.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	if r.Start != nil {
		different := map[string]bool{}
		for _, j := range jobs {
			different[r.key(j)] = true
		}
		r.Start(Plan{Runs: total, Kept: len(different) - total, Workers: workers,
			Time: time.Duration(float64(left) * float64(costUnit) / float64(workers))})
	}
	start, spent, done := time.Now(), 0, 0
	next := 0
	var fail error
	var wg sync.WaitGroup
	for range min(workers, total) {
		wg.Go(func() {
			for {
				r.mu.Lock()
				if fail != nil || next == total {
					r.mu.Unlock()
					return
				}
				j := todo[next]
				next++
				r.mu.Unlock()
				k, err := r.finish(ctx, j)
				r.mu.Lock()
				if err != nil {
					if fail == nil {
						fail = err
					}
				} else {
					r.results[r.key(j)] = k
					done++
					spent += cost(j)
					left -= cost(j)
					if r.Observe != nil {
						r.Observe(done, total, time.Duration(float64(time.Since(start))*float64(left)/float64(spent)))
					}
				}
				r.mu.Unlock()
			}
		})
	}
	wg.Wait()
	return fail
}

// missing returns the jobs without a result, each once.
func (r *Runner) missing(jobs []Job) ([]Job, error) {
	var todo []Job
	seen, parsed := map[string]bool{}, map[string]bool{}
	for _, j := range jobs {
		k := r.key(j)
		if _, done := r.results[k]; done || seen[k] {
			continue
		}
		seen[k] = true
		if s, ok := r.load(j); ok {
			r.results[k] = s
			continue
		}
		if recipe := j.recipe(); !parsed[recipe] {
			parsed[recipe] = true
			if _, err := j.setting(); err != nil {
				return nil, fmt.Errorf("%s: %w", j.Command(), err)
			}
		}
		todo = append(todo, j)
	}
	return todo, nil
}

// finish does one job and keeps its result.
func (r *Runner) finish(ctx context.Context, j Job) (kept, error) {
	train := r.train
	if train == nil {
		train = r.execute
	}
	start := time.Now()
	result, err := train(ctx, j)
	if err != nil {
		return kept{}, fmt.Errorf("%s: %w", j.Command(), err)
	}
	k := kept{Command: j.Command(), Seconds: time.Since(start).Seconds(), Result: result}
	return k, r.save(j, k)
}

// execute trains the job on one core.
func (r *Runner) execute(ctx context.Context, j Job) (run.SeedResult, error) {
	s, err := j.setting()
	if err != nil {
		return run.SeedResult{}, err
	}
	s.Config.Workers = 1
	s.Config.Alignment, s.Config.AlignmentMeanLambda, s.Config.Validation = s.Kind.Alignment, s.Kind.Alignment && r.GlobalLambdaMean, true
	results, err := s.Run(ctx, nil, nil)
	if err != nil {
		return run.SeedResult{}, err
	}
	return results[0].Seeds[0], nil
}

// costUnit is the unit of cost on a core of 2020: a federated run with SPO+.
const costUnit = 60 * time.Millisecond

// visitsPerUnit is the number of maps that the paper's network trains on in a
// costUnit.
const visitsPerUnit = 12

// cost is a rough measure of a job's time.
func cost(j Job) int {
	has := func(word string) bool { return slices.Contains(j.Args, word) }
	switch {
	case has("warcraft"):
		s, err := j.setting()
		if err != nil {
			return 1 // Run reports it
		}
		return max(1, s.visits()/visitsPerUnit)
	case has("centralized"):
		return 80
	case has("interp"):
		return 40
	case has("pfyl"), has("dpo"):
		return 8
	case has("optnet"):
		return 4
	case has("local"):
		return 3
	}
	return 1
}
