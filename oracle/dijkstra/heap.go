package dijkstra

import (
	"math"
	"math/bits"
)

// entry is a queued node. Entries are ordered by (key, id).
type entry struct{ key, id uint64 }

var last = entry{math.MaxUint64, math.MaxUint64}

// before is 1 if a comes before b and 0 otherwise, without a branch.
func (a entry) before(b entry) uint64 {
	_, borrow := bits.Sub64(a.id, b.id, 0)
	_, borrow = bits.Sub64(a.key, b.key, borrow)
	return borrow
}

// keyOf maps finite numbers to integers of the same order. It puts -0 below 0,
// so callers add 0 first.
func keyOf(x float64) uint64 {
	b := math.Float64bits(x)
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// queue is a binary heap of entries, which may hold several for a node. Slot 0
// is unused and the slots behind n are last, so that a missing child loses
// every comparison.
type queue struct {
	e []entry
	n int
}

func newQueue(capacity int) queue {
	q := queue{e: make([]entry, capacity+2)}
	for i := range q.e {
		q.e[i] = last
	}
	return q
}

func (q *queue) clear() {
	for i := 1; i <= q.n; i++ {
		q.e[i] = last
	}
	q.n = 0
}

func (q *queue) push(x entry) {
	q.n++
	if q.n+2 > len(q.e) {
		q.e = append(q.e, last, last)
		q.e = q.e[:cap(q.e)]
		for i := q.n; i < len(q.e); i++ {
			q.e[i] = last
		}
	}
	e, i := q.e, q.n
	for i > 1 && x.before(e[i>>1]) != 0 {
		e[i] = e[i>>1]
		i >>= 1
	}
	e[i] = x
}

// pop removes the first entry. It moves the hole to a leaf along the smaller
// children before the last entry goes in (bottom-up heapsort, Wegener 1993):
// that entry belongs near the leaves anyway.
func (q *queue) pop() entry {
	e, n := q.e, q.n
	top, x := e[1], e[n]
	e[n] = last
	q.n--
	if q.n > 0 {
		q.fill(x)
	}
	return top
}

// fill puts x in the place of the first entry.
func (q *queue) fill(x entry) {
	e, n := q.e, q.n
	i := 1
	for c := 2; c <= n; c = 2 * i {
		c += int(e[c+1].before(e[c]))
		e[i] = e[c]
		i = c
	}
	for i > 1 && x.before(e[i>>1]) != 0 {
		e[i] = e[i>>1]
		i >>= 1
	}
	e[i] = x
}
