package cputime

import (
	"syscall"
	"time"
)

// Now returns the processor time that the process has used, of all threads
// together. On systems other than Linux it returns the wall time since the start.
func Now() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
