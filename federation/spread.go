package federation

import (
	"sync"
	"sync/atomic"
)

// spread runs work on the given number of goroutines, which share the jobs 0 to
// n-1 by calling next until it says false. Whoever does a job, its result must
// be the same.
func spread(workers, n int, work func(next func() (int, bool))) {
	var taken atomic.Int64
	next := func() (int, bool) {
		i := int(taken.Add(1)) - 1
		return i, i < n
	}
	var wg sync.WaitGroup
	for range min(workers, n) {
		wg.Go(func() { work(next) })
	}
	wg.Wait()
}

// Scratch of the aggregation rules. It is kept between rounds, and not in the
// rules, which are plain settings.
var (
	keyPool    = sync.Pool{New: func() any { return new([]int64) }}
	numberPool = sync.Pool{New: func() any { return new([]float64) }}
)

// scratchKeys returns n keys of unspecified content from keyPool.
func scratchKeys(n int) *[]int64 {
	p := keyPool.Get().(*[]int64)
	if cap(*p) < n {
		*p = make([]int64, n)
	}
	*p = (*p)[:n]
	return p
}

// scratchNumbers returns n numbers of unspecified content from numberPool.
func scratchNumbers(n int) *[]float64 {
	p := numberPool.Get().(*[]float64)
	if cap(*p) < n {
		*p = make([]float64, n)
	}
	*p = (*p)[:n]
	return p
}
