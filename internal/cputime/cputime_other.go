//go:build !linux

package cputime

import "time"

var start = time.Now()

// Now returns the wall time since the start of the process, on systems other
// than Linux.
func Now() time.Duration { return time.Since(start) }
