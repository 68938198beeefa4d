package kernel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Scratch is what operations on batches of images share: the number of
// threads they may use, and memory that grows in the first calls and is then
// kept. It belongs to one goroutine at a time; operations that run one after
// the other should share one. Nothing of a result stays in it.
//
// The number of threads never changes a bit: images are independent, or sums
// over them are cut in chunks of constant size, which are added in order.
type Scratch[T Float] struct {
	team    team
	threads []threadScratch[T]
	// partial holds the sums of each chunk of a batch.
	partial []T
	sums    []float64
}

// threadScratch is the memory of one thread.
type threadScratch[T Float] struct {
	image                        []T // padded
	transformed, product, filter []T // of Winograd's algorithm
	input, gradient              []T // of fused operations
	small                        []T
}

func (t *threadScratch[T]) buffers() [7]*[]T {
	return [...]*[]T{&t.image, &t.transformed, &t.product, &t.filter, &t.input, &t.gradient, &t.small}
}

// run does all items of a task. First it gives each thread the room that any
// has needed so far: after an operation was done once, no thread allocates in
// it again, whichever did it.
func (s *Scratch[T]) run(items int, task task) {
	first := s.threads[0].buffers()
	for i := 1; i < len(s.threads); i++ {
		for k, b := range s.threads[i].buffers() {
			grow(first[k], cap(*b))
		}
	}
	for i := 1; i < len(s.threads); i++ {
		for k, b := range s.threads[i].buffers() {
			grow(b, cap(*first[k]))
		}
	}
	s.team.run(items, task)
}

// NewScratch returns a Scratch for the given number of threads, at least one.
func NewScratch[T Float](threads int) *Scratch[T] {
	if threads < 1 {
		panic(fmt.Sprintf("kernel.NewScratch: %d threads, want at least 1", threads))
	}
	s := &Scratch[T]{threads: make([]threadScratch[T], threads)}
	s.team.init(threads)
	return s
}

// Threads returns the number of threads.
func (s *Scratch[T]) Threads() int { return len(s.threads) }

// Bytes returns the memory held.
func (s *Scratch[T]) Bytes() int {
	n := cap(s.partial)
	for _, t := range s.threads {
		for _, b := range t.buffers() {
			n += cap(*b)
		}
	}
	return n*int(unsafe.Sizeof(T(0))) + 8*cap(s.sums)
}

// grow returns *buf with length n, reallocated when it is too small. The
// contents are arbitrary.
func grow[T any](buf *[]T, n int) []T {
	if cap(*buf) < n {
		*buf = make([]T, n)
	}
	*buf = (*buf)[:n]
	return *buf
}

// A task is work on independent items. Item i is done once, on any thread.
type task interface{ do(thread, item int) }

// A team runs tasks. Threads fetch items one by one, so that a slow core takes
// fewer.
type team struct {
	task  task
	items int
	next  atomic.Int64
	wg    sync.WaitGroup
	// helpers are made once: a go statement on a stored function without
	// parameters allocates nothing.
	helpers []func()
}

func (t *team) init(threads int) {
	for thread := 1; thread < threads; thread++ {
		t.helpers = append(t.helpers, func() {
			t.work(thread)
			t.wg.Done()
		})
	}
}

// run does all items of a task and returns when they are done.
func (t *team) run(items int, task task) {
	helpers := t.helpers[:max(0, min(len(t.helpers), items-1))]
	if len(helpers) == 0 {
		for i := range items {
			task.do(0, i)
		}
		return
	}
	t.task, t.items = task, items
	t.next.Store(0)
	t.wg.Add(len(helpers))
	for _, h := range helpers {
		go h()
	}
	t.work(0)
	t.wg.Wait()
	t.task = nil
}

func (t *team) work(thread int) {
	for {
		i := int(t.next.Add(1)) - 1
		if i >= t.items {
			return
		}
		t.task.do(thread, i)
	}
}

// chunks returns the number of chunks of the given size that n images fill.
func chunks(n, size int) int { return (n + size - 1) / size }

// checkImages panics unless n images of the given length fit a slice.
func checkImages(op, name string, n, image, length int) {
	// A division, because the product of wrong sizes may overflow.
	if n < 0 || n > 0 && (image < 0 || image > 0 && length/image < n) {
		panic(fmt.Sprintf("kernel.%s: %s has %d elements, too few for %d images of %d", op, name, length, n, image))
	}
}
