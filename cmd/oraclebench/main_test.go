package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedrspo/internal/cli"
	"fedrspo/oracle/bench"
)

// runs the command and returns its exit code and output.
func runs(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = command(args, &out, &err)
	return code, out.String(), err.String()
}

// small makes a measurement that takes no time.
var small = []string{"-duration", "1us", "-instances", "16", "-batch", "4"}

func TestTable(t *testing.T) {
	code, out, stderr := runs(append(small, "-grid", "5x4", "-dim", "8", "-workers", "1,2", "-warm", "0,3")...)
	if code != cli.OK || stderr != "" {
		t.Fatal(code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	// For both numbers of workers two shortest paths, and two rows a setting:
	// path and polyhedron with two lambdas, cold and warm, the others cold.
	if want := 2 + 1 + 2*(2+2*(2*2*2+2*2)); len(lines) != want {
		t.Errorf("%d lines, want %d:\n%s", len(lines), want, out)
	}
	for _, word := range []string{"cores", "kernels", "commit", "paper's ties", "calibrated", "5x4"} {
		if !strings.Contains(out, word) {
			t.Errorf("the table lacks %q:\n%s", word, out)
		}
	}
}

func TestJSON(t *testing.T) {
	code, out, stderr := runs(append(small, "-oracle", "knapsack", "-lambda", "2", "-json")...)
	var r struct {
		Results []struct {
			Oracle string
			Lambda string
			Ratio  float64 `json:"ratio_to_linear"`
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != cli.OK {
		t.Fatal(code, stderr, err)
	}
	if len(r.Results) != 2 || r.Results[1].Lambda != "2" || r.Results[1].Oracle != "knapsack" || !(r.Results[1].Ratio > 0) {
		t.Errorf("%+v", r)
	}
}

func TestContract(t *testing.T) {
	code, out, stderr := runs("-contract", "30", "-grid", "6")
	if code != cli.OK || !strings.Contains(out, "All answers are within the contract.") {
		t.Error(code, out, stderr)
	}
}

func TestExport(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.npz")
	args := []string{"-duration", "1us", "-instances", "64", "-oracle", "topk", "-rows", "3", "-export"}
	if code, _, stderr := runs(append(args, name)...); code != cli.OK {
		t.Fatal(code, stderr)
	}
	if info, err := os.Stat(name); err != nil || info.Size() == 0 {
		t.Error(info, err)
	}
	// A file is replaced whole; what is no file, such as a device, stays.
	if code, _, stderr := runs(append(args, name)...); code != cli.OK {
		t.Fatal(code, stderr)
	}
	folder := t.TempDir()
	if code, _, stderr := runs(append(args, folder)...); code != cli.Failed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "not a regular file") {
		t.Error(code, stderr)
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		t.Error(info, err)
	}
	missing := filepath.Join(t.TempDir(), "no", "x.npz")
	if code, _, stderr := runs(append(args, missing)...); code != cli.Failed || strings.Count(stderr, "\n") != 1 {
		t.Error(code, stderr)
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// The help describes every flag.
func TestHelp(t *testing.T) {
	code, out, _ := runs("-h")
	o, err := parse(nil)
	if code != cli.OK || err != nil {
		t.Fatal(code, err)
	}
	o.fs.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(out, "\n  -"+f.Name) {
			t.Errorf("-%s is not described", f.Name)
		}
	})
	for _, line := range strings.Split(out, "\n") {
		if len(line) > 85 {
			t.Errorf("long line %q", line)
		}
	}
}

// A mistake in the flags is one line with a hint, and exit code 2.
func TestUsage(t *testing.T) {
	for _, args := range []string{
		"-oracle matching", "-oracle path,", "-grid 1", "-grid 12x", "-grid 65", "-grid a", "-dim -1", "-dim 1", "-dim 2000", "-batch 0", "-batch x",
		"-workers 0", "-workers 2000", "-lambda 0", "-lambda NaN", "-lambda calibrated/0", "-predictions perfect", "-warm -1", "-warm 101", "-warm NaN",
		"-instances -1", "-instances 10 -batch 20", "-duration 0s", "-duration 1", "-seed x", "-unknown", "extra", "-rows 5", "-peers f", "-contract 0",
		"-contract -5", "-contract 5 -oracle path", "-contract 5 -workers 1,2", "-goals -growth", "-goals -grid 5", "-growth -grid 5", "-export= ",
		"-export x -workers 2", "-export x -warm 3", "-export x -rows 0", "-oracle knapsack -grid 5", "-oracle knapsack -warm 3", "-oracle path -dim 5",
		"-oracle path,topk,path", "-lambda 1,2,1.0", "-lambda calibrated,calibrated/1", "-warm 3,3", "-workers 1,1", "-predictions good,good", "-batch 4,04",
		"-oracle dijkstra -lambda 2", "-oracle dijkstra -predictions good",
	} {
		code, out, stderr := runs(strings.Split(args, " ")...)
		if code != cli.Usage || out != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "oraclebench: ") || !strings.HasSuffix(stderr, " (oraclebench -h explains the flags)\n") {
			t.Errorf("%s: exit code %d, %q, %q", args, code, out, stderr)
		}
	}
	if code, _, stderr := runs("-goals", "-peers", filepath.Join(t.TempDir(), "none")); code != cli.Failed || strings.Count(stderr, "\n") != 1 {
		t.Error(code, stderr)
	}
}

// An interruption prints what is finished.
func TestInterrupted(t *testing.T) {
	for _, args := range [][]string{{"-goals"}, {"-growth"}, {"-contract", "50"}, {"-oracle", "knapsack"}, {"-oracle", "knapsack", "-json"}} {
		o, err := parse(args)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, stderr bytes.Buffer
		err = dispatch(ctx, o, &out, &stderr)
		if !errors.Is(err, context.Canceled) || out.Len() == 0 {
			t.Errorf("%v: %v, %q", args, err, out.String())
		}
		if strings.Contains(out.String(), "All answers") {
			t.Errorf("%v: a verdict on all instances:\n%s", args, out.String())
		}
		if word := string(bench.GoalMet); strings.Contains(out.String(), "| "+word+" |  |") {
			t.Errorf("%v: a goal is met that was not measured:\n%s", args, out.String())
		}
	}
	name := filepath.Join(t.TempDir(), "x.npz")
	o, err := parse([]string{"-export", name, "-oracle", "topk"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dispatch(ctx, o, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
