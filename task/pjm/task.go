package pjm

import (
	"fmt"

	set "fedrspo/oracle/knapsack"
	"fedrspo/task"
)

// minDates is the least number of dates that gives all three splits one.
const minDates = 10

// minTrain is the least number of training days of a client: a standard
// deviation needs two.
const minTrain = 2

// Part is one of the three splits.
type Part int

// The splits in order of time.
const (
	Train Part = iota
	Validation
	Test
)

// String returns the split's name.
func (p Part) String() string { return [...]string{"training", "validation", "test"}[p] }

// Parts cuts the dates in three, in order of time: of n dates, the first
// floor(n/2) train, the next floor(n/10) validate, the rest test (paper,
// appendix C.4).
func (d *Dataset) Parts() [3][]Date {
	dates := d.Dates()
	n := len(dates)
	return [3][]Date{dates[:n/2], dates[n/2 : n/2+n/10], dates[n/2+n/10:]}
}

// Part returns the client's days of a split, in the order of the task's rows.
// The dates of the split are those of Parts, which not every client need have.
func (d *Dataset) Part(c *Client, p Part) []Day { return c.part(d.Parts(), p) }

func (c *Client) part(parts [3][]Date, p Part) []Day {
	if len(parts[p]) == 0 {
		return nil
	}
	return between(c.Days, parts[p][0], parts[p][len(parts[p])-1])
}

// between returns the days from first to last.
func between(days []Day, first, last Date) []Day {
	for len(days) > 0 && days[0].Date < first {
		days = days[1:]
	}
	for len(days) > 0 && days[len(days)-1].Date > last {
		days = days[:len(days)-1]
	}
	return days
}

// Task builds the learning problem: for each client the set of k_j hours out of
// 24, the costs c_h = LMP_h + congestion_h in $/MWh, not standardised, and the
// eight features standardised with the mean and the sample standard deviation
// of the client's own training days (task.Scaler; paper, appendix C.4). The
// metric is absolute regret, in $ for each MW of the client's demand.
//
// There must be at least 10 dates. Every client needs two training days and one
// test day, and no feature may be constant over its training days but not
// after: it would be divided by 1e-8. The error wraps ErrData.
func (d *Dataset) Task() (*task.Task, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	parts := d.Parts()
	if n := len(d.Dates()); n < minDates {
		return nil, fmt.Errorf("%w: %d dates, want at least %d to train, validate and test on", ErrData, n, minDates)
	}
	t := &task.Task{Name: "pjm", Metric: task.AbsoluteRegret, In: len(featureNames), Out: Hours}
	for k := range d.Clients {
		c, err := d.Clients[k].build(parts)
		if err != nil {
			return nil, fmt.Errorf("%w: client %d (%s): %w", ErrData, d.Clients[k].ID, d.Clients[k].Name, err)
		}
		t.Clients = append(t.Clients, c)
	}
	// Raw numbers near the limits of float64 may leave them here.
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("%w: standardised: %w", ErrData, err)
	}
	return t, nil
}

// build returns the client's part of the task.
func (c *Client) build(parts [3][]Date) (*task.Client, error) {
	var days [3][]Day
	for p := range days {
		days[p] = c.part(parts, Part(p))
	}
	if n := len(days[Train]); n < minTrain {
		return nil, fmt.Errorf("%d training days, want at least %d from %v to %v", n, minTrain, parts[Train][0], parts[Train][len(parts[Train])-1])
	}
	if len(days[Test]) == 0 {
		return nil, fmt.Errorf("no test day, want at least one from %v to %v", parts[Test][0], parts[Test][len(parts[Test])-1])
	}
	if err := checkVariation(days); err != nil {
		return nil, err
	}
	polytope, err := set.NewTopK(Hours, float64(c.Demand))
	if err != nil {
		return nil, err
	}
	raw := features(days[Train])
	scale := task.NewScaler(raw)
	if k := scale.Overflow(); k >= 0 {
		return nil, fmt.Errorf("%s: mean or standard deviation overflows", featureNames[k])
	}
	out := &task.Client{ID: c.ID, Name: c.Name, Polytope: polytope,
		View: task.View{Entry: "hour", Amount: "share of full power", Value: "price"}}
	for p, split := range []*task.Split{&out.Train, &out.Val, &out.Test} {
		*split = task.Split{X: scale.Apply(features(days[p])), C: costs(days[p])}
	}
	return out, nil
}

// checkVariation reports a feature that is constant over the training days but
// not over all.
func checkVariation(days [3][]Day) error {
	for k, name := range featureNames {
		x := days[Train][0].features()[k]
		constant := func(days []Day) (Date, bool) {
			for i := range days {
				if days[i].features()[k] != x {
					return days[i].Date, false
				}
			}
			return 0, true
		}
		if _, ok := constant(days[Train]); !ok {
			continue
		}
		for _, p := range []Part{Validation, Test} {
			if date, ok := constant(days[p]); !ok {
				return fmt.Errorf("%s is %v on every training day but not on %v, so it cannot be standardised", name, x, date)
			}
		}
	}
	return nil
}

// features returns the features of days, [n,8].
func features(days []Day) task.Matrix {
	m := task.Matrix{Cols: len(featureNames), Data: make([]float64, 0, len(days)*len(featureNames))}
	for i := range days {
		x := days[i].features()
		m.Data = append(m.Data, x[:]...)
	}
	return m
}

// costs returns the costs of days, [n,24].
func costs(days []Day) task.Matrix {
	m := task.Matrix{Cols: Hours, Data: make([]float64, 0, len(days)*Hours)}
	for i := range days {
		for h := range Hours {
			m.Data = append(m.Data, days[i].Cost(h))
		}
	}
	return m
}

// Recent is Task with only the last n training days before validation, as of
// clients with little data; the features are standardised with all training
// days all the same. If id is 0, every client is cut. Else only client id is,
// and it is late (task.Client.Late): the others train a federated model without
// it. This is the paper's experiment with a client left out (tables 11 and 12).
// n = 0 keeps all training days. The error wraps ErrConfig if there is no such
// client, no other beside it, or n is not 0 to the number of its training days,
// and else ErrData.
func (d *Dataset) Recent(id, n int) (*task.Task, error) {
	t, err := d.Task()
	if err != nil {
		return nil, err
	}
	found := id == 0
	for _, c := range t.Clients {
		if id != 0 && c.ID != id {
			continue
		}
		total := c.Train.Len()
		if n < 0 || n > total {
			return nil, fmt.Errorf("%d training days of client %d (%s), want 1 to %d: %w", n, c.ID, c.Name, total, ErrConfig)
		}
		if n > 0 {
			tail := func(m task.Matrix) task.Matrix {
				return task.Matrix{Cols: m.Cols, Data: m.Data[(total-n)*m.Cols:]}
			}
			c.Train = task.Split{X: tail(c.Train.X.(task.Matrix)), C: tail(c.Train.C)}
		}
		c.Late = id != 0
		found = true
	}
	if !found || id != 0 && len(t.Clients) == 1 {
		return nil, fmt.Errorf("client %d joins late: want one of at least two clients: %w", id, ErrConfig)
	}
	return t, nil
}
