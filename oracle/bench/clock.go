package bench

import "time"

// clock measures durations.
type clock struct {
	byThread bool
	now      func() time.Duration
}

func (c clock) name() string {
	if c.byThread {
		return "processor"
	}
	return "wall"
}

// newClock returns the best clock for work by that many goroutines. That of one
// is processor time where the system tells it, so that a busy machine does not
// falsify it; it belongs to the locked thread.
func newClock(workers int) clock {
	if _, ok := threadTime(); ok && workers == 1 {
		return clock{true, func() time.Duration { t, _ := threadTime(); return t }}
	}
	start := time.Now()
	return clock{false, func() time.Duration { return time.Since(start) }}
}
