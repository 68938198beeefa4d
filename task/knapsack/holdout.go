package knapsack

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/internal/stream"
	"fedrspo/task"
)

// HoldOut returns d with the validation split of each client replaced by a
// fraction of its training rows, drawn with the seed: of n rows,
// floor((1-fraction) n) stay in the training split, at most n-1, and the
// others are validation. Rows keep their order. Features are standardised, as
// always, by what the training split then holds. This is how Interp-DFFL gets
// its calibration data on the knapsack.
//
// Test splits and feasible sets are shared with d. The error wraps ErrConfig
// if fraction is not inside (0, 1), ErrData if a client would be left without
// training rows.
func (d *Dataset) HoldOut(fraction float64, seed int64) (*Dataset, error) {
	if !(fraction > 0 && fraction < 1) {
		return nil, fmt.Errorf("hold-out fraction %v, want a number between 0 and 1: %w", fraction, ErrConfig)
	}
	out := *d
	out.Clients = slices.Clone(d.Clients)
	out.Generator = nil // the generator alone does not give these splits
	for k := range out.Clients {
		c := &out.Clients[k]
		n := c.Train.Len()
		// 0.7·10 may come out a bit below 7.
		fit := min(int(math.Floor((1-fraction)*float64(n)+1e-9)), n-1)
		switch {
		case n == 0:
			c.Val = newSamples(d.Items, d.Features)
			continue
		case fit == 0:
			return nil, fmt.Errorf("%w: client %d: holding out %v of %d training rows leaves none", ErrData, c.ID, fraction, n)
		}
		rows := make([]int, n)
		stream.Permute(stream.New(stream.Key{Seed: seed, Purpose: "knapsack/hold-out", Client: c.ID}), rows)
		slices.Sort(rows[:fit])
		slices.Sort(rows[fit:])
		c.Val, c.Train = c.Train.pick(rows[fit:]), c.Train.pick(rows[:fit])
	}
	return &out, nil
}

// pick returns copies of the rows.
func (s Samples) pick(rows []int) Samples {
	take := func(m task.Matrix) task.Matrix {
		out := task.Matrix{Cols: m.Cols, Data: make([]float64, 0, len(rows)*m.Cols)}
		for _, i := range rows {
			out.Data = append(out.Data, m.Row(i)...)
		}
		return out
	}
	return Samples{X: take(s.X), C: take(s.C)}
}
