package experiment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
func (j Job) Command() string {
	return "train " + strings.Join(j.Args, " ") + " -seed " + strconv.FormatInt(j.Seed, 10)
}

// Runner runs jobs on all cores, a core each, and keeps every result, so that
// an interrupted table goes on where it stopped.
type Runner struct {
	// Cache is the folder of kept results; nil keeps them in memory only.
	// Results are keyed by the job and by the program itself: another build
	// runs everything again.
	Cache *run.Folder
	// Workers is the number of jobs at a time; 0 means one per CPU.
	Workers int
	// GlobalLambdaMean measures the federated model's alignment at the mean λ
	// of the clients instead of each client's (table 17).
	GlobalLambdaMean bool
	// Observe, unless nil, is told how many of how many jobs are done, from one
	// goroutine at a time. left is an estimate.
	Observe func(done, total int, left time.Duration)

	mu      sync.Mutex
	results map[string]run.SeedResult
	program string
}

// key identifies a job's result.
func (r *Runner) key(j Job) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s\x00%v\x00%s", r.program, r.GlobalLambdaMean, j.Command())))
	return hex.EncodeToString(sum[:12])
}

// Result returns the result of a job that Run has finished.
func (r *Runner) Result(j Job) run.SeedResult {
	s, ok := r.results[r.key(j)]
	if !ok {
		panic("experiment: no result of " + j.Command())
	}
	return s
}

// Run finishes all jobs. When ctx ends it stops soon, and what is done is kept.
func (r *Runner) Run(ctx context.Context, jobs []Job) error {
	if r.program == "" {
		p, err := programHash()
		if err != nil {
			return err
		}
		r.program, r.results = p, map[string]run.SeedResult{}
	}
	var todo []Job
	seen := map[string]bool{}
	for _, j := range jobs {
		k := r.key(j)
		if _, done := r.results[k]; done || seen[k] {
			continue
		}
		seen[k] = true
		if s, ok := r.load(k); ok {
			r.results[k] = s
			continue
		}
		todo = append(todo, j)
	}
	slices.SortStableFunc(todo, func(a, b Job) int { return cost(b) - cost(a) }) // long ones first
	total, left := len(todo), 0
	for _, j := range todo {
		left += cost(j)
	}
	start, spent, done := time.Now(), 0, 0
	workers := r.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
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
				s, err := r.execute(ctx, j)
				r.mu.Lock()
				if err != nil {
					if fail == nil {
						fail = err
					}
				} else {
					r.results[r.key(j)] = s
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

// execute runs one job on one core and keeps its result.
func (r *Runner) execute(ctx context.Context, j Job) (run.SeedResult, error) {
	s, err := j.setting()
	if err != nil {
		return run.SeedResult{}, fmt.Errorf("%s: %w", j.Command(), err)
	}
	s.Config.Workers = 1
	s.Config.Alignment, s.Config.AlignmentMeanLambda, s.Config.Validation = true, r.GlobalLambdaMean, true
	results, err := s.Run(ctx, nil, nil)
	if err != nil {
		return run.SeedResult{}, fmt.Errorf("%s: %w", j.Command(), err)
	}
	out := results[0].Seeds[0]
	if r.Cache != nil {
		if err := r.Cache.WriteJSON(filepath.Join("cache", r.key(j)+".json"), cached{j.Command(), out}); err != nil {
			return out, err
		}
	}
	return out, nil
}

// setting resolves the job.
func (j Job) setting() (Setting, error) {
	return ParseSettings(append(slices.Clone(j.Args), "-seed", strconv.FormatInt(j.Seed, 10)))
}

// cached is a file of the cache.
type cached struct {
	Command string         `json:"command"`
	Result  run.SeedResult `json:"result"`
}

// load reads a kept result; a missing or damaged one is run again.
func (r *Runner) load(key string) (run.SeedResult, bool) {
	if r.Cache == nil {
		return run.SeedResult{}, false
	}
	data, err := os.ReadFile(r.Cache.Path("cache", key+".json"))
	if err != nil {
		return run.SeedResult{}, false
	}
	var c cached
	if json.Unmarshal(data, &c) != nil || c.Result.Fed == nil && c.Result.Personal == nil {
		return run.SeedResult{}, false
	}
	return c.Result, true
}

// programHash identifies the running program by its content.
func programHash() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// cost is a rough measure of a job's time, in units of a federated run with
// SPO+ (about 0.06 s of a core).
func cost(j Job) int {
	has := func(word string) bool { return slices.Contains(j.Args, word) }
	switch {
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
