package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
)

// full is an output without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestMainEnds checks the exit code and the one line of every way to end.
func TestMainEnds(t *testing.T) {
	for name, c := range map[string]struct {
		stdout io.Writer
		work   func(ctx context.Context, stdout io.Writer) error
		code   int
		says   string
	}{
		"done":   {io.Discard, func(context.Context, io.Writer) error { return nil }, OK, ""},
		"failed": {io.Discard, func(context.Context, io.Writer) error { return errors.New("bad\n  luck") }, Failed, "tool: bad luck\n"},
		"usage": {io.Discard, func(context.Context, io.Writer) error { return fmt.Errorf("flags: %w", Usagef("no %s", "x")) }, Usage,
			"tool: flags: no x (tool -h explains the flags)\n"},
		"output": {full{}, func(_ context.Context, w io.Writer) error { fmt.Fprint(w, "text"); return nil }, Failed, "tool: standard output: no space left\n"},
		// A cancelled context that is not ours is a failure like any other.
		"foreign": {io.Discard, func(context.Context, io.Writer) error { return context.Canceled }, Failed, "tool: context canceled\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			code := Main("tool", c.stdout, &stderr, func() string { return "interrupted" }, c.work)
			if code != c.code || stderr.String() != c.says {
				t.Errorf("code %d, %q, want %d, %q", code, stderr.String(), c.code, c.says)
			}
		})
	}
}

func TestMainInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself an interrupt")
	}
	var stderr bytes.Buffer
	code := Main("tool", io.Discard, &stderr, func() string { return "stopped" }, func(ctx context.Context, _ io.Writer) error {
		p, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		if err := p.Signal(os.Interrupt); err != nil {
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("round 3: %w", ctx.Err())
	})
	if code != Interrupted || stderr.String() != "tool: stopped\n" {
		t.Errorf("code %d, %q", code, stderr.String())
	}
}
