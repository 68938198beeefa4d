package experiment

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fedrspo/run"
)

// tinyArgs are settings of a run that takes milliseconds.
var tinyArgs = []string{"-rounds", "1", "-epochs", "1", "-personal-rounds", "1", "-clients", "2", "-train-samples", "20", "-validation-samples", "4", "-test-samples", "4"}

func tiny(loss string, seed int64) Job {
	return Job{Args: slices.Concat([]string{"-loss", loss}, tinyArgs), Seed: seed}
}

func tempFolder(t *testing.T) *run.Folder {
	t.Helper()
	f, err := run.Reopen(filepath.Join(t.TempDir(), "results"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// counted is a Runner that counts the jobs it trains.
func counted(cache *run.Folder, workers int) (*Runner, *atomic.Int64) {
	n := new(atomic.Int64)
	r := &Runner{Cache: cache, Workers: workers}
	r.train = func(ctx context.Context, j Job) (run.SeedResult, error) {
		n.Add(1)
		return r.execute(ctx, j)
	}
	return r, n
}

// TestRunner: parallel and serial runs give the same results, and those of the
// command; each job runs once, however often it is asked for.
func TestRunner(t *testing.T) {
	jobs := []Job{tiny("rspo+", 1), tiny("mse", 1), tiny("rspo+", 2), tiny("rspo+", 1), tiny("spo+", 2)}
	serial, n := counted(nil, 1)
	if err := serial.Run(context.Background(), jobs); err != nil || n.Load() != 4 {
		t.Fatalf("%d jobs trained, %v", n.Load(), err)
	}
	parallel, n := counted(nil, 3)
	var plan Plan
	parallel.Start = func(p Plan) { plan = p }
	last := 0
	parallel.Observe = func(done, total int, left time.Duration) {
		if done != last+1 || total != 4 || left < 0 || (done == total) != (left == 0) {
			t.Errorf("after %d: %d of %d, %v left", last, done, total, left)
		}
		last = done
	}
	if err := parallel.Run(context.Background(), jobs); err != nil || n.Load() != 4 || last != 4 {
		t.Fatalf("%d jobs trained, %d seen, %v", n.Load(), last, err)
	}
	if plan.Runs != 4 || plan.Kept != 0 || plan.Workers != 3 || plan.Time <= 0 {
		t.Errorf("plan %+v", plan)
	}
	for _, j := range jobs {
		if a, b := serial.Result(j), parallel.Result(j); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: serial %+v, parallel %+v", j.Command(), a, b)
		}
		s, err := ParseSettings(strings.Fields(j.Command())[1:])
		if err != nil {
			t.Fatal(err)
		}
		direct, err := s.Run(context.Background(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := serial.Result(j).Personal.Regret, direct[0].Seeds[0].Personal.Regret; got != want {
			t.Errorf("%s has %v, the command gives %v", j.Command(), got, want)
		}
	}
	if runs, seconds := serial.Cost(jobs); runs != 4 || seconds <= 0 {
		t.Errorf("cost %d runs, %v s", runs, seconds)
	}
	defer func() {
		if recover() == nil {
			t.Error("the result of a job that was not run: no panic")
		}
	}()
	serial.Result(tiny("pfyl", 1))
}

// TestRunnerResumes: kept results are used by the same program for the same
// job, and are bit for bit what a new run gives.
func TestRunnerResumes(t *testing.T) {
	folder := tempFolder(t)
	first, n := counted(folder, 2)
	jobs := []Job{tiny("rspo+", 1), tiny("mse", 1)}
	if err := first.Run(context.Background(), jobs[:1]); err != nil || n.Load() != 1 {
		t.Fatal(n.Load(), err)
	}
	again, n := counted(folder, 2)
	var plan Plan
	again.Start = func(p Plan) { plan = p }
	if err := again.Run(context.Background(), jobs); err != nil || n.Load() != 1 {
		t.Errorf("one of two was kept, but %d were trained (%v)", n.Load(), err)
	}
	if plan.Runs != 1 || plan.Kept != 1 {
		t.Errorf("plan %+v", plan)
	}
	if a, b := first.Result(jobs[0]), again.Result(jobs[0]); !reflect.DeepEqual(a, b) {
		t.Errorf("kept %+v, trained %+v", b, a)
	}
	if _, s := again.Cost(jobs[:1]); s <= 0 {
		t.Error("the cost of a kept job is lost")
	}
	for name, change := range map[string]func(*Runner, *Job){
		"other build":      func(r *Runner, _ *Job) { r.Program = "other" },
		"other arguments":  func(_ *Runner, j *Job) { j.Args = append(slices.Clone(j.Args), "-batch", "3") },
		"other seed":       func(_ *Runner, j *Job) { j.Seed++ },
		"other alignment":  func(r *Runner, _ *Job) { r.GlobalLambdaMean = true },
		"no cache":         func(r *Runner, _ *Job) { r.Cache = nil },
		"nothing (a kept)": func(*Runner, *Job) {},
	} {
		r, n := counted(folder, 1)
		j := jobs[0]
		change(r, &j)
		want := int64(1)
		if strings.HasPrefix(name, "nothing") {
			want = 0
		}
		if err := r.Run(context.Background(), []Job{j}); err != nil || n.Load() != want {
			t.Errorf("%s: %d trained, want %d (%v)", name, n.Load(), want, err)
		}
	}
}

// TestRunnerDamage: a kept result that is not what was written is made again.
func TestRunnerDamage(t *testing.T) {
	folder := tempFolder(t)
	r, _ := counted(folder, 1)
	j, other := tiny("rspo+", 1), tiny("rspo+", 2)
	if err := r.Run(context.Background(), []Job{j, other}); err != nil {
		t.Fatal(err)
	}
	path := folder.Path(r.file(j))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := os.ReadFile(folder.Path(r.file(other)))
	if err != nil {
		t.Fatal(err)
	}
	digit := slices.Clone(good)
	digit[strings.Index(string(good), `"relative_regret": 0.`)+len(`"relative_regret": 0.`)] ^= 1
	cases := map[string][]byte{"empty": {}, "half": good[:len(good)/2], "null": []byte("null"), "another job's": foreign, "a digit": digit}
	rng := rand.New(rand.NewPCG(1, 2))
	zero := slices.Clone(good)
	for k := range zero[len(zero)/2:] {
		zero[len(zero)/2+k] = byte(rng.Uint32())
	}
	cases["noise"] = zero
	for name, data := range cases {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		again, n := counted(folder, 1)
		if err := again.Run(context.Background(), []Job{j}); err != nil || n.Load() != 1 {
			t.Errorf("%s: %d trained, want 1 (%v)", name, n.Load(), err)
		}
		if !reflect.DeepEqual(again.Result(j), r.Result(j)) {
			t.Errorf("%s: another result", name)
		}
	}
}

// TestRunnerShared: two programs work in one folder at once.
func TestRunnerShared(t *testing.T) {
	folder := tempFolder(t)
	jobs := []Job{tiny("rspo+", 1), tiny("rspo+", 2), tiny("mse", 1), tiny("mse", 2)}
	errs := make(chan error, 2)
	runners := make([]*Runner, 2)
	for k := range runners {
		runners[k], _ = counted(folder, 1)
		go func() { errs <- runners[k].Run(context.Background(), jobs) }()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	last, n := counted(folder, 1)
	if err := last.Run(context.Background(), jobs); err != nil || n.Load() != 0 {
		t.Errorf("%d trained after two runners (%v)", n.Load(), err)
	}
	for _, j := range jobs {
		if !reflect.DeepEqual(runners[0].Result(j), last.Result(j)) || !reflect.DeepEqual(runners[1].Result(j), last.Result(j)) {
			t.Errorf("%s: different results", j.Command())
		}
	}
}

// TestRunnerErrors: a job that fails is named by its command, what was finished
// is kept, and wrong settings are found before anything runs.
func TestRunnerErrors(t *testing.T) {
	broken := errors.New("broken")
	folder := tempFolder(t)
	r := &Runner{Cache: folder, Workers: 1}
	var ran []int64
	r.train = func(_ context.Context, j Job) (run.SeedResult, error) {
		if ran = append(ran, j.Seed); j.Seed == 3 {
			return run.SeedResult{}, broken
		}
		return run.SeedResult{Seed: j.Seed, Fed: &run.StageResult{}}, nil
	}
	jobs := []Job{tiny("mse", 1), tiny("mse", 3), tiny("mse", 4)}
	err := r.Run(context.Background(), jobs)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), jobs[1].Command()) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want the job's command", err)
	}
	if !slices.Equal(ran, []int64{1, 3}) {
		t.Errorf("jobs %v ran, want none after the failing one", ran)
	}
	again, n := counted(folder, 1)
	if err := again.Run(context.Background(), jobs[:1]); err != nil || n.Load() != 0 {
		t.Errorf("what was finished is lost: %d trained, %v", n.Load(), err)
	}
	ran = nil
	err = r.Run(context.Background(), []Job{tiny("mse", 9), {Args: []string{"-loss", "mse", "-tau", "0.1"}, Seed: 1}})
	if err == nil || !strings.Contains(err.Error(), "-tau") || ran != nil {
		t.Errorf("a flag without effect: %v, after %v ran", err, ran)
	}
	// A folder that stops taking files.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.Cache, err = run.Reopen(t.TempDir())
	if err == nil {
		err = os.WriteFile(r.Cache.Path("cache"), nil, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(context.Background(), []Job{tiny("mse", 20)}); err == nil {
		t.Error("results cannot be kept: no error")
	}
}

// TestRunnerCancel: what is finished when the context ends is kept.
func TestRunnerCancel(t *testing.T) {
	folder := tempFolder(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, _ := counted(folder, 2)
	r.Observe = func(done, _ int, _ time.Duration) {
		if done == 3 {
			cancel()
		}
	}
	var jobs []Job
	for s := range int64(40) {
		jobs = append(jobs, tiny("rspo+", s+1))
	}
	if err := r.Run(ctx, jobs); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	done := int64(len(r.results))
	if done < 3 || done == 40 {
		t.Fatalf("%d of 40 were finished", done)
	}
	again, n := counted(folder, 2)
	if err := again.Run(context.Background(), jobs); err != nil || n.Load() != 40-done {
		t.Errorf("%d were finished, and %d trained to go on (%v)", done, n.Load(), err)
	}
}

// TestCost: long jobs come first.
func TestCost(t *testing.T) {
	var order []string
	r := &Runner{Workers: 1, train: func(_ context.Context, j Job) (run.SeedResult, error) {
		order = append(order, strings.Join(j.Args, " "))
		return run.SeedResult{}, nil
	}}
	var jobs []Job
	for _, args := range []string{"-loss spo+", "-regime local -loss spo+", "-loss optnet", "-loss dpo", "-loss spo+ -personalizer interp", "-regime centralized -loss spo+"} {
		jobs = append(jobs, Job{Args: strings.Fields(args), Seed: 1})
	}
	if err := r.Run(context.Background(), jobs); err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		if want := strings.Join(j.Args, " "); order[len(order)-1-i] != want {
			t.Errorf("order %q, want the reverse of costs", order)
			break
		}
	}
}
