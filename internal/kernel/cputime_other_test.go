//go:build !linux

package kernel

import "time"

var processStart = time.Now()

// cpuTime returns wall time, where the processor time is not asked for.
func cpuTime() time.Duration { return time.Since(processStart) }
