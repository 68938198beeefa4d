package kernel

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time the process has used, which other
// programs on the machine do not lengthen as they do wall time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
