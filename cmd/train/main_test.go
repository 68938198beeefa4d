package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedrspo/internal/cli"
	"fedrspo/run"
)

// asProgram makes the test binary behave as the program itself, for tests that
// need a process of their own.
const asProgram = "FEDRSPO_TEST_AS_TRAIN"

func TestMain(m *testing.M) {
	reportDefault = "off" // pictures would take most of the tests' time
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a run of the program left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d, stdout:\n%s\nstderr:\n%s", o.code, o.stdout, o.stderr)
}

func program(args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := command(args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// mustTrain fails the test unless the program succeeds.
func mustTrain(t *testing.T, args ...string) outcome {
	t.Helper()
	o := program(args...)
	if o.code != cli.OK {
		t.Fatalf("train %s: %v", strings.Join(args, " "), o)
	}
	return o
}

// checkError checks that the program failed with the exit code and one line
// that says each of want, with the hint that belongs to a usage error.
func checkError(t *testing.T, o outcome, code int, want ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(o.stderr, "\n"), "\n")
	if o.code != code || len(lines) != 1 || !strings.HasPrefix(lines[0], "train: ") || o.stdout != "" {
		t.Errorf("want exit code %d and an error of one line, got %v", code, o)
		return
	}
	if hint := strings.HasSuffix(lines[0], " (train -h explains the flags)"); hint != (code == cli.Usage) {
		t.Errorf("a hint at the flags belongs to mistakes in them: %s", lines[0])
	}
	for _, w := range want {
		if !strings.Contains(lines[0], w) {
			t.Errorf("the error does not say %q: %s", w, lines[0])
		}
	}
	for _, leak := range []string{"map[", "interface {}", "goroutine", "%!"} {
		if strings.Contains(lines[0], leak) {
			t.Errorf("the error shows the program's insides: %s", lines[0])
		}
	}
}

// smallData writes a dataset folder of 3 clients with 4 items, in the format
// the package fedrspo/task/knapsack documents; a run on it takes milliseconds.
func smallData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "dataset.json"), `{"format": "fedrspo-knapsack-1", "name": "small", "items": 4, "features": 2}`)
	write(t, filepath.Join(dir, "clients.csv"), "client,name,capacity,weight_0,weight_1,weight_2,weight_3\n"+
		"1,north,3,1,2,1,1\n2,east,2,1,1,1,1\n5,south,4,2,1,3,1\n")
	r := rand.New(rand.NewPCG(1, 2))
	for _, split := range []struct {
		file string
		rows int
	}{{"train.csv", 30}, {"validation.csv", 6}, {"test.csv", 12}} {
		text := "client,x_0,x_1,c_0,c_1,c_2,c_3\n"
		for i := range split.rows {
			a, b := r.NormFloat64(), r.NormFloat64()
			text += fmt.Sprintf("%d,%g,%g,%g,%g,%g,%g\n", []int{1, 2, 5}[i%3], a, b, -3-a, -3-b, -3+a-b, -2+a*b)
		}
		write(t, filepath.Join(dir, split.file), text)
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tree returns the files below dir by their slash path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = read(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameRun checks that two run folders are equal byte for byte, but for the
// clock values of timing.json and the files named.
func sameRun(t *testing.T, a, b string, but ...string) {
	t.Helper()
	x, y := tree(t, a), tree(t, b)
	for _, name := range append(but, run.TimingFile) {
		delete(x, name)
		delete(y, name)
	}
	if len(x) != len(y) {
		t.Errorf("%d files and %d files", len(x), len(y))
	}
	for name, text := range x {
		if other, ok := y[name]; !ok {
			t.Errorf("%s: only in one of the runs", name)
		} else if text != other {
			t.Errorf("%s differs", name)
		}
	}
	if len(x) < 4 {
		t.Errorf("only %d files to compare", len(x))
	}
}

// results reads a result.json.
func results(t *testing.T, dir string) []run.Result {
	t.Helper()
	var r struct{ Runs []run.Result }
	if err := json.Unmarshal([]byte(read(t, dir, run.ResultFile)), &r); err != nil {
		t.Fatal(err)
	}
	return r.Runs
}

// short makes a run on generated data short.
var short = []string{"-rounds", "2", "-epochs", "1", "-personal-rounds", "2", "-progress", "off"}
