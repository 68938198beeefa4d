package cputime_test

import (
	"testing"
	"time"

	"fedrspo/internal/cputime"
)

// Now moves on with work, and a process of a few goroutines does not use more
// processors than there are by orders of magnitude.
func TestNow(t *testing.T) {
	wall, first := time.Now(), cputime.Now()
	for time.Since(wall) < 50*time.Millisecond {
	}
	if d := cputime.Now() - first; d <= 0 || d > 100*time.Second {
		t.Errorf("50 ms of work took %v of processor time", d)
	}
}
