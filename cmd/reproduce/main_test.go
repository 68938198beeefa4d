package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedrspo/internal/cli"
)

// asProgram tells the test binary to be the program itself, for tests that
// need a process of its own.
const asProgram = "FEDRSPO_TEST_AS_REPRODUCE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a call left.
type outcome struct {
	code           int
	stdout, stderr string
}

func program(args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := command(args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// TestUsage: a mistake in the flags is one clear line and exit code 2; nothing
// is written.
func TestUsage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	for _, c := range []struct{ args, want string }{
		{"", "nothing to do"},
		{"-table 3 more", `unexpected argument "more"`},
		{"-table 99", `unknown table "99"`},
		{"-table 3,,4", `unknown table ""`},
		{"-figure 5", "figure 5"},
		{"-tables 3", "-tables"},
		{"-table 3 -lr fast", "-lr"},
		{"-table 3 -seeds 1..", "seeds"},
		{"-table 3 -seeds 3,3", "twice"},
		{"-table 3 -std both", "-std"},
		{"-table 3 -workers -1", "-workers"},
		{"-table 3 -workers x", "-workers"},
		{"-table 3 -progress maybe", "-progress"},
		{"-table 4 -interp-report all", "-interp-report"},
		{"-table 3 -interp-report local-only", "without table 4"},
		{"-table 3 -qp-lp-global-lambda mean", "without table 17"},
		{"-table 3 -check -quick", "-check"},
		{"-table 3 -check -lr matched", "-check"},
		{"-table 3 -check -seeds 1..19", "-seeds has 19"},
		{"-table 3 -quick -seeds 1", "exclude"},
		{"-bounds -seeds 1..3", "-seeds has no effect"},
		{"-bounds -lr tuned", "-lr has no effect"},
		{"-figure 3 -lr matched", "drop -lr"},
		{"-text -lr tuned", "drop -lr"},
		{"-docs d -table 3", "drop -table"},
		{"-docs d -seeds 50", "drop -seeds"},
		{"-table 3 -program a/../b", "-program"},
		{"-table 3,4 -pjm-data prices.csv", "-pjm-data has no effect without a table about PJM"},
		{"-docs d -pjm-data prices.csv", "drop -pjm-data"},
	} {
		args := append(strings.Fields(c.args), "-out", out)
		o := program(args...)
		lines := strings.Split(strings.TrimSuffix(o.stderr, "\n"), "\n")
		if o.code != cli.Usage || o.stdout != "" || !strings.Contains(lines[0], c.want) || len(lines) != 1 || !strings.HasSuffix(lines[0], " (reproduce -h explains the flags)") {
			t.Errorf("%s: code %d, %q", c.args, o.code, o.stderr)
		}
	}
	if o := program("-table", "3", "-out", ""); o.code != cli.Usage {
		t.Errorf("an empty -out: %+v", o)
	}
	if o := program("-table", "3", "-out", "none", "-program", "x"); o.code != cli.Usage {
		t.Errorf("-program without a folder: %+v", o)
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a mistake in the flags made the folder: %v", err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	o := program("-h")
	for _, want := range []string{"-table list", "-docs folder", "-check", "results", "3, 4, 4-pjm, 5, 6, 9, 11, 12, 13, 14, 15, 16, 16-pjm, 17, 18, or all (those that do not take long: without 6, 11, 12, 15)", "-pjm-data file"} {
		if o.code != cli.OK || !strings.Contains(o.stdout, want) || o.stderr != "" {
			t.Errorf("help lacks %q: %+v", want, o)
		}
	}
	o = program("-version")
	var v struct{ Go string }
	if err := json.Unmarshal([]byte(o.stdout), &v); err != nil || o.code != cli.OK || !strings.HasPrefix(v.Go, "go1.") {
		t.Errorf("version %+v, %v", o, err)
	}
}

// TestTable: a table on standard output and in the folder, with the estimate
// before; the second call takes what is there and prints the same.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-table", "9, 9", "-quick", "-out", dir, "-workers", "2"}
	first := program(args...)
	if first.code != cli.OK || first.stderr != "table 9: 15 runs to do, 2 at a time, about 600ms\n" {
		t.Fatalf("%+v", first)
	}
	if strings.Count(first.stdout, "## Table 9") != 1 || !strings.Contains(first.stdout, "| 9.74 ± 2.73 |") {
		t.Errorf("output %s", first.stdout)
	}
	written, err := os.ReadFile(filepath.Join(dir, "table-9-paper-seed-42", "table.md"))
	if err != nil || string(written) != first.stdout {
		t.Errorf("table.md is not what was printed: %v", err)
	}
	again := program(args...)
	if again.code != cli.OK || again.stdout != first.stdout || again.stderr != "" {
		t.Errorf("again: %+v", again)
	}
	// A damaged result is made again, and only that.
	files, err := filepath.Glob(filepath.Join(dir, "cache", "*", "*.json"))
	if err != nil || len(files) != 15 {
		t.Fatalf("%d kept results, %v", len(files), err)
	}
	if err := os.Truncate(files[3], 100); err != nil {
		t.Fatal(err)
	}
	again = program(append(args, "-progress", "on")...)
	if again.code != cli.OK || again.stdout != first.stdout || !strings.Contains(again.stderr, "table 9: 1 run to do") || !strings.Contains(again.stderr, "14 are there") {
		t.Errorf("after damage: %+v", again)
	}
	// Another build's results, by its name.
	if err := os.Rename(filepath.Dir(files[0]), filepath.Join(dir, "cache", "other")); err != nil {
		t.Fatal(err)
	}
	if o := program(append(args, "-program", "other")...); o.code != cli.OK || o.stdout != first.stdout || o.stderr != "" {
		t.Errorf("results of another build: %+v", o)
	}
}

// TestBounds: theorem 3 on standard output and as CSV.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four models")
	}
	dir := t.TempDir()
	o := program("-bounds", "-check", "-out", dir)
	if o.code != cli.OK || strings.Count(o.stdout, "380 of 380") != 4 {
		t.Errorf("%+v", o)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "bounds", "*.csv")); len(files) != 4 {
		t.Errorf("files %v", files)
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestUnwritable: folders that cannot be used, and an output that cannot be
// written, are one clear error and exit code 1.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	blocked := t.TempDir()
	if err := os.Mkdir(filepath.Join(blocked, "version.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-table", "16", "-quick", "-out", file},
		{"-table", "16", "-quick", "-out", filepath.Join(file, "below")},
		{"-table", "16", "-quick", "-out", blocked},
		{"-docs", file, "-quick", "-out", t.TempDir()},
	} {
		o := program(args...)
		if o.code != cli.Failed || o.stdout != "" || strings.Count(o.stderr, "\n") != 1 || !strings.HasPrefix(o.stderr, "reproduce: ") {
			t.Errorf("%v: %+v", args, o)
		}
	}
	var stderr bytes.Buffer
	if code := command([]string{"-h"}, full{}, &stderr); code != cli.Failed || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("help on a full disk: code %d, %s", code, stderr.String())
	}
}

// TestDifferences: the error of -check counts the differences.
func TestDifferences(t *testing.T) {
	if got := (differences{"a", "b"}).Error(); got != "not as recorded: the 2 differences above" {
		t.Errorf("%q", got)
	}
}
