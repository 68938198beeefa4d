package qp

import "math"

// pathBalance is the workspace of balance. A half is the place of an incoming
// half, or that of an outgoing half plus the number of places.
type pathBalance struct {
	excess []float64
	queue  []int32
	// through is the step by which a half was reached, -1 for a root and -2 if
	// it was not.
	through []int32
}

const (
	// pathFlow is the flow that carries corrections: far above them, and above
	// what counts as feasible.
	pathFlow = 1e-6
	pathRoot = -1
	pathNew  = -2
)

func newPathBalance(f *pathFrame) pathBalance {
	return pathBalance{
		excess: make([]float64, 2*f.size), queue: make([]int32, 0, 2*f.size), through: make([]int32, 2*f.size),
	}
}

// balance returns how far the visits of lane l are from the set at most. Flows
// along steps of great conductance are known up to rounding only; what a half
// has too much is sent along a spanning tree of the steps with flow to its root.
// The result is the most that a root is left with or a flow or a visit is
// outside its bounds. Trees are spared where no half has much too much.
func (q *pathInterior) balance(l int) (worst float64) {
	f, b, n, most := q.f, &q.balances, q.lanes, 0.0
	clear(b.excess)
	size := int32(f.size)
	for _, v := range q.cells {
		w := q.w[int(v)*n+l]
		b.excess[v], b.excess[v+size] = w, w
		worst = max(worst, -w, w-1)
	}
	b.excess[f.source], b.excess[f.sink+size] = 0, 0
	for _, a := range q.steps {
		y := q.y[int(a.at)*n+l]
		b.excess[a.head] -= y
		b.excess[a.tail+size] -= y
	}
	for _, x := range b.excess {
		most = max(most, math.Abs(x))
	}
	if max(worst, most) <= pathFeasible {
		return max(worst, most)
	}
	for i := range b.through {
		b.through[i] = pathNew
	}
	for _, v := range q.cells {
		for _, root := range [2]int32{v, v + size} {
			if b.through[root] == pathNew {
				worst = max(worst, q.balanceTree(root, l))
			}
		}
	}
	return worst
}

// balanceTree is balance for the halves that hang together with root.
func (q *pathInterior) balanceTree(root int32, l int) (worst float64) {
	f, b, n, size := q.f, &q.balances, q.lanes, int32(q.f.size)
	b.queue = append(b.queue[:0], root)
	b.through[root] = pathRoot
	for i := 0; i < len(b.queue); i++ {
		half := b.queue[i]
		for k, step := range f.steps {
			head, next := half, half-int32(step)+size
			if half >= size {
				head = half - size + int32(step)
				next = head
			}
			at := int(head) - q.first
			if at < 0 || at >= q.span {
				continue
			}
			at += k * q.span
			if b.through[next] == pathNew && q.y[at*n+l] > pathFlow {
				b.through[next] = int32(at)
				b.queue = append(b.queue, next)
			}
		}
	}
	for i := len(b.queue) - 1; i > 0; i-- {
		half := b.queue[i]
		at, x := b.through[half], b.excess[half]
		worst = max(worst, -(q.y[int(at)*n+l] + x))
		head := int32(int(at)%q.span + q.first)
		parent := head
		if half == head {
			parent = head - int32(f.steps[int(at)/q.span]) + size
		}
		b.excess[parent] -= x
	}
	return max(worst, math.Abs(b.excess[root]))
}
