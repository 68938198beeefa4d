//go:build !linux

package qp

import "time"

var pathClockStart = time.Now()

// pathClock returns the wall time since the program began.
func pathClock() time.Duration { return time.Since(pathClockStart) }
