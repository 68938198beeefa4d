//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeTrain: make train has the revision noted in a git checkout, runs all
// the same where there is none, and leaves the user's word in GOFLAGS alone. A
// stand-in for the go tool prints what it is asked to run.
func TestMakeTrain(t *testing.T) {
	for _, tool := range []string{"make", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s here: %v", tool, err)
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Makefile"), read(t, "..", "..", "Makefile"))
	tool := filepath.Join(dir, "go")
	write(t, tool, "#!/bin/sh\ncase \"$*\" in 'env GOVERSION') echo go1.26.0;; 'env GOFLAGS') echo \"$GOFLAGS\";; *) echo \"ran $*\";; esac\n")
	if err := os.Chmod(tool, 0o755); err != nil {
		t.Fatal(err)
	}
	command := func(name string, env []string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		// No checkout above the folder counts, and no settings of this machine's.
		cmd.Env = append(os.Environ(), append([]string{"GOFLAGS=", "MAKEFLAGS=", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}, env...)...)
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, text)
		}
		return string(text)
	}
	check := func(what, flag string, env ...string) {
		t.Helper()
		want := "ran run " + flag + "./cmd/train -loss rspo+,spo+,mse\n"
		if got := command("make", env, "train", "GO="+tool); !strings.Contains(got, want) {
			t.Errorf("%s: make train prints %q, want %q in it", what, got, want)
		}
	}
	check("no checkout", "")
	command("git", nil, "init", "-q", ".")
	check("no commit", "")
	command("git", nil, "add", "Makefile")
	command("git", nil, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
	check("checkout", "-buildvcs=true ")
	check("GOFLAGS", "", "GOFLAGS=-mod=mod -buildvcs=false")
	write(t, filepath.Join(dir, ".git", "index"), "damaged")
	check("damaged checkout", "")
}
