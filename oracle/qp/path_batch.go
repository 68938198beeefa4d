package qp

import (
	"fmt"

	"fedrspo/oracle"
)

const (
	// pathFewLanes is how many problems make lanes pay: with fewer, one after the
	// other is faster.
	pathFewLanes = 3
	// pathMaxLanes bounds the cells of a grid whose problems go into lanes: with
	// more, eight matrices leave the second level cache.
	pathMaxLanes = 1024
)

// pathPending is a row that the interior point method is to solve.
type pathPending struct {
	row   int
	scale float64
	limit float64
}

// ProjectBatch implements oracle.BatchProjector. The interior point method takes
// the rows that are left to it eight at a time.
func (q *PathProjector) ProjectBatch(rows []oracle.Projection) {
	q.pending = q.pending[:0]
	for i := range rows {
		r := &rows[i]
		q.method, r.Err = pathNone, nil
		scale, err := q.load(r.Dst, r.Theta, r.Lambda)
		if err == nil {
			err = q.checkJVP(r)
		}
		if err != nil {
			r.Info, r.Err = oracle.Info{}, err
			continue
		}
		var ok bool
		if r.Info, ok = q.byWolfe(r.Dst, scale, r.Lambda, r.Warm); !ok {
			q.pending = append(q.pending, pathPending{i, scale, q.limit})
		} else if r.V != nil {
			q.wolfe.jvp(r.JV, r.V)
		}
	}
	if len(q.pending) > 0 {
		q.needInterior()
	}
	if len(q.pending) < pathFewLanes || !lanesPay() || q.path.Dim() > pathMaxLanes {
		for _, t := range q.pending {
			q.single(&rows[t.row], t)
		}
	} else {
		q.inLanes(rows)
	}
	q.method = pathNone
}

// checkJVP checks what a row says of a derivative.
func (q *PathProjector) checkJVP(r *oracle.Projection) error {
	if r.V == nil {
		return nil
	}
	if d := q.path.Dim(); len(r.JV) != d {
		return fmt.Errorf("JV has length %d, want %d: %w", len(r.JV), d, oracle.ErrDimension)
	}
	return oracle.CheckVector("V", r.V, q.path.Dim())
}

// reload sets p to that of arguments that load has accepted.
func (q *PathProjector) reload(theta []float64, lambda float64) {
	f := &q.path.frame
	for v, place := range f.place {
		q.p[place] = -theta[v] / lambda
	}
	q.p[f.source], q.p[f.sink] = 1, 1
}

// single solves a pending row by itself.
func (q *PathProjector) single(r *oracle.Projection, t pathPending) {
	q.reload(r.Theta, r.Lambda)
	gap := q.inner.project(q.p, t.scale, t.limit)
	q.settle(r.Dst, r.Theta, &r.Info, q.inner, 0, gap, r.Lambda)
	switch {
	case r.V == nil:
	case q.method == pathNone:
		r.Err = oracle.ErrNoProjection
	default:
		q.inner.jvp(r.JV, r.V)
	}
}

// pathLaneState is what a lane does.
type pathLaneState uint8

const (
	pathIdle pathLaneState = iota
	pathSolving
	pathDifferentiating
)

// inLanes solves the pending rows. A lane that is done takes the next row; one
// without a row solves the first once more, for nothing.
func (q *PathProjector) inLanes(rows []oracle.Projection) {
	if q.lanes == nil {
		q.lanes = newPathInterior(q.path, flowLanes)
	}
	lanes, next := q.lanes, 0
	var state [flowLanes]pathLaneState
	var taken [flowLanes]pathPending
	take := func(l int) {
		t := q.pending[0]
		state[l] = pathIdle
		if next < len(q.pending) {
			t = q.pending[next]
			state[l] = pathSolving
			next++
		}
		taken[l] = t
		r := &rows[t.row]
		q.reload(r.Theta, r.Lambda)
		lanes.begin(l, q.p, t.scale, t.limit)
	}
	for l := range flowLanes {
		take(l)
	}
	for {
		busy := false
		for l := range flowLanes {
			for state[l] != pathDifferentiating && lanes.done(l) {
				if state[l] == pathIdle {
					take(l)
					break
				}
				r := &rows[taken[l].row]
				q.settle(r.Dst, r.Theta, &r.Info, lanes, l, lanes.finish(l), r.Lambda)
				if r.V != nil && q.method != pathNone {
					state[l] = pathDifferentiating
					continue
				}
				if r.V != nil {
					r.Err = oracle.ErrNoProjection
				}
				take(l)
			}
			busy = busy || state[l] != pathIdle
		}
		if !busy {
			return
		}
		lanes.prepare()
		lanes.aim()
		for l := range flowLanes {
			if state[l] == pathDifferentiating {
				lanes.differentiate(l, rows[taken[l].row].V)
			}
		}
		lanes.predict()
		for l := range flowLanes {
			if state[l] == pathDifferentiating {
				lanes.derivative(rows[taken[l].row].JV, l)
			}
		}
		lanes.correct()
		lanes.advance()
		for l := range flowLanes {
			if state[l] == pathDifferentiating {
				take(l)
			}
		}
	}
}
