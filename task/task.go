// Package task says what a learning problem is: clients, each with samples
// (features and true costs) in three splits, a feasible set, and the metric in
// which decisions are judged.
//
// A task does not know how it is trained. It never imports a network or a
// federation.
package task

import (
	"fmt"
	"reflect"
	"sort"

	"fedrspo/oracle"
)

// Features are the model inputs of a split, already standardised the way the
// task prescribes. They are safe for concurrent reads.
type Features interface {
	// Len is the number of samples.
	Len() int
	// Dim is the number of features of a sample.
	Dim() int
	// Copy writes the features of sample i, Dim numbers, to dst.
	Copy(dst []float64, i int)
}

// Features32 are Features that are float32 numbers by nature, such as images, so
// that a float32 network can have them without a detour.
type Features32 interface {
	Features
	// Copy32 is Copy to float32; the numbers are the same.
	Copy32(dst []float32, i int)
}

// Same says whether a and b are one value, so that what was computed from one
// holds for the other. Values that Go cannot compare, such as a Matrix, are
// never the same: clients share features through a pointer.
func Same(a, b Features) bool {
	return a != nil && b != nil && reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// Matrix is Features held as a row-major [Len, Cols] slice.
type Matrix struct {
	Cols int
	Data []float64
}

// Len returns the number of rows.
func (m Matrix) Len() int {
	if m.Cols == 0 {
		return 0
	}
	return len(m.Data) / m.Cols
}

// Dim returns the number of columns.
func (m Matrix) Dim() int { return m.Cols }

// Copy writes row i to dst.
func (m Matrix) Copy(dst []float64, i int) { copy(dst, m.Row(i)) }

// Row returns row i without copying it.
func (m Matrix) Row(i int) []float64 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// Split is a set of samples: features X and true costs C, row by row.
type Split struct {
	X Features
	// C is [Len, d] row-major, in the units of the objective; minimised.
	C Matrix
}

// Len returns the number of samples.
func (s Split) Len() int { return s.C.Len() }

// Client is one silo: its own data and its own feasible set.
type Client struct {
	// ID identifies the client in a federation and in random streams. IDs are
	// unique and ascending in Task.Clients.
	ID int
	// Name is for people.
	Name string
	// Polytope is the client's feasible set S_j.
	Polytope oracle.Polytope
	// Train fits the model, Val feeds the freeze statistic and model choice,
	// Test is only ever used to report.
	Train, Val, Test Split
	// Late clients join once the federated model is there: of their data it sees
	// nothing, neither to train nor to choose settings; they only personalise it.
	Late bool
	// View says how the client's decisions are drawn.
	View View
}

// Metric is the number in which a task's decisions are judged. Every one is the
// unweighted mean over clients of a number that is 0 when perfect: a fraction, or
// for AbsoluteRegret an amount.
type Metric uint8

const (
	// RelativeRegret is the mean regret over the mean of |z*|, a ratio of means.
	RelativeRegret Metric = iota
	// OptimalityGap is the mean over samples of c.w*(ĉ)/z* - 1, a mean of
	// ratios. It needs z* > 0.
	OptimalityGap
	// AbsoluteRegret is the mean regret in the units of the objective.
	AbsoluteRegret
)

// String returns the metric's name in results.
func (m Metric) String() string {
	switch m {
	case RelativeRegret:
		return "relative_regret"
	case OptimalityGap:
		return "optimality_gap"
	case AbsoluteRegret:
		return "absolute_regret"
	}
	return fmt.Sprintf("Metric(%d)", uint8(m))
}

// Task is a learning problem.
type Task struct {
	// Name is the task's name on the command line.
	Name string
	// Metric judges decisions, in tables and where models are chosen on
	// validation samples.
	Metric Metric
	// In and Out are the lengths of a feature vector and of a cost vector.
	In, Out int
	// Clients in ascending ID.
	Clients []*Client
}

// Validate checks the task's shapes, that IDs ascend, and that all features
// and costs are finite. Its error names the client, the split, the row and the
// column.
func (t *Task) Validate() error {
	if len(t.Clients) == 0 {
		return fmt.Errorf("task %s: no clients", t.Name)
	}
	if t.Metric > AbsoluteRegret {
		return fmt.Errorf("task %s: unknown %v", t.Name, t.Metric)
	}
	if t.In < 1 || t.Out < 1 {
		return fmt.Errorf("task %s: %d features and %d costs a sample, want at least 1 of each", t.Name, t.In, t.Out)
	}
	row, row32 := make([]float64, t.In), []float32(nil)
	var checked [3]Features // by split: what clients share is read once
	for k, c := range t.Clients {
		if c == nil {
			return fmt.Errorf("task %s: client at position %d is nil", t.Name, k)
		}
		where := func(split string) string { return fmt.Sprintf("task %s: client %d: %s", t.Name, c.ID, split) }
		if k > 0 && c.ID <= t.Clients[k-1].ID {
			return fmt.Errorf("task %s: client IDs must ascend, got %d after %d", t.Name, c.ID, t.Clients[k-1].ID)
		}
		if c.Polytope == nil {
			return fmt.Errorf("task %s: client %d has no feasible set", t.Name, c.ID)
		}
		if c.Polytope.Dim() != t.Out {
			return fmt.Errorf("task %s: client %d: feasible set of dimension %d, want %d", t.Name, c.ID, c.Polytope.Dim(), t.Out)
		}
		for part, s := range []struct {
			name  string
			split Split
		}{{"train", c.Train}, {"validation", c.Val}, {"test", c.Test}} {
			n, features := s.split.Len(), 0
			if s.split.X != nil {
				features = s.split.X.Len()
			}
			if features != n {
				return fmt.Errorf("%s: %d rows of features, %d of costs", where(s.name), features, n)
			}
			if len(s.split.C.Data) != n*s.split.C.Cols {
				return fmt.Errorf("%s: %d costs do not make rows of %d", where(s.name), len(s.split.C.Data), s.split.C.Cols)
			}
			if n == 0 {
				continue
			}
			if s.split.X.Dim() != t.In {
				return fmt.Errorf("%s: %d features a sample, want %d", where(s.name), s.split.X.Dim(), t.In)
			}
			if s.split.C.Cols != t.Out {
				return fmt.Errorf("%s: %d costs a sample, want %d", where(s.name), s.split.C.Cols, t.Out)
			}
			x32, _ := s.split.X.(Features32)
			if x32 != nil && row32 == nil {
				row32 = make([]float32, t.In)
			}
			read := Same(checked[part], s.split.X)
			for i := range n {
				feature := -1
				switch {
				case read:
				case x32 != nil:
					x32.Copy32(row32, i)
					feature = notFinite(row32)
				default:
					s.split.X.Copy(row, i)
					feature = notFinite(row)
				}
				if feature >= 0 {
					s.split.X.Copy(row, i)
					return fmt.Errorf("%s row %d: feature %d is %v, want a finite number", where(s.name), i, feature, row[feature])
				}
				if j := notFinite(s.split.C.Row(i)); j >= 0 {
					return fmt.Errorf("%s row %d: cost %d is %v, want a finite number", where(s.name), i, j, s.split.C.Row(i)[j])
				}
			}
			checked[part] = s.split.X
		}
	}
	return nil
}

// notFinite is the index of the first NaN or infinity in v, or -1.
func notFinite[T float32 | float64](v []T) int {
	for j, x := range v {
		if x-x != 0 { // NaN for both
			return j
		}
	}
	return -1
}

// Pool returns the samples of all splits in order, as one split. It copies the
// costs and refers to the features.
func Pool(splits ...Split) Split {
	var out Split
	var x pooled
	narrow := true
	for _, s := range splits {
		if s.Len() == 0 {
			continue
		}
		out.C.Cols = s.C.Cols
		out.C.Data = append(out.C.Data, s.C.Data...)
		x.parts = append(x.parts, s.X)
		x.ends = append(x.ends, x.Len()+s.Len())
		_, is32 := s.X.(Features32)
		narrow = narrow && is32
	}
	switch {
	case len(x.parts) == 0:
	case narrow:
		out.X = pooled32{x}
	default:
		out.X = x
	}
	return out
}

// pooled is Features of several splits; part k ends before sample ends[k].
type pooled struct {
	parts []Features
	ends  []int
}

func (p pooled) Len() int {
	if len(p.ends) == 0 {
		return 0
	}
	return p.ends[len(p.ends)-1]
}

func (p pooled) Dim() int { return p.parts[0].Dim() }

func (p pooled) Copy(dst []float64, i int) {
	part, i := p.find(i)
	part.Copy(dst, i)
}

// find returns the part that holds sample i, and the sample's index there.
func (p pooled) find(i int) (Features, int) {
	k := sort.SearchInts(p.ends, i+1)
	if k > 0 {
		i -= p.ends[k-1]
	}
	return p.parts[k], i
}

// pooled32 is pooled of Features32.
type pooled32 struct{ pooled }

func (p pooled32) Copy32(dst []float32, i int) {
	part, i := p.find(i)
	part.(Features32).Copy32(dst, i)
}
