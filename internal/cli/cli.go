// Package cli is what the module's commands share: exit codes, errors of one
// line, interruption by signals, and a standard output whose failure is
// noticed.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes.
const (
	// OK: done.
	OK = 0
	// Failed: the work could not be done.
	Failed = 1
	// Usage: a mistake in the flags or in a configuration file.
	Usage = 2
	// Interrupted: ended by SIGINT or SIGTERM; what is finished is kept.
	Interrupted = 130
)

// UsageError is a mistake of the user's on the command line or in a
// configuration file.
type UsageError struct{ Err error }

// Error returns the error's text.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e UsageError) Unwrap() error { return e.Err }

// Usagef is fmt.Errorf for a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Main runs a command and returns its exit code. work gets a context that ends
// with the first SIGINT or SIGTERM; a second signal ends the program at once.
// An error is printed as one line. interrupted is what to say of an
// interruption, read when there was one.
func Main(name string, stdout, stderr io.Writer, interrupted func() string, work func(ctx context.Context, stdout io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	out := &checkedWriter{w: stdout}
	err := work(ctx, out)
	if err == nil {
		err = out.err
	}
	var usage UsageError
	switch {
	case err == nil:
		return OK
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "%s: %s\n", name, interrupted())
		return Interrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %s (%s -h explains the flags)\n", name, OneLine(err), name)
		return Usage
	}
	fmt.Fprintf(stderr, "%s: %s\n", name, OneLine(err))
	return Failed
}

// OneLine flattens a message of several lines.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// checkedWriter remembers the first failure, so that a full disk or a closed
// pipe behind standard output makes the program fail.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil {
		err = fmt.Errorf("standard output: %w", err)
		c.err = cmp.Or(c.err, err)
	}
	return n, err
}

// Wrap breaks text into lines of at most width characters.
func Wrap(text, indent string, width int) string {
	var b strings.Builder
	col := 0
	for _, word := range strings.Fields(text) {
		switch {
		case col == 0:
			b.WriteString(indent)
			col = len(indent)
		case col+1+len(word) > width:
			b.WriteString("\n" + indent)
			col = len(indent)
		default:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}
