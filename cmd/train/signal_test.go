//go:build unix

package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedrspo/internal/cli"
	"fedrspo/run"
)

// interrupt runs the program as a process of its own, sends it the signal once
// a file of the pattern is there, and returns what it left.
func interrupt(t *testing.T, sig os.Signal, pattern string, args ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if files, _ := filepath.Glob(pattern); len(files) > 0 {
			break
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatalf("no %s after a minute: %s", pattern, stderr.String())
		}
	}
	// In the middle of a later run, not at its edge.
	time.Sleep(20 * time.Millisecond)
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-done:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("still running a minute after the signal")
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestInterrupt: Ctrl-C keeps what is finished, says so, and leaves no partial
// file; the run folder can be evaluated.
func TestInterrupt(t *testing.T) {
	for name, sig := range map[string]os.Signal{"SIGINT": os.Interrupt, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			o := interrupt(t, sig, filepath.Join(dir, "models", "*", "*", "*.safetensors"), "-seeds", "1..500", "-loss", "rspo+,mse", "-out", dir, "-workers", "1")
			if o.code != cli.Interrupted || o.stderr != "train: interrupted\n" || !strings.Contains(o.stdout, "Interrupted: only what was finished is shown.") {
				t.Errorf("want exit code 130 and what was finished, got %v", o)
			}
			files := tree(t, dir)
			for file, text := range files {
				base := filepath.Base(file)
				if strings.HasPrefix(base, ".") || strings.Contains(base, "tmp") || text == "" {
					t.Errorf("left behind: %s of %d bytes", file, len(text))
				}
			}
			rs := results(t, dir)
			stages := 0
			for _, r := range rs {
				if r.Complete || len(r.Seeds) == 500 {
					t.Errorf("%s: complete is %v after %d seeds", r.Loss, r.Complete, len(r.Seeds))
				}
				stages += len(r.Stages(false)) + len(r.Stages(true))
			}
			models := 0
			for file := range files {
				if strings.HasSuffix(file, ".safetensors") {
					models++
				}
			}
			if models != stages || models == 0 {
				t.Errorf("%d model files, but results of %d stages", models, stages)
			}
			for _, line := range strings.SplitAfter(files[run.MetricsFile], "\n") {
				if line != "" && !(strings.HasPrefix(line, "{") && strings.HasSuffix(line, "}\n")) {
					t.Errorf("a partial line of metrics: %q", line)
				}
			}
			o = mustTrain(t, "-eval", dir, "-out", "none")
			if !strings.Contains(o.stderr, "Computed again and equal to") || !strings.Contains(o.stdout, "Interrupted") {
				t.Errorf("evaluation of what is there: %v", o)
			}
			checkError(t, program("-eval", dir, "-seed", "500", "-out", "none"), cli.Failed, "no models")
		})
	}
}

// TestInterruptEval: Ctrl-C in an evaluation leaves the folder of an earlier
// one, or none, and nothing beside it.
func TestInterruptEval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	mustTrain(t, "-seeds", "1..60", "-loss", "mse", "-rounds", "1", "-epochs", "1", "-personal-rounds", "0", "-out", dir)
	entries := []string{run.ConfigFile, run.MetricsFile, run.ModelsDir, run.ResultFile, run.TimingFile, run.VersionFile}
	stop := func() {
		t.Helper()
		o := interrupt(t, os.Interrupt, filepath.Join(dir, ".eval.tmp-*", "mse", "*", "fed.csv"), "-eval", dir)
		if o.code != cli.Interrupted || o.stderr != "train: interrupted\n" || o.stdout != "" {
			t.Errorf("want exit code 130 and nothing else, got %v", o)
		}
	}
	stop()
	onlyEntries(t, dir, entries...)
	mustTrain(t, "-eval", dir, "-seed", "1")
	before := tree(t, filepath.Join(dir, "eval"))
	stop()
	onlyEntries(t, dir, slices.Insert(entries, 1, "eval")...)
	if !maps.Equal(tree(t, filepath.Join(dir, "eval")), before) {
		t.Error("an interrupted evaluation changed the earlier one")
	}
}
