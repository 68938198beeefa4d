package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"fedrspo/internal/cli"
	"fedrspo/run"
)

// keysOf decodes a JSON object and returns its keys, sorted.
func keysOf(t *testing.T, text json.RawMessage) []string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	keys := []string{}
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func at(t *testing.T, text json.RawMessage, path ...any) json.RawMessage {
	t.Helper()
	for _, p := range path {
		var err error
		var next json.RawMessage
		switch p := p.(type) {
		case string:
			var m map[string]json.RawMessage
			err = json.Unmarshal(text, &m)
			next = m[p]
		case int:
			var l []json.RawMessage
			if err = json.Unmarshal(text, &l); err == nil {
				next = l[p]
			}
		}
		if err != nil {
			t.Fatalf("%v: %v: %s", path, err, text)
		}
		text = next
	}
	return text
}

// TestJSON fixes the shape of what -json prints, which programs rely on.
func TestJSON(t *testing.T) {
	data := smallData(t)
	wantRun := []string{"complete", "loss", "mean", "metric", "seeds", "steps", "task", "wall_seconds"}
	regret := []string{"absolute_regret", "relative_regret"}
	checkRun := func(t *testing.T, text json.RawMessage, loss string, seeds int, stages map[string]bool) {
		t.Helper()
		if got := keysOf(t, text); !slices.Equal(got, wantRun) {
			t.Errorf("a run has the keys %v, want %v", got, wantRun)
		}
		for key, want := range map[string]string{"task": `"knapsack"`, "metric": `"relative_regret"`, "loss": `"` + loss + `"`, "complete": "true"} {
			if got := string(at(t, text, key)); got != want {
				t.Errorf("%s is %s, want %s", key, got, want)
			}
		}
		check := func(object json.RawMessage, keys []string) {
			t.Helper()
			if got := keysOf(t, object); !slices.Equal(got, keys) {
				t.Errorf("keys %v, want %v", got, keys)
			}
			for stage, there := range stages {
				s := at(t, object, stage)
				if !there {
					if string(s) != "null" {
						t.Errorf("%s is %s, want null", stage, s)
					}
					continue
				}
				if got := keysOf(t, s); !slices.Equal(got, regret) {
					t.Errorf("%s has the keys %v, want %v", stage, got, regret)
				}
			}
		}
		for i := range seeds {
			check(at(t, text, "seeds", i), []string{"fed", "personal", "seed"})
		}
		check(at(t, text, "mean"), []string{"fed", "personal"})
	}
	oneObject := func(t *testing.T, o outcome) json.RawMessage {
		t.Helper()
		dec := json.NewDecoder(strings.NewReader(o.stdout))
		var object json.RawMessage
		if err := dec.Decode(&object); err != nil {
			t.Fatal(err)
		}
		if dec.More() || strings.Count(o.stdout, "\n") != 1 || o.stderr != "" {
			t.Errorf("want one line of JSON and nothing else, got %v", o)
		}
		return object
	}
	both := map[string]bool{"fed": true, "personal": true}
	for _, c := range []struct {
		args   []string
		stages map[string]bool
	}{
		{nil, both},
		{[]string{"-regime", "local"}, map[string]bool{"fed": false, "personal": true}},
		{[]string{"-regime", "centralized"}, map[string]bool{"fed": true, "personal": false}},
	} {
		args := append([]string{"-data", data, "-out", "none", "-json", "-rounds", "2"}, c.args...)
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			checkRun(t, oneObject(t, mustTrain(t, append(args, "-seeds", "1..3")...)), "rspo+", 3, c.stages)
			object := oneObject(t, mustTrain(t, append(args, "-loss", "mse,rspo+")...))
			if got := keysOf(t, object); !slices.Equal(got, []string{"runs", "wall_seconds"}) {
				t.Errorf("several losses give the keys %v", got)
			}
			checkRun(t, at(t, object, "runs", 0), "mse", 1, c.stages)
			checkRun(t, at(t, object, "runs", 1), "rspo+", 1, c.stages)
		})
	}
}

// TestRunFolder: what a run leaves behind, and that the numbers printed are the
// numbers kept.
func TestRunFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "run")
	o := mustTrain(t, "-data", smallData(t), "-loss", "mse,rspo+", "-seeds", "1,2", "-rounds", "2", "-personal-rounds", "3", "-json", "-out", out)
	files := tree(t, out)
	want := []string{run.ConfigFile, run.MetricsFile, run.ResultFile, run.TimingFile, run.VersionFile}
	for _, loss := range []string{"mse", "rspo+"} {
		for _, seed := range []string{"1", "2"} {
			for _, stage := range []string{"fed", "personal"} {
				want = append(want, "models/"+loss+"/seed-"+seed+"/"+stage+".safetensors")
			}
		}
	}
	for _, name := range want {
		if files[name] == "" {
			t.Errorf("%s is missing or empty", name)
		}
	}
	if len(files) != len(want) {
		t.Errorf("%d files, want the %d of %v", len(files), len(want), want)
	}
	var printed struct{ Runs []run.Result }
	if err := json.Unmarshal([]byte(o.stdout), &printed); err != nil {
		t.Fatal(err)
	}
	for i, r := range results(t, out) {
		if p := printed.Runs[i]; p.Loss != r.Loss || p.Steps != r.Steps || *p.Mean.Fed != *r.Mean.Fed || *p.Mean.Personal != *r.Mean.Personal {
			t.Errorf("printed %+v, kept %+v", p, r)
		}
		if !r.Complete || len(r.Seeds) != 2 || len(r.Seeds[0].Fed.Clients) != 3 {
			t.Errorf("incomplete result %+v", r)
		}
	}
	// One line a federated round, and one a round of each client.
	lines := strings.Split(strings.TrimSpace(files[run.MetricsFile]), "\n")
	fed := 0
	for _, line := range lines {
		var m run.Metric
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if m.Client == nil {
			fed++
		}
	}
	if fed != 2*2*2 || len(lines) > 2*2*(2+3*3) || len(lines) < 2*2*2+2*3*3 {
		t.Errorf("%d lines of metrics, %d of them federated", len(lines), fed)
	}
}

func TestOut(t *testing.T) {
	t.Chdir(t.TempDir())
	data := smallData(t)
	args := []string{"-data", data, "-rounds", "1", "-personal-rounds", "1"}
	full := t.TempDir()
	write(t, filepath.Join(full, "precious"), "x")
	checkError(t, program(append(args, "-out", full)...), cli.Failed, full, "not empty")
	write(t, "file", "x")
	checkError(t, program(append(args, "-out", "file")...), cli.Failed, "file")
	checkError(t, program(append(args, "-out", "file/below")...), cli.Failed, "file")
	if got := tree(t, full); len(got) != 1 || got["precious"] != "x" {
		t.Errorf("a refused folder was touched: %v", got)
	}
	// Bad data say so before a folder is made.
	checkError(t, program("-data", "nowhere", "-out", "bad"), cli.Failed, "nowhere")
	if err := os.Remove(filepath.Join(data, "test.csv")); err != nil {
		t.Fatal(err)
	}
	checkError(t, program(append(args, "-out", "bad")...), cli.Failed, "test.csv")
	args[1] = smallData(t)
	mustTrain(t, append(args, "-out", "none")...)
	if got := tree(t, "."); len(got) != 1 {
		t.Errorf("refused runs and -out none left %v", got)
	}
	if _, err := os.Stat("bad"); err == nil {
		t.Error("bad data leave a folder")
	}
	// Without -out, runs/TASK-TIME; two in the same second get two folders.
	for range 2 {
		o := mustTrain(t, args...)
		if !strings.Contains(o.stdout, filepath.Join("runs", "knapsack-")) {
			t.Errorf("the output does not name the folder: %s", o.stdout)
		}
	}
	runs, err := filepath.Glob(filepath.Join("runs", "knapsack-*", run.ResultFile))
	if err != nil || len(runs) != 2 {
		t.Errorf("want two run folders, got %v, %v", runs, err)
	}
	// An empty folder that exists is as good as a new one.
	mustTrain(t, append(args, "-out", t.TempDir())...)
}

func TestTable(t *testing.T) {
	o := mustTrain(t, "-data", smallData(t), "-out", "none", "-loss", "mse,rspo+", "-seeds", "1..12", "-rounds", "1")
	for _, want := range []string{"mse", "rspo+", "Fed", "+P", "relative", "regret %", "clients", "... (12)", "±"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("the table lacks %q:\n%s", want, o.stdout)
		}
	}
	if o.stderr != "" {
		t.Errorf("stderr: %s", o.stderr)
	}
	// A deviation over seeds needs two of them.
	o = mustTrain(t, "-data", smallData(t), "-out", "none", "-regime", "local", "-rounds", "1")
	if strings.Contains(o.stdout, "NaN") || !strings.Contains(o.stdout, "local") {
		t.Errorf("table of one seed:\n%s", o.stdout)
	}
}

// TestTableColumns: a column that says something about some loss is there, and
// has dashes for the others.
func TestTableColumns(t *testing.T) {
	args := []string{"-data", smallData(t), "-out", "none", "-rounds", "2", "-personal-rounds", "2", "-seeds", "1,2"}
	for _, c := range []struct{ args, with, without string }{
		{"", "frozen", "rho|multiplier|validation"},
		{"-loss mse,optnet", "multiplier", "rho"},
		{"-loss spo+ -personalizer interp", "rho|+P, rho 0|by interp", "multiplier"},
		{"-loss rspo+,optnet,spo+ -personalizer interp", "frozen|rho|multiplier|+P, rho 0", "validation"},
		{"-personal-loss mse -personalizer ditto", "by ditto|with mse", "rho |multiplier"},
		{"-loss mse,spo+ -lr tuned", "validation|mse 0.0|spo+ 0.0|0.001: |0.03: ", "rho|multiplier"},
	} {
		o := mustTrain(t, slices.Concat(args, strings.Fields(c.args))...)
		for _, want := range strings.Split(c.with, "|") {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("%s: the table lacks %q:\n%s", c.args, want, o.stdout)
			}
		}
		header := strings.Split(o.stdout, "\n")[3]
		for _, not := range strings.Split(c.without, "|") {
			if strings.Contains(header, not) {
				t.Errorf("%s: the table has %q:\n%s", c.args, not, o.stdout)
			}
		}
		if strings.Contains(o.stdout, "NaN") {
			t.Errorf("%s:\n%s", c.args, o.stdout)
		}
		for line := range strings.Lines(o.stdout[strings.Index(o.stdout, "\n\n"):]) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 110 || strings.HasSuffix(line, " \n") {
				t.Errorf("%s: a line of %d characters: %q", c.args, n, line)
			}
		}
	}
}

// TestSpreads: the deviations over clients and seeds are those of the result.
func TestSpreads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	o := mustTrain(t, "-data", smallData(t), "-loss", "mse", "-rounds", "1", "-seeds", "1,2", "-out", dir)
	var relative, absolute, overClients, absOverClients []float64
	for _, s := range results(t, dir)[0].Seeds {
		var rel, abs []float64
		for _, c := range s.Personal.Clients {
			rel, abs = append(rel, 100*c.Relative), append(abs, c.Absolute)
		}
		m, std := run.MeanStd(rel)
		relative, overClients = append(relative, m), append(overClients, std)
		m, std = run.MeanStd(abs)
		absolute, absOverClients = append(absolute, m), append(absOverClients, std)
	}
	rel, relStd := run.MeanStd(relative)
	abs, absStd := run.MeanStd(absolute)
	spread, _ := run.MeanStd(overClients)
	absSpread, _ := run.MeanStd(absOverClients)
	want := fmt.Sprintf("mse +P %.2f ± %.2f ± %.2f %.4g ± %.3g ± %.3g", rel, relStd, spread, abs, absStd, absSpread)
	if got := strings.Join(strings.Fields(o.stdout), " "); !strings.Contains(got, want) {
		t.Errorf("want the row %s in\n%s", want, o.stdout)
	}
}

// TestStd: of two values, the population's deviation is the sample's over √2.
func TestStd(t *testing.T) {
	deviation := func(std string) float64 {
		o := mustTrain(t, "-data", smallData(t), "-out", "none", "-loss", "mse", "-rounds", "1", "-seeds", "1,2", "-std", std)
		_, text, _ := strings.Cut(o.stdout, "± ")
		var x float64
		if _, err := fmt.Sscan(text, &x); err != nil {
			t.Fatalf("%v:\n%s", err, o.stdout)
		}
		return x
	}
	// Both are printed with two digits.
	if s, p := deviation("sample"), deviation("population"); s < 0.1 || math.Abs(s/math.Sqrt2-p) > 0.011 {
		t.Errorf("deviation %v of the sample, %v of the population", s, p)
	}
}

// TestTuned: the choice of learning rates is in the result, and a scaled rate
// repeats the run without it.
func TestTuned(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-data", smallData(t), "-rounds", "2", "-personal-rounds", "2", "-seeds", "1,2"}
	o := mustTrain(t, append(args, "-lr", "tuned", "-progress", "on", "-out", filepath.Join(dir, "tuned"))...)
	r := results(t, filepath.Join(dir, "tuned"))[0]
	if r.Tuning == nil || len(r.Tuning.Candidates) != 5 || !strings.Contains(o.stderr, "trying") {
		t.Fatalf("tuning %+v, progress %q", r.Tuning, o.stderr)
	}
	if text := read(t, dir, "tuned", run.ConfigFile); !strings.Contains(text, `lr = "tuned"`) {
		t.Errorf("the configuration does not repeat the tuning: %s", text)
	}
	mustTrain(t, append(args, "-lr", fmt.Sprintf("scaled:%v", r.Tuning.Rate), "-out", filepath.Join(dir, "again"))...)
	sameRun(t, filepath.Join(dir, "tuned"), filepath.Join(dir, "again"), run.ConfigFile, run.ResultFile)
	if err := run.SameRegrets(results(t, filepath.Join(dir, "again")), []run.Result{r}); err != nil {
		t.Error(err)
	}
	// Data without validation samples say so in one line.
	data := smallData(t)
	header, _, _ := strings.Cut(read(t, data, "validation.csv"), "\n")
	write(t, filepath.Join(data, "validation.csv"), header+"\n")
	checkError(t, program("-data", data, "-lr", "tuned", "-out", "none"), cli.Failed, "validation samples")
	checkError(t, program("-data", data, "-personalizer", "interp", "-out", "none", "-loss", "mse"), cli.Failed, "validation samples")
}

func TestProgressBar(t *testing.T) {
	args := []string{"-data", smallData(t), "-out", "none", "-rounds", "2"}
	quiet := mustTrain(t, args...)
	if quiet.stderr != "" {
		t.Errorf("a bar on what is no terminal: %q", quiet.stderr)
	}
	loud := mustTrain(t, append(args, "-progress", "on")...)
	if !strings.Contains(loud.stderr, "rspo+") || loud.stdout != quiet.stdout {
		t.Errorf("-progress on: %v", loud)
	}
	if loud := mustTrain(t, append(args, "-progress", "on", "-json")...); !json.Valid([]byte(loud.stdout)) || loud.stderr == "" {
		t.Errorf("-progress on -json: %v", loud)
	}
}

// TestStdoutFails: a full disk or a closed pipe behind standard output is an
// error, whatever is printed.
func TestStdoutFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no full device here: %v", err)
	}
	defer full.Close()
	closed, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	small := []string{"-data", smallData(t), "-rounds", "1"}
	dir := t.TempDir()
	mustTrain(t, append(small, "-out", filepath.Join(dir, "run"))...)
	for name, args := range map[string][]string{
		"table":   append(small, "-out", "none"),
		"folder":  append(small, "-out", filepath.Join(dir, "kept")),
		"json":    append(small, "-out", "none", "-json"),
		"help":    {"-h"},
		"version": {"-version"},
		"export":  {"-export", filepath.Join(dir, "export"), "-seed", "1"},
		"eval":    {"-eval", filepath.Join(dir, "run"), "-out", "none"},
	} {
		for _, w := range []*os.File{full, closed} {
			var stderr bytes.Buffer
			code := command(args, w, &stderr)
			checkError(t, outcome{code: code, stderr: stderr.String()}, cli.Failed, "standard output")
			if name == "folder" {
				break // it holds a run now
			}
		}
	}
	// What was computed is kept all the same.
	if r := results(t, filepath.Join(dir, "kept")); !r[0].Complete {
		t.Error("the run was not kept")
	}
}
