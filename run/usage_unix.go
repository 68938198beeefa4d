//go:build linux || darwin

package run

import (
	"runtime"
	"syscall"
)

// Usage returns the processor time that the process has used, in seconds, and
// the most memory that it has held (resident), in bytes; 0 where the system
// does not tell.
func Usage() (cpuSeconds float64, peakBytes int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	peakBytes = int64(u.Maxrss)
	if runtime.GOOS == "linux" { // counts KiB
		peakBytes <<= 10
	}
	return seconds(u.Utime) + seconds(u.Stime), peakBytes
}
