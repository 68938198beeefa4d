//go:build !linux

package bench

import "time"

// threadTime is known on Linux only.
func threadTime() (time.Duration, bool) { return 0, false }
