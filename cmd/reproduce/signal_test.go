//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fedrspo/internal/cli"
)

// TestInterrupt: Ctrl-C ends with 130 and says how to go on; finished runs are
// kept, no partial file is left, and the same command finishes the table.
func TestInterrupt(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"-table", "9", "-quick", "-out", dir, "-workers", "1"}
	kept := func() []string {
		files, _ := filepath.Glob(filepath.Join(dir, "cache", "*", "*.json"))
		return files
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
	for deadline := time.Now().Add(time.Minute); len(kept()) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			t.Fatalf("no results after a minute: %s", stderr.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
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
	if code := cmd.ProcessState.ExitCode(); code != cli.Interrupted || stdout.Len() > 0 || !strings.HasSuffix(stderr.String(), "reproduce: interrupted; the same command goes on from here\n") {
		t.Errorf("code %d, output %q, %q", code, stdout.String(), stderr.String())
	}
	n := len(kept())
	if n < 3 || n == 15 {
		t.Fatalf("%d of 15 results are kept", n)
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Ext(path) != ".json" {
			t.Errorf("left behind: %s", path)
		}
		return nil
	})
	// The same program goes on: a process again, so that it is this one.
	cmd = exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	text, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "## Table 9") || len(kept()) != 15 {
		t.Errorf("going on: %v, %d kept\n%s", err, len(kept()), text)
	}
	if first, _, _ := strings.Cut(string(text), "\n"); !strings.Contains(first, "are there") {
		t.Errorf("nothing was taken over: %s", first)
	}
}
