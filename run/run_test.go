package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"fedrspo/run"
)

func compact(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func stage(relative, absolute float64) *run.StageResult {
	return &run.StageResult{Regret: run.Regret{Relative: relative, Absolute: absolute}}
}

// TestResultJSON pins the documented shape, key by key and in order; a stage
// that does not exist is null and not left out.
func TestResultJSON(t *testing.T) {
	for _, c := range []struct {
		name string
		in   run.Result
		want string
	}{
		{"both stages", run.Result{Task: "knapsack", Loss: "rspo+", Complete: true, Seeds: []run.SeedResult{
			{Seed: 42, Fed: stage(0.5, 2), Personal: stage(0.25, 1)}, {Seed: -7, Fed: stage(0.25, 1), Personal: stage(0.125, 0.5)},
		}}, `{"task": "knapsack", "loss": "rspo+", "complete": true,
			"seeds": [
				{"seed": 42, "fed": {"relative_regret": 0.5, "absolute_regret": 2}, "personal": {"relative_regret": 0.25, "absolute_regret": 1}},
				{"seed": -7, "fed": {"relative_regret": 0.25, "absolute_regret": 1}, "personal": {"relative_regret": 0.125, "absolute_regret": 0.5}}],
			"mean": {"fed": {"relative_regret": 0.375, "absolute_regret": 1.5}, "personal": {"relative_regret": 0.1875, "absolute_regret": 0.75}},
			"steps": 0}`},
		{"no personal stage", run.Result{Task: "knapsack", Loss: "mse", Seeds: []run.SeedResult{{Seed: 1, Fed: stage(0.5, 2)}}},
			`{"task": "knapsack", "loss": "mse", "complete": false,
			"seeds": [{"seed": 1, "fed": {"relative_regret": 0.5, "absolute_regret": 2}, "personal": null}],
			"mean": {"fed": {"relative_regret": 0.5, "absolute_regret": 2}, "personal": null}, "steps": 0}`},
		{"no stage", run.Result{Task: "knapsack", Loss: "mse", Seeds: []run.SeedResult{}},
			`{"task": "knapsack", "loss": "mse", "complete": false, "seeds": [], "mean": {"fed": null, "personal": null}, "steps": 0}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.in.Summarize()
			if got, want := marshal(t, c.in), compact(t, c.want); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}

	// What clients add, and the steps.
	round := 6
	r := run.Result{Task: "knapsack", Loss: "rspo+", Complete: true, Seeds: []run.SeedResult{{Seed: 3, Steps: 11, Personal: run.NewStageResult([]run.ClientResult{
		{Client: 0, Regret: run.Regret{Relative: 0.5, Absolute: 2}, Lambda: 0.25, FrozenAfter: &round},
		{Client: 9, Regret: run.Regret{Relative: 0, Absolute: 0}},
	})}}}
	r.Summarize()
	want := compact(t, `{"task": "knapsack", "loss": "rspo+", "complete": true,
		"seeds": [{"seed": 3, "fed": null, "personal": {"relative_regret": 0.25, "absolute_regret": 1, "clients": [
			{"client": 0, "relative_regret": 0.5, "absolute_regret": 2, "lambda": 0.25, "frozen_after_round": 6},
			{"client": 9, "relative_regret": 0, "absolute_regret": 0}]}, "steps": 11}],
		"mean": {"fed": null, "personal": {"relative_regret": 0.25, "absolute_regret": 1}}, "steps": 11}`)
	if got := marshal(t, r); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSummarize by hand: the mean of each stage over the seeds that have it,
// and the sum of the steps; a second call changes nothing.
func TestSummarize(t *testing.T) {
	r := run.Result{Seeds: []run.SeedResult{
		{Seed: 1, Steps: 10, Fed: stage(0.5, 4), Personal: stage(0.1, 1)},
		{Seed: 2, Steps: 20, Fed: stage(0.25, 2)}, // interrupted
		{Seed: 3, Steps: 5},
	}}
	for range 2 {
		r.Summarize()
		if r.Steps != 35 || *r.Mean.Fed != (run.Regret{Relative: 0.375, Absolute: 3}) || *r.Mean.Personal != (run.Regret{Relative: 0.1, Absolute: 1}) {
			t.Errorf("got %d steps, mean %+v and %+v", r.Steps, r.Mean.Fed, r.Mean.Personal)
		}
	}
	if fed, personal := r.Stages(false), r.Stages(true); len(fed) != 2 || fed[1] != r.Seeds[1].Fed || len(personal) != 1 {
		t.Errorf("stages %v and %v", fed, personal)
	}
}

// TestNewStageResult: the unweighted mean over clients.
func TestNewStageResult(t *testing.T) {
	clients := []run.ClientResult{
		{Client: 1, Regret: run.Regret{Relative: 0.25, Absolute: 8}},
		{Client: 2, Regret: run.Regret{Relative: 0.5, Absolute: 1}},
		{Client: 5, Regret: run.Regret{Relative: 0, Absolute: 0}},
		{Client: 6, Regret: run.Regret{Relative: 0.75, Absolute: 3}},
	}
	if got := run.NewStageResult(clients); got.Relative != 0.375 || got.Absolute != 3 || !reflect.DeepEqual(got.Clients, clients) {
		t.Errorf("got %+v", got)
	}
}

// TestMeanStd: the sample standard deviation, by hand.
func TestMeanStd(t *testing.T) {
	for _, c := range []struct {
		v         []float64
		mean, std float64
	}{
		{[]float64{7}, 7, 0},
		{[]float64{1, 3}, 2, math.Sqrt2},
		{[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, math.Sqrt(32.0 / 7)},
		{[]float64{1e9 + 1, 1e9 + 2, 1e9 + 3}, 1e9 + 2, 1},
	} {
		if mean, std := run.MeanStd(c.v); mean != c.mean || std != c.std {
			t.Errorf("%v: %v ± %v, want %v ± %v", c.v, mean, std, c.mean, c.std)
		}
	}
	if mean, std := run.MeanStd(nil); !math.IsNaN(mean) || !math.IsNaN(std) {
		t.Errorf("of nothing: %v ± %v, want NaN", mean, std)
	}
}

// sample is two losses with two seeds of two clients.
func sample() []run.Result {
	var out []run.Result
	for k, loss := range []string{"mse", "rspo+"} {
		r := run.Result{Task: "knapsack", Loss: loss, Complete: true}
		for _, seed := range []int64{42, 69} {
			x := float64(seed) / 7 * float64(k+1)
			frozen := k
			r.Seeds = append(r.Seeds, run.SeedResult{Seed: seed, Steps: 100,
				Fed: run.NewStageResult([]run.ClientResult{{Client: 1, Regret: run.Regret{Relative: x, Absolute: 2 * x}}, {Client: 2, Regret: run.Regret{Relative: x / 3, Absolute: x}}}),
				Personal: run.NewStageResult([]run.ClientResult{{Client: 1, Regret: run.Regret{Relative: x / 9, Absolute: x / 11}, Lambda: 0.1, FrozenAfter: &frozen},
					{Client: 2, Regret: run.Regret{Relative: 0, Absolute: 0}}})})
		}
		r.Summarize()
		out = append(out, r)
	}
	return out
}

// TestSameRegrets: equal results and selections of them pass; the first
// difference is named, down to the last bit.
func TestSameRegrets(t *testing.T) {
	if err := run.SameRegrets(sample(), sample()); err != nil {
		t.Error(err)
	}
	selection := sample()[1:]
	selection[0].Seeds = selection[0].Seeds[1:]
	if err := run.SameRegrets(selection, sample()); err != nil {
		t.Errorf("a selection: %v", err)
	}
	for _, c := range []struct {
		name   string
		change func(r []run.Result)
		says   string
	}{
		{"loss", func(r []run.Result) { r[1].Loss = "spo+" }, "loss spo+ is missing"},
		{"seed", func(r []run.Result) { r[0].Seeds[1].Seed = 70 }, "loss mse: seed 70 is missing"},
		{"no stage", func(r []run.Result) { r[1].Seeds[0].Fed = nil }, "loss rspo+, seed 42, fed: a stage is missing"},
		{"no client", func(r []run.Result) { s := r[0].Seeds[0].Personal; s.Clients = s.Clients[:1] }, "loss mse, seed 42, personal: 1 clients, want 2"},
		{"other client", func(r []run.Result) { r[0].Seeds[1].Fed.Clients[0].Client = 5 }, "loss mse, seed 69, fed: client 5"},
		{"last bit, relative", func(r []run.Result) {
			c := &r[1].Seeds[1].Fed.Clients[1]
			c.Relative = math.Nextafter(c.Relative, 9)
		}, "loss rspo+, seed 69, fed: client 2"},
		{"last bit, absolute", func(r []run.Result) {
			c := &r[1].Seeds[1].Personal.Clients[0]
			c.Absolute = math.Nextafter(c.Absolute, 9)
		}, "loss rspo+, seed 69, personal: client 1"},
		{"NaN", func(r []run.Result) { r[0].Seeds[0].Fed.Clients[0].Relative = math.NaN() }, "loss mse, seed 42, fed: client 1"},
		{"mean", func(r []run.Result) { r[0].Seeds[0].Fed.Relative *= 2 }, "loss mse, seed 42, fed: mean"},
	} {
		got := sample()
		c.change(got)
		if err := run.SameRegrets(got, sample()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.says)
		}
	}
	for _, c := range []struct {
		name   string
		change func(r []run.Result)
		says   string
	}{
		{"mean over seeds", func(r []run.Result) { r[0].Mean.Fed.Relative *= 2 }, "loss mse: fed: the mean regret over seeds"},
		{"last bit of a mean", func(r []run.Result) {
			m := r[1].Mean.Personal
			m.Absolute = math.Nextafter(m.Absolute, 9)
		}, "loss rspo+: personal: the mean regret over seeds"},
		{"no mean", func(r []run.Result) { r[0].Mean.Personal = nil }, "loss mse: personal: the mean"},
		{"steps", func(r []run.Result) { r[0].Steps++ }, "loss mse: 201 steps"},
	} {
		want := sample()
		c.change(want)
		if err := run.SameRegrets(sample(), want); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.says)
		}
	}
	// Data come before regrets; what is not known is not compared.
	a, b := sample(), sample()
	a[0].Seeds[1].Data, b[0].Seeds[1].Data = strings.Repeat("a", 64), strings.Repeat("b", 64)
	a[0].Seeds[1].Fed.Clients[0].Relative++
	if err := run.SameRegrets(a, b); !errors.Is(err, run.ErrData) || !strings.Contains(err.Error(), "loss mse, seed 69") {
		t.Errorf("other data: %v", err)
	}
	b[0].Seeds[1].Data = ""
	if err := run.SameRegrets(a, b); err == nil || errors.Is(err, run.ErrData) {
		t.Errorf("unknown data: %v", err)
	}
	extra := sample()
	extra[0].Seeds[0].Fed = nil
	if err := run.SameRegrets(sample(), extra); err == nil {
		t.Error("a stage that the result lacks: no error")
	}
}

func create(t *testing.T) *run.Folder {
	t.Helper()
	f, err := run.Create(filepath.Join(t.TempDir(), "runs", "a"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCreate makes folders, takes empty ones and refuses all others, leaving
// them as they are. Of many who ask for one folder at once, one gets it.
func TestCreate(t *testing.T) {
	empty := t.TempDir()
	f, err := run.Create(empty)
	if err != nil {
		t.Fatalf("an empty folder: %v", err)
	}
	contested := filepath.Join(t.TempDir(), "runs", "contested")
	got := make(chan error)
	for range 20 {
		go func() {
			_, err := run.Create(contested)
			got <- err
		}()
	}
	winners := 0
	for range 20 {
		switch err := <-got; {
		case err == nil:
			winners++
		case !errors.Is(err, run.ErrFolder):
			t.Errorf("a contested folder: %v", err)
		}
	}
	if winners != 1 {
		t.Errorf("%d got the contested folder, want 1", winners)
	}
	file := f.Path("some.txt")
	if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Create(f.Path()); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), f.Path()+" is not empty") {
		t.Errorf("a folder in use: got error %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file in it is now %q (error %v)", data, err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if _, err := run.Create(path); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), "some.txt") {
			t.Errorf("%s: got error %v", path, err)
		}
	}
}

func TestCreateUnwritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	if runtime.GOOS == "windows" {
		t.Skip("folders have no permission bits")
	}
	path := t.TempDir()
	if err := os.Chmod(path, 0o555); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(path, "new")} {
		if _, err := run.Create(path); !errors.Is(err, run.ErrFolder) || !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s: got error %v", path, err)
		}
	}
}

func TestOpen(t *testing.T) {
	f := create(t)
	for _, path := range []string{f.Path(), f.Path("nowhere")} {
		if _, err := run.Open(path); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), path+" holds no run") {
			t.Errorf("%s: got error %v", path, err)
		}
	}
	if err := f.Write(run.ConfigFile, func(w io.Writer) error { _, err := io.WriteString(w, "seed = 1\n"); return err }); err != nil {
		t.Fatal(err)
	}
	if g, err := run.Open(f.Path()); err != nil || g.Path("x", "y") != filepath.Join(f.Path(), "x", "y") {
		t.Errorf("got %v, error %v", g, err)
	}
}

// TestWrite: a file below the folder appears whole or not at all.
func TestWrite(t *testing.T) {
	f := create(t)
	name := run.ModelFile("rspo+", -3, "fed")
	if want := filepath.Join("models", "rspo+", "seed--3", "fed.safetensors"); name != want {
		t.Errorf("models go to %s, want %s", name, want)
	}
	stop := errors.New("stop")
	err := f.Write(name, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Errorf("got error %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(f.Path(name))); err != nil || len(entries) > 0 {
		t.Errorf("a failed write leaves %v (error %v)", entries, err)
	}
	if err := f.Write(name, func(w io.Writer) error { _, err := io.WriteString(w, "whole"); return err }); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(f.Path(name)); err != nil || string(data) != "whole" {
		t.Errorf("got %q, error %v", data, err)
	}
	if err := f.WriteJSON(run.TimingFile, run.Timing{WallSeconds: math.NaN()}); err == nil || !strings.Contains(err.Error(), run.TimingFile) {
		t.Errorf("NaN: got error %v", err)
	}
}

// TestResults: what is written is read, bit for bit.
func TestResults(t *testing.T) {
	f := create(t)
	if _, err := f.Results(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: got error %v", err)
	}
	want := sample()
	want[0].Complete, want[0].Seeds[1].Personal = false, nil
	want[0].Summarize()
	if err := f.WriteResults(want); err != nil {
		t.Fatal(err)
	}
	got, err := f.Results()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	whole, err := os.ReadFile(f.Path(run.ResultFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"empty":           "",
		"cut short":       string(whole[:len(whole)/2]),
		"two values":      string(whole) + "{}",
		"not JSON":        "seed = 1",
		"no runs":         "{}",
		"list":            "[]",
		"text for number": strings.Replace(string(whole), `"seed": 42`, `"seed": "42"`, 1),
		"overflow":        strings.Replace(string(whole), `"seed": 42`, `"seed": 1e99`, 1),
	} {
		if err := os.WriteFile(f.Path(run.ResultFile), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Results(); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), f.Path(run.ResultFile)) {
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}
}

// TestAppendMetrics: lines append, each a JSON object with the documented
// keys; what cannot be written leaves the file as it was.
func TestAppendMetrics(t *testing.T) {
	f := create(t)
	client, lambda, freeze := 0, 0.25, 0.0
	lines := []run.Metric{
		{Loss: "mse", Seed: 42, Stage: "federated", Round: 0, Active: []int{1, 4}, TrainLoss: 0.5, Rate: 0.001},
		{Loss: "rspo+", Seed: 42, Stage: "personal", Round: 3, Client: &client, TrainLoss: 0, Lambda: &lambda, Rate: 0.002, Freeze: &freeze},
	}
	want := []string{
		`{"loss":"mse","seed":42,"stage":"federated","round":0,"active":[1,4],"train_loss":0.5,"rate":0.001}`,
		`{"loss":"rspo+","seed":42,"stage":"personal","round":3,"client":0,"train_loss":0,"lambda":0.25,"rate":0.002,"freeze_statistic":0}`,
	}
	check := func(want ...string) {
		t.Helper()
		data, err := os.ReadFile(f.Path(run.MetricsFile))
		if got := string(data); err != nil || got != strings.Join(want, "\n")+"\n" {
			t.Errorf("got %s\nerror %v, want %s", got, err, strings.Join(want, "\n"))
		}
	}
	if err := f.AppendMetrics(lines); err != nil {
		t.Fatal(err)
	}
	check(want...)
	if err := f.AppendMetrics(lines[1:]); err != nil {
		t.Fatal(err)
	}
	if err := f.AppendMetrics(nil); err != nil {
		t.Fatal(err)
	}
	check(want[0], want[1], want[1])
	if err := f.AppendMetrics([]run.Metric{lines[0], {TrainLoss: math.Inf(1)}}); err == nil {
		t.Error("an infinite loss: no error")
	}
	check(want[0], want[1], want[1])
}

func TestBuildVersion(t *testing.T) {
	v := run.BuildVersion("avx2")
	if v.Version == "" || v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH || v.Kernel != "avx2" {
		t.Errorf("got %+v", v)
	}
}
