package qp

import (
	"time"

	"golang.org/x/sys/unix"
)

// pathClock returns the processor time of the calling thread, which what else
// runs on the machine lengthens little.
func pathClock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
