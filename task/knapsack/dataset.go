package knapsack

import (
	"errors"
	"fmt"
	"math"

	"fedrspo/internal/csvtable"
	set "fedrspo/oracle/knapsack"
	"fedrspo/task"
)

// ErrData: a Dataset whose content makes no knapsack task.
var ErrData = errors.New("invalid knapsack data")

// Dataset is the content of a dataset folder: data as they were measured, not
// standardised.
type Dataset struct {
	// Name is the name of the task.
	Name string
	// Items is d, the length of a cost vector; Features is p.
	Items, Features int
	// Clients in ascending ID.
	Clients []Client
	// Generator is the resolved configuration of generated data, nil for other
	// data. It is a record; nothing is computed from it.
	Generator *Config
}

// Client is one client's feasible set and samples.
type Client struct {
	// ID identifies the client; not negative.
	ID int
	// Name is for people.
	Name string
	// Capacity is b_j, not negative, in the unit of Weights.
	Capacity float64
	// Weights are the d item weights a_j, positive.
	Weights []float64
	// Train, Val and Test are the three splits, each possibly empty.
	Train, Val, Test Samples
}

// Samples are the rows of one split.
type Samples struct {
	// X are the features, [n,p], not standardised.
	X task.Matrix
	// C are the true costs, [n,d], minimised: negated item values.
	C task.Matrix
}

// Len returns the number of samples.
func (s Samples) Len() int { return s.C.Len() }

// splitNames are the names of the splits, in the order of Client.splits.
var splitNames = [...]string{"train", "validation", "test"}

// splits returns the three splits in the order of splitNames.
func (c *Client) splits() [len(splitNames)]*Samples {
	return [...]*Samples{&c.Train, &c.Val, &c.Test}
}

// maxColumns bounds the numbers of items and of features, so that a slip in a
// description is an error and not an attempt to reserve all memory.
const maxColumns = 1 << 20

// Validate checks shapes, that client IDs ascend, that weights are positive,
// capacities not negative and all numbers finite, that names are printable
// text, and that there is a training sample. The error wraps ErrData and says
// where.
func (d *Dataset) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrData, fmt.Sprintf(format, args...))
	}
	if err := csvtable.CheckText(d.Name); err != nil {
		return fail("name %q: %v", d.Name, err)
	}
	if err := checkSize(d.Items, d.Features); err != nil {
		return fail("%v", err)
	}
	if d.Generator != nil {
		if _, err := d.Generator.Resolve(); err != nil {
			return fail("generator: %v", err)
		}
	}
	train := 0
	for k := range d.Clients {
		c := &d.Clients[k]
		if err := csvtable.CheckText(c.Name); err != nil {
			return fail("client %d: name %q: %v", c.ID, c.Name, err)
		}
		if c.ID < 0 {
			return fail("client %d: IDs must not be negative", c.ID)
		}
		if k > 0 && c.ID <= d.Clients[k-1].ID {
			return fail("client IDs must be unique and ascend, got %d after %d", c.ID, d.Clients[k-1].ID)
		}
		if !(c.Capacity >= 0) || math.IsInf(c.Capacity, 1) {
			return fail("client %d: capacity %v, want a finite number, not negative", c.ID, c.Capacity)
		}
		if len(c.Weights) != d.Items {
			return fail("client %d: %d item weights, want %d", c.ID, len(c.Weights), d.Items)
		}
		for i, a := range c.Weights {
			if !(a > 0) || math.IsInf(a, 1) {
				return fail("client %d: weight %d is %v, want a positive finite number", c.ID, i, a)
			}
		}
		for s, split := range c.splits() {
			n := split.Len()
			for _, m := range []struct {
				what   string
				matrix task.Matrix
				cols   int
			}{{"features", split.X, d.Features}, {"costs", split.C, d.Items}} {
				if m.matrix.Cols != m.cols || len(m.matrix.Data) != n*m.cols {
					return fail("client %d: %s: %d numbers in rows of %d as %s of %d samples, want rows of %d", c.ID, splitNames[s], len(m.matrix.Data), m.matrix.Cols, m.what, n, m.cols)
				}
				for i, x := range m.matrix.Data {
					if x-x != 0 { // 0 for finite x, NaN otherwise
						return fail("client %d: %s row %d: number %d of the %s is %v, want a finite number", c.ID, splitNames[s], i/m.cols, i%m.cols, m.what, x)
					}
				}
			}
		}
		train += c.Train.Len()
	}
	if train == 0 {
		return fail("no client has a training sample")
	}
	return nil
}

// checkSize returns an error unless items and features are usable numbers of
// columns.
func checkSize(items, features int) error {
	if min(items, features) < 1 || max(items, features) > maxColumns {
		return fmt.Errorf("%d items and %d features, want 1 to %d of each", items, features, maxColumns)
	}
	return nil
}

// Task builds the learning problem: the clients' knapsacks, and the features of
// all three splits standardised with the client's own training mean and
// standard deviation, x' = (x - mean) / (deviation + 1e-8), the deviation that
// of a sample (divisor n-1; 0 for a single sample). Costs are shared with d,
// not copied; neither may be changed afterwards. The error wraps ErrData.
//
// A client without training samples is standardised with the mean and the
// deviation over the training samples of all clients.
func (d *Dataset) Task() (*task.Task, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	t := &task.Task{Name: d.Name, In: d.Features, Out: d.Items}
	var pooled *task.Scaler
	for k := range d.Clients {
		c := &d.Clients[k]
		polytope, err := set.New(c.Weights, c.Capacity)
		if err != nil {
			return nil, fmt.Errorf("%w: client %d: %w", ErrData, c.ID, err)
		}
		scale := pooled
		if c.Train.Len() > 0 {
			scale = task.NewScaler(c.Train.X)
		} else if pooled == nil {
			pooled = task.NewScaler(d.trainFeatures()...)
			scale = pooled
		}
		if k := scale.Overflow(); k >= 0 {
			return nil, fmt.Errorf("%w: client %d: x_%d: mean or standard deviation overflows; divide the column by a constant", ErrData, c.ID, k)
		}
		client := &task.Client{ID: c.ID, Name: c.Name, Polytope: polytope,
			View: task.View{Entry: "item", Amount: "amount taken", Value: "value", Negated: true, Size: c.Weights}}
		for s, split := range []*task.Split{&client.Train, &client.Val, &client.Test} {
			from := c.splits()[s]
			*split = task.Split{X: scale.Apply(from.X), C: from.C}
		}
		t.Clients = append(t.Clients, client)
	}
	// Raw numbers near the limits of float64 may leave them here.
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("%w: standardised: %w", ErrData, err)
	}
	return t, nil
}

// trainFeatures returns the training features of every client.
func (d *Dataset) trainFeatures() []task.Matrix {
	all := make([]task.Matrix, len(d.Clients))
	for k := range d.Clients {
		all[k] = d.Clients[k].Train.X
	}
	return all
}
